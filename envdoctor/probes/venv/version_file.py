"""Constants of a generated version.py, parsed and never run."""

from pathlib import Path

from envdoctor.errors import ProbeError
from envdoctor.facts.regular_file import read_regular

_MAXIMUM = 64 * 1024


def constants(path: Path) -> dict[str, str]:
    """Return the string constants assigned at the top of the file; empty when it does not exist.

    Raises ProbeError when it cannot be parsed.
    """
    try:
        source = read_regular(path, _MAXIMUM)
    except FileNotFoundError:
        return {}
    return constants_of(source, str(path))


def constants_of(source: bytes, name: str) -> dict[str, str]:
    """Return the string constants assigned at the top of a source. Raises ProbeError, with `name`, as `constants`."""
    import ast  # noqa: PLC0415 - it takes longer than most probes, and few files are parsed

    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProbeError(f"{name} cannot be parsed: {error}") from error
    found: dict[str, str] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found |= {target.id: value.value for target in targets if isinstance(target, ast.Name)}
    return found
