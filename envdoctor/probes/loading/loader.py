"""The model of the loader on one environment: what it is asked, what decides its answers, and where those are kept."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.memo_file import memo_path
from envdoctor.loader.disk import Disk
from envdoctor.loader.host import cpu_flags_of, search_roots
from envdoctor.loader.search import SearchRoots
from envdoctor.loader.torch_import import TorchTarget
from envdoctor.model.codec import encode
from envdoctor.model.frozen import replace
from envdoctor.probes.loading.loader_memo import LoaderMemo
from envdoctor.probes.loading.numpy_abi import decided_by_metadata
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.copy_place import place
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import contested
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import SearchPath

_FORMAT = 10
"""Raise it when what is found in the same files changes: memos of another format are made again."""


def torch_target(reading: Reading) -> TorchTarget | None:
    """Return whose `import torch` is played; None where there is no torch, or no interpreter to import it."""
    build = reading.fact(TorchBuild)
    python = reading.fact(Interpreter)
    if not build.present or not python.resolved:
        return None
    return TorchTarget(
        torch=build.folder,
        sys_path=tuple(entry.path for entry in reading.fact(SearchPath).entries),
        executable=python.executable,
        cuda=build.cuda or None,
    )


def loader_roots(reading: Reading, disk: Disk) -> SearchRoots:
    """Return what decides the loader's searches for the environment's interpreter on this host. Raises ElfError."""
    host = reading.host
    return search_roots(
        reading.fact(Interpreter).executable,
        library_path=host.environ.get("LD_LIBRARY_PATH", ""),
        preload=host.environ.get("LD_PRELOAD", ""),
        cpu_flags=_cpu_flags(reading),
        cache_path=str(host.ld_so_cache),
        cwd=str(host.cwd),
        disk=disk,
    )


def _cpu_flags(reading: Reading) -> frozenset[str]:
    try:
        with (reading.host.proc / "cpuinfo").open(errors="replace") as file:
            return cpu_flags_of(file)
    except OSError:
        return frozenset()


def loader_memo(reading: Reading, kind: str) -> LoaderMemo:
    """Return the memo of one kind of fact ("symbols") that counts for this environment as it is asked now."""
    question, of_copy = reading.material(_Question, _Question).text, place(reading)
    return LoaderMemo(
        path=memo_path(kind, Path(question) if of_copy.folder else reading.target.prefix, reading.host),
        question=question,
        cwd=str(reading.host.cwd),
        place=of_copy,
    )


class _Question:
    """Everything but file contents that the loader's answers depend on."""

    def __init__(self, reading: Reading) -> None:
        items = reading.fact(Distributions).items
        environ = reading.host.environ
        # The kernel resolves the interpreter's links, so bin/python and bin/python3 ask the same.
        resolved = reading.fact(Interpreter).resolved
        target = torch_target(reading)
        asked = [
            _FORMAT,
            encode(replace(target, executable=resolved)) if target else None,
            resolved,
            str(reading.host.ld_so_cache),
            sorted(_cpu_flags(reading)),
            [environ.get(name, "") for name in ("LD_LIBRARY_PATH", "LD_PRELOAD")],
            [(path, items[at].name, items[at].version) for path, at in index(reading).shared_objects.items()],
            [(item.path, item.on_disk) for item in contested(reading)],
            decided_by_metadata(reading),
        ]
        asked += [place(reading).contents]
        self.text = place(reading).key(json.dumps(asked))


def read_beside(reading: Reading) -> set[str]:
    """Return the files that decide an answer without being opened as objects."""
    build = reading.fact(TorchBuild)
    of_torch = {f"{build.folder}/__init__.py", f"{build.folder}/lib/libc10.so"} if build.present else set()
    return {str(reading.host.ld_so_cache), *of_torch}


def decided_by(disk: Disk, roots: SearchRoots, beside: Iterable[str]) -> tuple[set[str], bool]:
    """Return the paths that decided what was found on that disk, and whether it holds in every current folder.

    Five of NVIDIA's libraries have the current folder in their RUNPATH, as an empty element. Where nothing was found in
    it, the names themselves count, relative to wherever the next check runs, and not the folder: every log file
    written there changes that.
    """
    seen = {*disk.looked_at(), *beside}
    relative = {element for element in _searched(disk, roots) if not element.startswith(("/", "$"))}
    here = roots.cwd.rstrip("/")
    named = {path for path in seen if path == here or path.rpartition("/")[0] == here} - {f"{here}/"}
    if relative - {""} or (relative and any(map(disk.identity, named))):
        return seen, False
    if relative:
        seen = seen - {f"{here}/"} | {path.rpartition("/")[2] for path in named}
    return seen, True


def _searched(disk: Disk, roots: SearchRoots) -> Iterator[str]:
    for elf in disk.parsed():
        yield from (*(elf.rpath or ()), *(elf.runpath or ()), *(name for name in elf.needed if "/" in name))
    yield from (*roots.library_path, *(name for name in roots.preload if "/" in name))
