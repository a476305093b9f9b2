"""Who may import what, how large a file may be, and what the gate may load: read from the syntax tree."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("envdoctor", "trainer")
STDLIB = set(sys.stdlib_module_names)

# Layer -> first-party prefixes and third-party roots it may import. The longest matching prefix is its layer.
LAYERS: dict[str, tuple[str, ...]] = {
    "envdoctor": ("envdoctor",),
    "envdoctor.__main__": ("envdoctor", "typer"),
    "envdoctor.exitcodes": (),
    "envdoctor.errors": ("envdoctor.exitcodes",),
    "envdoctor.model": ("envdoctor.model", "envdoctor.errors", "envdoctor.exitcodes", "packaging"),
    "envdoctor.elf": ("envdoctor.elf", "envdoctor.model", "envdoctor.errors"),
    "envdoctor.probes": (
        "envdoctor.probes",
        "envdoctor.elf",
        "envdoctor.model",
        "envdoctor.errors",
        "packaging",
        "pynvml",
    ),
    "envdoctor.checks": ("envdoctor.checks", "envdoctor.probes", "envdoctor.model", "envdoctor.errors", "packaging"),
    "envdoctor.profile_store": ("envdoctor.model", "envdoctor.errors", "envdoctor.probes.regular_file", "tomli"),
    "envdoctor.examine": (
        "envdoctor.model",
        "envdoctor.probes",
        "envdoctor.checks",
        "envdoctor.errors",
        "envdoctor.profile_store",
    ),
    "envdoctor.gate": (
        "envdoctor.model",
        "envdoctor.elf",
        "envdoctor.probes",
        "envdoctor.checks",
        "envdoctor.errors",
        "envdoctor.exitcodes",
        "envdoctor.profile_store",
        "envdoctor.examine",
        "envdoctor.heading",
        "envdoctor.report",
    ),
    "envdoctor.identity": ("envdoctor.model", "envdoctor.probes"),
    "envdoctor.sides": ("envdoctor.model", "envdoctor.probes", "envdoctor.identity", "packaging"),
    "envdoctor.heading": ("envdoctor.model", "envdoctor.probes", "envdoctor.report"),
    "envdoctor.stack": (
        "envdoctor.stack",
        "envdoctor.model",
        "envdoctor.probes",
        "envdoctor.checks",
        "envdoctor.errors",
        "envdoctor.profile_store",
        "envdoctor.examine",
        "envdoctor.identity",
        "packaging",
        "tomli",
        "tomli_w",
        "uv",
    ),
    "envdoctor.cache": (
        "envdoctor.cache",
        "envdoctor.model",
        "envdoctor.probes",
        "envdoctor.checks",
        "envdoctor.errors",
        "envdoctor.profile_store",
        "envdoctor.examine",
        "packaging",
        "zstandard",
    ),
    "envdoctor.fleet": ("envdoctor.fleet", "envdoctor.model", "envdoctor.probes", "envdoctor.errors"),
    "envdoctor.report": ("envdoctor.report", "envdoctor.model", "envdoctor.errors", "envdoctor.exitcodes", "rich"),
    "envdoctor.explore": (
        "envdoctor.explore",
        "envdoctor.model",
        "envdoctor.elf",
        "envdoctor.probes",
        "envdoctor.checks",
        "envdoctor.stack",
        "envdoctor.examine",
        "envdoctor.errors",
    ),
    "envdoctor.cli": ("envdoctor", "typer", "rich", "packaging"),
    "trainer": (
        "trainer",
        "envdoctor.gate",
        "envdoctor.cache",
        "torch",
        "transformers",
        "accelerate",
        "datasets",
        "jinja2",
        "safetensors",
        "rich",
        "numpy",
        "wandb",
        "matplotlib",
    ),
}
# Standard modules that a pure layer must not touch: facts and paths are passed in.
FORBIDDEN_STDLIB: dict[str, set[str]] = {
    "envdoctor.model": {"os", "subprocess", "pathlib", "socket"},
    "envdoctor.elf": {"subprocess"},
    "envdoctor.checks": {"os", "subprocess", "socket"},
}
GATE_TOP_LEVEL = STDLIB
LINE_CAP = 350
# Files that are one table, not code.
TABLES = {"envdoctor/model/cudalibs.py"}


def _modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.AST) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module in PACKAGES:
            # `from envdoctor import examine` imports that module; `__version__` is no module.
            found += [(f"{node.module}.{alias.name}", ()) for alias in node.names if not alias.name.startswith("_")]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.append((node.module, tuple(alias.name for alias in node.names)))
    return found


def _layer(module: str) -> str:
    return max((layer for layer in LAYERS if module == layer or module.startswith(layer + ".")), key=len)


def _allowed(imported: str, allowed: tuple[str, ...]) -> bool:
    return any(imported == prefix or imported.startswith(prefix + ".") for prefix in allowed)


@pytest.mark.parametrize("path", _modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_follow_the_layers(path: Path) -> None:
    module = _name(path)
    layer = _layer(module)
    tree = ast.parse(path.read_text())
    banned = FORBIDDEN_STDLIB.get(layer, set())
    wrong = [
        imported
        for imported, _ in _imports(tree)
        if (imported.split(".")[0] in banned)
        or (imported.split(".")[0] not in STDLIB and not _allowed(imported, LAYERS[layer]))
    ]
    assert wrong == [], f"{module} ({layer}) imports {wrong}"
    relative = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    assert relative == [], "imports are absolute"


@pytest.mark.parametrize(
    "path", [path for path in _modules() if _layer(_name(path)) == "envdoctor.checks"], ids=lambda path: path.name
)
def test_checks_import_only_types_from_probes(path: Path) -> None:
    functions = [
        f"{module}.{name}"
        for module, names in _imports(ast.parse(path.read_text()))
        if module.startswith("envdoctor.probes")
        for name in names
        if not name[0].isupper()
    ]
    assert functions == []


def test_gate_imports_only_the_standard_library_at_the_top() -> None:
    tree = ast.parse((ROOT / "envdoctor/gate.py").read_text())
    top = [name for node in tree.body for name, _ in _imports(node) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [name for name in top if name.split(".")[0] not in GATE_TOP_LEVEL] == []


def test_gate_leaves_heavy_modules_out_of_the_trainer() -> None:
    code = (
        "import sys, envdoctor.gate\nprint(sorted({'torch', 'typer', 'rich', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_no_import_cycles() -> None:
    names = {_name(path): path for path in _modules()}
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        tree = ast.parse(path.read_text())
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        edges: set[str] = set()
        for node in top:
            for module, imported in _imports(node):
                edges |= {full for item in imported if (full := f"{module}.{item}") in names} or ({module} & set(names))
        graph[name] = edges - {name}
    done: set[str] = set()

    def walk(node: str, path: tuple[str, ...]) -> None:
        assert node not in path, f"import cycle: {' -> '.join((*path[path.index(node) :], node))}"
        if node in done:
            return
        for other in sorted(graph[node]):
            walk(other, (*path, node))
        done.add(node)

    for node in graph:
        walk(node, ())


@pytest.mark.parametrize("path", _modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_stay_small_and_documented(path: Path) -> None:
    text = path.read_text()
    relative = path.relative_to(ROOT).as_posix()
    lines = text.count("\n")
    assert lines <= LINE_CAP or relative in TABLES, f"{relative} has {lines} lines; split it by responsibility"
    tree = ast.parse(text)
    long = [
        f"{node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > 60
    ]
    assert long == [], f"{relative}: functions over 60 lines: {long}"
    assert ast.get_docstring(tree), f"{relative} has no module docstring"
