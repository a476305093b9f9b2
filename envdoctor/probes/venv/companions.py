"""Versions that packages demand of each other at run time, outside their metadata."""

import re
from collections.abc import Iterable
from pathlib import Path

from envdoctor.errors import ProbeError
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.enforced import TABLE_ROW, Enforced, enforced
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.version_file import constants

TABLE = "transformers/dependency_versions_table.py"
_PEFT = pattern(r"""^MIN_PEFT_VERSION = ['"]([0-9.]+)['"]""", re.MULTILINE)
_MAXIMUM = 256 * 1024
_BUILDS = ("torchvision", "torchaudio")


@frozen
class Window:
    """One row of transformers' table: "accelerate" -> "accelerate>=1.1.0"."""

    name: str
    requirement: str
    path: str = ""
    """The file that says so, where it is not the table."""


@frozen
class CompanionBuild:
    """torchvision or torchaudio, as its own version.py states it."""

    name: str
    version: str
    """With its local part ("0.26.0+cu130"), which the distribution's version may lack."""
    path: str


@frozen
class Companions:
    """What the packages' own files say."""

    windows: tuple[Window, ...]
    windows_from: str
    """The table's path; empty when there is no transformers."""
    builds: tuple[CompanionBuild, ...]
    enforced: tuple[Enforced, ...] = ()
    """What packages compare when they are imported."""


def probe(reading: Reading) -> Companions:
    """Read the table and the version files of the first package of each name on sys.path."""
    folders = [Path(entry.path) for entry in reading.fact(SearchPath).site_dirs]
    table = next((at for folder in folders if (at := folder / TABLE).is_file()), None)
    return Companions(
        windows=_windows(table) if table else (),
        windows_from=str(table) if table else "",
        builds=tuple(build for name in _BUILDS if (build := _build(name, folders))),
        enforced=enforced(reading.fact(Distributions).items),
    )


def _build(name: str, folders: Iterable[Path]) -> CompanionBuild | None:
    path = next((at for folder in folders if (at := folder / name / "version.py").is_file()), None)
    version = constants(path).get("__version__", "") if path else ""
    return CompanionBuild(name=name, version=version, path=str(path)) if version else None


def _windows(table: Path) -> tuple[Window, ...]:
    try:
        text = read_regular(table, _MAXIMUM).decode("utf-8", "replace")
    except OSError as error:
        raise ProbeError(f"{table}: {error.strerror or error}") from error
    rows = [Window(name=match["name"], requirement=match["requirement"]) for match in TABLE_ROW.finditer(text)]
    if not any(row.name == "peft" for row in rows):
        rows += _peft(table.parent / "integrations/peft.py")
    return tuple(rows)


def _peft(path: Path) -> list[Window]:
    """Return what transformers before 5.6 states in the module that asks for peft."""
    try:
        match = _PEFT.search(read_regular(path, _MAXIMUM).decode("utf-8", "replace"))
    except OSError:
        return []
    return [Window(name="peft", requirement=f"peft>={match[1]}", path=str(path))] if match else []
