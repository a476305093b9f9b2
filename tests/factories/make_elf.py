"""Tiny real shared objects, made with gcc."""

import itertools
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

_USES = itertools.count()


def make_shared(
    path: Path,
    *,
    soname: str | None = "",
    needed: Iterable[Path] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    exports: Iterable[str] = (),
    version: str | None = None,
    undefined: Iterable[str] = (),
    weak: Iterable[str] = (),
    source: str = "",
    flags: Iterable[str] = (),
) -> Path:
    """Link one shared object.

    `soname` "" means the file's own name, None no DT_SONAME at all. `needed` are files to link against: their sonames
    become DT_NEEDED in order. `exports` are functions it defines, all under `version` when given. `undefined` and
    `weak` are functions it calls; a needed file that defines one lends its version to it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    exports = list(exports)
    calls = [*undefined, *weak]
    lines = [f"int {name}(void) {{ return 1; }}" for name in exports]
    lines += [f"extern int {name}(void);" for name in undefined]
    lines += [f"extern int {name}(void) __attribute__((weak));" for name in weak]
    if calls:
        lines.append(f"int make_elf_use_{next(_USES)}(void) {{ return {' + '.join(f'{name}()' for name in calls)}; }}")
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "object.c")
        code.write_text("\n".join([*lines, source, ""]))
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", str(path), str(code), *flags]
        if soname is not None:
            command.append(f"-Wl,-soname,{soname or path.name}")
        if version is not None:
            script = Path(folder, "versions")
            script.write_text(f"{version} {{ global: {''.join(f'{name}; ' for name in exports)} local: *; }};\n")
            command.append(f"-Wl,--version-script={script}")
        if rpath is not None:
            command += ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}"]
        if runpath is not None:
            command += ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{runpath}"]
        command += ["-Wl,--no-as-needed", *map(str, needed), "-Wl,--allow-shlib-undefined"]
        subprocess.run(command, check=True)
    return path


def make_stub(folder: Path, soname: str, *, exports: Iterable[str] = (), version: str | None = None) -> Path:
    """Make an object to link against only, in a folder that no search path names."""
    return make_shared(folder / ".stubs" / soname, exports=exports, version=version)


def make_opener(path: Path, **options: object) -> Path:
    """Make an object whose `open_by_name(name)` calls dlopen itself, so that it is the caller; it returns dlerror()."""
    source = (
        "#include <dlfcn.h>\n#include <stddef.h>\n"
        "const char *open_by_name(const char *name) { return dlopen(name, RTLD_NOW) ? NULL : dlerror(); }\n"
    )
    return make_shared(path, source=source, **options)  # type: ignore[arg-type]


def make_program(path: Path, source: str = "int main(void) { return 0; }", *, flags: Iterable[str] = ()) -> Path:
    """Link one executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "program.c")
        code.write_text(source)
        subprocess.run(["gcc", "-O1", "-o", str(path), str(code), *flags], check=True)
    return path


def patched(source: Path, target: Path, changes: Mapping[int, bytes]) -> Path:
    """Copy a file with the bytes at some offsets replaced."""
    data = bytearray(source.read_bytes())
    for offset, value in changes.items():
        data[offset : offset + len(value)] = value
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target


def dynamic_slots(path: Path) -> list[tuple[int, int, int]]:
    """Return (file offset, tag, value) of a 64-bit little-endian object's dynamic slots, spare ones included."""
    data = path.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for index in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, table + index * size)
        if kind == 2:  # PT_DYNAMIC
            return [(at, *struct.unpack_from("<QQ", data, at)) for at in range(offset, offset + length, 16)]
    return []


def add_dynamic(path: Path, tag: int, value: int) -> None:
    """Write one more entry into a spare slot of the dynamic section."""
    offset = next(at for at, kind, _ in dynamic_slots(path) if kind == 0)
    patched(path, path, {offset: struct.pack("<QQ", tag, value)})
