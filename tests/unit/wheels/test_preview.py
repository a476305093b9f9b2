"""What uv's dry run says of its cache, and what is made of a log that says nothing."""

from envdoctor.wheels.preview import Preview, read_log

ASKED = frozenset({"a-b", "c", "d"})


def test_each_package_is_sorted_by_its_own_line() -> None:
    log = (
        "DEBUG Registry requirement already cached: A_B==1.0+cpu\n"
        "DEBUG Identified uncached distribution: c==2\n"
        "DEBUG Registry requirement already cached: not-asked==2\n"
    )
    assert read_log(log, ASKED) == Preview(
        cached=frozenset({"a-b"}), uncached=frozenset({"c"}), unknown=frozenset({"d"})
    )


def test_a_log_in_other_words_makes_nothing_cached() -> None:
    assert read_log("DEBUG a-b was found somewhere\n", ASKED) == Preview(unknown=ASKED)
