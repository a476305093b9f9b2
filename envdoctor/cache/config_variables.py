"""Which environment variables change torch's compile configuration, read from the installed configuration modules.

FxGraphHashDetails hashes the whole inductor configuration and AOTAutogradCacheDetails the whole functorch one, so a
variable that one of their values is computed from is a part of the key. Both modules are parsed, never imported.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.cache.default_values import same_as_unset
from envdoctor.errors import ProbeError
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen

_MAXIMUM_SOURCE = 8 << 20
_MODULES = ("_inductor/config.py", "_inductor/config_comms.py", "_functorch/config.py")
# Names that FxGraphHashDetails reads by themselves: trace.provenance_tracking_level.
_HASHES = "_inductor/codecache.py"
_CONFIG_READ = re.compile(rb"\bconfig\.([A-Za-z_][\w.]*)")
_IGNORED = "_cache_config_ignore_prefix"
# Set by every launcher for every rank, and read only where something is printed or written for a person.
_NOT_IN_THE_KEY = frozenset({"TORCHINDUCTOR_CACHE_DIR"})


@frozen
class VariableSetting:
    """What one variable sets."""

    variable: str
    sets: tuple[str, ...]
    """Configuration values, by name ("max_autotune")."""
    expressions: tuple[ast.expr | None, ...] = ()
    """How each is computed; None where a function does it."""

    def at_default(self, value: str) -> bool:
        """Tell whether the value changes none of them, as `X=0` often does."""
        return all(
            expression is not None and same_as_unset(expression, self.variable, value)
            for expression in self.expressions
        )


def variables(torch: Path) -> Mapping[str, VariableSetting]:
    """Return variable -> what it sets, for those that enter a key.

    Raises ProbeError when a module is there and cannot be read or parsed; a module this torch does not have is skipped.
    """
    found: dict[str, list[tuple[str, ast.expr | None]]] = {}
    hashed = _hashed_by_name(torch / _HASHES)
    for module in _MODULES:
        try:
            tree = ast.parse(read_regular(torch / module, _MAXIMUM_SOURCE))
        except FileNotFoundError:
            continue
        except (OSError, SyntaxError, ValueError) as error:
            raise ProbeError(f"{torch / module}: {error}") from error
        ignored = _ignored_prefixes(tree)
        for name, variable, expression in _settings(tree):
            if (name in hashed or not name.startswith(ignored)) and variable not in _NOT_IN_THE_KEY:
                found.setdefault(variable, []).append((name, expression))
    return {
        variable: VariableSetting(
            variable=variable,
            sets=tuple(sorted({name for name, _ in settings})),
            expressions=tuple(expression for _, expression in settings),
        )
        for variable, settings in sorted(found.items())
    }


def _hashed_by_name(path: Path) -> frozenset[str]:
    """Return the configuration values that torch hashes although their prefix is left out of the configuration."""
    try:
        source = read_regular(path, _MAXIMUM_SOURCE)
    except OSError:
        return frozenset()
    start = source.find(b"\nclass FxGraphHashDetails")
    body = source[start : source.find(b"\nclass ", start + 1)] if start >= 0 else b""
    return frozenset(name.decode() for name in _CONFIG_READ.findall(body))


def _ignored_prefixes(tree: ast.Module) -> tuple[str, ...]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign | ast.Assign) and _IGNORED in _targets(node) and node.value is not None:
            return tuple(ast.literal_eval(node.value))
    return ()


def _settings(tree: ast.Module) -> Iterator[tuple[str, str, ast.expr | None]]:
    """Yield (configuration value, variable, expression) for every assignment that reads the environment.

    The expression is None where it does so by a call.
    """
    called = {node.name: set(_reads(node)) for node in tree.body if isinstance(node, ast.FunctionDef)}
    yield from _in_body(tree.body, "", called)


def _in_body(
    body: list[ast.stmt], prefix: str, called: Mapping[str, set[str]]
) -> Iterator[tuple[str, str, ast.expr | None]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _in_body(node.body, f"{prefix}{node.name}.", called)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            read: dict[str, ast.expr | None] = dict.fromkeys(_reads(node.value), node.value)
            for name in _names(node.value):
                read |= dict.fromkeys(called.get(name, set()))
            for target in _targets(node):
                yield from ((prefix + target, variable, expression) for variable, expression in read.items())
        elif isinstance(node, ast.If):
            yield from _in_body([*node.body, *node.orelse], prefix, called)


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _reads(node: ast.AST) -> Iterator[str]:
    """Yield the variables an expression or a function reads, through os.environ, os.getenv or torch's own Config()."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            function = ast.unparse(inner.func)
            if function in {"os.environ.get", "os.getenv", "environ.get", "getenv"} and inner.args:
                yield from _text(inner.args[0])
            for keyword in inner.keywords:
                if keyword.arg in {"env_name_force", "env_name_default"}:
                    yield from _text(keyword.value)
        elif isinstance(inner, ast.Subscript) and ast.unparse(inner.value) == "os.environ":
            yield from _text(inner.slice)


def _text(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value
