"""Locks as people have them, read by us and by pip itself: the same packages, versions, markers and hashes."""

import ensurepip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envdoctor.errors import LockError
from envdoctor.standards.lock import parse

A, B, C = "a" * 64, "b" * 64, "c" * 64
Entry = tuple[str, str, str, tuple[str, ...]]
"""(name, version, marker, hashes)"""


@pytest.fixture(scope="module")
def read_by_pip() -> Iterator[Any]:
    """Give pip's reader, from the wheel that this Python brings."""
    wheels = list((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    if not wheels:
        pytest.skip("this Python brings no pip")
    sys.path.insert(0, str(wheels[0]))
    try:
        from pip._internal.req.req_file import parse_requirements  # noqa: PLC0415
    finally:
        sys.path.remove(str(wheels[0]))
    yield parse_requirements
    for name in [name for name in sys.modules if name.partition(".")[0] == "pip"]:
        del sys.modules[name]


def _by_pip(read: Any, path: Path) -> list[Entry] | None:
    """Return what pip takes from a file; None where that is not a lock: a range, no sha256, a URL."""
    entries = []
    for line in read(str(path), session=None):
        try:
            found = Requirement(line.requirement)
        except InvalidRequirement:
            return None
        hashes = (line.options or {}).get("hashes", {})
        (pin, *more) = list(found.specifier) or [None]
        if found.url or line.is_editable or pin is None or more or pin.operator != "==" or pin.version.endswith("*"):
            return None
        if set(hashes) != {"sha256"}:
            return None
        marker = str(found.marker) if found.marker else ""
        entries.append((canonicalize_name(found.name), pin.version, marker, tuple(sorted(hashes["sha256"]))))
    return entries or None


def _by_us(text: str) -> list[Entry] | None:
    try:
        lock = parse(text, "lock.txt")
    except LockError:
        return None
    return [
        (one.name, one.version, str(Marker(one.marker)) if one.marker else "", tuple(sorted(one.hashes)))
        for one in lock.packages
    ]


_NAMES = st.sampled_from(["ray", "Typing_Extensions", "zope.interface", "numpy", "jaraco.text", "PyYAML"])
_EXTRAS = st.sampled_from(["", "[default]", "[a,b]", "[a, b]", " [a]"])
_VERSIONS = st.sampled_from(["1.0", "2.13.0+cpu", "2026.7.22", "1!2.0", "1.0rc1", "1.0.post1"])
_EQUALS = st.sampled_from(["==", " == ", "== ", " =="])
_MARKERS = st.sampled_from(["", " ; python_version < '3.20'", ";sys_platform=='linux'", ' ; extra == "x"'])
_JOINS = st.sampled_from([" ", " \\\n    ", " \\\n", "  "])
_NOTES = st.sampled_from(
    [
        "",
        "  # via torch",
        "\t# tab",
        f" # was --hash=sha256:{C}",
        " # ends with a backslash \\",
        "\n    # via\n    #   torch",
    ]
)
_LINES = st.sampled_from(
    [
        "", "# a comment", "   # indented", "# a comment that ends with \\", "--index-url https://host/simple",
        "-i https://host/simple", "--extra-index-url=https://host/more", "--find-links wheels", "--no-index", "--pre",
        "--trusted-host host", "--only-binary :all:", "--require-hashes", "\t", "#",
    ]
)  # fmt: skip


@st.composite
def _packages(draw: st.DrawFn) -> str:
    name, extras, equals, version = draw(_NAMES), draw(_EXTRAS), draw(_EQUALS), draw(_VERSIONS)
    head = f"{name}{extras}{equals}{version}{draw(_MARKERS)}"
    hashes = draw(st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3, unique=True))
    written = draw(st.sampled_from(["--hash=sha256:", "--hash sha256:"]))
    return head + "".join(f"{draw(_JOINS)}{written}{digest}" for digest in hashes) + draw(_NOTES)


@st.composite
def _locks(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.one_of(_packages(), _LINES), min_size=1, max_size=8))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join("\n".join(parts).split("\n")) + draw(st.sampled_from(["", end]))


@pytest.mark.property
@given(text=_locks())
@example(text=f"# a comment that ends with \\\nray==1.0 --hash=sha256:{A}\nnumpy==1.0 --hash=sha256:{B}\n")
@example(text=f"ray==1.0 --hash=sha256:{A} # was --hash=sha256:{B}\n")
@example(text=f"ray==1.0 \\\n    # a note\n    --hash=sha256:{A}\n")
@example(text=f"ray==1.0 --hash=sha256:{A} \\\n\nnumpy==1.0 --hash=sha256:{B}\n")
@example(text=f"ray==1.0 --hash=sha256:{A} \\")
def test_a_lock_is_read_as_pip_reads_it(tmp_path_factory: pytest.TempPathFactory, read_by_pip: Any, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "lock.txt"
    path.write_bytes(text.encode())
    theirs, ours = _by_pip(read_by_pip, path), _by_us(path.read_bytes().decode())
    twice = theirs is not None and len({(name, marker) for name, _, marker, _ in theirs}) < len(theirs)
    assert ours == (None if twice else theirs)


def test_a_hash_in_capitals_is_the_same_hash() -> None:
    """As pip's `Hashes` takes it."""
    assert _by_us(f"ray==1.0 --hash=sha256:{A.upper()}\n") == [("ray", "1.0", "", (A,))]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert _by_us(f"\ufeffray==1.0 --hash=sha256:{A}\n") == [("ray", "1.0", "", (A,))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-r other.txt", "lock.txt: `-r other.txt` is not an exact pin"),
        ("-c other.txt", "lock.txt: `-c other.txt` is not an exact pin"),
        (f"ray>=1.0 --hash=sha256:{A}", "lock.txt: `ray>=1.0` is not an exact pin"),
        (f"ray==1.* --hash=sha256:{A}", "lock.txt: `ray==1.*`: Invalid version: '1.*'"),
        ("ray==1.0", "lock.txt: `ray==1.0` carries no usable sha256"),
        ("ray==1.0 --hash=md5:" + "a" * 32, "lock.txt: `ray==1.0` carries no usable sha256"),
        (f"ray==1.0 # --hash=sha256:{A}", "lock.txt: `ray==1.0` carries no usable sha256"),
        ("# ray==1.0 \\", "lock.txt: the lock pins nothing"),
    ],
)
def test_what_is_no_lock_is_refused(text: str, message: str) -> None:
    with pytest.raises(LockError) as caught:
        parse(text, "lock.txt")
    assert caught.value.message == message


def test_the_tags_of_a_lock_with_line_ends_of_windows_are_read() -> None:
    text = f"a==1.0 \\\n    --hash=sha256:{A}\n    # {A[:12]}: py3-none-any\nb==1.0 --hash=sha256:{B}\n"
    read = parse(text, "x")
    assert [package.tags for package in read.packages] == [("py3-none-any",), ()]
    assert parse(text.replace("\n", "\r\n"), "x") == read
