"""Who may import what, how large a file may be, and what the gate may load: read from the syntax tree."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("envdoctor", "trainer")
STDLIB = set(sys.stdlib_module_names)

# The rooms of diagnosis from the lowest floor up; each may import itself and what stands below.
FLOORS = (
    "exitcodes",
    "errors",
    "model",
    "standards",
    "catalog",
    "elf",
    "loader",
    "facts",
    "probes",
    "analysis",
    "checks",
    "compare",
    "documents",
    "doctor",
)
_CHANGE = ("envdoctor.wheels", "envdoctor.swap")


def _up_to(room: str, without: str = "") -> tuple[str, ...]:
    return tuple(f"envdoctor.{floor}" for floor in FLOORS[: FLOORS.index(room) + 1] if floor != without)


# Rooms of the trainer, from the lowest floor up; the runtimes, records, plans and commands above them see all.
TRAINER_FLOORS = (
    "errors",
    "writing",
    "settings",
    "compile",
    "device",
    "fp8",
    "drafter",
    "step",
    "data",
    "target",
    "decoding",
    "saved",
    "assemble",
)
_TRAINING = (
    "torch",
    "transformers",
    "triton",
    "accelerate",
    "pyarrow",
    "jinja2",
    "safetensors",
    "rich",
    "numpy",
    "wandb",
    "matplotlib",
)


def _trainer_up_to(room: str) -> tuple[str, ...]:
    return tuple(f"trainer.{floor}" for floor in TRAINER_FLOORS[: TRAINER_FLOORS.index(room) + 1])


# Layer -> first-party prefixes and third-party roots it may import. The longest matching prefix is its layer.
LAYERS: dict[str, tuple[str, ...]] = {
    "envdoctor": ("envdoctor",),
    "envdoctor.__main__": ("envdoctor.cli", "envdoctor.facts.own_modules", "envdoctor.facts.stops", "typer"),
    "envdoctor.exitcodes": (),
    "envdoctor.errors": ("envdoctor.exitcodes",),
    "envdoctor.model": (*_up_to("model"), "packaging"),
    "envdoctor.standards": (*_up_to("standards"), "packaging"),
    "envdoctor.catalog": _up_to("catalog"),
    "envdoctor.elf": _up_to("elf"),
    "envdoctor.loader": _up_to("loader"),
    "envdoctor.facts": _up_to("facts"),
    "envdoctor.probes": (*_up_to("probes"), "packaging", "pynvml"),
    "envdoctor.analysis": (*_up_to("analysis"), "packaging"),
    "envdoctor.checks": (*_up_to("checks"), "packaging"),
    "envdoctor.compare": (*_up_to("compare"), "packaging"),
    "envdoctor.documents": (*_up_to("documents"), "tomli"),
    "envdoctor.doctor": _up_to("doctor"),
    "envdoctor.ranks": (*_up_to("doctor"), "envdoctor.ranks"),
    "envdoctor.gate": (*_up_to("doctor"), "envdoctor.report", "envdoctor.gate_ranks"),
    "envdoctor.gate_ranks": (*_up_to("doctor"), "envdoctor.ranks", "envdoctor.report"),
    "envdoctor.cache": (*_up_to("doctor"), "envdoctor.cache", "packaging", "zstandard"),
    # Where wheels come from and how a venv is replaced know no rule.
    "envdoctor.wheels": (
        *_up_to("probes"),
        "envdoctor.documents",
        "envdoctor.wheels",
        "packaging",
        "tomli",
        "tomli_w",
        "urllib3",
        "uv",
    ),
    "envdoctor.foreign_locks": (
        *_up_to("documents", without="checks"),
        "envdoctor.wheels",
        "envdoctor.foreign_locks",
        "packaging",
        "tomli",
        "yaml",
    ),
    "envdoctor.swap": (*_up_to("probes"), "envdoctor.swap", "packaging"),
    "envdoctor.gate_package": (
        *_up_to("facts"),
        "envdoctor.__init__",
        "envdoctor.wheels",
        "envdoctor.gate_package",
    ),
    "envdoctor.stack": (*_up_to("doctor", without="checks"), *_CHANGE, "envdoctor.stack", "packaging"),
    "envdoctor.capture": (
        *_up_to("doctor", without="checks"),
        *_CHANGE,
        "envdoctor.stack",
        "envdoctor.gate_package",
        "envdoctor.foreign_locks",
        "envdoctor.capture",
        "packaging",
        "tomli_w",
    ),
    "envdoctor.explore": (*_up_to("doctor", without="checks"), *_CHANGE, "envdoctor.explore"),
    "envdoctor.trial": (
        *_up_to("doctor", without="checks"),
        *_CHANGE,
        "envdoctor.stack",
        "envdoctor.explore",
        "envdoctor.trial",
    ),
    "envdoctor.watch": (*_up_to("doctor", without="checks"), "envdoctor.watch"),
    "envdoctor.fleet": (*_up_to("doctor", without="checks"), "envdoctor.fleet"),
    "envdoctor.rollout": (
        *_up_to("doctor", without="checks"),
        "envdoctor.wheels",
        "envdoctor.fleet",
        "envdoctor.rollout",
    ),
    # Given to an interpreter that has Ray, as text.
    "envdoctor.fleet.ray_driver": ("ray",),
    # One function a command: it calls every room of the house and prints nothing.
    "envdoctor.app": (
        *_up_to("doctor"),
        *_CHANGE,
        *(
            f"envdoctor.{room}"
            for room in (
                "cache",
                "stack",
                "capture",
                "explore",
                "trial",
                "fleet",
                "rollout",
                "app",
                "gate",
                "gate_package",
                "foreign_locks",
            )
        ),
        "packaging",
    ),
    "envdoctor.api": (*_up_to("doctor"), "envdoctor.app", "envdoctor.report"),
    "envdoctor.notebook": ("envdoctor.api", "envdoctor.errors", "IPython"),
    # Renderers read results: the types of any room, never a function that looks or changes.
    "envdoctor.report": ("envdoctor", "rich", "cyclonedx", "packageurl", "igraph"),
    # What an agent is served: the commands as processes, and their documents.
    "envdoctor.agents": (
        *_up_to("model"),
        "envdoctor.report",
        "envdoctor.agents",
        "anyio",
        "jsonschema",
        "mcp",
        "mcp_types",
    ),
    "envdoctor.cli": ("envdoctor", "typer", "rich", "packaging"),
    "trainer": ("trainer", "envdoctor.gate", *_TRAINING),
    "trainer.errors": (),
    "trainer.writing": _trainer_up_to("errors"),
    # The gate refuses a stack before torch is imported: what it is told comes without torch.
    "trainer.settings": (*_trainer_up_to("settings"), "envdoctor.gate"),
    "trainer.compile": (*_trainer_up_to("compile"), "torch"),
    "trainer.device": (*_trainer_up_to("device"), "torch"),
    "trainer.fp8": (*_trainer_up_to("fp8"), "torch"),
    **{
        f"trainer.{room}": (*_trainer_up_to(room), *_TRAINING)
        for room in ("drafter", "step", "data", "target", "decoding", "saved", "assemble")
    },
}
# Standard modules that a pure layer must not touch: facts and paths are passed in.
FORBIDDEN_STDLIB: dict[str, set[str]] = {
    "envdoctor.model": {"os", "subprocess", "pathlib", "socket"},
    "envdoctor.standards": {"os", "subprocess", "socket"},
    "envdoctor.catalog": {"os", "subprocess", "pathlib", "socket"},
    "envdoctor.elf": {"subprocess"},
    "envdoctor.loader": {"subprocess"},
    "envdoctor.analysis": {"os", "subprocess", "socket"},
    "envdoctor.checks": {"os", "subprocess", "socket"},
}
GATE_TOP_LEVEL = STDLIB | {"envdoctor.model.frozen"}
LINE_CAP = 350
# Who starts programs by other means than facts/children.py, whose programs end with envdoctor, and why.
STARTERS = {
    "envdoctor.facts.children": "itself",
    "envdoctor.probes.machine.gpu": "in a launch that is not ours; the child has seconds, and is killed then",
    "envdoctor.fleet.gather": "a node each, in threads, in a session of its own; ended in `finally`, and a pipe closes",
    "envdoctor.fleet.ray_driver": "runs on a node, as text",
    "envdoctor.rollout.visit": "runs on a node, as text, and hands its signals on",
    "envdoctor.watch.sampler": "ends when its pipe closes",
    "envdoctor.agents.child": "asked to end, and waited for, by the server's task",
    "envdoctor.notebook": "a command as any other, in a person's notebook",
    "envdoctor.cli.isolation": "becomes the program",
    "envdoctor.cli.commands.run": "becomes the program",
}
_STARTS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}


def _modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.AST) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module in PACKAGES:
            # `from envdoctor import examine` imports that module; `__version__` is not a module.
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
    tree = _tree(path)
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
        for module, names in _imports(_tree(path))
        if module.startswith("envdoctor.probes")
        for name in names
        if not name[0].isupper()
    ]
    assert functions == []


def test_gate_imports_nearly_only_the_standard_library_at_the_top() -> None:
    tree = ast.parse((ROOT / "envdoctor/gate.py").read_text())
    top = [name for node in tree.body for name, _ in _imports(node) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [name for name in top if not {name, name.split(".")[0]} & GATE_TOP_LEVEL] == []


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
        tree = _tree(path)
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


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in (path for path in _modules() if path.is_relative_to(ROOT / "envdoctor")):
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(_name(path))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_programs_are_started_where_they_end_with_envdoctor() -> None:
    words = ("subprocess", "asyncio", "anyio", "os.exec", "os.spawn", "os.posix_spawn", "os.system", "os.popen")
    assert {_name(path) for path in _ours(*words) if _starts(_tree(path))} == STARTERS.keys()


def _ours(*words: str) -> list[Path]:
    """Return the modules of envdoctor that have one of these words."""
    paths = (path for path in _modules() if path.is_relative_to(ROOT / "envdoctor"))
    return [path for path in paths if any(word in path.read_text() for word in words)]


def _starts(tree: ast.AST) -> bool:
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    owned = [
        (one.value.id, one.attr) for one in called if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)
    ]
    return any(
        (owner == "subprocess" and attribute in _STARTS)
        or (owner in ("asyncio", "anyio") and "process" in attribute)
        or (owner == "os" and attribute.startswith(("exec", "spawn", "posix_spawn", "system", "popen")))
        for owner, attribute in owned
    ) or any(names and imported == "subprocess" for imported, names in _imports(tree))


def test_no_folder_is_too_deep() -> None:
    """Python calls itself for each level in os.walk, shutil.rmtree and Path.rglob: facts/folders.py does not."""
    ours = {
        "envdoctor.rollout.visit": "runs on a node, as text, and removes what it has made",
        "envdoctor.rollout.payload": "our own package",
        "envdoctor.gate_package.modules": "our own package",
        "envdoctor.probes.caches.compiled_objects": "a few levels and no more",
    }
    words = ("walk(", "rmtree(", "copytree(", "rglob(", "scandir(", "iterdir(")
    assert {_name(path) for path in _ours(*words) if _recurses(_tree(path))} == ours.keys()


def _recurses(tree: ast.AST) -> bool:
    within = [(node.name, _called(node)) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return any(
        name in ("os.walk", "os.fwalk", "shutil.rmtree", "shutil.copytree") or name.endswith(".rglob")
        for name in _called(tree)
    ) or any(
        {name, f"self.{name}"} & called and any(one.endswith(("scandir", "iterdir")) for one in called)
        for name, called in within
    )


def _called(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("path", _modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_stay_small_and_documented(path: Path) -> None:
    text = path.read_text()
    relative = path.relative_to(ROOT).as_posix()
    lines = text.count("\n")
    assert lines <= LINE_CAP, f"{relative} has {lines} lines; split it by responsibility"
    tree = _tree(path)
    long = [
        f"{node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > 60
    ]
    assert long == [], f"{relative}: functions over 60 lines: {long}"
    assert ast.get_docstring(tree), f"{relative} has no module docstring"
