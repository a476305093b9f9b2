"""One self-contained page: no script, nothing fetched, readable by keyboard and screen reader, light and dark.

The first cause comes first with its owner and its command, before its evidence. A Content-Security-Policy forbids the
page itself to load anything or to run a script, whatever a name in it may hold.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envdoctor.model.wording import counted
from envdoctor.report.formats.legal import escaped
from envdoctor.report.formats.matrix import matrix
from envdoctor.report.formats.outline import Outline, OutlineEntry
from envdoctor.report.formats.page_style import COLORS, PAGE, PICTURE
from envdoctor.report.formats.pictures import Drawn, picture_of

_CODE = re.compile(r"`([^`\n]+)`")
_FEW = 3
_LISTED = 25
_LISTS = ("history", "restore")
"""Commands that look for nothing."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STATES = {
    "ok": "✓ ok",
    "note": "i note",
    "warning": "! warning",
    "error": "✗ error",
    "unknown": "? could not tell",
    "not-applicable": "– not there",
}


def render(outline: Outline, document: Mapping[str, Any]) -> str:
    """Return the page."""
    title = f"envdoctor {outline.command}: {outline.conclusion}"
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{COLORS}{PAGE}{PICTURE}</style>\n</head>\n<body>\n"
        f"{body(outline, document)}\n</body>\n</html>\n"
    )


def body(outline: Outline, document: Mapping[str, Any]) -> str:
    """Return what is between the tags of the body."""
    return "\n".join(_body(outline, document))


def _body(outline: Outline, document: Mapping[str, Any]) -> Iterator[str]:
    yield '<header><a class="skip" href="#causes">Skip to the causes</a>'
    headline, _, more = outline.conclusion.partition("; ")
    yield f"<h1>envdoctor {escaped(outline.command)}: {marked(headline)}</h1>"
    told = (("", outline.subject), *outline.context)
    spans = "".join(f"<span>{escaped(f'{name} {value}'.strip())}</span>" for name, value in told)
    yield f'<p class="context">{spans}</p>'
    yield f'<p class="context">{marked(more)}</p></header>' if more else "</header>"
    yield '<main>\n<section id="causes" aria-label="Causes">'
    owners = outline.distributions
    for number, bundle in enumerate(outline.bundles):
        if len(bundle) <= _FEW:
            for at, (one, its) in enumerate(bundle):
                yield _cause(one, its, f"{number}-{at}", owned=bool(_names(one) & owners.keys()))
        else:
            yield _bundle(bundle[0][0], [one.line for one, _ in bundle], f"{number}")
    if not outline.entries and outline.command not in _LISTS:
        yield f"<p>Nothing was found{' in what could be read' if outline.gaps else ''}.</p>"
    yield "</section>"
    yield from _gaps(outline)
    yield from _rows(outline)
    yield from matrix(document)
    drawn = picture_of(outline.command, document, link=True)
    if drawn:
        yield figure(drawn)
    yield from _libraries(outline, document.get("stack", {}).get("libraries", ()))
    yield from _stack(outline)
    yield "</main>"
    yield f"<footer><p>exit code {outline.exit_code}, envdoctor {escaped(outline.tool_version)}</p></footer>"


def _names(entry: OutlineEntry) -> set[str]:
    return set(entry.subject.replace(" / ", ", ").split(", "))


def _bundle(entry: OutlineEntry, lines: list[str], number: str) -> str:
    """Return many causes of one kind as one list."""
    head = f'<span class="badge">{entry.level} {escaped(entry.code)}</span>: {counted(len(lines), "finding")}'
    left = lines[_LISTED:]
    more = f"<details><summary>{len(left)} more</summary>{_listed(left, 'evidence')}</details>" if left else ""
    return (
        f'<article class="{entry.level}" aria-labelledby="cause-{number}"><h2 id="cause-{number}">{head}</h2>'
        f"{_listed(lines[:_LISTED], 'evidence')}{more}</article>"
    )


def _cause(entry: OutlineEntry, others: tuple[OutlineEntry, ...], number: str, *, owned: bool) -> str:
    head = f'<span class="badge">{entry.level} {escaped(entry.code)}</span>: {marked(entry.title)}'
    place = f" · {escaped(entry.place.file)}, line {entry.place.line}" if entry.place else ""
    parts = [f'<article class="{entry.level}" aria-labelledby="cause-{number}"><h2 id="cause-{number}">{head}</h2>']
    if entry.subject:
        parts.append(f'<p class="about"><b>{"Owner" if owned else "About"}</b> {escaped(entry.subject)}{place}</p>')
    if entry.remedy:
        parts.append(f"<p><b>Fix</b> {marked(entry.remedy)}</p>")
    parts += [command(text) for text in entry.commands]
    parts.append(_listed(entry.evidence, "evidence"))
    if entry.confidence != "high":
        parts.append(f"<p>Confidence: {entry.confidence}</p>")
    if others:
        listed = _listed([f"{other.code} {other.name}: {other.title}" for other in others], "evidence")
        # A few are shown: one of them is what the reader has seen.
        shown = " open" if len(others) <= _FEW else ""
        parts.append(
            f"<details{shown}><summary>Explains {counted(len(others), 'more finding')}</summary>{listed}</details>"
        )
    if entry.by_hand:
        by_hand = "".join(command(text) for text in entry.by_hand)
        parts.append(f"<details><summary>The same by hand, in the venv itself</summary>{by_hand}</details>")
    return "".join(parts) + "</article>"


