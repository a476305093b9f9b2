"""What is undone where a block does not come to its end."""

import pytest

from envdoctor.facts.on_failure import on_failure


@pytest.mark.parametrize("ends", [OSError("full"), KeyboardInterrupt(), SystemExit(3)])
def test_what_ends_a_block_goes_on_once_it_is_undone(ends: BaseException) -> None:
    told: list[str] = []
    with pytest.raises(type(ends)) as caught, on_failure(lambda: told.append("undone")):
        raise ends
    assert (caught.value, told) == (ends, ["undone"])


def test_a_block_that_comes_to_its_end_is_left() -> None:
    told: list[str] = []

    def answer() -> int:
        with on_failure(lambda: told.append("undone")):
            return 7

    assert (answer(), told) == (7, [])
