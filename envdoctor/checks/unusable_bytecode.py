"""Bytecode that Python runs in place of its source, and that is damaged or of another source.

What it finds:
    With `--deep`: `.pyc` files in `__pycache__` (or below PYTHONPYCACHEPREFIX) that Python would use, as it judges by
    their header, and at which the import then fails: cut or damaged ones. They are unmarshalled in a child process with
    limits; no code of theirs is run. So are modules of which only the `.pyc` is there, and bytecode that Python never
    compares with its source (PEP 552, unchecked hash) and that is of another source. What `python -O` alone uses is a
    warning, unless PYTHONOPTIMIZE is set.
    What Python makes again by itself (another magic number, another time or size of the source, a cut header) is no
    finding. Not told: bytecode of another code with the time and size of its source, damage that leaves well-formed
    data, and the standard library's. That of another Python than the one that runs envdoctor is not read, which the
    last line says.

Why it matters:
    Python does not fall back to the source: `import` raises `EOFError: marshal data too short`, which names no file.
    A plain reinstall changes nothing, as the source is whole. A full disk, a power failure and a torn copy leave it.

Example:
    `thing/__pycache__/core.cpython-312.pyc` was cut when the disk was full.

Fix:
    Delete the bytecode; Python compiles the source again. A module without source is installed again.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.checks.altered_contents import deep_files
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.model.wording import counted
from envdoctor.probes.venv.bytecode import DamagedBytecode, StaleBytecode
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED209"
NAME = "unusable-bytecode"
AREA = "Installed files"
_SHOWN, _NAMED = 4, 8
_GROUP: Callable[[StaleBytecode | DamagedBytecode], tuple[str, str]] = attrgetter("owner", "option")
_ORDER: Callable[[StaleBytecode | DamagedBytecode], tuple[str, str, str]] = attrgetter("owner", "option", "bytecode")


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution and kind."""
    state = deep_files(case).bytecode_state
    for (owner, option), items in groupby(sorted(state.damaged, key=_ORDER), _GROUP):
        found = list(items)
        if remade := [item for item in found if not item.sourceless]:
            yield _finding(
                owner,
                f"is cut or damaged, so importing {'it' if len(remade) == 1 else 'them'} fails",
                [f"{item.bytecode}: {item.reason}" for item in remade],
                [item.bytecode for item in remade],
                option,
            )
        if lost := [item for item in found if item.sourceless]:
            yield _lost(case, owner, lost)
    for (owner, option), stale in groupby(sorted(state.stale, key=_ORDER), _GROUP):
        told = list(stale)
        yield _finding(
            owner,
            f"is not of {'its' if len(told) == 1 else 'their'} source, and Python runs it",
            [f"{item.bytecode}: made from another {item.source.rpartition('/')[2]}" for item in told],
            [item.bytecode for item in told],
            option,
            "its header says unchecked hash (PEP 552): Python never compares it with the source",
        )


def _finding(
    owner: str, what: str, evidence: Sequence[str], paths: Sequence[str], option: str, more: str = ""
) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning" if option else "error",
        confidence="high",
        title=f"{owner}: the bytecode of {counted(len(paths), 'module')} {what}"
        + (f" with `python {option}`" if option else ""),
        subject=owner,
        evidence=_shown(evidence, more),
        remediation=Remediation(
            text="delete the bytecode; Python compiles the source again", commands=(_delete(paths),), safe=True
        ),
        causes=tuple(f"bytes:{path}" for path in paths) if option else _causes(owner, paths),
    )


def _lost(case: CheckContext, owner: str, items: Sequence[DamagedBytecode]) -> Finding:
    installed = case.facts[Distributions].active(owner)
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{owner}: {counted(len(items), 'module')} without source, and its bytecode is cut or damaged",
        subject=owner,
        evidence=_shown([f"{item.bytecode}: {item.reason}" for item in items], ""),
        remediation=restore_or(
            case,
            f"force-reinstall {owner}, which brings the source back",
            [reinstall_command(case, [(owner, installed.version if installed else "")])],
        ),
        causes=_causes(owner, [item.bytecode for item in items]),
    )


def _causes(owner: str, paths: Sequence[str]) -> tuple[str, ...]:
    breaks = any("/site-packages/torch/__pycache__/__init__." in path for path in paths)
    return (f"dist:{owner}", *(f"bytes:{path}" for path in paths), *((BREAKS_IMPORT,) if breaks else ()))


def _shown(evidence: Sequence[str], more: str) -> tuple[str, ...]:
    left = len(evidence) - _SHOWN
    return (*evidence[:_SHOWN], *((f"and {left} more",) if left > 0 else ()), *((more,) if more else ()))


def _delete(paths: Sequence[str]) -> str:
    if len(paths) <= _NAMED:
        return f"rm {' '.join(map(shlex.quote, paths))}"
    # Of a folder that holds nothing but bytecode, that folder alone: `check --fix` carries out no `find`.
    folders = (path.rpartition("/")[0] for path in paths)
    gone = [at if at.endswith("/__pycache__") else path for at, path in zip(folders, paths, strict=True)]
    return f"rm -r {' '.join(map(shlex.quote, dict.fromkeys(gone)))}"
