"""What installed packages import from each other and no longer find: dropped modules, missing names.

Read from source text, never run, and remembered for as long as the RECORDs of the packages stay as they are.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from envdoctor.catalog.removed_modules import LINKED_BY_NAME, REMOVED, Removed
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix
from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.import_closure import Closure, Import, module_file, parsed_imports
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.record_rows import recorded_size
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.source_memo import remembered
from envdoctor.standards.need import parse_need

_MAXIMUM_SOURCE = 1024 * 1024
_SMALL_FILES, _SMALL_BYTES = 40, 400_000
_MANY_FILES = 3000
_ASIDE = pattern(
    r"(?:^|/)(?:tests?|testing|examples?|benchmarks?|docs?|_?vendor(?:ed)?)/|(?:^|/)(?:test_|conftest|setup\.py)"
)
_DYNAMIC = (b"__getattr__", b"import *", b"globals()", b"sys.modules", b"setattr(", b"exec(", b"locals()", b"vars()")
"""Signs that a module may have more names than its text says."""


@frozen
class GoneModule:
    """A module that an installed package imports without a guard, and that nothing here has."""

    owner: str
    owner_version: str
    module: str
    path: str
    """The file that imports it, absolute."""
    line: int
    stops: str
    """The owner's package whose own import raises for it; empty when only that file's does."""


@frozen
class GoneName:
    """A name that an import of a package takes out of another one's module, where it is not."""

    owner: str
    owner_version: str
    module: str
    """"accelerate.utils.memory"."""
    name: str
    """Empty when the module itself is not there."""
    path: str
    line: int
    provider: str
    provider_version: str


@frozen
class PackageImports:
    """All of both."""

    modules: tuple[GoneModule, ...]
    names: tuple[GoneName, ...]


def probe(reading: Reading) -> PackageImports:
    """Look, or remember what was found when every RECORD was as it is now."""
    looking = _Looking(reading=reading)
    # What is in site-packages without a RECORD may bring a module back.
    present = [removed.module for removed in REMOVED if looking.is_there(removed.module)]
    return remembered(
        reading,
        "imports",
        PackageImports,
        lambda: PackageImports(modules=tuple(looking.gone_modules()), names=tuple(looking.gone_names())),
        present,
    )


