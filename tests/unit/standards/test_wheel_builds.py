"""The order of builds, held against packaging's own order of tags."""

import pytest
from packaging.tags import compatible_tags, cpython_tags

from envdoctor.standards.wheel_builds import expanded, first_place, place, tags_in

PYTHONS = [(minor, free) for minor in (9, 11, 12, 13, 14) for free in (False, True) if minor >= 13 or not free]


@pytest.mark.parametrize(("minor", "free"), PYTHONS)
def test_the_order_is_that_of_packaging(minor: int, *, free: bool) -> None:
    abi, one = f"cp3{minor}{'t' if free else ''}", ["manylinux_2_17_x86_64"]
    theirs = [*cpython_tags((3, minor), [abi], one), *compatible_tags((3, minor), f"cp3{minor}", one)]
    listed = [str(tag) for tag in theirs if not (free and "abi3" in tag.abi)]
    places = [place(tag, f"3.{minor}", "x86_64", free_threaded=free) for tag in listed]
    assert None not in places
    assert sorted(set(places), key=str) == sorted(places, key=str)
    assert places == sorted(places, key=lambda at: at or 0)


@pytest.mark.parametrize(
    "tag",
    [
        "cp311-cp311-manylinux_2_17_x86_64",
        "cp313-abi3-manylinux_2_17_x86_64",
        "cp312-cp312t-manylinux_2_17_x86_64",
        "cp312-cp312-manylinux_2_17_aarch64",
        "cp312-cp312-musllinux_1_2_x86_64",
        "cp312-cp312-win_amd64",
        "cp31-abi3-manylinux_2_17_x86_64",
        "pp310-pypy310_pp73-manylinux_2_17_x86_64",
        "py313-none-any",
        "py2-none-any",
        "cp312-cp312-any",
        "oops",
    ],
)
def test_what_does_not_fit_has_no_place(tag: str) -> None:
    assert place(tag, "3.12", "x86_64", free_threaded=False) is None


def test_two_glibc_of_one_build_are_equal() -> None:
    tags = ["cp312-cp312-manylinux2014_x86_64", "cp312-cp312-manylinux_2_28_x86_64", "cp312-cp312-linux_x86_64"]
    assert {place(tag, "3.12", "x86_64", free_threaded=False) for tag in tags} == {0}


def test_the_best_of_a_compressed_set_counts() -> None:
    assert expanded("py2.py3-none-any") == ["py2-none-any", "py3-none-any"]
    mine = first_place(expanded("py2.py3-none-any"), "3.12", "x86_64", free_threaded=False)
    assert mine == place("py3-none-any", "3.12", "x86_64", free_threaded=False)
    assert first_place([], "3.12", "x86_64", free_threaded=False) is None


@pytest.mark.parametrize(
    ("filename", "tags"),
    [
        ("a-1.0-py3-none-any.whl", "py3-none-any"),
        ("a-1.0-2-cp312-cp312-linux_x86_64.whl", "cp312-cp312-linux_x86_64"),
        ("a-1.0-py3-none.whl", ""),
        ("a-1.0-py 3-none-any.whl", ""),
        ("", ""),
    ],
)
def test_tags_of_a_file_name(filename: str, tags: str) -> None:
    assert tags_in(filename) == tags
