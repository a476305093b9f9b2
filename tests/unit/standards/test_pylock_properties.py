"""PEP 751 locks of any content: read as packaging reads them, written and read back, refused with a LockError alone."""

from typing import Any

import pytest
import tomli
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.pylock import PackageWheel, Pylock
from packaging.utils import canonicalize_name
from packaging.version import Version

from envdoctor.errors import LockError
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.standards.pylock import parse
from envdoctor.wheels import pylock_text
from envdoctor.wheels.pylock_text import LockedWheel

pytestmark = pytest.mark.property

NAMES = st.from_regex(r"[a-z]([a-z0-9]|[-][a-z0-9]){0,8}", fullmatch=True).map(canonicalize_name)
VERSIONS = st.builds(
    lambda release, more: ".".join(map(str, release)) + more,
    st.lists(st.integers(0, 2030), min_size=1, max_size=4),
    st.sampled_from(["", "", "a1", "rc2", ".post1", ".dev3", "+cu128", "+cpu.1"]),
)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
TAGS = st.sampled_from(["py3-none-any", "cp312-cp312-manylinux_2_28_x86_64", "cp310-abi3-manylinux2014_x86_64"])
MARKERS = st.sampled_from(
    [
        "",
        "python_version < '3.13'",
        "sys_platform == 'linux' and platform_machine == 'x86_64'",
        "(python_full_version >= '3.12' or os_name == 'nt') and implementation_name == 'cpython'",
    ]
)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a package with its wheels."""
    name, version, marker = draw(NAMES), draw(VERSIONS), draw(MARKERS)
    stem = f"{name.replace('-', '_')}-{version}"  # which has no other hyphen
    wheels = [
        {"name": f"{stem}-{draw(TAGS)}.whl", "url": f"https://host/{at}", "hashes": {"sha256": digest}}
        for at, digest in enumerate(draw(st.lists(DIGESTS, min_size=1, max_size=4)))
    ]
    return {"name": name, "version": version, **({"marker": marker} if marker else {}), "wheels": wheels}


DOCUMENTS = st.lists(entries(), min_size=1, max_size=5).map(
    lambda packages: {"lock-version": "1.0", "created-by": "x", "packages": packages}
)


@given(DOCUMENTS)
def test_names_versions_markers_and_every_hash_are_as_packaging_reads_them(document: dict[str, Any]) -> None:
    theirs = Pylock.from_dict(document)
    assert parse(document, "x") == Lock(
        name="x",
        packages=tuple(
            LockedPackage(
                name=str(entry.name),
                version=str(entry.version),
                hashes=tuple(dict.fromkeys(wheel.hashes["sha256"] for wheel in entry.wheels or ())),
                marker=str(entry.marker or ""),
                tags=tuple(dict(map(_digest_and_tags, entry.wheels or ())).values()),
            )
            for entry in theirs.packages
        ),
    )


def _digest_and_tags(wheel: PackageWheel) -> tuple[str, str]:
    return wheel.hashes["sha256"], str(wheel.name).removesuffix(".whl").split("-", 2)[2]


@given(st.dictionaries(NAMES, st.tuples(VERSIONS, DIGESTS), min_size=1, max_size=8), st.text(max_size=40))
def test_what_is_written_is_read_back(pins: dict[str, tuple[str, str]], comment: str) -> None:
    wheels = [
        LockedWheel(
            name=name,
            version=version,
            filename=f"{name.replace('-', '_')}-{version}-py3-none-any.whl",
            sha256=digest,
            path=f"kept/{name}.whl",
        )
        for name, (version, digest) in pins.items()
    ]
    text = pylock_text.text_of(pylock_text.document(wheels, "3.12", "x86_64"), comment)
    assert parse(tomli.loads(text), "x").select({}) == {
        name: LockedPackage(name=name, version=str(Version(version)), hashes=(digest,), tags=("py3-none-any",))
        for name, (version, digest) in pins.items()
    }


@given(DOCUMENTS, MARKERS.filter(bool))
def test_a_marker_decides_as_packaging_decides(document: dict[str, Any], marker: str) -> None:
    document["packages"][0]["marker"] = marker
    environment = {name: str(value) for name, value in _LINUX.items()}
    first = parse(document, "x").packages[0]
    assert first.applies(environment) == Marker(marker).evaluate(dict(environment))


_LINUX = {
    "implementation_name": "cpython",
    "implementation_version": "3.12.1",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "6",
    "platform_system": "Linux",
    "platform_version": "1",
    "python_full_version": "3.12.1",
    "python_version": "3.12",
    "sys_platform": "linux",
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(DOCUMENTS, st.data())
@example({"lock-version": "1.0", "created-by": "x", "packages": [{"name": "a", "version": "1"}]}, None)
def test_a_document_with_anything_in_any_place_is_read_or_refused(document: dict[str, Any], data: Any) -> None:
    if data is not None:
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and data.draw(st.booleans()):
                place = place[key]
                continue
            place[key] = data.draw(ANYTHING)
            break
    found = _read(document)
    if isinstance(found, LockError):
        assert found.message.startswith("x: ")
        assert found.hint
    else:
        assert all(package.hashes for package in found.packages)
        assert {len(digest) for package in found.packages for digest in package.hashes} == {64}


def _read(document: dict[str, Any]) -> Lock | LockError:
    try:
        return parse(document, "x")
    except LockError as error:
        return error
