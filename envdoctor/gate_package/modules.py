"""The modules that the launch gate needs, taken from envdoctor's own source and from packaging's, under another name.

There is no second copy: what is packed is the source of this installation. Only the package's name in import statements
changes, so that an environment may hold the gate and envdoctor side by side without a file that both own.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from envdoctor.model.frozen import frozen

_OWN, _VENDORED = "envdoctor", "packaging"
_PACKAGE = Path(__file__).resolve().parent.parent
_ENTRY = "envdoctor.gate"
# `checks.registry` walks this package, so no import statement names its modules.
_WALKED = "envdoctor.checks"


@frozen
class Module:
    """One module of the gate."""

    name: str
    """As it is called in the gate: `envdoctor_gate.facts.host`."""
    origin: Path
    text: str
    is_package: bool

    @property
    def path(self) -> str:
        """The path below site-packages."""
        return self.name.replace(".", "/") + ("/__init__.py" if self.is_package else ".py")


def modules(package: str, entries: tuple[str, ...] = ()) -> tuple[Module, ...]:
    """Return every module that the gate may import, by name, as it reads below the top-level name `package`.

    entries: modules that are wanted in place of the gate's own. envdoctor's own `__init__` is left out: the gate has
    one of its own.
    """
    names = {_OWN: package, _VENDORED: f"{package}.vendored.packaging"}
    found = [
        Module(
            name=_renamed(name, names),
            origin=origin,
            text=renamed(origin.read_text(encoding="utf-8"), names),
            is_package=origin.name == "__init__.py",
        )
        for name, origin in sorted(_needed(entries or (_ENTRY,)).items())
        if name != _OWN
    ]
    return tuple(found)


def renamed(text: str, names: dict[str, str]) -> str:
    """Return a module's text with the top-level names in its import statements replaced, and nothing else."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            named = [node.module]
        for top in {name.partition(".")[0] for name in named} & set(names):
            line = lines[node.lineno - 1]  # type: ignore[attr-defined]
            lines[node.lineno - 1] = re.sub(rf"\b{top}\b", names[top], line, count=1)  # type: ignore[attr-defined]
    return "".join(lines)


def _renamed(name: str, names: dict[str, str]) -> str:
    top, dot, rest = name.partition(".")
    return names[top] + dot + rest


def _needed(entries: tuple[str, ...]) -> dict[str, Path]:
    """Return module -> file: what the entry imports, and what that imports, in functions too."""
    available = _available()
    waiting = [*entries, *(name for name in available if name.startswith(f"{_WALKED}."))]
    needed: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        if name in needed or name not in available:
            continue
        needed[name] = available[name]
        waiting.append(name.rpartition(".")[0])
        # The package's own `__init__` offers the Python interface, and is not packed.
        waiting += () if name == _OWN else _imports(name, available[name])
    return needed


def _available() -> dict[str, Path]:
    vendored = importlib.util.find_spec(_VENDORED)
    assert vendored is not None and vendored.origin is not None  # noqa: S101, PT018 - a dependency of ours
    found: dict[str, Path] = {}
    for top, folder in ((_OWN, _PACKAGE), (_VENDORED, Path(vendored.origin).parent)):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((top, *(part for part in parts if part != "__init__")))] = path
    return found


def _imports(module: str, path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _run_time(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without the blocks that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _run_time(child)
