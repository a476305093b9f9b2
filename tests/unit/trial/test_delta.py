"""The search by itself: what is named is bad, none of it can be left out, and few tests are asked for."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from envdoctor.trial.delta import Explanation, Forces, Outcome, explain, smallest


class Lab:
    """Judges sets of changes, and counts how often it was asked."""

    def __init__(self, conflicts: Iterable[Iterable[int]], unclear: Iterable[Iterable[int]] = ()) -> None:
        """Keep the sets that are bad together, and those of which a part cannot be judged."""
        self.conflicts = [frozenset(one) for one in conflicts]
        self.unclear = [frozenset(one) for one in unclear]
        self.asked: list[frozenset[int]] = []

    def judge(self, chosen: Iterable[int]) -> Outcome:
        """Return the truth."""
        chosen = frozenset(chosen)
        if any(chosen & pair and not pair <= chosen for pair in self.unclear):
            return "skip"
        return "bad" if any(one <= chosen for one in self.conflicts) else "good"

    def test(self, chosen: frozenset[int]) -> Outcome:
        """Return it, and note that it was asked for."""
        assert chosen not in self.asked, "no set is tested twice"
        self.asked.append(chosen)
        return self.judge(chosen)


def _explained(count: int, lab: Lab, along: dict[int, Iterable[int]] | None = None) -> Explanation:
    forces = Forces(count=count, along={at: frozenset(others) for at, others in (along or {}).items()})
    return explain(forces, lab.test)


def _sets(count: int, least: int = 1) -> st.SearchStrategy[list[frozenset[int]]]:
    one = st.frozensets(st.integers(0, count - 1), min_size=least, max_size=3)
    return st.lists(one, min_size=1, max_size=4)


@given(st.data())
def test_what_is_named_is_bad_and_minimal_and_without_it_all_is_good(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    lab = Lab(data.draw(_sets(count)))
    found = _explained(count, lab)
    assert found.verified
    assert lab.judge(set(range(count)) - found.undone) == "good"
    assert found.undone == frozenset().union(*found.causes)
    for cause in found.causes:
        assert cause in lab.conflicts
        assert all(lab.judge(cause - {at}) == "good" for at in cause)


@given(st.data())
def test_with_forces_every_tested_set_is_whole(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 15))
    numbers = st.integers(0, count - 1)
    along = data.draw(st.dictionaries(numbers, st.frozensets(numbers, max_size=3)))
    lab = Lab(data.draw(_sets(count)))
    forces = Forces(count=count, along=along)
    found = explain(forces, lab.test)
    assert all(forces.closed(chosen) == chosen for chosen in lab.asked)
    for cause in found.causes:
        assert lab.judge(forces.closed(cause)) == "bad"
        assert all(lab.judge(forces.closed(cause - {at})) == "good" for at in cause)
    assert lab.judge(frozenset(range(count)) - found.undone) == "good"
    assert forces.closed(set(range(count)) - found.undone).isdisjoint(found.undone)


@given(st.data())
def test_sets_that_cannot_be_judged_never_make_the_answer_wrong(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 15))
    lab = Lab(data.draw(_sets(count)), data.draw(_sets(count, least=2)))
    whole = frozenset(range(count))
    if lab.judge(whole) != "bad":
        return
    found = smallest(range(count), lab.judge)
    assert lab.judge(found) == "bad"
    assert all(lab.judge(set(found) - {at}) != "bad" for at in found)


def test_one_of_sixty_takes_seven_tests() -> None:
    for culprit in range(60):
        lab = Lab([[culprit]])
        assert _explained(60, lab).causes == (frozenset({culprit}),)
        assert len(lab.asked) <= 8, "six halvings, the change alone, everything else"


def test_two_that_are_bad_only_together() -> None:
    lab = Lab([[7, 41]])
    assert _explained(60, lab) == Explanation(causes=(frozenset({7, 41}),), undone=frozenset({7, 41}), verified=True)
    assert len(lab.asked) <= 17


def test_four_independent_ones_of_four() -> None:
    lab = Lab([[0], [1], [2], [3]])
    assert _explained(4, lab).causes == tuple(frozenset({at}) for at in range(4))
    assert len(lab.asked) <= 8


def test_what_is_forced_is_blamed_before_what_forces_it() -> None:
    lab = Lab([[2]])
    found = _explained(3, lab, {0: [2]})
    assert found == Explanation(causes=(frozenset({2}),), undone=frozenset({0, 2}), verified=True)


def test_a_remainder_that_cannot_be_judged_is_not_called_good() -> None:
    found = explain(Forces(count=3, along={}), lambda chosen: "bad" if 0 in chosen else "skip")
    assert found == Explanation(causes=(frozenset({0}),), undone=frozenset({0}), verified=False)
