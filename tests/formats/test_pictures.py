"""What the pictures are made from: fates of cache entries, room of backups, sides of a change."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from envdoctor.report.formats import draw
from envdoctor.report.formats.draw_cache import cache_picture, parts
from envdoctor.report.formats.draw_generations import generations_picture
from envdoctor.report.formats.draw_sides import ROWS_DRAWN, SideRow, sides_picture

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    return [item.text or "" for item in ET.fromstring(picture).iter(f"{SVG}text")]


def widths(picture: str) -> list[tuple[str, float]]:
    found = ET.fromstring(picture).iter(f"{SVG}rect")
    return [(item.get("class", ""), float(item.get("width", ""))) for item in found]


def cache(state: str = "hit", **more: Any) -> dict[str, Any]:
    root = {
        "kind": "inductor",
        "path": "/cache",
        "bytes": 1000,
        "files": 12,
        "entries": {"fx graph": 4, "c++ kernel": 8},
        "warnings": [],
    }
    comparison: dict[str, Any] = {"differences": more.pop("differences", [])}
    return {
        "state": state,
        "key_digest": "abc",
        "damaged": more.pop("damaged", []),
        "match": more.pop("match", {"comparison": comparison}),
        "roots": [root | more],
    }


@pytest.mark.parametrize(
    ("document", "fates"),
    [
        (cache(), [("fx graph", "hit", 4), ("c++ kernel", "hit", 8)]),
        (cache("miss"), [("fx graph", "miss", 4), ("c++ kernel", "miss", 8)]),
        (
            cache("partial", differences=[{"reaches": ["fx graph"]}]),
            [("fx graph", "miss", 4), ("c++ kernel", "hit", 8)],
        ),
        (cache("unknown", match=None), [("fx graph", "not known", 4), ("c++ kernel", "not known", 8)]),
        (
            cache("partial", damaged=[{"root": "inductor", "files": ["ab/cab.main.so"]}]),
            [("fx graph", "hit", 4), ("c++ kernel", "damaged", 1), ("c++ kernel", "hit", 7)],
        ),
        (
            cache(warnings=["/cache can be written by everybody: torch runs the code that is in it"]),
            [("fx graph", "foreign", 4), ("c++ kernel", "foreign", 8)],
        ),
    ],
    ids=["hit", "miss", "a key reaches one kind", "not known", "damaged", "foreign"],
)
def test_the_fate_of_cache_entries(document: dict[str, Any], fates: list[tuple[str, str, int]]) -> None:
    assert parts(document["roots"][0], document) == fates


def test_a_bar_is_as_wide_as_its_folder_is_large() -> None:
    document = cache()
    document["roots"].append(document["roots"][0] | {"kind": "triton", "bytes": 250, "entries": {"triton kernel": 1}})
    assert widths(cache_picture(document)) == [("box ok", 292.0), ("box ok", 584.0), ("box ok", 219.0)]


def test_a_part_of_a_bar_says_as_much_as_fits_and_the_line_below_says_all() -> None:
    entries = {"fx graph": 30, "c++ kernel": 8, "python wrapper": 1}
    shown = texts(cache_picture(cache(entries=entries)))
    assert shown[2:] == [
        "30 fx graph: hit",
        "8 c++ kernel: hit",
        "1",
        "hit: 30 fx graph, 8 c++ kernel, 1 python wrapper",
    ]


def test_backups_show_what_removing_them_frees() -> None:
    space = {"bytes": 4000, "frees": 1000, "shared": 3000}
    item = {"number": 2, "torch": "2.10", "profile": "good", "made_at": "2026-11-30", "space": space}
    smaller = item | {"number": 1, "space": {"bytes": 2000, "frees": 0, "shared": 2000}}
    picture = generations_picture({"current": None, "generations": [item, smaller]})
    assert widths(picture) == [("box", 876.0), ("box warning", 219.0), ("box", 438.0), ("box warning", 0.0)]
    assert texts(picture)[:3] == [
        "now   no venv",
        "2   torch 2.10   profile good   made 2026-11-30",
        "4 kB, of which 1 kB its own: what removing it frees",
    ]


def test_more_rows_than_are_drawn_are_counted() -> None:
    rows = [SideRow(subject=str(number), before="a", after="") for number in range(ROWS_DRAWN + 3)]
    assert texts(sides_picture("title", ("A", "B"), rows))[-1] == "and 3 more"


def test_a_long_name_is_shortened_in_its_middle_and_whole_in_its_title() -> None:
    name = "libnvrtc-builtins.so.12.8"
    shown = draw.label(0, 0, name, room=100)
    assert re.sub("<.*?>", " ", shown).split() == [name, "libnvr…o.12.8"]
    assert draw.shortened("abc", 3) == "abc"