def command(text: str) -> str:
    """Return a command as a block that one click selects whole."""
    # A line ends between two words only, not at the hyphen of a name.
    words = " ".join(f"<span>{word}</span>" if "-" in word else word for word in escaped(text).split(" "))
    return f'<pre class="command"><code>{words}</code></pre>'


def marked(text: str) -> str:
    """Return a sentence with what stands in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escaped(text))


def _listed(lines: tuple[str, ...] | list[str], kind: str) -> str:
    return f'<ul class="{kind}">{"".join(f"<li>{marked(line)}</li>" for line in lines)}</ul>' if lines else ""


def _gaps(outline: Outline) -> Iterator[str]:
    if outline.gaps:
        lines = [f"{gap.code} {gap.name}: {gap.reason}" for gap in outline.gaps]
        yield f'<section aria-label="Could not tell"><h2>Could not tell</h2>{_listed(lines, "evidence")}</section>'
    if outline.waived:
        lines = [f"{item.entry.code} {item.entry.title}, because: {item.reason}" for item in outline.waived]
        yield f'<section aria-label="Waived"><h2>Waived</h2>{_listed(lines, "evidence")}</section>'


def _rows(outline: Outline) -> Iterator[str]:
    if not outline.rows:
        return
    rows = "".join(
        f'<tr><td class="state {row.state}">{_STATES[row.state]}</td><th scope="row">{escaped(row.area)}</th>'
        f"<td>{marked(row.summary)}</td></tr>"
        for row in outline.rows
    )
    yield (
        '<section aria-label="Looked at"><h2>Looked at</h2><table><thead><tr><th scope="col">State</th>'
        f'<th scope="col">Area</th><th scope="col">Found</th></tr></thead><tbody>{rows}</tbody></table></section>'
    )


def figure(drawn: Drawn) -> str:
    """Return a picture with its caption and its legend, scrolled by itself where it is wider than the page."""
    legend = "".join(
        f'<li><svg class="picture" aria-hidden="true" viewBox="0 0 14 14"><rect x="1" y="1" width="12" height="12" '
        f'class="{kind}"/></svg>{escaped(text)}</li>'
        for kind, text in drawn.legend
    )
    listed = f'<ul class="legend">{legend}</ul>' if legend else ""
    inner = f'<div class="scroll" role="region" aria-label="{escaped(drawn.title)}" tabindex="0">{drawn.svg}</div>'
    return (
        f"<section><h2>{marked(drawn.title)}</h2><figure>{inner if drawn.svg else ''}"
        f"<figcaption>{escaped(drawn.caption)}</figcaption></figure>"
        f"{listed}</section>"
    )


def _libraries(outline: Outline, libraries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not libraries:
        return
    rows = "".join(_library(item, number, outline.subject) for number, item in enumerate(libraries))
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("Library", "Owner", "From", "Asked for by", "More"))
    yield (
        '<section id="libraries"><h2>Libraries of <code>import torch</code></h2>'
        '<div class="scroll" role="region" aria-label="Libraries of import torch" tabindex="0"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _library(item: Mapping[str, Any], number: int, venv: str) -> str:
    claims = item["claimed_by"] if len(item["claimed_by"]) > 1 else []
    owner = " and ".join(claims) or item["owner"] or "no distribution"
    owner += f" {item['version']}" if item["version"] and not claims else ""
    place = {"loaded": item["path"], "missing": "missing", "no driver": "not there: no GPU driver"}[item["state"]]
    kind = "error" if item["state"] == "missing" else "warning" if claims else ""
    cells = (
        owner,
        place or "",
        item["needed_by"] or "",
        shlex.join(("envdoctor", "why", item["soname"], "--venv", venv)),
    )
    return (
        f'<tr id="library-{number}"><th scope="row">{escaped(item["soname"])}</th>'
        f'<td class="{kind}">{escaped(cells[0])}</td><td class="{kind}">{_path(cells[1])}</td>'
        f"<td>{_path(cells[2])}</td><td><code>{escaped(cells[3])}</code></td></tr>"
    )


def _path(text: str) -> str:
    return escaped(text).replace("/", "/<wbr>")


def _stack(outline: Outline) -> Iterator[str]:
    if outline.machine:
        rows = "".join(
            f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>' for name, value in outline.machine
        )
        yield f"<section><h2>Machine</h2><table><tbody>{rows}</tbody></table></section>"
    if outline.distributions:
        lines = [f"{name} {version}" for name, version in outline.distributions.items()]
        summary = counted(len(lines), "distribution")
        yield f"<section><details><summary>{summary}</summary>{_listed(lines, 'evidence')}</details></section>"
