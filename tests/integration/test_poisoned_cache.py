"""A file edited in place poisons uv's cache: what envdoctor advises heals it, and what one would try first does not."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import uv

from tests.factories.make_venv import Venv, edit_in_place, make_venv, run_uv
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import run_envdoctor

GOOD, BAD = "fix = 1\n", "fix = 2\n"


@pytest.fixture
def poisoned(tmp_path: Path) -> Venv:
    """Make a venv whose module was hot-patched with as many bytes, and its neighbour, which was not touched."""
    make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing.py": GOOD})
    make_wheel(tmp_path / "wheels", "other", "1.0")
    venv = make_venv(tmp_path / "venv", cache=tmp_path / "cache")
    _uv(tmp_path, "install", venv, "thing==1.0", "other==1.0")
    edit_in_place(venv.site_packages / "thing.py", BAD.encode())
    return venv


def _uv(folder: Path, command: str, venv: Venv, *arguments: str) -> None:
    links = ("--no-index", "--find-links", folder / "wheels")
    run_uv("pip", command, "--python", venv.python, *links, *arguments, cache=folder / "cache")


def _check(folder: Path, venv: Venv, *arguments: str) -> tuple[int, list[dict[str, object]]]:
    extra = {"UV_CACHE_DIR": str(folder / "cache")}
    outcome = run_envdoctor("check", venv.prefix, "--deep", "--json", *arguments, folder=folder, extra=extra)
    assert outcome.err == ""
    return outcome.code, json.loads(outcome.out.replace("[TMP]", str(folder)))["findings"]


@pytest.mark.parametrize("tried", [(), ("--reinstall-package", "thing"), ("--reinstall",)])
def test_what_one_would_try_first_does_not_heal(tmp_path: Path, poisoned: Venv, tried: tuple[str, ...]) -> None:
    _uv(tmp_path, "install", poisoned, "--no-deps", *tried, "thing==1.0")
    assert (poisoned.site_packages / "thing.py").read_text() == BAD
    code, findings = _check(tmp_path, poisoned)
    assert (code, [finding["code"] for finding in findings]) == (1, ["ED207"])


def test_a_fresh_venv_from_the_same_cache_is_poisoned_too(tmp_path: Path, poisoned: Venv) -> None:
    fresh = make_venv(tmp_path / "fresh", cache=tmp_path / "cache")
    _uv(tmp_path, "install", fresh, "thing==1.0")
    assert (fresh.site_packages / "thing.py").read_text() == BAD
    _, (finding,) = _check(tmp_path, fresh)
    assert finding["title"] == (
        "thing 1.0: 1 file holds other bytes than RECORD says, at the recorded size, and so do those in uv's cache"
    )


@pytest.mark.parametrize("size", ["equal", "another"])
def test_what_envdoctor_advises_heals(tmp_path: Path, poisoned: Venv, size: str) -> None:
    if size == "another":
        with (poisoned.site_packages / "thing.py").open("a") as file:
            file.write("# more\n")
    code, (finding,) = _check(tmp_path, poisoned)
    assert (code, finding["code"]) == (1, "ED207" if size == "equal" else "ED202")
    remedy = finding["remediation"]
    assert isinstance(remedy, dict)
    environment = {
        "PATH": f"{Path(uv.find_uv_bin()).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_FIND_LINKS": str(tmp_path / "wheels"),
        "UV_OFFLINE": "1",
        "UV_NO_CONFIG": "1",
    }
    for command in remedy["commands"]:
        subprocess.run(shlex.split(command), env=environment, check=True, capture_output=True)
    assert (poisoned.site_packages / "thing.py").read_text() == GOOD
    assert _check(tmp_path, poisoned) == (0, [])
    fresh = make_venv(tmp_path / "fresh", cache=tmp_path / "cache")
    _uv(tmp_path, "install", fresh, "thing==1.0", "other==1.0")
    assert _check(tmp_path, fresh) == (0, [])
