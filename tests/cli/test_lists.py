"""`checks`, `explain` and `profiles` as processes."""

import json
from pathlib import Path

import pytest

from envdoctor.checks.registry import all_checks
from tests.factories.make_profile import make_profile
from tests.factories.run_envdoctor import ROOT, Outcome, run_envdoctor


def test_checks_lists_every_check_in_text_and_json(tmp_path: Path) -> None:
    text, document = (run_envdoctor("checks", *options, folder=tmp_path) for options in ([], ["--json"]))
    known = [check.code for check in all_checks()]
    assert [line.split()[0] for line in text.out.splitlines()] == known
    listed = json.loads(document.out)
    assert (listed["schema_version"], [check["code"] for check in listed["checks"]]) == (1, known)
    assert list(listed["checks"][0]["sections"]) == ["What it finds", "Why it matters", "Example", "Fix"]


@pytest.mark.parametrize("wanted", ["ED510", "ed510", "fx-tracing-race", "FX-Tracing-Race"])
def test_explain_takes_a_code_or_a_name_in_any_case(tmp_path: Path, wanted: str) -> None:
    outcome = run_envdoctor("explain", wanted, folder=tmp_path)
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "ED510 fx-tracing-race (Compile cache)")


def test_explain_names_what_is_near(tmp_path: Path) -> None:
    assert run_envdoctor("explain", "foreign-cuda", folder=tmp_path) == Outcome(
        code=2,
        out="",
        err="error: no check is called `foreign-cuda`; near it: ED302 foreign-cuda-major\n\n"
        "hint: `envdoctor checks` lists them all\n",
    )


def test_profiles_of_the_folder_and_of_the_package(tmp_path: Path) -> None:
    mine = make_profile(tmp_path, "small", [])
    shadow = make_profile(tmp_path, "cpu-smoke", [])
    rows = json.loads(run_envdoctor("profiles", "--json", folder=tmp_path).out)["profiles"]
    assert {row["name"]: row["path"] for row in rows} == {
        "21k-toks": str(ROOT / "profiles/21k-toks.toml"),
        "cpu-smoke": "[TMP]/profiles/cpu-smoke.toml",
        "pypi-cu128": str(ROOT / "profiles/pypi-cu128.toml"),
        "small": "[TMP]/profiles/small.toml",
    }
    assert (mine.exists(), shadow.exists()) == (True, True)
    text = run_envdoctor("profiles", folder=tmp_path).out
    assert text.splitlines()[-2:] == ["small       for a test", "            [TMP]/profiles/small.toml"]
