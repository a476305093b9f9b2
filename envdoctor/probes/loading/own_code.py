"""How a distribution's own Python code comes to one of its compiled files, read from the source and never run.

Whether a file that cannot be loaded makes an import raise depends on who opens it: `from . import _C` at the top of the
package does, `try: ... except ImportError` does not, and of what is opened later, in a function, nothing is certain.
Followed are the statements that `import PACKAGE` executes: imports within the package, calls of functions that the
same file defines, and the bodies of `try`, whose handlers decide.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.records import index

Opening = Literal["at import", "caught", ""]
"""Importing the package opens the file and lets the error through; catches it; or neither is certain."""

_OPENERS = frozenset(
    {"CDLL", "PyDLL", "LoadLibrary", "dlopen", "load_library", "import_module", "find_spec", "ExtensionFileLoader"}
)
_LISTERS = frozenset({"glob", "iglob", "rglob"})
_CATCHING = frozenset({"ImportError", "ModuleNotFoundError", "OSError", "Exception", "BaseException", "RuntimeError"})
_MAXIMUM_FILES = 200
_MAXIMUM_SOURCE = 256 * 1024
# How packages open NVIDIA's wheels before their own modules: cuda.pathfinder, RAPIDS' load_library(), by folder.
_PRELOADERS = (b"load_nvidia_dynamic_lib", b"load_library()", b"preload_dlls", b"_preload_librar")


class OwnCode:
    """The Python files of one distribution."""

    def __init__(self, reading: Reading, at: int) -> None:
        """Take the distribution's index in `Distributions.items`."""
        self.site = reading.fact(Distributions).items[at].site
        rows = index(reading).rows.get(at, [])
        self._sources = {row[0]: None for row in rows if row[0].endswith(".py")}
        self._trees: dict[str, ast.Module | None] = {}

    def opening(self, path: str) -> Opening:
        """Return how importing the distribution's packages comes to one of its files (an absolute path)."""
        target = path.removeprefix(f"{self.site}/")
        walk = _Walk(target, self)
        # A file beside the packages is a package of its own: `import flash_attn_2_cuda`.
        packages = sorted(name for name in self._sources if name.count("/") == 1 and name.endswith("/__init__.py"))
        for package in packages:
            walk.module(package)
        if "at import" in walk.found or (not packages and "/" not in target):
            return "at import"
        return "caught" if "caught" in walk.found else ""

    def preloader(self, soname: str) -> str:
        """Return the absolute path of a file that mentions a library, and so seems to open it; empty for none."""
        needles = (*_spellings(soname.partition(".so")[0]), *_PRELOADERS)
        sources = sorted(self._sources, key=lambda name: (name.count("/"), not name.endswith("__init__.py")))
        for name in sources[:_MAXIMUM_FILES]:
            text = self._text(name)
            if any(needle in text for needle in needles):
                return f"{self.site}/{name}"
        return ""

    def named_in_calls(self, name: str, function: str) -> tuple[str, ...]:
        """Return the literal first arguments of a function's calls that importing a file makes."""
        tree = self.tree(name)
        outside = (item for item in tree.body if not isinstance(item, ast.FunctionDef)) if tree else ()
        calls = (node for item in outside for node in ast.walk(item) if isinstance(node, ast.Call) and node.args)
        named = [call.args[0] for call in calls if getattr(call.func, "id", "") == function]
        return tuple(item.value for item in named if isinstance(item, ast.Constant) and isinstance(item.value, str))

    def tree(self, name: str) -> ast.Module | None:
        """Return a file of the distribution, parsed; None when it has no such file, or one that is not Python."""
        if name not in self._sources:
            return None
        if name not in self._trees:
            try:
                self._trees[name] = ast.parse(self._text(name))
            except (SyntaxError, ValueError, RecursionError):
                self._trees[name] = None
        return self._trees[name]

    def _text(self, name: str) -> bytes:
        try:
            return read_prefix(f"{self.site}/{name}", _MAXIMUM_SOURCE)
        except OSError:
            return b""


def _spellings(stem: str) -> Iterator[bytes]:
    """Yield what code writes for a library: "libcudnn_graph", or 'cudnn' where it opens the whole family."""
    yield stem.encode()
    names = {stem.removeprefix("lib")} | ({"cudnn"} if stem.startswith("libcudnn_") else set())
    yield from (f"{quote}{name}{quote}".encode() for name in sorted(names) for quote in "\"'")


