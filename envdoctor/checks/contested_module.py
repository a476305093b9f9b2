"""One Python module, several distributions that install it.

What it finds:
    Installed distributions that write the same importable module with different contents, and the deprecated `pynvml`
    distribution, which patches the import of the module `pynvml` at every start. A single file that no code of its
    owners imports (a build backend packed by mistake) is worth a note.

Why it matters:
    Which of them is imported depends on which was installed last; in one transaction it is random. Uninstalling any of
    them deletes the module for all: `No module named 'pynvml'` with nvidia-ml-py installed.

Example:
    nvidia-ml-py, nvidia-ml-py3 and pynvml; onnxruntime and onnxruntime-gpu; opencv-python and opencv-python-headless.

Fix:
    Two steps in this order: uninstall all but one, then force-reinstall that one.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import file_tokens, site_relative
from envdoctor.analysis.file_conflicts import FileConflict, file_conflicts
from envdoctor.analysis.remedies import exchange_commands, repair_or, restore_or, uninstall_command, unless_outside
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.contested_paths import Contested
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.startup_hooks import StartupHooks

CODE = "ED409"
NAME = "module-conflict"
AREA = "Installed files"
_SHIM = "pynvml"
_SHOWN = 3


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each contested module, and a note for the pynvml shim."""
    for conflict in file_conflicts(case):
        if conflict.module:
            yield _contested(case, conflict)
    hook = next((hook for hook in case.facts[StartupHooks].hooks if hook.owner == _SHIM), None)
    if hook is not None:
        yield _shim(case, hook.path)


def _contested(case: CheckContext, conflict: FileConflict) -> Finding:
    owners = " and ".join(f"{name} {version}" for name, version in conflict.owners)
    foreign = bool(conflict.foreign if conflict.wanted else conflict.spoiled)
    on_disk = sorted({name for path in conflict.paths for name in path.on_disk})
    spoiled = "; the one on disk is of none of them" if conflict.spoiled else ""
    whose = f"; the one on disk is {' and '.join(on_disk)}'s" if on_disk else spoiled
    return Finding(
        code=CODE,
        name=NAME,
        severity="note" if conflict.unused else "error" if foreign else "warning",
        # Bytes of none of the owners are damage, whichever is meant.
        confidence="high" if conflict.wanted or conflict.unused or conflict.spoiled else "low",
        title=f"the module {conflict.module} is installed by {owners} at once{whose}",
        subject=conflict.module,
        evidence=(
            *((f"{conflict.wanted} is the expected owner: {conflict.told_by}",) if conflict.wanted else ()),
            *(
                f"{by} requires {name}: after the uninstall that stays unmet in metadata alone, since "
                f"{conflict.wanted} installs the module {conflict.module}; do not install {name} again for it"
                for name, by in conflict.required
            ),
            *(f"{site_relative(path.path)}: {_bytes(path)}" for path in conflict.paths[:_SHOWN]),
            *(f"imported by {site_relative(path.imported_by)}" for path in conflict.paths if path.imported_by),
            *(("no Python file of theirs imports it",) if conflict.unused else ()),
            f"{counted(len(conflict.paths), 'file')} with more than one owner",
        ),
        remediation=_remedy(case, conflict),
        causes=(
            *(token for path in conflict.paths for token in (*file_tokens(path.path), f"bytes:{path.path}")),
            *(f"intruder:{name}" for name in conflict.intruders),
        ),
    )


def _bytes(path: Contested) -> str:
    if path.told_by in ("missing", "not told"):
        return path.told_by
    return f"the bytes of {' and '.join(path.on_disk) or 'neither'}, identified by {path.told_by}"


def _remedy(case: CheckContext, conflict: FileConflict) -> Remediation:
    if conflict.unused:
        return Remediation(
            text="Nothing is broken: a file that both pack beside their packages. Only code of "
            "your own that imports it would get the wrong one",
            safe=True,
        )
    if not conflict.wanted and conflict.required:
        asked = "; ".join(f"{name} is required by {asker}" for name, asker in conflict.required)
        return Remediation(
            text=f"{asked}: what is required stays. Force-reinstall, last, the one whose module this environment is "
            "to use, and uninstall only what nothing requires"
        )
    if not conflict.wanted:
        names = " and ".join(name for name, _ in conflict.owners)
        return Remediation(
            text=f"Decide which of {names} this environment needs, uninstall the others, then force-reinstall that "
            "one: the uninstall deletes the module"
        )
    remedy = repair_or(
        case,
        f"first uninstall all but {conflict.wanted}, then force-reinstall it: the uninstall deletes the module",
        exchange_commands(case, conflict.unwanted, [(conflict.wanted, conflict.version(conflict.wanted))]),
    )
    return unless_outside(case, conflict.unwanted, remedy)


def _shim(case: CheckContext, path: str) -> Finding:
    installed = case.facts[Distributions]
    shim = installed.active(_SHIM)
    askers = [
        item.name for item in installed.items if any(line.split(";")[0].strip() == _SHIM for line in item.requires)
    ]
    remove = uninstall_command(case, [_SHIM])
    remedy = restore_or(case, "uninstall the shim; the module belongs to nvidia-ml-py", [remove])
    required = (f"required by {', '.join(askers)}: their requirement should be nvidia-ml-py",) if askers else ()
    return Finding(
        code=CODE,
        name=NAME,
        severity="note",
        confidence="high",
        title=f"{_SHIM} {shim.version if shim else ''} is a deprecated shim that runs at every start of this "
        "interpreter and warns at `import pynvml`",
        subject=_SHIM,
        evidence=(path, "nvidia-ml-py provides the module itself", *required),
        remediation=unless_outside(case, [_SHIM], remedy),
    )
