"""Start-up code that certainly ends every start of the interpreter: found in the syntax tree, never run.

Lib/site.py catches Exception around each import line of a .pth file and around sitecustomize and usercustomize: a
module that is missing or an ImportError is printed, and Python goes on. What ends the start is what it does not catch
(SystemExit, KeyboardInterrupt, GeneratorExit, BaseException), and os._exit and os.abort, which nothing can catch.
Only what runs whatever the conditions counts: statements of the module itself, functions that it calls, both branches
of an `if`, a handler whose import is missing, and the modules that it imports.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from envdoctor.facts.regular_file import read_prefix
from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.import_closure import imports_of, module_file

if TYPE_CHECKING:
    import ast

_MAXIMUM, _DEEPEST = 1024 * 1024, 8
_SIGN = pattern(rb"SystemExit|KeyboardInterrupt|GeneratorExit|BaseException|exit|quit|abort")
_SEVERAL = pattern(rb";[ \t]*")
_LEAVES = frozenset({"SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"})
_CALLS = frozenset({"sys.exit", "os._exit", "os.abort", "exit", "quit"})
_MISSING = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


@frozen
class End:
    """The statement at which a start ends."""

    path: str
    line: int
    """0 for a line of a .pth file: its text is the line."""
    text: str
    """"sys.exit(1)", the beginning of a long one."""


@frozen
class _Raises:
    """An Exception, which site.py catches: what follows is not run."""

    module: str = ""
    """The missing module, if it is for that."""


Outcome = End | _Raises | None
"""None: it runs on, as far as can be told."""


def end_of_line(line: str, path: str, folders: Sequence[str], standard: Callable[[str], bool]) -> Outcome:
    """Return where one import line of a .pth file ends the start; `folders` is sys.path without the standard library.

    `standard` tells whether the standard library has a module of that name.
    """
    # site.py runs it among its own names; exit() and quit() do not exist yet.
    walk = _Walk(path=path, folders=folders, standard=standard, names={"sys": "sys", "os": "os"}, builtins=False)
    return walk.source(line.encode("utf-8", "surrogateescape"), first=0)


def end_of_module(path: str, folders: Sequence[str], standard: Callable[[str], bool]) -> Outcome:
    """Return where sitecustomize or usercustomize, imported from `path`, ends the start."""
    return _Walk(path=path, folders=folders, standard=standard).file()


@mutable
class _Walk:
    """One module, walked in the order in which it runs."""

    path: str
    folders: Sequence[str]
    standard: Callable[[str], bool]
    names: dict[str, str] = field(default_factory=dict)
    """Name in the module -> "sys", "sys.exit"; empty for one that the module itself defines as something else."""
    functions: "dict[str, list[ast.stmt]]" = field(default_factory=dict)
    builtins: bool = True
    depth: int = 0
    lines: list[str] = field(default_factory=list)
    offset: int = 0

    def file(self) -> Outcome:
        try:
            text = read_prefix(self.path, _MAXIMUM)
        except OSError:
            return None
        return self.source(text)

    def source(self, text: bytes, first: int = 1) -> Outcome:
        if not _SIGN.search(text):
            # Nothing of its own can end a start, but what it imports can: told without the syntax tree, for speed.
            for one in imports_of(_SEVERAL.sub(b"\n", text)):
                if not one.module.startswith(".") and self._enter(one.module) is not None:
                    break
            else:
                return None
        import ast  # noqa: PLC0415 - it takes longer than most probes, and few files are parsed

        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return _Raises()
        self.lines, self.offset = text.decode("utf-8", "replace").splitlines(), first - 1
        return self._all(tree.body)

    def _all(self, statements: "Sequence[ast.stmt]") -> Outcome:
        import ast  # noqa: PLC0415 - as above

        for statement in statements:
            outcome = self._one(statement)
            if outcome is not None:
                return outcome
            # In a function: it may be left here, and then nothing of what follows runs.
            if any(isinstance(node, ast.Return) for node in _run(statement)):
                return None
        return None

    def _one(self, node: "ast.stmt") -> Outcome:
        import ast  # noqa: PLC0415 - as above

        match node:
            case ast.Raise():
                return self._raise(node)
            case ast.Expr(value=ast.Call() as call):
                return self._call(node, call)
            case ast.Import() | ast.ImportFrom():
                return self._imports(node)
            case ast.If():
                return self._if(node)
        if isinstance(node, ast.Try):
            return self._try(node)
        self._define(node)
        return None

    def _define(self, node: "ast.stmt") -> None:
        import ast  # noqa: PLC0415 - as above

        match node:
            case ast.FunctionDef(decorator_list=[]):
                self.names[node.name] = ""
                self.functions[node.name] = node.body
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.names[node.name] = ""
            case ast.Assign():
                self.names.update({target.id: "" for target in node.targets if isinstance(target, ast.Name)})

    def _raise(self, node: "ast.Raise") -> Outcome:
        import ast  # noqa: PLC0415 - as above

        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        name = raised.id if isinstance(raised, ast.Name) else ""
        return self._end(node) if name in _LEAVES and name not in self.names else _Raises()

    def _end(self, node: "ast.stmt") -> End:
        text = self.lines[node.lineno - 1].strip() if node.lineno <= len(self.lines) else ""
        return End(path=self.path, line=node.lineno + self.offset, text=text[:200])

    def _named(self, node: "ast.expr") -> str:
        """Return "sys.exit" for an expression that means it; empty for anything else."""
        import ast  # noqa: PLC0415 - as above

        match node:
            case ast.Name(id=name):
                return self.names.get(name, name if self.builtins and name in ("exit", "quit") else "")
            case ast.Attribute(value=value, attr=attr):
                module = self._named(value)
                return f"{module}.{attr}" if module else ""
            case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(module)), *_]):
                return module
        return ""

    def _call(self, node: "ast.stmt", call: "ast.Call") -> Outcome:
        import ast  # noqa: PLC0415 - as above

        if self._named(call.func) in _CALLS:
            return self._end(node)
        if isinstance(call.func, ast.Name) and call.func.id in self.functions and self.depth < _DEEPEST:
            # Once: a function that calls itself is not followed for ever.
            body = self.functions.pop(call.func.id)
            return self._all(body)
        return None

    def _imports(self, node: "ast.Import | ast.ImportFrom") -> Outcome:
        import ast  # noqa: PLC0415 - as above

        if isinstance(node, ast.ImportFrom):
            return self._from(node)
        for alias in node.names:
            outcome = self._enter(alias.name)
            if outcome is not None:
                return outcome
            self.names[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
        return None

    def _from(self, node: "ast.ImportFrom") -> Outcome:
        if node.level or not node.module:
            return None
        outcome = self._enter(node.module)
        for alias in node.names:
            self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return outcome

    def _enter(self, module: str) -> Outcome:
        """Walk what an import of the module runs: each package on its way, and itself."""
        parts = module.split(".")
        if self.standard(parts[0]):
            return None
        folder = next((folder for folder in self.folders if _has(folder, parts[0])), "")
        if not folder:
            return _Raises(module=parts[0])
        for length in range(1, len(parts) + 1):
            path = module_file(folder, ".".join(parts[:length]))[0]
            if path and path != self.path and self.depth < _DEEPEST:
                inner = _Walk(path=path, folders=self.folders, standard=self.standard, depth=self.depth + 1)
                if (outcome := inner.file()) is not None:
                    return outcome
        return None

    def _if(self, node: "ast.If") -> Outcome:
        import ast  # noqa: PLC0415 - as above

        if isinstance(node.test, ast.Constant):
            return self._all(node.body if node.test.value else node.orelse)
        if ast.unparse(node.test).startswith("__name__ =="):
            return self._all(node.orelse)
        one, other = self._all(node.body), self._all(node.orelse)
        return one if isinstance(one, End) and isinstance(other, End) else None

    def _try(self, node: "ast.Try") -> Outcome:
        outcome = self._all(node.body)
        if isinstance(outcome, End) and not _uncatchable(outcome):
            # Which handler takes it is not asked: one that takes everything is enough to go on.
            outcome = self._all(node.finalbody) if node.handlers else outcome
        elif isinstance(outcome, _Raises):
            outcome = self._handled(node, outcome)
        elif outcome is None:
            outcome = self._all(node.orelse)
        return outcome if outcome is not None else self._all(node.finalbody)

    def _handled(self, node: "ast.Try", raised: _Raises) -> Outcome:
        import ast  # noqa: PLC0415 - as above

        for handler in node.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            takes = any(kind is None or (isinstance(kind, ast.Name) and kind.id in _MISSING) for kind in kinds)
            if raised.module and takes:
                return self._all(handler.body)
        # Of another exception it is not known which handler takes it, and what happens then.
        return None if node.handlers else raised


def _run(statement: "ast.stmt") -> "list[ast.AST]":
    """Return the nodes of a statement that belong to the same function."""
    import ast  # noqa: PLC0415 - as above

    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    found: list[ast.AST] = [statement]
    for child in ast.iter_child_nodes(statement):
        found += _run(child) if isinstance(child, ast.stmt | ast.ExceptHandler) else []  # type: ignore[arg-type]
    return found


def _uncatchable(end: End) -> bool:
    return "_exit" in end.text or "abort" in end.text


def _has(folder: str, name: str) -> bool:
    try:
        return any(entry.partition(".")[0] == name for entry in os.listdir(folder))  # noqa: PTH208 - names only
    except OSError:
        return True  # what it holds is not known
