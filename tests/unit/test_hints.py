"""Commands in what is said to a person: each is in backticks, which stay whole on a terminal, and can be pasted."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.factories.run_envdoctor import ROOT

_COMMAND = re.compile(
    r"(?:envdoctor|uv|pip|python[\d.]*|export|unset|rm|mv|cp|cd|env|sudo|apt|git|ssh|scp|kill|ch(?:mod|own)|mkdir|ln|df"
    r"|ssh-keygen) [a-z/.\x00-]|(?:[./]|\x00/)\S* [a-z/.-]"
)
_SPOKEN = re.compile(r"\s*(?:help|hint): ")
_HEAD = re.compile(r"  |: ")
"""In the first line of a report, which names a command and its venv, and in a sentence."""
_PATHS = {"path", "root", "folder", "file", "target", "venv", "prefix", "source", "executable", "where", "keep"}
_QUOTED = re.compile(r"\b(?:quote|join|as_typed)\(|^case\.|NAMESPACE")
"""`case.prefix` and its like are quoted by `analysis/context.py`."""


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for folder in ("envdoctor", "trainer"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def text(node: ast.expr) -> str:
    """Return a text of the code, with a NUL for each value that is written into it; empty for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value.replace("\0", " ") if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) if isinstance(part, ast.Constant) else "\0" for part in node.values)
    if isinstance(node, ast.BinOp):
        return text(node.left) + text(node.right)
    if isinstance(node, ast.IfExp):
        return text(node.body) or text(node.orelse)
    return ""


def hints(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what is given as a hint: an error's second argument, `hint=`, and what is called a hint."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name.endswith("Error") or name == "Interrupted":
                yield from node.args[1:2]
            yield from (one.value for one in node.keywords if one.arg == "hint")
        elif isinstance(node, ast.Assign) and "hint" in ast.unparse(node.targets[0]).lower():
            yield node.value
        elif isinstance(node, ast.JoinedStr | ast.Constant) and _SPOKEN.match(text(node)):
            yield ast.Constant(_SPOKEN.sub("", text(node), count=1), lineno=node.lineno)


def in_commands(node: ast.JoinedStr) -> Iterator[str]:
    """Yield each expression that is written into a command in backticks, or into a text that is one command."""
    values = [ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
    numbers = iter(range(len(values)))
    numbered = re.sub("\0", lambda _: f"\0{next(numbers)}\1", text(node))
    alone = [] if _HEAD.search(numbered) else [numbered]
    for command in (*re.findall("`([^`]*)`", numbered), *alone):
        if _COMMAND.match(command):
            yield from (values[int(at)] for at in re.findall("\0(\\d+)\1", command))


def test_a_hint_is_no_bare_command() -> None:
    found = [(path.name, text(hint)) for path, tree in trees() for hint in hints(tree)]
    assert len(found) > 500
    assert [one for one in found if _COMMAND.match(one[1])] == []


def test_a_path_in_a_command_is_quoted_for_a_shell() -> None:
    found = []
    for path, tree in trees():
        code = ast.unparse(tree)
        for node in ast.walk(tree):
            for value in in_commands(node) if isinstance(node, ast.JoinedStr) else ():
                name = value.rpartition(".")[2]
                quoted = _QUOTED.search(value) or re.search(rf"\b{re.escape(value)} = [^\n]*quote\(", code)
                if name in _PATHS and not quoted:
                    found.append((path.name, node.lineno, value))
    assert found == []
