"""ED418: an installed wheel that is not the best locked one, as the tags tell."""

import pytest

from envdoctor.checks import lesser_wheel
from envdoctor.model.finding import Finding
from envdoctor.probes.machine.platform import Platform
from envdoctor.standards.lock import parse
from tests.factories.make_facts import PROFILE, case, distribution, distributions

OLD, NEW = "py310-none-any", "py312-none-any"
MANY = "cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64"


def _found(installed: str, *locked: str, version: str = "1.0", glibc: str = "2.36", wheel: str = "") -> list[Finding]:
    hashes = " ".join(f"--hash=sha256:{f'{at:x}' * 64}" for at in range(1, len(locked) + 1))
    told = "".join(f"    # {f'{at:x}' * 12}: {tags}\n" for at, tags in enumerate(locked, 1) if tags)
    machine = Platform(kernel="", container="", wsl=False, glibc=glibc)
    items = distributions(distribution("twin", version, tags=tuple(installed.split()), wheel=wheel))
    examined = case(items, machine, profile=PROFILE)
    lock = parse(f"twin==1.0 {hashes}\n{told}", "good.txt")
    return list(lesser_wheel.run(type(examined)(facts=examined.facts, profile=PROFILE, lock=lock)))


def test_finds_ed418_a_wheel_for_another_python() -> None:
    (finding,) = _found(OLD, OLD, NEW)
    assert (finding.code, finding.severity, finding.subject) == ("ED418", "warning", "twin")
    assert finding.title == "twin 1.0 was installed from a wheel for py310-none, and the lock has one for py312-none"
    assert finding.evidence == (
        "twin 1.0: twin-1.0.dist-info/WHEEL says py310-none-any, the lock's best wheel is py312-none-any",
    )
    assert finding.remediation.commands == ("envdoctor restore --force --profile good --venv /srv/venv",)


@pytest.mark.parametrize(
    ("installed", "locked"),
    [
        (NEW, (OLD, NEW)),
        (NEW, (NEW,)),
        (OLD, ("",)),  # hashes alone say nothing
        (OLD, (OLD, "")),  # and one that is not told might be the best
        ("cp312-cp312-manylinux_2_28_x86_64", (MANY, "cp312-cp312-manylinux_2_28_x86_64")),
        ("cp312-cp312-manylinux_2_17_x86_64 cp312-cp312-manylinux2014_x86_64", (MANY, "cp311-cp311-linux_x86_64")),
        ("cp312-cp312-manylinux_2_17_x86_64", (MANY, "cp312-cp312-manylinux_2_17_aarch64")),
        ("cp37-cp37m-manylinux1_x86_64", ("py3-none-manylinux1_x86_64",)),  # renamed after its build: fits nothing
        (NEW, ("cp311-cp311-win_amd64",)),
        ("", (NEW,)),
    ],
)
def test_passes_ed418_the_locked_build_and_what_cannot_be_told(installed: str, locked: tuple[str, ...]) -> None:
    assert _found(installed, *locked) == []


@pytest.mark.parametrize(
    ("installed", "locked", "best"),
    [
        ("cp39-abi3-manylinux_2_17_x86_64", ("cp39-abi3-manylinux_2_17_x86_64", MANY), "cp312-cp312"),
        ("py3-none-any", ("py3-none-any", "cp39-abi3-linux_x86_64"), "cp39-abi3"),
        (OLD, (NEW,), "py312-none"),  # installed by hand, from an index that has this one only
        ("cp312-cp312-linux_x86_64", ("py3-none-any",), "py3-none"),  # built here, and not what is locked
    ],
)
def test_another_build_is_found(installed: str, locked: tuple[str, ...], best: str) -> None:
    (finding,) = _found(installed, *locked)
    assert finding.title == (
        f"twin 1.0 was installed from a wheel for {installed.rpartition('-')[0]}, and the lock has one for {best}"
    )


@pytest.mark.parametrize(
    ("glibc", "newest", "found"),
    [
        ("2.28", "manylinux_2_28_x86_64", True),
        ("2.31", "manylinux2014_x86_64", True),
        ("2.17", "manylinux_2_28_x86_64", False),
        ("2.9", "manylinux_2_17_x86_64", False),
        ("2.17", "manylinux_2_28_x86_64.manylinux_2_17_x86_64", True),
        ("", "manylinux1_x86_64", False),
        ("", "linux_x86_64", True),
    ],
)
def test_a_wheel_for_a_newer_glibc_is_left_aside(glibc: str, newest: str, *, found: bool) -> None:
    pure = "py3-none-any"
    assert bool(_found(pure, pure, f"cp312-cp312-{newest}", glibc=glibc)) == found


def test_another_version_is_the_drifts_matter() -> None:
    assert _found(OLD, OLD, NEW, version="1.1") == []


def test_a_renamed_wheel_counts_by_the_name_that_the_restore_noted() -> None:
    """Its WHEEL says the tags of the build, for ever."""
    assert _found("py3-none-any", NEW, wheel="twin-1.0-py312-none-any.whl") == []
    (finding,) = _found("py3-none-any", OLD, NEW, wheel="twin-1.0-py310-none-any.whl")
    assert finding.title == "twin 1.0 was installed from a wheel for py310-none, and the lock has one for py312-none"
    assert finding.evidence == (
        "twin 1.0: was built from twin-1.0-py310-none-any.whl, the lock's best wheel is py312-none-any",
    )
