"""Binds symbols as dlopen(RTLD_NOW) does: which undefined symbol of which object no other object in scope defines.

Python opens extension modules that way, and so does ctypes; what is opened lazily fails at its first call instead.
"""

from collections import Counter
from collections.abc import Sequence

from envdoctor.elf.symbols import SymbolTable, UndefinedSymbol, first_relocated
from envdoctor.errors import ElfError
from envdoctor.loader.loaded import LoadedObject, LoadFailure
from envdoctor.model.frozen import frozen


@frozen
class Unbound:
    """A symbol that stays undefined."""

    symbol: UndefinedSymbol
    requester: LoadedObject
    expected: LoadedObject | None
    """The mapped file it was linked against, which lacks it; None when the symbol names no version and so no file."""
    fatal: bool = False
    """The file has the symbol and no table of versions: ld.so ends the process at a request for a version of it."""

    @property
    def message(self) -> str:
        """What dlerror() says when this one is met first; of a fatal one what ld.so says (without its source line)."""
        if self.fatal:
            return f"Inconsistency detected by ld.so: check_match: Assertion `{_ASSERTED}' failed!"
        version = f", version {self.symbol.version}" if self.symbol.version else ""
        return f"{self.requester.path}: undefined symbol: {self.symbol.name}{version}"


# glibc's elf/dl-lookup.c, check_match().
_ASSERTED = "version->filename == NULL || ! _dl_name_match_p (version->filename, map)"


class Binder:
    """Remembers the symbol tables it has read, so that several loads of one environment share them."""

    def __init__(self) -> None:
        """Start with nothing read. `unreadable` keeps the reason for every object whose tables could not be."""
        self.unreadable: dict[str, str] = {}
        self._tables: dict[tuple[int, int], SymbolTable | None] = {}
        self._hits: Counter[tuple[int, int]] = Counter()
        self._known: dict[tuple[str, str | None], tuple[int, int]] = {}
        self._served: dict[tuple[int, int], set[tuple[int, int] | None]] = {}

    def table(self, item: LoadedObject) -> SymbolTable | None:
        """Return a mapped object's symbols, or None when they cannot be read."""
        return self.symbols(item.path, item.elf.identity)

    def symbols(self, path: str, identity: tuple[int, int]) -> SymbolTable | None:
        """Return the symbols of the object in a file, or None when they cannot be read."""
        if identity not in self._tables:
            try:
                self._tables[identity] = SymbolTable(path)
            except ElfError as error:
                self.unreadable[path] = error.message
                self._tables[identity] = None
        return self._tables[identity]

    def unbound(self, item: LoadedObject, scope: Sequence[LoadedObject]) -> tuple[Unbound, ...]:
        """Return every symbol of an object that nothing in scope defines; () when its own table cannot be read."""
        table = self.table(item)
        if table is None:
            return ()
        identities = {other.elf.identity for other in scope}
        # A library that many modules need is bound in each one's scope; where those that served it are, they serve it.
        served = self._served.get(item.elf.identity)
        if served is not None and served <= identities:
            return ()
        by_name = {name: other for other in reversed(scope) for name in (other.soname, other.requested_as) if name}
        # Whether a symbol is defined does not depend on the order, and most are defined by the same few objects.
        ranked = sorted(scope, key=lambda other: -self._hits[other.elf.identity])
        missing: list[Unbound] = []
        servers: set[tuple[int, int] | None] = set()
        for symbol in table.undefined():
            key = symbol[:2]
            if symbol.weak:
                continue
            known = self._known.get(key)
            if known in identities:
                servers.add(known)
                continue
            expected = by_name.get(symbol.file) if symbol.file else None
            if expected is not None and self._ends_the_process(key, expected, scope):
                missing.append(Unbound(symbol=symbol, requester=item, expected=expected, fatal=True))
            elif not self._find(key, [expected, *ranked] if expected else ranked):
                missing.append(Unbound(symbol=symbol, requester=item, expected=expected))
            # Of one that cannot be read nothing is known, and this is asked again.
            servers.add(self._known.get(key))
        if not missing:
            self._served[item.elf.identity] = servers
        return tuple(missing)

    def first_failure(self, order: Sequence[LoadedObject], scope: Sequence[LoadedObject]) -> LoadFailure | None:
        """Return what ld.so would stop at when it relocates the objects in that order."""
        for item in order:
            missing = self.unbound(item, scope)
            if missing:
                first = first_relocated(item.path, (unbound.symbol.row for unbound in missing))
                chosen = next((unbound for unbound in missing if unbound.symbol.row == first), missing[0])
                expected = chosen.expected
                return LoadFailure(
                    kind="version not found" if chosen.fatal else "undefined symbol",
                    name=expected.path if expected and chosen.fatal else chosen.symbol.name,
                    requester=item.path,
                    message=chosen.message,
                    tried=expected.tried if expected else (),
                    version=chosen.symbol.version or "",
                )
        return None

    def _ends_the_process(
        self, key: tuple[str, str | None], expected: LoadedObject, scope: Sequence[LoadedObject]
    ) -> bool:
        """Tell whether the lookup ends at the file that a version is asked of, and that has no table of versions."""
        table = self.table(expected)
        if table is None or table.versioned or not table.defines(*key):
            return False
        before = scope[: next((at for at, other in enumerate(scope) if other is expected), 0)]
        return not self._find(key, before)

    def _find(self, key: tuple[str, str | None], scope: Sequence[LoadedObject]) -> bool:
        for other in scope:
            table = self.table(other)
            # What cannot be read may define anything: no accusation without evidence.
            if table is None:
                return True
            if table.defines(*key):
                self._known[key] = other.elf.identity
                self._hits[other.elf.identity] += 1
                return True
        return False
