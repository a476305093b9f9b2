"""Requirements decided here, compared with what packaging decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from envdoctor.standards.need import agree, extras_of, holds, meets, parse_need

LINUX = {
    "implementation_name": "cpython",
    "implementation_version": "3.12.1",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_system": "Linux",
    "platform_version": "",
    "python_full_version": "3.12.1",
    "python_version": "3.12",
    "sys_platform": "linux",
    "extra": "",
}
LINES = (
    "filelock",
    "typing-extensions>=4.10.0",
    "setuptools<82",
    'triton==3.6.0; platform_system == "Linux"',
    'nvidia-cublas-cu12==12.8.4.1; extra == "cublas"',
    "cuda-toolkit[cublas,cudart]==12.8.1",
    "Jinja2 (>=3,<4)",
    "numpy (>=1.17) ; python_version >= '3.9'",
    "thing @ https://example.org/thing-1.0-py3-none-any.whl ; extra == 'Some_Extra'",
    "zope.interface[test, Docs] >= 5 , != 5.1.* ; os_name=='posix' and extra == 'a'",
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_taken_apart_as_packaging_does(line: str) -> None:
    oracle = Requirement(line)
    need = parse_need(line)
    assert need is not None
    assert need.name == oracle.name.lower().replace("_", "-").replace(".", "-")
    assert set(need.extras) == {extra.lower() for extra in oracle.extras}
    assert SpecifierSet(need.specifier) == oracle.specifier
    assert bool(need.marker) == (oracle.marker is not None)


@pytest.mark.parametrize("line", ["", "-e .", "==1.0", "name[extra", "a b"])
def test_what_is_no_requirement_requires_nothing(line: str) -> None:
    assert parse_need(line) is None


@pytest.mark.parametrize(
    ("marker", "extras"),
    [
        ('platform_system == "Linux" and platform_machine == "x86_64"', ()),
        ('python_version < "3.11"', ()),
        ('python_version >= "3.9"', ()),
        ('python_full_version >= "3.12.1"', ()),
        ('sys_platform == "win32" or sys_platform == "linux" and python_version < "3"', ()),
        ('(sys_platform == "win32" or sys_platform == "linux") and python_version < "3"', ()),
        ('"linux" in sys_platform', ()),
        ('platform_release >= "20.0"', ()),
        ('extra == "torch"', ("torch",)),
        ('extra == "Torch"', ("torch",)),
        ('extra == "torch"', ()),
        ('extra != "torch"', ()),
        ('extra == "dev-torch" or extra == "torch"', ("torch", "other")),
        ('python_version in "3.12 3.13"', ()),
        ('implementation_name == "pypy"', ()),
        ('(python_version < "3.14") and extra == "full"', ("full",)),
        ('(python_version < "3.14" and extra == "full")', ("other",)),
        ('extra == "a" or sys_platform == "linux"', ("other",)),
        ('extra == "full" and (sys_platform == "win32" or sys_platform == "linux")', ("full",)),
    ],
)
def test_a_marker_holds_where_packaging_says_so(marker: str, extras: tuple[str, ...]) -> None:
    wanted = any(Marker(marker).evaluate({**LINUX, "extra": extra}) for extra in ("", *extras))
    assert holds(marker, LINUX, extras) is wanted


def test_a_marker_that_is_none_does_not_hold() -> None:
    assert not holds("this is not a marker", LINUX)
    assert holds("", LINUX)


RELEASES = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda numbers: ".".join(map(str, numbers)))
VERSIONS = st.tuples(
    RELEASES, st.sampled_from(["", "", "", ".post1", "rc1", ".dev3", "a2", "+cu128", ".post2+cpu"])
).map("".join)
PRE = st.tuples(st.sampled_from(["==", "!=", ">=", "<", "<=", ">"]), RELEASES, st.sampled_from(["a0", "rc1", "b2"]))
CLAUSES = (
    PRE.map("".join)
    | st.tuples(st.sampled_from(["==", "!=", "<", ">", "<=", ">="]), VERSIONS).map("".join)
    | st.tuples(st.sampled_from(["==", "!="]), RELEASES.map(lambda release: f"{release}.*")).map("".join)
)
COMPATIBLE = st.lists(st.integers(0, 12), min_size=2, max_size=4).map(
    lambda numbers: "~=" + ".".join(map(str, numbers))
)


@pytest.mark.property
@given(version=VERSIONS, clauses=st.lists(CLAUSES | COMPATIBLE, max_size=3))
def test_a_version_meets_what_packaging_says_it_meets(version: str, clauses: list[str]) -> None:
    usable = [clause for clause in clauses if "+" not in clause or clause.startswith(("==", "!="))]
    specifier = ",".join(usable)
    assert meets(version, specifier) is SpecifierSet(specifier).contains(version, prereleases=True)


@pytest.mark.parametrize(("version", "specifier"), [("not a version", ">=1"), ("1.0", "~~1"), ("1!2.0", ">=1.0")])
def test_what_cannot_be_compared_is_not_refused(version: str, specifier: str) -> None:
    assert meets(version, specifier)


@pytest.mark.parametrize(
    ("specifiers", "some"),
    [
        (("",), True),
        (("<2", ">=2"), False),
        (("<2", ">=1.26"), True),
        (("<2.0", ">1.9"), True),
        (("==2.41.5", "<2"), False),
        (("==2.*", ">=2.4", "!=2.4"), True),
        (("~=1.4", ">=2"), False),
        (("what is this", "<2", ">=2"), True),
    ],
)
def test_some_version_satisfies_all(specifiers: tuple[str, ...], some: bool) -> None:  # noqa: FBT001
    assert agree(specifiers) is some


def test_extras_of_a_marker() -> None:
    assert extras_of("python_version > '3' and (extra == 'All_Of' or extra == \"b\")") == ("all-of", "b")
