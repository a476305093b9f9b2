"""`@frozen` against the standard decorator it stands for: the same class made both ways answers the same."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.model import frozen as frozen_module
from envdoctor.model.codec import decode, encode
from envdoctor.model.frozen import frozen, mutable

T = TypeVar("T")


def _declare(decorate: Callable[[type[Any]], type[Any]], field: Callable[..., Any]) -> type[Any]:
    class Part(Generic[T]):
        """A class with every kind of field that ours have."""

        name: str
        sizes: tuple[int, ...] = ()
        notes: dict[str, str] = field(default_factory=dict)
        data: bytes = field(default=b"", repr=False, compare=False)

        @property
        def total(self) -> int:
            return sum(self.sizes)

    return decorate(Part)


OURS = _declare(frozen, frozen_module.field)
THEIRS = _declare(dataclass(frozen=True, slots=True, kw_only=True), dataclasses.field)
VALUES = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"])},
    optional={
        "sizes": st.lists(st.integers(0, 1), max_size=1).map(tuple),
        "notes": st.dictionaries(st.sampled_from("k"), st.sampled_from("vw")),
        "data": st.sampled_from([b"", b"x"]),
    },
)


@frozen
class Sized:
    """One at module level, where pickle finds it."""

    name: str
    sizes: tuple[int, ...] = ()


@pytest.mark.property
@given(VALUES, VALUES)
def test_it_compares_shows_and_counts_as_a_dataclass_does(first: dict[str, Any], second: dict[str, Any]) -> None:
    ours, theirs = (OURS(**first), OURS(**second)), (THEIRS(**first), THEIRS(**second))
    assert repr(ours) == repr(theirs)
    assert (ours[0] == ours[1], ours[0] != ours[1]) == (theirs[0] == theirs[1], theirs[0] != theirs[1])
    assert [asdict(item) for item in ours] == [asdict(item) for item in theirs]
    assert repr(replace(ours[0], **second)) == repr(replace(theirs[0], **second))
    assert ours[0] != theirs[0]


@pytest.mark.property
@given(st.text(max_size=2), st.text(max_size=2))
def test_what_is_equal_has_one_hash(first: str, second: str) -> None:
    assert (hash(Sized(name=first)) == hash(Sized(name=second))) == (first == second)


def test_it_is_declared_as_a_dataclass_is() -> None:
    assert is_dataclass(OURS)
    assert [repr(item) for item in fields(OURS)] == [repr(item) for item in fields(THEIRS)]
    assert OURS.__match_args__ == THEIRS.__match_args__
    assert (OURS.__name__, OURS.__doc__, OURS(name="a", sizes=(1, 2)).total) == ("Part", THEIRS.__doc__, 3)
    assert OURS(name="a").notes is not OURS(name="a").notes


def _assign(item: Any) -> None:
    item.name = "b"


def _invent(item: Any) -> None:
    item.other = "b"


def _delete(item: Any) -> None:
    del item.name


@pytest.mark.parametrize("change", [_assign, _invent, _delete])
def test_nothing_of_it_changes(change: Callable[[Any], None]) -> None:
    said = []
    for item in (OURS(name="a"), THEIRS(name="a")):
        # The standard class has no slot for an invented name; whichever it says, it is an AttributeError.
        with pytest.raises((FrozenInstanceError, TypeError, AttributeError)) as caught:
            change(item)
        said.append(str(caught.value))
        assert item.name == "a"
    assert said[0] == said[1] or change is _invent


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        ((), {}, "Sized.__init__() was not given 'name'"),
        ((), {"name": "a", "nmae": "a"}, "Sized.__init__() got an unexpected keyword argument 'nmae'"),
        (("a",), {}, "takes 1 positional argument but 2 were given"),
    ],
)
def test_a_wrong_call_is_refused(positional: tuple[str, ...], named: dict[str, str], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        Sized(*positional, **named)
    assert str(caught.value).endswith(message)
    with pytest.raises(TypeError):
        dataclasses.make_dataclass("Sized", ["name"], kw_only=True)(*positional, **named)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item)), replace, frozen_module.replace],  # noqa: S301
)
def test_copies_are_equal_and_as_immutable(again: Callable[[Sized], Sized]) -> None:
    item = Sized(name="a", sizes=(1,))
    made = again(item)
    assert (made, type(made), made is item) == (item, Sized, False)
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]


def test_the_codec_reads_what_it_wrote() -> None:
    item = Sized(name="a", sizes=(1, 2))
    assert encode(item) == {"name": "a", "sizes": [1, 2]}
    assert decode(Sized, encode(item)) == item


@mutable
class Counter:
    """One whose fields change."""

    count: int = 0
    seen: list[str] = frozen_module.field(default_factory=list)


def test_a_mutable_one_changes_and_has_no_hash() -> None:
    counter = Counter()
    counter.count += 1
    counter.seen.append("a")
    assert (counter, Counter().seen) == (Counter(count=1, seen=["a"]), [])
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_a_change_of_what_is_not_a_field_is_refused() -> None:
    with pytest.raises(TypeError) as caught:
        frozen_module.replace(Sized(name="a"), nmae="b")
    assert str(caught.value) == "Sized.__init__() got an unexpected keyword argument 'nmae'"


def test_the_standard_field_is_refused() -> None:
    wrong = _declare(frozen, dataclasses.field)
    with pytest.raises(TypeError) as caught:
        wrong(name="a")
    assert str(caught.value) == "Part.notes needs the `field` of envdoctor.model.frozen"


def test_what_a_class_does_after_its_start_is_done() -> None:
    @mutable
    class Doubled:
        size: int
        twice: int = 0

        def __post_init__(self) -> None:
            self.twice = 2 * self.size

    assert Doubled(size=2) == Doubled(size=2, twice=7)
    assert Doubled(size=2).twice == 4
