"""Which picture a command has: what it shows, its legend, and why it is not there."""

from collections.abc import Mapping
from typing import Any

from envdoctor.model.frozen import frozen
from envdoctor.report.formats import draw
from envdoctor.report.formats.draw_cache import cache_picture
from envdoctor.report.formats.draw_generations import generations_picture
from envdoctor.report.formats.draw_providers import LAYOUT_MISSING, can_draw, drawn, owners, providers_picture
from envdoctor.report.formats.draw_sides import SideRow, sides_picture


@frozen
class Drawn:
    """A picture with what a reader needs beside it."""

    title: str
    svg: str
    """Empty where it could not be drawn."""
    caption: str
    legend: tuple[tuple[str, str], ...] = ()
    """(class of a swatch, what it means)."""


def picture_of(command: str, document: Mapping[str, Any], *, link: bool) -> Drawn | None:
    """Return the picture of a command's document; None where there is nothing to draw.

    link: boxes lead to parts of the page that it stands in.
    """
    draw = _PICTURES.get(command.partition(" ")[0])
    return draw(document, link=link) if draw else None


def _check(document: Mapping[str, Any], *, link: bool) -> Drawn | None:
    libraries = document.get("stack", {}).get("libraries", ())
    title = "What `import torch` loads, and whose it is"
    if not drawn(libraries):
        return None
    if not can_draw():
        return Drawn(title=title, svg="", caption="Not drawn: {}; {}".format(*LAYOUT_MISSING))
    swatches = [(f"owner-{at % draw.OWNERS}", name) for at, name in enumerate(owners(libraries))]
    return Drawn(
        title=title,
        svg=providers_picture(libraries, link=link),
        caption="An arrow leads from the file that asks for a library to what is loaded. Libraries of the system are "
        "left out where nothing is wrong with them; the list below has them.",
        legend=(("box error", "missing"), ("box warning", "several owners"), *swatches),
    )


def _diff(document: Mapping[str, Any], *, link: bool) -> Drawn | None:
    del link
    rows = [
        SideRow(subject=f"{item['area']}: {item['subject']}", before=item["a"], after=item["b"])
        for item in document["differences"]
    ]
    heads = (f"A  {document['a']['label']}", f"B  {document['b']['label']}")
    title = "The two stacks side by side"
    return Drawn(title=title, svg=sides_picture(title, heads, rows), caption="Only what differs.") if rows else None


def _impact(document: Mapping[str, Any], *, link: bool) -> Drawn | None:
    del link
    rows = [
        SideRow(subject=item["name"], before=item["before"], after=item["after"], kind="ok")
        for item in document["distributions"]
    ]
    for item in document["providers"]:
        if item["used"]:
            before, after = (
                f"{item[f'{key}_owner'] or 'no owner'}: {item[key]}" if item[key] else "" for key in ("before", "after")
            )
            rows.append(SideRow(subject=item["soname"], before=before, after=after))
    title = "The stack before and after"
    caption = "Distributions, then the libraries of torch that would come from elsewhere or nowhere."
    return Drawn(title=title, svg=sides_picture(title, ("before", "after"), rows), caption=caption) if rows else None


def _cache(document: Mapping[str, Any], *, link: bool) -> Drawn | None:
    del link
    if not any(root["files"] for root in document["roots"]):
        return None
    legend = (
        ("box ok", "hit"),
        ("box warning", "miss"),
        ("box error", "damaged"),
        ("box foreign", "others can write it"),
        ("box unknown", "not known: nothing says what filled it"),
    )
    caption = "The width of a bar is the folder's size, of its parts the number of entries."
    return Drawn(title="Compile caches by size and kind", svg=cache_picture(document), caption=caption, legend=legend)


def _history(document: Mapping[str, Any], *, link: bool) -> Drawn | None:
    del link
    if not document["generations"]:
        return None
    legend = (
        ("box warning", "its own: freed when it is removed"),
        ("box", "shared with the venv, uv's cache or others"),
    )
    caption = "Newest first, all bars on one scale."
    return Drawn(title="Backups on disk", svg=generations_picture(document), caption=caption, legend=legend)


def _restore(document: Mapping[str, Any], *, link: bool) -> Drawn | None:
    del link
    rows = [
        SideRow(subject=item["name"], before=item["before"], after=item["after"], kind="ok")
        for item in document["plan"]["changes"]
    ]
    title = "The stack before and after"
    caption = "Only what differs; nothing on the right is removed."
    return Drawn(title=title, svg=sides_picture(title, ("now", "restored"), rows), caption=caption) if rows else None


_PICTURES = {
    "check": _check,
    "diff": _diff,
    "impact": _impact,
    "cache": _cache,
    "history": _history,
    "restore": _restore,
}
