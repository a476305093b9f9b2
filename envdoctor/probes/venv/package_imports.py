"""What installed packages import from each other and no longer find: modules that were dropped, names that are not there.

Read from source text, never run, and remembered for as long as the RECORDs of the packages stay as they are.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from envdoctor.catalog.removed_modules import LINKED_BY_NAME, REMOVED, Removed
from envdoctor.facts.context import Reading
from envdoctor.facts.memo_file import memo_path, write_memo
from envdoctor.facts.regular_file import read_prefix, read_regular
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.import_closure import Closure, imports_of, module_file
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index, recorded_size
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.standards.need import parse_need

_FORM = 1
"""Raised whenever what is looked for changes: what was remembered before then counts for nothing."""
_MAXIMUM_MEMO = 1024 * 1024
_MAXIMUM_SOURCE = 1024 * 1024
_SMALL_FILES, _SMALL_BYTES = 40, 400_000
_MANY_FILES = 3000
_ASIDE = re.compile(r"(?:^|/)(?:tests?|testing|examples?|benchmarks?|docs?|_?vendor(?:ed)?)/|(?:^|/)(?:test_|conftest|setup\.py)")
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
    memo = memo_path("imports", reading.target.prefix, reading.host)
    key = looking.key()
    try:
        remembered = json.loads(read_regular(memo, _MAXIMUM_MEMO))
        if remembered["key"] == key:
            return decode(PackageImports, remembered["found"])  # type: ignore[no-any-return]
    except (OSError, ValueError, TypeError, KeyError, RecursionError, CodecError):
        pass  # whatever is wrong with it, looking again gives the right answer
    found = PackageImports(modules=tuple(looking.gone_modules()), names=tuple(looking.gone_names()))
    try:
        write_memo(memo, json.dumps({"key": key, "found": encode(found)}).encode())
    except (OSError, UnicodeError):
        return found  # the next run looks again: nothing is lost but its time
    return found


@dataclass(slots=True, kw_only=True)
class _Looking:
    reading: Reading
    items: tuple[Distribution, ...] = ()
    active: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = self.reading.fact(Distributions).items
        self.active = {item.name: at for at, item in enumerate(self.items) if not item.shadowed and not item.editable}

    def key(self) -> str:
        """Return a digest of all that the answer depends on."""
        digests = index(self.reading).digests
        parts = [f"{item.site}/{item.folder} {digests.get(at, '')}" for at, item in enumerate(self.items)]
        folders = [entry.path for entry in self.reading.fact(SearchPath).entries]
        present = "".join(str(int(self._is_there(removed.module))) for removed in REMOVED)
        python = self.reading.fact(Interpreter).minor
        return sha256("\n".join([str(_FORM), python, present, *folders, *parts]).encode("utf-8", "replace")).hexdigest()

    def gone_modules(self) -> Iterator[GoneModule]:
        absent = {removed.module: removed for removed in REMOVED if self._is_gone(removed)}
        if not absent:
            return
        names = "|".join(absent)
        sign = re.compile(rf"^(?:from|import)[ \t]+(?:[\w. ,]*,[ \t]*)?(?:{names})\b".encode(), re.MULTILINE)
        for name, at in self.active.items():
            needs = self._requires_setuptools(self.items[at]) and name != "torch"
            sources = self._sources(at)
            small = len(sources) <= _SMALL_FILES and sum(sources.values()) <= _SMALL_BYTES
            if not (small or (needs and len(sources) <= _MANY_FILES)):
                continue
            yield from self._in_package(at, [path for path in sources if _found(sign, path)], absent, needs=needs)

    def _in_package(
        self, at: int, paths: Sequence[str], absent: Mapping[str, Removed], *, needs: bool
    ) -> Iterator[GoneModule]:
        item = self.items[at]
        told: set[tuple[str, str]] = set()
        reached = {path: package for package in self._packages(at) for path in _closure(item.site, package)} if paths else {}
        # First those that stop the package: one finding for each module is enough.
        for path in sorted(paths, key=lambda path: (path not in reached, path)):
            for one in imports_of(read_prefix(path, _MAXIMUM_SOURCE)):
                module = one.module.partition(".")[0]
                # What does not say that it needs setuptools may lie there unused.
                if module in absent and (item.name, module) not in told and (needs or path in reached):
                    told.add((item.name, module))
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
            closure = Closure(site=site, package=name.replace("-", "_")).follow()
            for path, found in closure.reached.items():
                for one in found:
                    provider = modules.get(one.module.partition(".")[0], "")
                    if not provider or provider == name:
                        continue
                    for missing in _not_in(self.items[here[provider]].site, one.module, one.names):
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

    def _sources(self, at: int) -> dict[str, int]:
        """Return the absolute path of each Python source that is no test -> its recorded size."""
        site = self.items[at].site
        rows = index(self.reading).rows.get(at, [])
        return {
            f"{site}/{path}": recorded_size(size)
            for path, _, size in rows
            if path.endswith(".py") and not path.startswith("..") and not _ASIDE.search(path)
        }

    def _packages(self, at: int) -> list[str]:
        rows = index(self.reading).rows.get(at, [])
        tops = {path.partition("/")[0].removesuffix(".py") for path, _, _ in rows if path.endswith(".py")}
        return sorted(top for top in tops if top.isidentifier() and module_file(self.items[at].site, top)[0])

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
        return not self._is_there(removed.module)

    def _is_there(self, module: str) -> bool:
        folders = [entry.path for entry in self.reading.fact(SearchPath).site_dirs]
        return any(os.path.isdir(f"{folder}/{module}") or module_file(folder, module)[0] for folder in folders)  # noqa: PTH112


def _closure(site: str, package: str) -> Mapping[str, object]:
    return Closure(site=site, package=package).follow().reached


def _found(sign: re.Pattern[bytes], path: str) -> bool:
    try:
        return sign.search(read_prefix(path, _MAXIMUM_SOURCE)) is not None
    except OSError:
        return False


def _not_in(site: str, module: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the names that the text of a module does not hold at all; an empty one when there is no such module."""
    path, _ = module_file(site, module)
    if not path:
        yield from _without_module(site, module)
        return
    try:
        text = read_prefix(path, _MAXIMUM_SOURCE)
    except OSError:
        return
    if any(sign in text for sign in _DYNAMIC) or len(text) == _MAXIMUM_SOURCE:
        return
    for name in names:
        known = name == "*" or not name.isidentifier() or re.search(rf"\b{name}\b".encode(), text)
        inside = os.path.exists(f"{path.removesuffix('__init__.py')}{name}")  # noqa: PTH110
        if not known and not inside and not module_file(site, f"{module}.{name}")[0]:
            yield name


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
