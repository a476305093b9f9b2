"""At which line of a lock or a profile something is said."""

import re

from envdoctor.standards.names import normalized

# `name==1`, `name[extra] == 1` (requirements); `name = "x"` (uv, Poetry, PDM, PEP 751); `- name: x` (conda-lock).
_PINNED = re.compile(
    r"""^(?:(?P<pin>[A-Za-z0-9][\w.-]*)(?:\s*\[[^\]]*\])?\s*==|\s*(?:-\s*)?name\s*[=:]\s*["']?(?P<name>[A-Za-z0-9][\w.-]*))"""
)
_TABLE = re.compile(r"^\s*\[+\s*([\w.\"'-]+)\s*\]+")
_KEY = re.compile(r"""^\s*(?:"(?P<quoted>[^"]+)"|(?P<bare>[\w.-]+))\s*=""")


def pinned_lines(text: str) -> dict[str, int]:
    """Return normalized distribution -> the first line of a lock, from 1, that names it. Any tool's lock."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PINNED.match(line):
            found.setdefault(normalized(match["pin"] or match["name"]), number)
    return found


def key_lines(text: str) -> dict[str, int]:
    """Return "table" and "table.key" -> line of a TOML file, from 1; keys of the top level under their own name."""
    table = ""
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TABLE.match(line):
            table = match[1].replace('"', "").replace("'", "")
            found.setdefault(table, number)
        elif match := _KEY.match(line):
            key = match["quoted"] or match["bare"]
            found.setdefault(f"{table}.{key}" if table else key, number)
    return found