@mutable
class _Looking:
    reading: Reading
    items: tuple[Distribution, ...] = ()
    active: dict[str, int] = field(default_factory=dict)
    texts: dict[str, bytes | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = self.reading.fact(Distributions).items
        self.active = {item.name: at for at, item in enumerate(self.items) if not item.shadowed and not item.editable}

    def gone_modules(self) -> Iterator[GoneModule]:
        absent = {removed.module: removed for removed in REMOVED if self._is_gone(removed)}
        if not absent:
            return
        names = "|".join(absent)
        sign = re.compile(rf"^(?:from|import)[ \t]+(?:[\w.][\w. ,]*,[ \t]*)?(?:{names})\b".encode(), re.MULTILINE)
        for name, at in self.active.items():
            needs = self._requires_setuptools(self.items[at]) and name != "torch"
            paths = self._sources(at, _MANY_FILES if needs else _SMALL_FILES, None if needs else _SMALL_BYTES)
            yield from self._in_package(at, [path for path in paths if _found(sign, path)], absent, needs=needs)

    def _in_package(
        self, at: int, paths: Sequence[str], absent: Mapping[str, Removed], *, needs: bool
    ) -> Iterator[GoneModule]:
        item = self.items[at]
        told: set[str] = set()
        reached = {
            path: package
            for package in (self._packages(at) if paths else ())
            for path in _reached(item.site, package, exact=True)
        }
        # First those that stop the package: one finding for each module is enough.
        for path in sorted(paths, key=lambda path: (path not in reached, path)):
            for one in parsed_imports(read_prefix(path, _MAXIMUM_SOURCE)):
                module = one.module.partition(".")[0]
                if module not in absent or module in told or (absent[module].optional and self._asks(item, module)):
                    continue
                # What does not say that it needs setuptools may be there unused.
                if path in reached or (needs and not absent[module].optional):
                    told.add(module)
                    yield GoneModule(
                        owner=item.name,
                        owner_version=item.version,
                        module=module,
                        path=path,
                        line=one.line,
                        stops=reached.get(path, ""),
                    )

    def gone_names(self) -> Iterator[GoneName]:
        here = {name: self.active[name] for name in LINKED_BY_NAME if name in self.active}
        modules = {name.replace("-", "_"): name for name in here}
        for name, at in here.items() if len(here) > 1 else ():
            site = self.items[at].site
            package = name.replace("-", "_")
            # Searched text may take a docstring for code; the syntax tree decides.
            if any(self._gone_in(at, here, modules, _reached(site, package))):
                yield from self._gone_in(at, here, modules, _reached(site, package, exact=True))

    def _gone_in(
        self, at: int, here: Mapping[str, int], modules: Mapping[str, str], reached: Mapping[str, Sequence[Import]]
    ) -> Iterator[GoneName]:
        for path, found in reached.items():
            for one in found:
                provider = modules.get(one.module.partition(".")[0], "")
                if not provider or here[provider] == at:
                    continue
                for missing in self._not_in(self.items[here[provider]].site, one.module, one.names):
                    yield self._gone_name(at, here[provider], path, one.module, missing, one.line)

    def _gone_name(self, at: int, provider: int, path: str, module: str, name: str, line: int) -> GoneName:
        return GoneName(
            owner=self.items[at].name,
            owner_version=self.items[at].version,
            module=module,
            name=name,
            path=path,
            line=line,
            provider=self.items[provider].name,
            provider_version=self.items[provider].version,
        )

    def _static_text(self, path: str) -> bytes | None:
        """Return a module's text; None when it cannot be read, or may have names that its text does not say."""
        if path not in self.texts:
            try:
                text = read_prefix(path, _MAXIMUM_SOURCE)
            except OSError:
                text = b""
            sealed = 0 < len(text) < _MAXIMUM_SOURCE and not any(sign in text for sign in _DYNAMIC)
            self.texts[path] = text if sealed else None
        return self.texts[path]

    def _not_in(self, site: str, module: str, names: Sequence[str]) -> Iterator[str]:
        """Yield the names that the text of a module does not hold at all; an empty one when there is no such module."""
        path, _ = module_file(site, module)
        if not path:
            yield from _without_module(site, module)
            return
        text = self._static_text(path)
        for name in names if text is not None else ():
            known = name == "*" or not name.isidentifier() or re.search(rf"\b{name}\b".encode(), text or b"")
            inside = os.path.exists(f"{path.removesuffix('__init__.py')}{name}")  # noqa: PTH110
            if not known and not inside and not module_file(site, f"{module}.{name}")[0]:
                yield name

    def _sources(self, at: int, most_files: int, most_bytes: int | None) -> list[str]:
        """Return the absolute path of each Python source that is not a test; none of a package with more than that."""
        site = self.items[at].site
        rows = [row for row in index(self.reading).rows.get(at, ()) if row[0].endswith(".py")]
        if len(rows) > most_files:
            return []
        if most_bytes is not None and sum(max(recorded_size(row[2]), 0) for row in rows) > most_bytes:
            return []
        return [f"{site}/{path}" for path, _, _ in rows if not path.startswith("..") and not _ASIDE.search(path)]

    def _packages(self, at: int) -> list[str]:
        rows = index(self.reading).rows.get(at, [])
        tops = {path.partition("/")[0].removesuffix(".py") for path, _, _ in rows if path.endswith(".py")}
        return sorted(top for top in tops if top.isidentifier() and module_file(self.items[at].site, top)[0])

    def _asks(self, item: Distribution, name: str) -> bool:
        """Tell whether the metadata names a distribution for every use, so that other checks see that it is missing."""
        needs = (parse_need(line) for line in item.requires if line.startswith(name) and "extra ==" not in line)
        return any(need is not None and need.name == name for need in needs)

    def _requires_setuptools(self, item: Distribution) -> bool:
        lines = [line for line in item.requires if line[:10].lower() == "setuptools" and "extra ==" not in line]
        return any(need is not None and need.name == "setuptools" for need in map(parse_need, lines))

    def _is_gone(self, removed: Removed) -> bool:
        python = self.reading.fact(Interpreter).minor
        if removed.by == "python" and _numbers(python) < _numbers(removed.version):
            return False
        if removed.module == "distutils" and "setuptools" in self.active:
            site = self.items[self.active["setuptools"]].site
            if os.path.isfile(f"{site}/distutils-precedence.pth"):  # noqa: PTH113
                return False
        return not self.is_there(removed.module)

    def is_there(self, module: str) -> bool:
        """Tell whether a folder that can hold packages has a module of that name."""
        folders = [entry.path for entry in self.reading.fact(SearchPath).site_dirs]
        return any(os.path.isdir(f"{folder}/{module}") or module_file(folder, module)[0] for folder in folders)  # noqa: PTH112


def _reached(site: str, package: str, *, exact: bool = False) -> Mapping[str, Sequence[Import]]:
    return Closure(site=site, package=package, exact=exact).follow().reached


def _found(sign: re.Pattern[bytes], path: str) -> bool:
    try:
        return sign.search(read_prefix(path, _MAXIMUM_SOURCE)) is not None
    except OSError:
        return False


def _without_module(site: str, module: str) -> Iterator[str]:
    """Yield an empty name when the module's own package is a plain one, and lacks it in every form."""
    parent, _, last = module.rpartition(".")
    path, is_package = module_file(site, parent) if parent else ("", False)
    top, _ = module_file(site, module.partition(".")[0])
    if not is_package or not top:
        return
    try:
        texts = read_prefix(path, _MAXIMUM_SOURCE) + read_prefix(top, _MAXIMUM_SOURCE)
        listed = os.listdir(path.rpartition("/")[0])  # noqa: PTH208
    except OSError:
        return
    if last.encode() not in texts and b"sys.modules" not in texts and not any(name.startswith(last) for name in listed):
        yield ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
