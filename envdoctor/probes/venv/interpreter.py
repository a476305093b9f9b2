"""The interpreter, from pyvenv.cfg and the files of its base."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.errors import ProbeError
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.base_python import barred_by, base_of, lacking, minor_of, problem_of
from envdoctor.probes.venv.top_modules import modules_in
from envdoctor.standards.names import normalized
from envdoctor.standards.need import linux_markers

_MAXIMUM_CONFIG = 64 * 1024
_LIBRARY_FOLDER = pattern(r"python3\.\d+t?")
_PATCHLEVEL = pattern(r'^#define\s+PY_VERSION\s+"([0-9]+\.[0-9]+\.[0-9]+[a-z0-9+]*)"', re.MULTILINE)


@frozen
class OtherLibrary:
    """A library folder of a venv for another Python, with packages in it."""

    folder: str
    """"python3.11"."""
    distributions: tuple[str, ...]
    """Normalized names, by their metadata folders."""
    modules: int
    """Top-level modules, counted only where there is no metadata; 0 elsewhere."""
    torch: bool = False
    """One of those modules is torch."""


@frozen
class Interpreter:
    """The Python of the environment."""

    executable: str
    resolved: str
    """Where the executable's symlinks end; empty when they dangle."""
    is_venv: bool
    version: str
    """As pyvenv.cfg says it, else the base's own; "3.12" when only the library folder tells."""
    version_from: str
    """The file that told."""
    base_version: str
    """PY_VERSION of the base's patchlevel.h; empty when the base ships no headers."""
    home: str
    """`home` of pyvenv.cfg: the base interpreter's folder."""
    home_exists: bool
    system_site_packages: bool
    relocatable: bool
    created_by: str
    """"uv 0.13.9", "virtualenv 20.1", "venv" or empty."""
    library: str
    """lib/python3.12 under the prefix."""
    machine: str
    base: str = ""
    """Folder whose lib/python3.12 is the standard library."""
    runs: str = ""
    """"3.13": the Python the executable really is; empty when its files do not tell."""
    problem: str = ""
    """Why the executable cannot be started, as the end of "it ..."; empty when it can."""
    base_executable: str = ""
    """The base's own python3.12, where it is there and can be started: what the venv's link ought to lead to."""
    lacking: tuple[str, ...] = ()
    """Files of the standard library without which it does not start, and that are missing."""
    barred: str = ""
    """Why the base interpreter cannot be looked at, with the folder that bars the way; empty when it can."""
    prompt: str = ""
    """What pyvenv.cfg states for the shell; empty for nothing."""
    lost_library: bool = False
    """A venv whose library folder is not there."""
    lost_config: bool = False
    """A venv by its folders, without a pyvenv.cfg: Python takes it for its base."""
    other_libraries: tuple[OtherLibrary, ...] = ()
    """Library folders of a venv for other Pythons that hold packages, by name."""

    @property
    def module_suffixes(self) -> tuple[str, ...]:
        """Return the endings of what it imports from one folder, in importlib's order."""
        tag = f"cpython-{self.minor.replace('.', '')}{'t' if self.free_threaded else ''}"
        return (f".{tag}-{self.machine}-linux-gnu.so", ".abi3.so", ".so", ".py", ".pyc")

    @property
    def minor(self) -> str:
        """Return "3.12"."""
        return ".".join(self.version.split(".")[:2])

    @property
    def folder(self) -> str:
        """Return "python3.12", or "python3.13t" for a free-threaded build."""
        return self.library.rpartition("/")[2]

    @property
    def free_threaded(self) -> bool:
        """Tell a build without the GIL, whose extension modules are a kind of their own."""
        return self.folder.endswith("t")

    def markers(self) -> Mapping[str, str]:
        """Return the PEP 508 environment of this interpreter on Linux."""
        return linux_markers(self.version, self.machine) | {"extra": ""}


