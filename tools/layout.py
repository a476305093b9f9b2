"""The figures of docs/architecture.md's history: modules, imports, the longest chain, files a folder, fan-out.

    python tools/layout.py [CHECKOUT ...]

Counted from the syntax tree of `envdoctor/`, imports inside functions and under TYPE_CHECKING included, `__init__.py`
left out. The chain leaves out an import that leads back to a module of the chain, as one inside a function may.
"""

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path

SMALL = 30


def modules(root: Path) -> dict[str, Path]:
    """Return module name -> file."""
    found = {}
    for path in sorted((root / "envdoctor").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if path.name == "__init__.py":
            continue
        found[".".join(parts)] = path
    return found


def imported(path: Path, names: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & set(names)


def report(root: Path) -> None:
    """Print the figures of one checkout."""
    names = modules(root)
    graph = {name: imported(path, names) - {name} for name, path in names.items()}

    under_way: set[str] = set()

    @cache
    def chain(name: str) -> tuple[str, ...]:
        under_way.add(name)
        below = max((chain(other) for other in sorted(graph[name] - under_way)), key=len, default=())
        under_way.remove(name)
        return (name, *below)

    longest = max((chain(name) for name in sorted(graph)), key=len)
    lines = {name: path.read_text().count("\n") for name, path in names.items()}
    folders = Counter(path.parent.relative_to(root / "envdoctor").as_posix() for path in names.values())
    out = sorted(((len(edges), name) for name, edges in graph.items()), reverse=True)[:4]
    small = [name for name, count in lines.items() if count < SMALL and not name.startswith("envdoctor.cli.commands")]
    print(f"{root}\nmodules, lines: {len(names)}, {sum(lines.values()):,}")
    print(f"imports between them: {sum(map(len, graph.values())):,}")
    print(f"longest chain of imports: {len(longest)}\n  {' -> '.join(longest)}")
    print(f"folders with modules: {len(folders)}")
    print(f"largest folders: {', '.join(f'{count} {name}' for name, count in folders.most_common(5))}")
    print(f"most imports in one module: {', '.join(f'{count} {name}' for count, name in out)}")
    print(f"modules under {SMALL} lines, one command a file left out: {len(small)}\n  {', '.join(small)}")


if __name__ == "__main__":
    for given in sys.argv[1:] or ["."]:
        report(Path(given).resolve())
