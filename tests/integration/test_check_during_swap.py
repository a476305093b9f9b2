"""A venv exchanged while it is read: no report ever mixes two venvs."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.doctor.examine import take_fingerprint
from envdoctor.errors import ProbeError
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import Target
from envdoctor.model.codec import encode
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.swap.swap import _exchange
from tests.factories.make_venv import install, make_venv
from tests.factories.make_wheel import make_wheel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two venvs of the same distributions in other versions."""
    made = []
    for version in ("1.0", "2.0"):
        venv = make_venv(tmp_path / f"v{version}", cache=tmp_path / "cache")
        for name in ("alpha", "beta", "gamma"):
            files = {f"{name}/part{number}.py": f"{version}{number}" * 50 for number in range(40)}
            install(venv, make_wheel(tmp_path / "wheels", name, version, files=files), cache=tmp_path / "cache")
        made.append(venv.prefix)
    return made[0], made[1]


def _read(prefix: Path, options: Options | None = None) -> Fingerprint:
    host = replace(Host.current(), environ={})
    target = Target(prefix=prefix, interpreter=prefix / "bin" / "python")
    return take_fingerprint(target, host, options or Options(ask_nvml=False))


def _facts(found: Fingerprint) -> object:
    return encode(replace(found, taken_at=""))


def test_exchanged_once_it_is_read_again(two: tuple[Path, Path]) -> None:
    here, other = two
    calls = []

    def meanwhile(done: int, total: int) -> None:
        del done, total
        if not calls:
            calls.append(_exchange(here, other))

    found = _read(here, Options(ask_nvml=False, deep=True, progress=meanwhile))
    assert calls == [True]
    assert _facts(found) == _facts(_read(here, Options(ask_nvml=False, deep=True)))


def test_exchanged_again_and_again_it_says_so(two: tuple[Path, Path]) -> None:
    here, other = two

    def meanwhile(done: int, total: int) -> None:
        if done == total:
            _exchange(here, other)

    with pytest.raises(ProbeError) as caught:
        _read(here, Options(ask_nvml=False, deep=True, progress=meanwhile))
    assert caught.value.message == f"{here} was exchanged, or names were moved in it, while it was being read, twice"


def test_copied_by_hard_links_meanwhile_it_is_the_same(two: tuple[Path, Path], tmp_path: Path) -> None:
    here, _ = two
    copies = iter(range(1000))

    def meanwhile(done: int, total: int) -> None:
        if done == total:
            subprocess.run(["cp", "-al", here, tmp_path / f"copy{next(copies)}"], check=True)

    found = _read(here, Options(ask_nvml=False, deep=True, progress=meanwhile))
    assert next(copies) == 1
    assert _facts(found) == _facts(_read(here, Options(ask_nvml=False, deep=True)))


def test_in_a_loop_of_swaps_every_report_is_of_one_venv(two: tuple[Path, Path]) -> None:
    here, other = two
    one = _facts(_read(here))
    _exchange(here, other)
    two_ = _facts(_read(here))
    loop = (
        f"import itertools, sys, time; sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path; from envdoctor.swap import swap\n"
        "for pause in itertools.cycle((0.004, 0.01, 0.03, 0.2, 0.2)):\n"
        "    swap._exchange(Path(sys.argv[1]), Path(sys.argv[2])); time.sleep(pause)"
    )
    seen = []
    with subprocess.Popen([sys.executable, "-c", loop, here, other]) as swapping:
        for _ in range(60):
            try:
                seen.append(_facts(_read(here)))
            except ProbeError as error:
                assert "was exchanged, or names were moved in it, while it was being read, twice" in error.message  # noqa: PT017
        assert swapping.poll() is None
        swapping.kill()
    assert one in seen
    assert two_ in seen
    assert [facts for facts in seen if facts not in (one, two_)] == []
