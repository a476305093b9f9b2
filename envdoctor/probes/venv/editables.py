"""What editable installs make importable: the .pth lines and finders that pip and uv write, and old egg-links.

Sources: setuptools/command/editable_wheel.py (80.9: `__editable__.NAME-VERSION.pth`, and `__editable___NAME_finder.py`
with the literals MAPPING and NAMESPACES); setuptools' develop (NAME.egg-link beside easy-install.pth, both hold the
source folder). A .pth that imports another kind of finder (meson-python, scikit-build-core) is not judged.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import SearchPath, read_pth, standard_library
from envdoctor.standards.names import normalized

_MAXIMUM = 1024 * 1024
Kind = Literal["finder", "path", "egg-link"]


@frozen
class Editable:
    """One editable install and what it points at."""

    name: str
    """Normalized."""
    version: str
    """Empty for an egg-link, whose metadata is in the source folder."""
    kind: Kind
    told_by: str
    """The finder, .pth or .egg-link file, absolute."""
    places: tuple[str, ...]
    """Folders and files it maps; empty when it maps nothing."""
    gone: tuple[str, ...]
    """Those of them that do not exist."""
    source: str
    """The project's folder; empty when nothing says it."""

    @property
    def exposes_nothing(self) -> bool:
        """Tell whether no import can find anything of it."""
        return not self.places or len(self.gone) == len(self.places)


@frozen
class Editables:
    """All of them that could be told."""

    items: tuple[Editable, ...]


def probe(reading: Reading) -> Editables:
    """Read the pointers of each editable distribution, and the egg-links."""
    items = reading.fact(Distributions).items
    found: list[Editable] = []
    for at, item in enumerate(items):
        if item.editable and not item.shadowed:
            rows = index(reading).rows.get(at, [])
            standard = standard_library(reading.fact(Interpreter))
            found += _of_distribution(item, [path for path, _, _ in rows if "/" not in path], standard)
    for entry in reading.fact(SearchPath).site_dirs:
        found += _egg_links(entry.path)
    return Editables(items=tuple(found))


def _of_distribution(item: Distribution, names: list[str], standard: Path) -> Iterator[Editable]:
    finder = next((name for name in names if name.endswith("_finder.py")), "")
    pointers = [name for name in names if name.endswith(".pth")]
    told_by = f"{item.site}/{finder or next(iter(pointers), '')}"
    places = _mapped(told_by) if finder else _lines(item.site, pointers, standard)
    if places is not None:
        yield Editable(
            name=item.name,
            version=item.version,
            kind="finder" if finder else "path",
            told_by=told_by,
            places=tuple(places),
            gone=tuple(path for path in places if not _is_there(path)),
            source=unquote(urlsplit(item.direct_url).path),
        )


def _mapped(path: str) -> list[str] | None:
    """Return the paths of a finder's MAPPING and NAMESPACES; None for a finder of another form."""
    import ast  # noqa: PLC0415 - it takes longer than most probes, and few files are parsed

    try:
        tree = ast.parse(read_regular(path, _MAXIMUM))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: dict[str, object] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and target.id in ("MAPPING", "NAMESPACES") and node.value is not None:  # type: ignore[attr-defined]
                try:
                    found[target.id] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
                except ValueError:
                    return None
    mapping, spaces = found.get("MAPPING"), found.get("NAMESPACES", {})
    if not isinstance(mapping, dict) or not isinstance(spaces, dict):
        return None
    folders = [folder for value in spaces.values() if isinstance(value, list) for folder in value]
    return [str(path) for path in (*mapping.values(), *folders)]


def _lines(site: str, names: list[str], standard: Path) -> list[str] | None:
    """Return the folders that .pth files add; None when one runs code or cannot be read: it may expose anything."""
    found = []
    for name in names:
        try:
            lines, _, _ = read_pth(Path(site, name), standard)
        except OSError:
            return None
        if any(line.startswith(("import ", "import\t")) for line in lines):
            return None
        found += [os.path.join(site, line) for line in lines if not line.startswith("#")]  # noqa: PTH118 - strings
    return found if names else None


def _egg_links(site: str) -> Iterator[Editable]:
    for name in sorted(os.listdir(site)):  # noqa: PTH208 - names only, and fast
        if not name.endswith(".egg-link"):
            continue
        try:
            text = read_regular(f"{site}/{name}", _MAXIMUM).decode("utf-8", "surrogateescape")
        except OSError:
            continue
        source = next((line.strip() for line in text.splitlines() if line.strip()), "")
        if source and "\0" not in source:
            place = os.path.join(site, source)  # noqa: PTH118 - strings
            yield Editable(
                name=normalized(name.removesuffix(".egg-link")),
                version="",
                kind="egg-link",
                told_by=f"{site}/{name}",
                places=(place,),
                gone=() if _is_there(place) else (place,),
                source=place,
            )


def _is_there(path: str) -> bool:
    # MAPPING names a package by its folder, and a module by its path without the suffix.
    return os.path.exists(path) or os.path.exists(f"{path}.py")  # noqa: PTH110 - strings
