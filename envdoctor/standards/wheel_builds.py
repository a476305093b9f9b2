"""Which of several builds of a wheel an interpreter takes: the order of Python tags and ABIs, without packaging.

The order is that of `packaging.tags` (PEP 425). The glibc of a platform tag does not count in it: two wheels of one
Python tag and ABI for two versions of glibc are one build. Whether it fits is asked apart (`needed_glibc`).
"""

from collections.abc import Iterable
from functools import lru_cache

from envdoctor.model.pattern import pattern

_TAGS = pattern(r"[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+")
_PARTS_OF_A_NAME = 5
_MANYLINUX = pattern(r"manylinux(?:_(\d+)_(\d+)|2014|2010|1)_")
_NAMED = {"manylinux2014_": (2, 17), "manylinux2010_": (2, 12), "manylinux1_": (2, 5)}
"""PEPs 513, 571 and 599; PEP 600 has the version in the tag."""
_ANY = 10_000
"""Wheels for every machine come after those for this one."""
_PURE = 1_000


def tags_in(filename: str) -> str:
    """Return the tags in a wheel's file name ("cp312-abi3-manylinux2014_x86_64"); "" where it has none."""
    parts = filename.removesuffix(".whl").split("-")
    tags = "-".join(parts[-3:])
    return tags if len(parts) >= _PARTS_OF_A_NAME and is_tags(tags) else ""


def is_tags(text: str) -> bool:
    """Tell whether a text is a set of tags, as in a file name."""
    return _TAGS.fullmatch(text) is not None


def expanded(tags: str) -> list[str]:
    """Return each single tag of a compressed set: "py2.py3-none-any" is two."""
    pythons, abis, platforms = (part.split(".") for part in tags.split("-"))
    return [f"{python}-{abi}-{platform}" for python in pythons for abi in abis for platform in platforms]


def first_place(tags: Iterable[str], python: str, machine: str, *, free_threaded: bool) -> int | None:
    """Return the place of the tag that fits best, smaller is better; None where none fits.

    tags: single tags. python: "3.12". machine: "x86_64".
    """
    places = (place(tag, python, machine, free_threaded=free_threaded) for tag in tags)
    return min((found for found in places if found is not None), default=None)


def needed_glibc(tag: str) -> tuple[int, int] | None:
    """Return the glibc that a single tag asks for at least; None for a tag that asks for none ("linux_x86_64")."""
    match = _MANYLINUX.match(tag.rpartition("-")[2])
    if match is None:
        return None
    return (int(match[1]), int(match[2])) if match[1] else _NAMED[match[0]]


@lru_cache(maxsize=4096)
def place(tag: str, python: str, machine: str, *, free_threaded: bool) -> int | None:
    """Return the place of one tag in the interpreter's order of builds, or None where it does not fit."""
    parts = tag.split("-")
    stated = python.partition(".")[2]
    if len(parts) != 3 or not stated.isdecimal():
        return None
    interpreter, abi, platform = parts
    own = int(stated)
    if platform == "any":
        return _for_any(interpreter, own) if abi == "none" else None
    if not (platform.startswith(("linux_", "manylinux")) and platform.endswith(f"_{machine}")):
        return None
    compiled = _compiled(interpreter, abi, own, free_threaded=free_threaded)
    if compiled is not None or abi != "none":
        return compiled
    pure = _pure(interpreter, own)
    return None if pure is None else _PURE + pure


def _for_any(interpreter: str, own: int) -> int | None:
    if interpreter == f"cp3{own}":
        return _ANY
    pure = _pure(interpreter, own)
    return None if pure is None else _ANY + 1 + pure


def _compiled(interpreter: str, abi: str, own: int, *, free_threaded: bool) -> int | None:
    if not (interpreter.startswith("cp3") and interpreter[3:].isdecimal()):
        return None
    built = int(interpreter[3:])
    if built == own and abi in (f"cp3{own}{'t' if free_threaded else ''}", "none"):
        return 2 if abi == "none" else 0
    if abi == "abi3" and not free_threaded and 2 <= built <= own:
        return 1 if built == own else 2 + own - built
    return None


def _pure(interpreter: str, own: int) -> int | None:
    """Return the place of "py312", "py3", "py311" … among each other."""
    if interpreter == f"py3{own}":
        return 0
    if interpreter == "py3":
        return 1
    stated = interpreter[3:]
    if not (interpreter.startswith("py3") and stated.isdecimal()) or int(stated) > own:
        return None
    return 1 + own - int(stated)
