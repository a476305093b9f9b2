"""Giving C++ kernels the names they have for a venv at another path.

The name of a C++ kernel is a hash of its source and of the whole compiler command (CppCodeCache.load_async), and the
command holds the venv's include folders: the same lock at another path compiles every one again, although torch's own
counters say that the graph hit. The venv's torch is asked for its command. With its folders replaced by those of the
venv the kernel was made for, the hash must give the kernel's present name: only then was it made by the very same
command, and it is copied to the name this venv looks for. The object itself finds torch's libraries by soname, in the
process that has them loaded.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from envdoctor.cache.key_parts import KeyPart
from envdoctor.cache.manifest import Manifest, StoredFile
from envdoctor.cache.runtime_key import run_script
from envdoctor.errors import CacheError
from envdoctor.facts.whole_file import beside, create
from envdoctor.model.frozen import frozen, replace

_SOURCE = ".main.cpp"
_FOLDERS = ("venv.prefix", "python.base")
_MOST_ARGUMENT_BYTES = 100_000
# Prints {present name: name for this venv}; variants of the command differ in class and instruction set.
_SCRIPT = """
import json, sys
from torch._inductor import codecache, cpp_builder
from torch._inductor.cpu_vec_isa import invalid_vec_isa, pick_vec_isa

request = json.loads(sys.argv[2])
lines = []
for name in ("CppPythonBindingsCodeCache", "CppWrapperCodeCache", "CppCodeCache"):
    for isa in (pick_vec_isa(), invalid_vec_isa):
        options = cpp_builder.CppTorchDeviceOptions(**{
            **getattr(codecache, name).cpp_compile_command_flags, "device_type": "cpu", "extra_flags": (),
            "use_relative_path": False, "vec_isa": isa, "compile_only": False, "min_optimize": False})
        lines.append(cpp_builder.CppBuilder(name="o", sources="i", BuildOption=options).get_command_line())

def moved(line):
    for here, there in request["folders"]:
        line = line.replace(here, there)
    return line

found = {}
for stem in request["stems"]:
    with open(f"{request['root']}/{stem[1:3]}/{stem}.main.cpp", "rb") as file:
        code = file.read().decode().strip()
    for line in lines:
        if codecache.get_hash(code, f"None {moved(line)}") == stem:
            found[stem] = codecache.get_hash(code, f"None {line}")
            break
print(sys.argv[1] + json.dumps(found))
"""


@frozen
class Relocated:
    """What a relocation did."""

    kernels: int
    """C++ kernels of the snapshot."""
    renamed: int
    """Of them, those that have a name for this venv now."""
    manifest: Manifest
    """With the new files in it; with this venv's folders when every kernel has its name."""


def needed(manifest: Manifest, key: Sequence[KeyPart]) -> int:
    """Return how many C++ kernels were made for a venv at another path."""
    return len(_stems(manifest)) if _moved(manifest, key) else 0


def relocate(
    manifest: Manifest, root: Path, key: Sequence[KeyPart], python: Path, environ: Mapping[str, str], cwd: Path
) -> Relocated:
    """Copy each C++ kernel of a restored snapshot to the name it has for this venv, where that can be proven.

    Raises CacheError when the venv's torch cannot be asked.
    """
    stems = _stems(manifest)
    names: dict[str, str] = {}
    for batch in _batches(stems):
        request = {"root": str(root), "stems": batch, "folders": _moved(manifest, key)}
        answer = run_script(python, _SCRIPT, (json.dumps(request),), environ, cwd)
        names |= {str(old): str(new) for old, new in answer.items()} if isinstance(answer, dict) else {}
    added = [file for old, new in names.items() for file in _copy(manifest, root, old, new)]
    files = (*manifest.files, *(file for file in added if file not in manifest.files))
    if len(names) == len(stems):
        present = {part.name: part for part in key}
        manifest = replace(
            manifest,
            key=tuple(present.get(part.name, part) if part.name in _FOLDERS else part for part in manifest.key),
        )
    return Relocated(kernels=len(stems), renamed=len(names), manifest=replace(manifest, files=files))


def _stems(manifest: Manifest) -> list[str]:
    names = (file.path.rpartition("/")[2] for file in manifest.files if file.root == "inductor")
    return sorted(name.removesuffix(_SOURCE) for name in names if name.endswith(_SOURCE))


def _moved(manifest: Manifest, key: Sequence[KeyPart]) -> list[tuple[str, str]]:
    """Return (folder here, folder there) of what differs, the longest first: a venv may be inside its base."""
    there = {part.name: part.value for part in manifest.key}
    pairs = [
        (part.value, there[part.name])
        for part in key
        if part.name in _FOLDERS and there.get(part.name) and part.value != there[part.name]
    ]
    return sorted(pairs, key=lambda pair: -len(pair[0]))


def _batches(stems: Sequence[str]) -> list[list[str]]:
    size = _MOST_ARGUMENT_BYTES // 60
    return [list(stems[start : start + size]) for start in range(0, len(stems), size)]


def _copy(manifest: Manifest, root: Path, old: str, new: str) -> list[StoredFile]:
    if "/" in new or not new:
        raise CacheError(f"the venv's torch names a kernel {new[:100]!r}", "")
    copied = []
    for file in manifest.files:
        folder, _, name = file.path.rpartition("/")
        if file.root != "inductor" or not name.startswith(f"{old}.") or folder != old[1:3]:
            continue
        path = f"{new[1:3]}/{new}{name.removeprefix(old)}"
        _copy_whole(root / file.path, root / path)
        copied.append(replace(file, path=path))
    return copied


def _copy_whole(source: Path, target: Path) -> None:
    temporary = beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            with os.fdopen(create(temporary, 0o600), "wb") as out, source.open("rb") as content:
                shutil.copyfileobj(content, out)
            shutil.copystat(source, temporary)
            temporary.replace(target)
    except OSError as error:
        raise CacheError(f"{target}: {error.strerror}", "restore as the cache's owner") from error
    finally:
        temporary.unlink(missing_ok=True)