def probe(reading: Reading) -> Interpreter:
    """Read pyvenv.cfg, the library folder and the base's patchlevel.h. Raises ProbeError when none tells a version."""
    prefix, executable = reading.target.prefix, reading.target.interpreter
    config = _config(prefix / "pyvenv.cfg")
    home = config.get("home", "")
    library = _library(prefix, config)
    base_version = _base_version(Path(home).parent if home else prefix, library.name)
    stated = config.get("version_info") or config.get("version") or ""
    version, told_by = _version(stated, base_version, library)
    barred = barred_by(executable)
    resolved = os.path.realpath(executable) if not barred and executable.exists() else ""
    base = base_of(home, resolved, prefix, library.name)
    return Interpreter(
        executable=str(executable),
        resolved=resolved,
        is_venv=bool(config),
        version=version,
        version_from=told_by,
        base_version=base_version,
        home=home,
        home_exists=bool(home) and (bool(barred) or Path(home).is_dir()),
        system_site_packages=config.get("include-system-site-packages", "").lower() == "true" or not config,
        relocatable=config.get("relocatable", "").lower() == "true",
        created_by=_creator(config),
        library=str(library),
        machine=reading.host.machine,
        base=str(base),
        runs=minor_of(Path(resolved)) if resolved else "",
        problem=problem_of(executable),
        base_executable="" if base == prefix else _startable(base / "bin" / library.name),
        lacking=tuple(lacking(base, library.name)),
        barred=barred,
        prompt=_unquoted(config.get("prompt", "")),
        other_libraries=tuple(_others(prefix / "lib", library.name)) if config else (),
        lost_library=bool(config) and not library.is_dir(),
        lost_config=not config and _is_bare_venv(prefix, resolved, library),
    )


def _startable(executable: Path) -> str:
    return str(executable) if os.path.isfile(executable) and not problem_of(executable) else ""  # noqa: PTH113 - never raises


def _is_bare_venv(prefix: Path, resolved: str, library: Path) -> bool:
    """Tell a venv whose pyvenv.cfg is gone: packages, no standard library, and an interpreter linked from elsewhere."""
    elsewhere = bool(resolved) and not resolved.startswith(os.path.realpath(prefix) + os.sep)
    return elsewhere and (library / "site-packages").is_dir() and not (library / "os.py").exists()


def _config(path: Path) -> dict[str, str]:
    try:
        text = read_regular(path, _MAXIMUM_CONFIG).decode("utf-8", "replace")
    except FileNotFoundError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip().lower(): value.strip() for key, found, value in pairs if found}


def _unquoted(value: str) -> str:
    """Return a value without the quotes that venv and virtualenv put around a prompt."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _library(prefix: Path, config: Mapping[str, str]) -> Path:
    stated = (config.get("version_info") or config.get("version") or "").split(".")
    if len(stated) > 1:
        for name in (f"python{stated[0]}.{stated[1]}", f"python{stated[0]}.{stated[1]}t"):
            if (at := prefix / "lib" / name).is_dir():
                return at
    try:
        names = [name for name in os.listdir(prefix / "lib") if _LIBRARY_FOLDER.fullmatch(name)]  # noqa: PTH208
    except OSError:
        names = []
    if not names and len(stated) > 1 and f"{stated[0]}{stated[1]}".isdecimal():
        return prefix / "lib" / f"python{stated[0]}.{stated[1]}"  # Python starts without it, and finds no package
    if not names:
        raise ProbeError(f"{prefix}/lib holds no python3.X folder")
    # A system prefix can hold several Pythons: the one the executable is named after, else the newest.
    return prefix / "lib" / max(names, key=lambda name: int(name.rpartition(".")[2].rstrip("t")))


def _others(lib: Path, own: str) -> Iterator[OtherLibrary]:
    try:
        names = [name for name in os.listdir(lib) if name != own and _LIBRARY_FOLDER.fullmatch(name)]  # noqa: PTH208
    except OSError:
        return
    for name in sorted(names):
        site = lib / name / "site-packages"
        try:
            inside = sorted(os.listdir(site))  # noqa: PTH208 - names only
        except OSError:
            continue
        infos = [entry for entry in inside if entry.endswith(".dist-info") and not entry.startswith("~")]
        found = tuple(normalized(entry.partition("-")[0]) for entry in infos)
        modules = () if found else tuple(modules_in([str(site)]))
        if found or modules:
            yield OtherLibrary(folder=name, distributions=found, modules=len(modules), torch="torch" in modules)


def _base_version(base: Path, library: str) -> str:
    try:
        header = base / "include" / library / "patchlevel.h"
        text = read_regular(header, _MAXIMUM_CONFIG).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    match = _PATCHLEVEL.search(text)
    return match[1] if match else ""


def _version(stated: str, base_version: str, library: Path) -> tuple[str, str]:
    if stated:
        # virtualenv writes version_info as 3.12.1.final.0
        numbers = [part for part in stated.split(".")[:3] if part.isascii() and part.isdecimal()]
        if len(numbers) >= 2:
            return ".".join(numbers), "pyvenv.cfg"
    if base_version:
        return base_version, "patchlevel.h"
    return library.name.removeprefix("python").rstrip("t"), "library folder"


def _creator(config: Mapping[str, str]) -> str:
    for tool in ("uv", "virtualenv"):
        if tool in config:
            return f"{tool} {config[tool]}"
    return "venv" if config else ""
