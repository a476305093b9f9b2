"""Which file `import NAME` takes, found as importlib's path finder finds it, without importing anything.

In one sys.path folder (importlib.machinery.FileFinder): a package, then an extension module, source, bytecode.
A folder without any of these is a portion of a namespace package, and only wins when no later folder has more.
"""

import os
import sys
from collections.abc import Iterator, Sequence

from envdoctor.explore.environment import ExploredEnvironment
from envdoctor.model.why import ModuleAnswer, ModulePlace
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.search_path import SearchPath

_Kind = tuple[str, str]


def find_module(environment: ExploredEnvironment, name: str) -> ModuleAnswer | None:
    """Return what a dotted name means to the environment's interpreter; None when nothing has it."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    folders = [(entry.path, entry.origin) for entry in environment.reading.fact(SearchPath).entries]
    for depth, part in enumerate(parts):
        places = list(_places(environment, folders, part))
        if not places:
            return _built_in(name) if depth == 0 and len(parts) == 1 else None
        whole = [place for place in places if place.kind != "namespace"]
        if depth + 1 < len(parts):
            inside = whole[:1] if whole else places
            folders = [
                (os.path.dirname(place.path) if place.kind == "package" else place.path, place.origin)
                for place in inside
                if place.kind in ("package", "namespace")
            ]
            continue
        taken = whole[0] if whole else places[0]
        return ModuleAnswer(
            name=name,
            taken=_shown(environment, taken),
            also=tuple(_shown(environment, place) for place in places if place is not taken),
        )
    return None


def _places(environment: ExploredEnvironment, folders: Sequence[tuple[str, str]], name: str) -> Iterator[ModulePlace]:
    suffixes = _suffixes(environment.reading.fact(Interpreter))
    for folder, origin in folders:
        at = f"{folder}/{name}"
        package = next(
            (f"{at}/__init__{suffix}" for suffix, _ in suffixes if os.path.isfile(f"{at}/__init__{suffix}")), ""
        )
        module = next(((f"{at}{suffix}", kind) for suffix, kind in suffixes if os.path.isfile(f"{at}{suffix}")), None)
        if package:
            yield _place(environment, package, origin, "package")
        elif module:
            yield _place(environment, module[0], origin, module[1])
        elif os.path.isdir(at):
            yield _place(environment, at, origin, "namespace")


def _suffixes(python: Interpreter) -> tuple[_Kind, ...]:
    """Return (suffix, kind) in importlib's order for this interpreter."""
    kinds = {".py": "module", ".pyc": "bytecode"}
    return tuple((suffix, kinds.get(suffix, "extension")) for suffix in python.module_suffixes)


def _place(environment: ExploredEnvironment, path: str, origin: str, kind: str) -> ModulePlace:
    return ModulePlace(path=path, origin=origin, kind=kind, holders=environment.holders(path))  # type: ignore[arg-type]


def _shown(environment: ExploredEnvironment, place: ModulePlace) -> ModulePlace:
    return ModulePlace(path=environment.shown(place.path), origin=place.origin, kind=place.kind, holders=place.holders)


def _built_in(name: str) -> ModuleAnswer | None:
    # Which modules an interpreter has built in varies a little; this one's list stands for the environment's.
    if name not in sys.builtin_module_names:
        return None
    place = ModulePlace(path="", origin="the interpreter", kind="built in", holders=())
    return ModuleAnswer(name=name, taken=place, also=())
