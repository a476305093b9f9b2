"""Which files of a package an import of it certainly runs: unguarded imports at the top of its modules, followed.

Only statements at the beginning of a line count: what stands in `try`, `if` or a function is indented, and may never
run. So the closure is a part of what is imported, never more. Nothing is run; the text is searched, and only what is to
be reported is parsed as well.
"""

import os
import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from envdoctor.facts.regular_file import read_prefix
from envdoctor.model.frozen import field, mutable
from envdoctor.model.pattern import pattern

_MAXIMUM_SOURCE = 1024 * 1024
_MAXIMUM_FILES = 3000
_STATEMENT = pattern(
    rb"^(?:from[ \t]+(?P<module>\.*[A-Za-z_][\w.]*|\.+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]+)"
    rb"|import[ \t]+(?P<plain>[A-Za-z_][^\n#;]*))",
    re.MULTILINE,
)
_COMMENT = pattern(rb"#[^\n]*")
_STRING = pattern(rb'"""(?:[^\\"]|\\.|"(?!""))*"""|' + rb"'''(?:[^\\']|\\.|'(?!''))*'''", re.DOTALL)


class Import(NamedTuple):
    """One unguarded import statement."""

    module: str
    """Absolute ("accelerate.utils.memory"), or relative as written ("..utils")."""
    names: tuple[str, ...]
    """What `from` takes out of it; empty for a plain import."""
    line: int


def imports_of(text: bytes) -> Iterator[Import]:
    """Yield the unguarded imports of a source text. Docstrings and other long strings are not code."""
    code = _STRING.sub(lambda match: b"\n" * match[0].count(b"\n"), text) if b'"""' in text or b"'''" in text else text
    for match in _STATEMENT.finditer(code):
        line = code.count(b"\n", 0, match.start()) + 1
        if match["plain"]:
            for one in match["plain"].split(b","):
                yield Import(one.split(b" as ")[0].strip().decode("ascii", "replace"), (), line)
            continue
        listed = _COMMENT.sub(b"", match["names"]).strip(b"()\\ \t")
        names = (one.split(b" as ")[0].strip().decode("ascii", "replace") for one in listed.split(b","))
        yield Import(match["module"].decode("ascii", "replace"), tuple(name for name in names if name), line)


def parsed_imports(text: bytes) -> Iterator[Import]:
    """Yield the same from the syntax tree: slower, and exact. Nothing of a text that cannot be parsed."""
    import ast  # noqa: PLC0415 - it takes longer than most probes, and few files are parsed

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import("." * node.level + (node.module or ""), names, node.lineno)
        elif isinstance(node, ast.Import):
            yield from (Import(alias.name, (), node.lineno) for alias in node.names)


@mutable
class Closure:
    """The files that `import PACKAGE` certainly runs, found as importlib's path finder finds them in one folder."""

    site: str
    package: str
    exact: bool = False
    """Parse every file."""
    reached: dict[str, tuple[Import, ...]] = field(default_factory=dict)
    """Path of a file -> its unguarded imports, relative ones made absolute."""

    def follow(self) -> "Closure":
        """Follow them all; return itself."""
        waiting = deque([self.package])
        seen = {self.package}
        while waiting and len(self.reached) < _MAXIMUM_FILES:
            for module in self._enter(waiting.popleft()):
                # Importing a.b.c runs a, a.b and a.b.c.
                parts = module.split(".")
                for depth in range(1, len(parts) + 1):
                    name = ".".join(parts[:depth])
                    if name not in seen:
                        seen.add(name)
                        waiting.append(name)
        return self

    def _enter(self, module: str) -> Iterator[str]:
        path, inside = self._file(module)
        if not path or path in self.reached:
            return
        try:
            text = read_prefix(path, _MAXIMUM_SOURCE)
        except OSError:
            return
        base = module if inside else module.rpartition(".")[0]
        found = tuple(
            one._replace(module=_absolute(one.module, base))
            for one in (parsed_imports if self.exact else imports_of)(text)
        )
        self.reached[path] = found
        for one in found:
            if one.module.partition(".")[0] == self.package:
                yield one.module
                # A name taken out of a package may be one of its modules.
                yield from (f"{one.module}.{name}" for name in one.names if self._file(f"{one.module}.{name}")[0])

    def _file(self, module: str) -> tuple[str, bool]:
        return module_file(self.site, module)


def module_file(site: str, module: str) -> tuple[str, bool]:
    """Return (the source file of a dotted module, whether it is a package's `__init__`); ("", False) without one."""
    at = f"{site}/{module.replace('.', '/')}"
    if os.path.isfile(f"{at}/__init__.py"):  # noqa: PTH113 - strings, thousands of them
        return f"{at}/__init__.py", True
    return (f"{at}.py", False) if os.path.isfile(f"{at}.py") else ("", False)  # noqa: PTH113


def _absolute(module: str, base: str) -> str:
    dots = len(module) - len(module.lstrip("."))
    if not dots:
        return module
    parts = base.split(".")
    kept = parts[: len(parts) - dots + 1]
    return ".".join([*kept, *([module[dots:]] if module[dots:] else [])])
