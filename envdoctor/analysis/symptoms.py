"""Finds the known error texts of `catalog/symptoms/` in what somebody pasted, or in a log."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from envdoctor.catalog.symptoms.libraries import LIBRARIES
from envdoctor.catalog.symptoms.machine import MACHINE
from envdoctor.catalog.symptoms.modules import MODULES
from envdoctor.model.frozen import frozen
from envdoctor.model.symptom import FoundSymptom, Symptom

SUBJECTS: Mapping[str, tuple[Symptom, ...]] = {
    "Libraries": LIBRARIES,
    "Modules and versions": MODULES,
    "Driver, compilers and launches": MACHINE,
}
"""Subject -> its symptoms, as the page lists them."""
_LONGEST = 4000
MOST_PLACES = 1000
"""How many places of one symptom are looked at."""


@frozen
class _Place:
    symptom: Symptom
    start: int
    end: int
    match: "re.Match[str]"


def recognize(text: str, names: Mapping[str, str]) -> tuple[FoundSymptom, ...]:
    """Return every known text in `text`, by its first place; of two at one place the more special one.

    names: code -> name of every check.
    """
    places: dict[int, list[_Place]] = {}
    for symptoms in SUBJECTS.values():
        for symptom in symptoms:
            for place in _places(symptom, text):
                there = places.setdefault(_line_start(text, place.start), [])
                if not any(
                    other.symptom is symptom or (place.start < other.end and other.start < place.end) for other in there
                ):
                    there.append(place)
    found: dict[str, list[_Place]] = {}
    for place in sorted((place for there in places.values() for place in there), key=lambda place: place.start):
        found.setdefault(" ".join((place.symptom.text, *place.match.groupdict().values())), []).append(place)
    return tuple(_found(group, text, names) for group in found.values())


def containing(words: str, names: Mapping[str, str]) -> tuple[FoundSymptom, ...]:
    """Return the symptoms whose texts contain these words: what a person remembers of a message."""
    asked = " ".join(words.split()).casefold()
    return tuple(
        _found([_own(symptom)], symptom.text, names)
        for symptoms in SUBJECTS.values()
        for symptom in symptoms
        if any(asked in text.casefold() for text in (symptom.text, *symptom.anchors))
    )


def described(symptom: Symptom, names: Mapping[str, str]) -> FoundSymptom:
    """Return what is said of a symptom's own text."""
    return _found([_own(symptom)], symptom.text, names)


def _places(symptom: Symptom, text: str) -> Iterator[_Place]:
    yield from islice((place for anchor in symptom.anchors for place in _of_anchor(symptom, anchor, text)), MOST_PLACES)


def _of_anchor(symptom: Symptom, anchor: str, text: str) -> Iterator[_Place]:
    at = text.find(anchor)
    while at >= 0:
        start = _line_start(text, at)
        stop = text.find("\n", at, at + _LONGEST)
        end = stop if stop >= 0 else min(len(text), at + _LONGEST)
        match = re.search(symptom.pattern or re.escape(anchor), text[start:end])
        if match:
            yield _Place(symptom=symptom, start=start + match.start(), end=start + match.end(), match=match)
        at = text.find(anchor, end)


def _line_start(text: str, at: int) -> int:
    """Return where the line of a place starts; nothing promises that a line of a log is short."""
    nearest = max(0, at - _LONGEST)
    return max(text.rfind("\n", nearest, at) + 1, nearest)


def _own(symptom: Symptom) -> _Place:
    return next(_places(symptom, symptom.text))


def _found(group: list[_Place], text: str, names: Mapping[str, str]) -> FoundSymptom:
    first = group[0]
    symptom = first.symptom
    groups = first.match.groupdict()
    return FoundSymptom(
        text=symptom.text,
        seen="".join(letter if letter.isprintable() else " " for letter in first.match[0]),
        line=text.count("\n", 0, first.start) + 1,
        times=len({_line_start(text, place.start) for place in group}),
        meaning=symptom.meaning,
        causes=tuple((code, names.get(code, ""), what) for code, what in symptom.causes),
        commands=tuple(command.format_map(groups) for command in symptom.commands),
    )