class _Walk:
    """One walk over what importing a distribution's packages executes."""

    def __init__(self, target: str, code: OwnCode) -> None:
        """Take the compiled file's path below site-packages."""
        folder, _, name = target.rpartition("/")
        self._name = name
        self._stem = name.partition(".")[0]
        self._module = f"{folder}/{self._stem}".strip("/").replace("/", ".")
        self._named = re.compile(rf"(?:^|[/.]){re.escape(self._stem)}(?:$|\.)")
        self._code = code
        self._files: set[tuple[str, bool]] = set()
        self.found: set[Opening] = set()

    def module(self, path: str, *, guarded: bool = False) -> None:
        """Walk the file of a module, once with and once without something that catches its errors."""
        tree = self._code.tree(path)
        if tree is None or (path, guarded) in self._files or len(self._files) > _MAXIMUM_FILES:
            return
        self._files.add((path, guarded))
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        inside = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
        _File(self, inside, tree).body(tree.body, guarded)

    def imported(self, name: str, *, guarded: bool) -> None:
        """Note the import of a module by its whole name, and follow it where it is a file of this distribution."""
        if name == self._module:
            self.found.add("caught" if guarded else "at import")
            return
        path = name.replace(".", "/")
        for candidate in (f"{path}/__init__.py", f"{path}.py"):
            self.module(candidate, guarded=guarded)

    def opened(self, call: ast.Call, listed: set[str], *, guarded: bool) -> None:
        """Note a call that opens the file by its name, or by a variable that a listing with it gave (torchao 0.18)."""
        if _called(call) not in _OPENERS:
            return
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        given = any(self.lists(item, listed) for item in arguments)
        if given or any(map(self._named.search, _texts(call))):
            self.found.add("caught" if guarded else "at import")

    def lists(self, expression: ast.AST, listed: set[str]) -> bool:
        """Tell whether an expression has a listing of files with this one in it, or a variable that has."""
        return any(
            node.id in listed if isinstance(node, ast.Name) else isinstance(node, ast.Call) and self._is_listing(node)
            for node in ast.walk(expression)
        )

    def _is_listing(self, call: ast.Call) -> bool:
        patterns = (text.rpartition("/")[2] for text in _texts(call))
        return _called(call) in _LISTERS and any(fnmatchcase(self._name, pattern) for pattern in patterns)


class _File:
    """The statements of one file, with its functions at hand."""

    def __init__(self, walk: _Walk, inside: str, tree: ast.Module) -> None:
        self._walk = walk
        self._inside = inside
        self._functions = {item.name: item for item in tree.body if isinstance(item, ast.FunctionDef)}
        self._calling: set[str] = set()
        self._listed: set[str] = set()
        """Variables with what a listing gave, as far as the walk has come."""

    def body(self, statements: Iterable[ast.stmt], guarded: bool) -> None:  # noqa: FBT001 - it is the walk's state
        for statement in statements:
            self._statement(statement, guarded)

    def _statement(self, statement: ast.stmt, guarded: bool) -> None:  # noqa: FBT001
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for name in _imported(statement, self._inside):
                self._walk.imported(name, guarded=guarded)
        elif isinstance(statement, ast.Try):
            self.body(statement.body, guarded or any(map(_swallows, statement.handlers)))
            self.body((*statement.orelse, *statement.finalbody), guarded)
        elif isinstance(statement, ast.If):
            # Which branch is taken is not known here; `if TYPE_CHECKING` is none that runs.
            self._conditional(statement, guarded)
        else:
            self._calls(statement, guarded)
            self._bind(statement)
            self.body((item for item in ast.iter_child_nodes(statement) if isinstance(item, ast.stmt)), guarded)

    def _conditional(self, statement: ast.If, guarded: bool) -> None:  # noqa: FBT001
        before = set(self._walk.found)
        self.body((*statement.body, *statement.orelse), guarded)
        if "at import" not in before:
            self._walk.found.discard("at import")

    def _bind(self, statement: ast.stmt) -> None:
        """Note which variables have what a listing gave after an assignment, or in a loop."""
        if isinstance(statement, ast.For | ast.AsyncFor):
            given, targets = statement.iter, [statement.target]
        elif isinstance(statement, ast.Assign):
            given, targets = statement.value, statement.targets
        else:
            return
        names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        self._listed = self._listed | names if self._walk.lists(given, self._listed) else self._listed - names

    def _calls(self, statement: ast.stmt, guarded: bool) -> None:  # noqa: FBT001
        expressions = list(_expressions(statement))
        loops = [node for node in expressions if isinstance(node, ast.comprehension)]
        given = [loop.target for loop in loops if self._walk.lists(loop.iter, self._listed)]
        inside = {node.id for target in given for node in ast.walk(target) if isinstance(node, ast.Name)}
        for node in expressions:
            if isinstance(node, ast.Call):
                self._walk.opened(node, self._listed | inside, guarded=guarded)
                name = getattr(node.func, "id", "")
                if name in self._functions and name not in self._calling:
                    self._calling.add(name)
                    self._enter(self._functions[name], guarded)
                    self._calling.discard(name)

    def _enter(self, function: ast.FunctionDef, guarded: bool) -> None:  # noqa: FBT001
        """Walk a function; its variables are its own, and what its parameters are given is not followed."""
        outside = self._listed
        self._listed = outside - {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
        self.body(function.body, guarded)
        self._listed = outside


def _imported(statement: ast.Import | ast.ImportFrom, inside: str) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            parts = alias.name.split(".")
            yield from (".".join(parts[: length + 1]) for length in range(len(parts)))
        return
    base = inside.split(".")[: len(inside.split(".")) - statement.level + 1] if statement.level else []
    origin = ".".join([*base, *([statement.module] if statement.module else [])])
    yield origin
    yield from (f"{origin}.{alias.name}" for alias in statement.names)


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler catches a failed load and goes on, instead of raising something itself."""
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else _CATCHING
    # An exception of the package's own is raised for one that it has caught.
    catches = bool(names & _CATCHING) or any(not name.endswith("Error") for name in names)
    return catches and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, without those of the statements inside of it."""
    waiting: list[ast.AST] = [item for item in ast.iter_child_nodes(statement) if not isinstance(item, ast.stmt)]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.Lambda):
            waiting += [item for item in ast.iter_child_nodes(node) if not isinstance(item, ast.stmt)]


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _texts(call: ast.Call) -> Iterator[str]:
    return (node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str))
