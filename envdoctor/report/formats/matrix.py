"""The nodes of a fleet by the facts in which they differ, as a table of a page: odd cells are red."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from envdoctor.report.formats.legal import escaped

_DIGEST = re.compile(r"\b(sha256:[0-9a-f]{12})[0-9a-f]{52}\b")
_STATES = {"same": "ok", "differs": "error", "tied": "unknown", "broken": "error", "unknown": "unknown"}
_WORDS = {
    "same": "✓ as most",
    "differs": "✗ differs",
    "tied": "? no majority",
    "broken": "✗ errors",
    "unknown": "? could not tell",
}


def matrix(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table; nothing for a document without nodes."""
    nodes = document.get("nodes")
    if not nodes or "facts" not in document:
        return
    facts = [fact for fact in document["facts"] if fact["others"] or fact["unread"]]
    cells: dict[tuple[int, str], str] = {}
    for at, fact in enumerate(facts):
        tied = [] if fact["settled"] else [fact["usual"]]
        for other in (*fact["others"], *tied):
            mark = 'unknown">?' if tied else 'error">✗'
            text = f'<td class="{mark} {_value(other["value"])}</td>'
            cells |= {(at, name): text for name in other["nodes"]}
        for gap in fact["unread"]:
            text = f'<td class="unknown">? {escaped(gap["reason"])}</td>'
            cells |= {(at, name): text for name in gap["nodes"]}
    usual = [f"<td>{_value(fact['usual']['value'])}</td>" for fact in facts]
    silent = '<td class="unknown">?</td>' * len(facts)
    heads = "".join(f'<th scope="col">{escaped(fact["fact"])}</th>' for fact in facts)
    yield (
        '<section aria-label="Nodes"><h2>Nodes by facts</h2>'
        '<div class="scroll wide" role="region" aria-label="Nodes by facts" tabindex="0">'
        f'<table><thead><tr><th scope="col">Node</th><th scope="col">State</th>{heads}</tr></thead><tbody>'
    )
    for node in nodes:
        name, state = node["name"], node["state"]
        row = silent if node["problem"] else "".join(cells.get((at, name), text) for at, text in enumerate(usual))
        yield (
            f'<tr><th scope="row">{escaped(name)}</th><td class="state {_STATES[state]}">{_WORDS[state]}</td>{row}</tr>'
        )
    yield "</tbody></table></div></section>"


def _value(text: str) -> str:
    """Return a value as a cell has it: of a digest its head, which tells two of them apart."""
    return _DIGEST.sub(r"\1…", escaped(text or "none"))
