"""Versions that a package's own source compares when it is imported, and raises at: read from its text, never run.

Sources, each in the file that is read: pydantic/version.py (`_COMPATIBLE_PYDANTIC_CORE_VERSION`, SystemError),
numba/__init__.py (`_ensure_critical_deps`, ImportError), {transformers,diffusers}/dependency_versions_check.py over
dependency_versions_table.py (`require_version_core`, ImportError), matplotlib/__init__.py (`_check_versions`,
ImportError), pandas/compat/numpy/__init__.py (`_min_numpy_ver`, ImportError), jax/version.py
(`_minimum_jaxlib_version`, RuntimeError of jax/_src/lib/__init__.py).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.standards.names import normalized
from envdoctor.standards.need import parse_need

_MAXIMUM = 1024 * 1024
TABLE_ROW = pattern(r'^[ \t]*"(?P<name>[A-Za-z0-9._-]+)":[ \t]*"(?P<requirement>[^"\n]+)",?[ \t]*$', re.MULTILINE)
_CHECKED = pattern(
    r"^pkgs_to_check_at_runtime\s*=\s*(?:\[(?P<list>[^\]]{0,4096})\]|\"(?P<words>[^\"]{0,4096})\"\.split\(\))",
    re.MULTILINE,
)
_CORE = pattern(r"""^_COMPATIBLE_PYDANTIC_CORE_VERSION\s*(?::\s*\w+\s*)?=\s*['"]([^'"]+)['"]""", re.MULTILINE)
_NUMPY_BOUND = pattern(r"^    if numpy_version (?P<sign><|>) \((?P<major>\d+), (?P<minor>\d+)\):", re.MULTILINE)
_MATPLOTLIB = pattern(r"^def _check_versions\(\):.*?(?=^\S)", re.MULTILINE | re.DOTALL)
_PAIR = pattern(r'\("(?P<name>[a-z]+)", "(?P<version>[0-9.]+)"\)')
_NUMPY_MINIMUM = pattern(r"""^_min_numpy_ver\s*=\s*['"]([0-9.]+)['"]""", re.MULTILINE)
_JAXLIB_MINIMUM = pattern(r"""^_minimum_jaxlib_version\s*=\s*['"]([0-9.]+)['"]""", re.MULTILINE)
_OPTIONAL = frozenset({"python", "accelerate"})
"""Names in the tables of transformers that its check passes over: an old accelerate counts there as none."""
_MODULES = {"dateutil": "python-dateutil"}


@frozen
class Enforced:
    """One requirement that its requirer checks when it is imported."""

    requirer: str
    """Normalized."""
    name: str
    """Normalized."""
    specifier: str
    """"==2.41.5"."""
    path: str
    """The file that says so, absolute."""
    imported: str
    """The module whose import raises ("pydantic")."""


def enforced(items: Iterable[Distribution]) -> tuple[Enforced, ...]:
    """Return what the installed distributions enforce, in their order. A file that is not there enforces nothing."""
    found: list[Enforced] = []
    for item in items:
        reader = _READERS.get(item.name)
        if reader is not None and not item.shadowed:
            found += reader(item)
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return read_regular(path, _MAXIMUM).decode("utf-8", "replace")
    except OSError:
        return ""


def _pydantic(item: Distribution) -> Iterator[Enforced]:
    path = Path(item.site, "pydantic/version.py")
    text = _text(path)
    stated = _CORE.search(text)
    # Older releases state the version and raise in __init__.py.
    if stated and ("SystemError" in text or "SystemError" in _text(path.with_name("__init__.py"))):
        yield _one(item, "pydantic-core", f"=={stated[1]}", path)


def _numba(item: Distribution) -> Iterator[Enforced]:
    path = Path(item.site, "numba/__init__.py")
    # It compares (major, minor): above (2, 5) means 2.6 or newer.
    clauses = [
        f"<{bound['major']}.{int(bound['minor']) + 1}"
        if bound["sign"] == ">"
        else f">={bound['major']}.{bound['minor']}"
        for bound in _NUMPY_BOUND.finditer(_text(path))
    ]
    if clauses:
        yield _one(item, "numpy", ",".join(clauses), path)


def _hugging_face(item: Distribution) -> Iterator[Enforced]:
    path = Path(item.site, item.name, "dependency_versions_check.py")
    checked = _CHECKED.search(_text(path))
    if checked is None:
        return
    names = re.findall(r"[A-Za-z0-9._-]+", checked["list"] or checked["words"] or "")
    rows = {row["name"]: row["requirement"] for row in TABLE_ROW.finditer(_text(path.with_name(_TABLE)))}
    for name in names:
        need = parse_need(rows.get(name, ""))
        if need is not None and need.specifier and need.name not in _OPTIONAL:
            yield _one(item, need.name, need.specifier, path.with_name(_TABLE))


def _matplotlib(item: Distribution) -> Iterator[Enforced]:
    path = Path(item.site, "matplotlib/__init__.py")
    function = _MATPLOTLIB.search(_text(path))
    for pair in _PAIR.finditer(function[0] if function else ""):
        yield _one(item, normalized(_MODULES.get(pair["name"], pair["name"])), f">={pair['version']}", path)


def _pandas(item: Distribution) -> Iterator[Enforced]:
    path = Path(item.site, "pandas/compat/numpy/__init__.py")
    if stated := _NUMPY_MINIMUM.search(_text(path)):
        yield _one(item, "numpy", f">={stated[1]}", path)


def _jax(item: Distribution) -> Iterator[Enforced]:
    path = Path(item.site, "jax/version.py")
    if stated := _JAXLIB_MINIMUM.search(_text(path)):
        yield _one(item, "jaxlib", f">={stated[1]},<={item.version.partition('+')[0]}", path)


def _one(item: Distribution, name: str, specifier: str, path: Path) -> Enforced:
    imported = item.name.replace("-", "_")
    return Enforced(requirer=item.name, name=name, specifier=specifier, path=str(path), imported=imported)


_TABLE = "dependency_versions_table.py"
_READERS: dict[str, Callable[[Distribution], Iterator[Enforced]]] = {
    "pydantic": _pydantic,
    "numba": _numba,
    "transformers": _hugging_face,
    "diffusers": _hugging_face,
    "matplotlib": _matplotlib,
    "pandas": _pandas,
    "jax": _jax,
}
