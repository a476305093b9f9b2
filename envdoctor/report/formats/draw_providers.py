"""The picture of `import torch`: which file brings which library, from left to right in the order of asking.

Columns and the order within them are laid out by igraph's implementation of Sugiyama's method.
"""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envdoctor.errors import UsageError
from envdoctor.report.formats import draw

LAYOUT_MISSING = (
    "the picture of `import torch` is laid out by igraph, which is not installed",
    "install envdoctor with it, from its checkout: `uv tool install '.[html]'`",
)
_ROOT = "import torch"
_WIDTH, _HEIGHT, _COLUMN, _ROW, _BAND, _MARGIN = 212.0, 34.0, 240.0, 42.0, 8.0, 12.0


def can_draw() -> bool:
    """Tell whether the library that lays the picture out is installed."""
    return importlib.util.find_spec("igraph") is not None


def drawn(libraries: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    """Return the libraries that the picture shows, each with its number; healthy ones of the system are left out."""
    return tuple(
        (number, item)
        for number, item in enumerate(libraries)
        if item["state"] != "loaded" or item["owner"] or item["claimed_by"]
    )


def owners(libraries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return every owner in the picture, the one with most libraries first: its place is its colour."""
    names = [name for _, item in drawn(libraries) for name in (item["claimed_by"] or [item["owner"]]) if name]
    return tuple(sorted(dict.fromkeys(names), key=lambda name: (-names.count(name), name)))


def providers_picture(libraries: Sequence[Mapping[str, Any]], *, link: bool) -> str:
    """Return the picture. `link`: each box leads to `#library-N` of its page. Raises UsageError without igraph."""
    if not can_draw():
        raise UsageError(*LAYOUT_MISSING)
    shown = drawn(libraries)
    edges = tuple(_edges(shown))
    places = _places(len(shown) + 1, edges)
    colors = {name: number % draw.OWNERS for number, name in enumerate(owners(libraries))}
    shapes = [_edge(places[a], places[b], failing=b > 0 and shown[b - 1][1]["state"] == "missing") for a, b in edges]
    shapes.append(_box(places[0], _ROOT, "", "box", []))
    shapes += [
        _library(item, places[at], colors, f"#library-{number}" if link else "")
        for at, (number, item) in enumerate(shown, 1)
    ]
    missing = sum(item["state"] == "missing" for _, item in shown)
    width = max(x for x, _ in places) + _WIDTH + _MARGIN
    height = max(y for _, y in places) + _HEIGHT + _MARGIN
    description = f"{len(shown)} libraries, {missing} missing; an arrow leads from who asks to what is loaded"
    return draw.picture(width, height, "What `import torch` loads, and whose it is", description, shapes)


def _edges(shown: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[int, int]]:
    """Yield (asker, asked); 0 is the import itself, which asks for what no shown file asks for."""
    at = {item["path"]: place for place, (_, item) in enumerate(shown, 1) if item["path"] and item["state"] == "loaded"}
    for place, (_, item) in enumerate(shown, 1):
        askers = dict.fromkeys(at[path] for path in (item["needed_by"], item["asked_by"]) if path in at)
        askers.pop(place, None)
        yield from ((asker, place) for asker in askers or {0: None})


def _places(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    import igraph  # noqa: PLC0415 - an extra

    graph = igraph.Graph(n=count, edges=list(edges), directed=True)
    laid = graph.layout_sugiyama(layers=_layers(count, edges), hgap=1, vgap=1)
    rows = [row for row, _ in laid.coords[:count]]
    columns = [column for _, column in laid.coords[:count]]
    low, left = min(rows), min(columns)
    return [
        (_MARGIN + (column - left) * _COLUMN, _MARGIN + (row - low) * _ROW)
        for row, column in zip(rows, columns, strict=True)
    ]


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the column of each: one more than its last asker's. A circle ends where it began."""
    layers = [0] * count
    for _ in range(count):
        moved = False
        for asker, asked in edges:
            if layers[asked] <= layers[asker] < count - 1:
                layers[asked], moved = layers[asker] + 1, True
        if not moved:
            break
    used = {layer: number for number, layer in enumerate(sorted(set(layers)))}
    return [used[layer] for layer in layers]


def _edge(asker: tuple[float, float], asked: tuple[float, float], *, failing: bool) -> str:
    (x, y), (to_x, to_y) = (asker[0] + _WIDTH, asker[1] + _HEIGHT / 2), (asked[0], asked[1] + _HEIGHT / 2)
    bend = max(24.0, (to_x - x) / 2)
    path = f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    return draw.element("path", d=path, class_="edge error" if failing else "edge")


def _library(item: Mapping[str, Any], place: tuple[float, float], colors: Mapping[str, int], link: str) -> str:
    claims, missing = item["claimed_by"], item["state"] == "missing"
    owner = item["owner"] or ("no GPU driver here" if item["state"] == "no driver" else "no owner known")
    contested = len(claims) > 1
    second = f"missing: {owner}" if missing else f"{len(claims)} owners" if contested else owner
    kind = "box error" if missing else "box warning" if contested else "box"
    bands = [colors.get(name, -1) for name in (claims if contested else [item["owner"] or ""])]
    shown = f"✗ {owner}" if missing else second
    group = draw.element(
        "g", _box(place, item["soname"], shown, kind, bands), class_="healthy" if kind == "box" else "hurt"
    )
    told = f"{item['soname']}: {' and '.join(claims) if contested else second}"
    return draw.element("a", group, href=link, aria_label=told) if link else group


def _box(place: tuple[float, float], name: str, second: str, kind: str, bands: Sequence[int]) -> str:
    x, y = place
    each = _HEIGHT / max(1, len(bands))
    shapes = [draw.element("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=3, class_=kind)]
    for number, color in enumerate(bands):
        kind_of_band = f"owner-{color}" if color >= 0 else "nobody"
        shapes.append(draw.element("rect", x=x, y=y + number * each, width=_BAND, height=each, class_=kind_of_band))
    room = _WIDTH - _BAND - 12
    left = x + _BAND + 6
    shapes.append(draw.label(left, y + (14 if second else 21), name, kind="strong" if kind != "box" else "", room=room))
    shapes += [draw.label(left, y + 28, second, kind="dim", room=room)] if second else []
    return "".join(shapes)
