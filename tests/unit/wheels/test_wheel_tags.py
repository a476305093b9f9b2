"""Which wheels fit another interpreter, compared with what packaging says of the running one."""

import platform
import sys

import pytest
from packaging.tags import Tag, sys_tags

from envdoctor.model.plan import BaseInterpreter
from envdoctor.wheels.wheel_tags import places, rank, supported, tags_of


def test_the_running_interpreter_gets_packagings_own_tags() -> None:
    libc, version = platform.libc_ver()
    free_threaded = "t" if "t" in sys.abiflags else ""
    interpreter = BaseInterpreter(
        path=sys.executable,
        version=".".join(map(str, sys.version_info[:3])),
        found_via="test",
        markers={"platform_machine": platform.machine()},
        tag=f"cp{sys.version_info[0]}{sys.version_info[1]}{free_threaded}",
        glibc=version if libc == "glibc" else "",
    )
    mine, theirs = tags_of(interpreter), list(sys_tags())
    assert set(mine) == set(theirs)
    # packaging moved the plain linux tag, which no index serves, to the front between 26.2 and 26.4.
    assert [tag for tag in mine if not _plain(tag)] == [tag for tag in theirs if not _plain(tag)]


def _plain(tag: Tag) -> bool:
    return tag.platform.startswith("linux_")


ORDER = places(supported((3, 12), "x86_64", 36))


@pytest.mark.parametrize(
    "filename",
    [
        "numpy-2.4.4-cp311-cp311-manylinux_2_28_x86_64.whl",
        "numpy-2.4.4-cp312-cp312-manylinux_2_28_aarch64.whl",
        "numpy-2.4.4-cp312-cp312-musllinux_1_2_x86_64.whl",
        "numpy-2.4.4-cp312-cp312-manylinux_2_37_x86_64.whl",
        "numpy-2.4.4-cp312-cp312t-manylinux_2_28_x86_64.whl",
        "numpy-2.4.3-cp312-cp312-manylinux_2_28_x86_64.whl",
        "numpy2-2.4.4-cp312-cp312-manylinux_2_28_x86_64.whl",
        "numpy-2.4.4.tar.gz",
        "numpy-not.a.version-py3-none-any.whl",
        "numpy-2.4.4-oops-py3-none-any.whl",
    ],
)
def test_a_wheel_that_does_not_fit_has_no_rank(filename: str) -> None:
    assert rank(filename, "numpy", "2.4.4", ORDER) is None


def test_the_most_specific_wheel_and_the_highest_build_come_first() -> None:
    names = [
        "torch-2.10.0-py3-none-any.whl",
        "torch-2.10.0-cp312-abi3-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-cp312-cp312-manylinux2014_x86_64.whl",
        "torch-2.10.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-3-cp312-cp312-manylinux_2_28_x86_64.whl",
    ]
    ranked = sorted(names, key=lambda name: rank(name, "torch", "2.10.0", ORDER) or (0, (0, "")))
    assert ranked == list(reversed(names))
