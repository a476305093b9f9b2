"""Answers to "why": who provides a library, whose a file is, what `import` takes, who wants a distribution."""

import difflib
import os

from envdoctor.errors import ElfError, UsageError
from envdoctor.explore.distributions import distribution_answer
from envdoctor.explore.environment import ExploredEnvironment
from envdoctor.explore.libraries import library_answer
from envdoctor.explore.modules import find_module
from envdoctor.model.why import Answer, FileAnswer
from envdoctor.probes.venv.search_path import SearchPath

_SUGGESTED = 3


def why(environment: ExploredEnvironment, asked: str) -> Answer:
    """Return everything the name stands for. Raises UsageError, with the nearest names, when it stands for nothing."""
    path = _path(environment, asked)
    soname = os.path.basename(path or asked)
    answer = Answer(
        target=str(environment.reading.target.prefix),
        asked=asked,
        library=library_answer(environment, soname, path) if ".so" in soname else None,
        file=_file(environment, path) if path else None,
        module=find_module(environment, asked) if not path else None,
        distribution=distribution_answer(environment, asked) if not path else None,
    )
    if not (answer.library or answer.file or answer.module or answer.distribution):
        raise UsageError(*_unknown(environment, asked))
    return answer


def _path(environment: ExploredEnvironment, asked: str) -> str:
    """Return the absolute path that a name with a slash means: as it stands, below the prefix, below a site folder."""
    if "/" not in asked:
        return ""
    prefix = str(environment.reading.target.prefix)
    sites = [entry.path for entry in environment.reading.fact(SearchPath).site_dirs]
    roots = [str(environment.reading.host.cwd), prefix, *sites]
    candidates = [os.path.normpath(os.path.join(root, asked)) for root in roots]
    held = next((path for path in candidates if path in environment.records.owners), "")
    held = held or next((path for path in candidates if os.path.isfile(path)), "")
    return held or next((path for path in candidates if environment.outside(path)), "")


def _file(environment: ExploredEnvironment, path: str) -> FileAnswer:
    try:
        needs = environment.disk.elf(path).needed
    except ElfError:
        needs = ()
    return FileAnswer(
        path=environment.shown(path),
        exists=os.path.isfile(path),
        holders=environment.holders(path) or environment.outside(path),
        needs=needs,
    )


def _unknown(environment: ExploredEnvironment, asked: str) -> tuple[str, str]:
    known = {item.name for item in environment.items}
    known |= {elf.soname for elf in environment.objects() if elf.soname}
    played = environment.played
    known |= {item.soname for item in played.objects if item.soname} if played else set()
    known |= {failure.name for failure in played.missing} if played else set()
    known |= {_top(path) for rows in environment.records.rows.values() for path, _, _ in rows} - {""}
    near = difflib.get_close_matches(asked, sorted(known), _SUGGESTED)
    prefix = environment.reading.target.prefix
    return (
        f"{prefix} has no library, module or distribution called `{asked}`",
        f"did you mean {' or '.join(f'`{name}`' for name in near)}?"
        if near
        else "name a soname (libcudnn.so.9), a module (torch._C), a path, or a distribution",
    )


def _top(path: str) -> str:
    """Return the top-level module a RECORD row belongs to; empty when it is none's."""
    name, inside, _ = path.partition("/")
    name = name if inside else name.partition(".")[0] if name.endswith((".py", ".so")) else ""
    return name if name.isidentifier() else ""
