"""A check as it documents itself: its docstring, taken apart."""

import inspect
from collections.abc import Mapping

from envdoctor.model.frozen import frozen

HEADS = ("What it finds", "Why it matters", "Example", "Fix")


@frozen
class Rule:
    """One check as it documents itself."""

    code: str
    name: str
    area: str
    summary: str
    sections: Mapping[str, str]
    """Head -> text, in the order of HEADS."""


def parse(code: str, name: str, area: str, docstring: str) -> Rule:
    """Return the rule a check's docstring describes. Raises ValueError when a head is missing or stands elsewhere."""
    lines = inspect.cleandoc(docstring).splitlines()
    starts = [index for index, line in enumerate(lines) if line.endswith(":") and line[:-1] in HEADS]
    found = tuple(lines[index][:-1] for index in starts)
    if found != HEADS:
        raise ValueError(
            f"{code}: the docstring's heads are {', '.join(found) or 'missing'}; wanted {', '.join(HEADS)}"
        )
    ends = [*starts[1:], len(lines)]
    sections = {
        lines[start][:-1]: inspect.cleandoc("\n".join(["", *lines[start + 1 : end]])).strip()
        for start, end in zip(starts, ends, strict=True)
    }
    return Rule(code=code, name=name, area=area, summary=" ".join(lines[: starts[0]]).strip(), sections=sections)
