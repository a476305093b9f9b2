"""Two sides compared: what agrees, what differs, what cannot be said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.compare.difference import AREAS, Area, ComparableStack, Comparison, Difference, Property, compare

NOTHING = Property(shown="", facets={"there": frozenset({"no"})})


def _trait(shown: str, rank: int = 9, **facets: str) -> Property:
    return Property(
        shown=shown, facets={name: frozenset(value.split("|")) for name, value in facets.items()}, rank=rank
    )


def _side(digest: str | None = None, **areas: Area) -> ComparableStack:
    return ComparableStack(
        label="x", kind="venv", digest=digest, areas={name.replace("_", "-"): area for name, area in areas.items()}
    )


def _told(comparison: Comparison) -> list[str]:
    return [f"{item.area} {item.kind} {item.subject}: {item.a} -> {item.b}" for item in comparison.differences]


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (_trait("1", version="1"), _trait("1", version="1"), True),
        (_trait("1", version="1"), _trait("2", version="2"), False),
        (_trait("3.12", minor="3.12"), _trait("3.11 or 3.12", minor="3.11|3.12"), True),
        (_trait("3.13", minor="3.13"), _trait("3.11 or 3.12", minor="3.11|3.12"), False),
        (_trait("a", damage="", content="x"), _trait("b", damage=""), True),
        (_trait("a", damage="", content="x"), _trait("b", damage="", content="y"), False),
        (Property(shown="a", facets={}, span=(90, 110)), Property(shown="b", facets={}, span=(110, 130)), True),
        (Property(shown="a", facets={}, span=(90, 110)), Property(shown="b", facets={}, span=(111, 130)), False),
        (Property(shown="a", facets={}, span=(90, 110)), Property(shown="b", facets={}), True),
    ],
)
def test_when_two_traits_agree(one: Property, other: Property, *, agree: bool) -> None:
    for a, b in ((one, other), (other, one)):
        found = compare(_side(torch=Area(traits={"t": a})), _side(torch=Area(traits={"t": b})))
        assert (found.differences == ()) is agree


def test_what_only_one_side_has() -> None:
    a = Area(traits={"x": _trait("1", there="yes"), "y": _trait("2", there="yes")}, absent=NOTHING)
    b = Area(traits={"y": _trait("2", there="yes"), "z": _trait("3", there="yes")}, absent=NOTHING)
    assert _told(compare(_side(packages=a), _side(packages=b))) == [
        "packages only in A x: 1 -> ",
        "packages only in B z:  -> 3",
    ]


def test_what_a_side_says_nothing_of_is_no_difference() -> None:
    wanted = Area(traits={"A": _trait("1", value="1"), "B": _trait("must not be set", value="")})
    actual = Area(traits={"B": _trait("x", value="x"), "C": _trait("y", value="y")}, absent=_trait("not set", value=""))
    assert _told(compare(_side(environment=wanted), _side(environment=actual))) == [
        "environment changed A: 1 -> not set",
        "environment changed B: must not be set -> x",
    ]
    assert compare(_side(environment=wanted), _side(machine=actual)).differences == ()


def test_another_version_is_not_told_a_second_time_as_other_files() -> None:
    def side(version: str, content: str) -> ComparableStack:
        return _side(
            packages=Area(traits={"p": _trait(version, version=version)}),
            files=Area(traits={"p": _trait(content, content=content), "q": _trait(content, content=content)}),
        )

    assert _told(compare(side("1", "a"), side("2", "b"))) == ["files changed q: a -> b", "packages changed p: 1 -> 2"]


def test_what_matters_most_comes_first() -> None:
    def side(value: str) -> ComparableStack:
        def area(*names: str) -> Area:
            return Area(traits={name: _trait(value, rank, value=value) for rank, name in enumerate(names)})

        return _side(caches=area("c"), packages=area("z", "b"), torch=area("torch"), libraries=area("lib"))

    assert [(item.area, item.subject) for item in compare(side("1"), side("2")).differences] == [
        ("torch", "torch"),
        ("libraries", "lib"),
        ("packages", "z"),
        ("packages", "b"),
        ("caches", "c"),
    ]


def test_what_could_not_be_read_is_said() -> None:
    found = compare(_side(files=Area(traits={}, unread="no")), _side(files=Area(traits={}), torch=Area(traits={})))
    assert (found.differences, found.unread) == ((), {"files": "A: no"})


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("x", "x", "equal"), ("x", "y", "different"), (None, "x", "unknown"), (None, None, "unknown")],
)
def test_digests(a: str | None, b: str | None, expected: str) -> None:
    assert compare(_side(a), _side(b)).digests == expected


TRAITS = st.builds(
    lambda shown, value: Property(shown=shown, facets={"value": frozenset({value})}),
    st.sampled_from(["", "1", "2"]),
    st.sampled_from(["", "1", "2"]),
)
SIDES = st.builds(
    lambda areas: ComparableStack(label="", kind="", digest=None, areas=areas),
    st.dictionaries(
        st.sampled_from(AREAS),
        st.builds(
            lambda traits, absent: Area(traits=traits, absent=absent),
            st.dictionaries(st.sampled_from("abc"), TRAITS),
            st.none() | TRAITS,
        ),
    ),
)


@pytest.mark.property
@given(one=SIDES, other=SIDES)
def test_a_comparison_turned_round_says_the_same(one: ComparableStack, other: ComparableStack) -> None:
    assert compare(one, one).differences == ()

    def turned(item: Difference) -> tuple[str, str, str, str]:
        return item.area, item.subject, item.b, item.a

    there = {turned(item) for item in compare(one, other).differences}
    back = {(item.area, item.subject, item.a, item.b) for item in compare(other, one).differences}
    assert there == back
