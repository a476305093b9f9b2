"""`check` and `restore` without typer: the same answer as the typer commands, and nothing else is read so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.cli.direct import run
from tests.factories.make_incident import Incident, make_incident
from tests.factories.make_stack import make_stack
from tests.factories.run_envdoctor import ROOT, environment, run_envdoctor

# A variable of ours, whichever, leads past the direct way.
TYPER = {"ENVDOCTOR_ANYTHING": "1"}


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_incident(tmp_path_factory.mktemp("incident"))


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-q",),
        ("--quiet", "-v"),
        ("--verbose",),
        ("--exit-zero",),
        ("--json",),
        ("-p", "cpu-smoke"),
        ("--profile", "cpu-smoke", "-q"),
        ("-p", "no-such-profile"),
        ("-p", "no/such.toml"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("form", ["argument", "option", "no such venv", "nothing"])
def test_both_ways_say_the_same(incident: Incident, tmp_path: Path, options: tuple[str, ...], form: str) -> None:
    venv = str(incident.venv.prefix)
    named = {"argument": (venv,), "option": ("--venv", venv), "no such venv": ("none",), "nothing": ()}[form]
    direct = run_envdoctor("check", *named, *options, folder=tmp_path)
    assert direct == run_envdoctor("check", *named, *options, folder=tmp_path, extra=TYPER)
    assert "Traceback" not in direct.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("checks",),
        ("check", "--help"),
        ("check", "-h"),
        ("check", ""),
        ("check", "a", "b"),
        ("check", "a", "--venv", "b"),
        ("check", "--venv"),
        ("check", "--venv", ""),
        ("check", "--venv=a"),
        ("check", "-p"),
        ("check", "-p", ""),
        ("check", "-p", "--json"),
        ("check", "-pname"),
        ("check", "-p", "a", "-p", "b"),
        ("check", "-qv"),
        ("check", "--jso"),
        ("check", "--", "a"),
        ("check", "-"),
        ("check", "--deep"),
        ("check", "--require", "torch"),
        ("check", "--format", "json"),
        ("--version", "check"),
        ("restore", "--verify", "all"),
        ("restore", "--python"),
        ("restore", "--python", ""),
        ("restore", "-p", "a", "--exit-zero"),
        ("restore", "--wheelhouse", "a"),
        ("restore", "-yq"),
        ("restore", "--rehearse"),
        ("restore", "--plan", "a"),
        ("restore", "a", "b"),
        ("restore", "--help"),
        ("check", "--yes"),
    ],
    ids=" ".join,
)
def test_anything_else_is_left_to_typer(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) is None


@pytest.mark.parametrize("variable", ["ENVDOCTOR_PROFILE", "ENVDOCTOR_FAIL_ON", "_ENVDOCTOR_COMPLETE"])
def test_a_variable_that_sets_an_option_is_left_to_typer(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "")
    assert run(("check", "a")) is None


@pytest.mark.parametrize("table", ['profile = "cpu-smoke"', "fail-on = 1", "broken"])
def test_a_configured_project_is_left_to_typer(table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.envdoctor]\n{table}\n")
    monkeypatch.chdir(tmp_path)
    assert run(("check", "a")) is None


def test_typer_is_not_loaded(tmp_path: Path) -> None:
    code = (
        f"import os, sys; sys.path[0] = {str(ROOT)!r}; sys.argv = ['envdoctor', 'check', sys.prefix]\n"
        "os._exit = lambda code: print(sorted({'typer', 'rich', 'pydantic'} & set(sys.modules)))\n"
        "from envdoctor.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "options",
    [
        ("--dry-run", "-p", "small"),
        ("--dry-run", "--profile", "small", "--json"),
        ("-p", "small"),
        ("-p", "small", "-y", "--json"),
        ("-p", "small", "-y", "-q", "--force"),
        ("-p", "small", "-y", "--offline", "--unless-in-use", "--verbose"),
        ("-p", "small", "-y", "--python", "no-such-python"),
        ("-p", "none", "-y"),
        ("-y",),
    ],
    ids=" ".join,
)
def test_both_ways_of_a_restore_do_and_say_the_same(tmp_path: Path, options: tuple[str, ...]) -> None:
    told = []
    for name, extra in (("a", {}), ("b", TYPER)):
        stack = make_stack(tmp_path / name)
        first = stack.run("restore", "venv", *options, extra=extra)
        again = stack.run("restore", "--venv", "venv", *options, extra=extra)
        told.append([(one.code, _outline(one.out), _said(one.err)) for one in (first, again)])
    assert told[0] == told[1]
    assert "Traceback" not in str(told)


def _said(text: str) -> list[str]:
    """Return its lines, the plan's among them, but for figures: how long a step took, what is free."""
    return [re.sub(r"\d+(?:\.\d+)?", "N", line) for line in text.splitlines()]


def _outline(text: str) -> object:
    """Return what it says but for figures: how long it took, what is free, what was settled when it was read."""
    if text.startswith("{"):
        document = json.loads(text)
        return document.get("status"), sorted(document), sorted(document.get("result", ())), sorted(document["plan"])
    return [re.sub(r"[0-9a-f]{20,}|\d+", "N", line.partition(" verified")[0]) for line in text.splitlines()]
