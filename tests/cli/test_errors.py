"""Every kind of wrong command line: the whole message, on stderr alone, with its exit code."""

import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from envdoctor.cli.app import COMMANDS, SECTIONS, main
from tests.factories.make_profile import make_profile
from tests.factories.run_envdoctor import Outcome, run_behind, run_envdoctor

VENV_HINT = "name a venv folder or its interpreter: `envdoctor check path/to/.venv`"
CASES: dict[str, tuple[list[str], str, str]] = {
    "unknown command": (["chekc"], "there is no command `chekc`", "did you mean `envdoctor check`?"),
    "help": (["help"], "there is no command `help`", "did you mean `envdoctor --help`?"),
    "version": (["version"], "there is no command `version`", "did you mean `envdoctor --version`?"),
    "fix": (["fix"], "there is no command `fix`", "did you mean `envdoctor repair`?"),
    "install": (["install", "torch"], "there is no command `install`", "did you mean `envdoctor impact install`?"),
    "a word of check names": (
        ["explain", "duplicate"],
        "no check is called `duplicate`; near it: ED405 duplicate-distribution",
        "`envdoctor checks` lists them all",
    ),
    "a code of no check": (["explain", "ED999"], "no check is called `ED999`", "`envdoctor checks` lists them all"),
    "unlike any": (["frobnicate"], "there is no command `frobnicate`", "`envdoctor --help` lists the commands"),
    "unknown option": (
        ["check", "--profle", "x"],
        "no such option: --profle (Possible options: --profile)",
        "`envdoctor check --help` lists what it takes",
    ),
    "no value": (
        ["check", "--profile"],
        "option '--profile' requires an argument",
        "`envdoctor check --help` lists what it takes",
    ),
    "wrong choice": (
        ["check", "--format", "yaml"],
        "invalid value for '--format' (env var: 'ENVDOCTOR_FORMAT'): 'yaml' is not one of 'text', 'json', 'html', "
        "'svg', 'markdown', 'sarif', 'junit', 'github'",
        "`envdoctor check --help` lists what it takes",
    ),
    "two venvs": (
        ["check", "a", "b"],
        "got unexpected extra argument(s) (b)",
        "`envdoctor check --help` lists what it takes",
    ),
    "no venv": (
        ["check"],
        "no venv named, VIRTUAL_ENV and CONDA_PREFIX are not set, and neither [TMP] nor a folder above it has a .venv",
        VENV_HINT,
    ),
    "no venv, and a profile": (
        ["check", "-p", "small"],
        "no venv named, VIRTUAL_ENV and CONDA_PREFIX are not set, and neither [TMP] nor a folder above it has a .venv",
        "`envdoctor restore --profile small` makes .venv here, or name one: `--venv PATH`",
    ),
    "an empty venv": (
        ["check", ""],
        "the venv is named by an empty text",
        "name a venv, or leave it out for the default",
    ),
    "an empty venv by option": (
        ["history", "--venv="],
        "the venv is named by an empty text",
        "name a venv, or leave it out for the default",
    ),
    "a requirement that is none": (
        ["check", "--require", "torch>>2"],
        "`--require torch>>2` is not a requirement",
        'name a distribution, with version clauses if need be: `--require "torch>=2.8"`',
    ),
    "a requirement with an extra": (
        ["check", "--require", "torch[opt]"],
        "`--require torch[opt]`: a URL, an extra or a marker cannot be looked up in an environment",
        "name the distribution and its version: `--require torch`",
    ),
    "no such path": (["check", "nowhere"], "[TMP]/nowhere does not exist", VENV_HINT),
    "no environment": (
        ["check", "profiles"],
        "[TMP]/profiles is not a Python environment: it has neither pyvenv.cfg nor bin/python",
        VENV_HINT,
    ),
    "unknown profile": (
        ["check", "-p", "smal"],
        "no profile is called `smal`",
        "known here: 21k-toks, cpu-smoke, pypi-cu128, small; looked in [TMP]/profiles and in those of the folders "
        "above it, up to /; a profile's path works anywhere",
    ),
    "empty profile": (
        ["check", "-p", ""],
        "--profile is empty",
        "name a profile (`envdoctor profiles`), or omit the option",
    ),
    "empty profile, joined": (
        ["check", "--profile="],
        "--profile is empty",
        "name a profile (`envdoctor profiles`), or omit the option",
    ),
    "waiver without a reason": (
        ["check", "--ignore", "ED201"],
        "`--ignore ED201` gives no reason",
        'say why it is accepted: `--ignore ED201="the reason"`',
    ),
    "a waiver of no check": (
        ["check", "--ignore", "ED999=known"],
        "no check is called `ED999`",
        "`envdoctor checks` lists them all",
    ),
    "a waiver of a misspelt check": (
        ["check", "--ignore", "cold-compile-cach=known"],
        "no check is called `cold-compile-cach`; near it: ED501 cold-compile-cache",
        "`envdoctor checks` lists them all",
    ),
    "waiver with an empty reason": (
        ["check", "--ignore", "ED201= "],
        "`--ignore ED201= ` gives no reason",
        'say why it is accepted: `--ignore ED201="the reason"`',
    ),
    "venv and fingerprint": (
        ["check", "v", "--fingerprint", "f"],
        "both a venv and --fingerprint were given",
        "give only one of them",
    ),
    "no fingerprint": (
        ["check", "--fingerprint", "f"],
        "cannot read f: No such file or directory",
        "write it again: `envdoctor fingerprint VENV -o FILE`",
    ),
    "unknown check": (["explain", "XYZ"], "no check is called `XYZ`", "`envdoctor checks` lists them all"),
    "nothing to run": (
        ["run", "-p", "small"],
        "no command to run",
        "name it after `--`: `envdoctor run --profile NAME -- python -m trainer`",
    ),
    "nothing to run on": (
        ["run", "--", "ls"],
        "no profile to run on",
        "`envdoctor profiles` lists them: `envdoctor run --profile NAME -- CMD`",
    ),
    "bypass without a reason": (
        ["run", "-p", "small", "--gate", "off", "--", "ls"],
        "mode `off` needs a reason, which is logged",
        'say why: ENVDOCTOR_GATE_REASON="...", `envdoctor run --reason`, or `gate.require(reason=...)`',
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("errors")
    make_profile(root, "small", [])
    return root


@pytest.mark.parametrize("case", CASES)
def test_bad_input_exits_2_with_message_and_hint(folder: Path, case: str) -> None:
    arguments, message, hint = CASES[case]
    assert run_envdoctor(*arguments, folder=folder) == Outcome(
        code=2, out="", err=f"error: {message}\n\nhint: {hint}\n"
    )


FINGERPRINT: dict[str, Any] = {
    "schema_version": 1,
    "tool": {"name": "envdoctor", "version": "0.1.0"},
    "target": "/v",
    "taken_at": "2026-01-01T00:00:00Z",
    "sections": {},
    "unread": {},
}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", " is not a JSON document: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", ": expected a table"),
        (
            json.dumps(FINGERPRINT | {"schema_version": 2}),
            ": schema_version: this envdoctor reads 1, the document says 2",
        ),
        (json.dumps(FINGERPRINT | {"sections": {"Torch": {}}}), ": sections.Torch: unknown section"),
        (
            json.dumps(FINGERPRINT | {"sections": {"TorchBuild": {"present": 1}}}),
            ": sections.TorchBuild.present: expected bool, got 1",
        ),
        (json.dumps(FINGERPRINT | {"unread": {"TorchBuild": 1}}), ": unread.TorchBuild: expected str, got 1"),
        (json.dumps(FINGERPRINT | {"tool": {}}), ": tool.version: expected str, got None"),
    ],
)
def test_a_fingerprint_that_cannot_be_read(folder: Path, text: str, problem: str) -> None:
    (folder / "f.json").write_text(text)
    outcome = run_envdoctor("check", "--fingerprint", "f.json", folder=folder)
    hint = "write it again: `envdoctor fingerprint VENV -o FILE`"
    assert outcome == Outcome(code=2, out="", err=f"error: f.json{problem}\n\nhint: {hint}\n")


def test_a_result_that_cannot_be_written(folder: Path) -> None:
    outcome = run_envdoctor("fingerprint", "-o", "no/such/f.json", folder=folder, extra={"VIRTUAL_ENV": "/usr"})
    assert outcome == Outcome(
        code=2,
        out="",
        err="error: cannot write no/such/f.json: No such file or directory\n\n"
        "hint: name a file in a folder you may write to\n",
    )


@pytest.mark.parametrize(
    ("command", "closed", "code", "out"),
    [
        (("check", "--nope"), "2>&-", 2, ""),
        (("explain", "ED999"), "<&- 2>&-", 2, ""),
        (("--version",), "2>&-", 0, f"envdoctor {version('torch-envdoctor')}\n"),
        (("explain", "ED201"), ">&- 2>&-", 2, ""),
    ],
)
def test_a_closed_stderr_puts_nothing_into_stdout(command: tuple[str, ...], closed: str, code: int, out: str) -> None:
    """And no file that is opened next takes its number."""
    line = shlex.join([sys.executable, "-m", "envdoctor", *command])
    done = subprocess.run(["sh", "-c", f"exec {line} {closed}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, "")


def test_nothing_asked_prints_the_help_and_exits_2(folder: Path) -> None:
    asked = run_envdoctor("--help", folder=folder)
    assert (asked.code, asked.err) == (0, "")
    assert run_envdoctor(folder=folder) == Outcome(code=2, out=asked.out, err="")


@pytest.mark.parametrize("group", ["cache", "fleet", "gate", "impact", "profile"])
def test_a_group_alone_prints_its_help_and_exits_2(folder: Path, group: str) -> None:
    asked = run_envdoctor(group, "--help", folder=folder)
    assert (asked.code, asked.err) == (0, "")
    assert run_envdoctor(group, folder=folder) == Outcome(code=2, out=asked.out, err="")


def test_the_help_lists_each_command_once() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


def test_a_bug_of_ours_is_not_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "broken_command.py").write_text("def checks() -> int:\n    raise RuntimeError('a bug')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(COMMANDS, "checks", "broken_command")
    monkeypatch.setattr(sys, "argv", ["envdoctor"])
    assert main(["checks"]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Traceback (most recent call last):\n")
    assert shown.err.endswith(
        "RuntimeError: a bug\n"
        "error: envdoctor itself failed, so nothing can be said about the venv\n\n"
        "hint: this is a bug; report the lines above with the output of `envdoctor --version`\n"
    )


def _run_behind(front: Path, folder: Path, *options: str) -> Outcome:
    """Run `envdoctor check` by a Python whose own search path begins with `front`."""
    return run_behind(f"sys.path.insert(0, {str(front)!r})", "check", folder, *options, folder=folder)


@pytest.mark.parametrize(("name", "options"), [("json", ()), ("typer", ("--deep",))])
def test_ctrl_c_while_it_is_still_importing_says_one_line(folder: Path, name: str, options: tuple[str, ...]) -> None:
    early = folder / f"early-{name}"
    early.mkdir()
    (early / f"{name}.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    outcome = _run_behind(early, folder, *options)
    assert outcome == Outcome(code=130, out="", err="error: interrupted\n")


@pytest.mark.parametrize("gone", ["os.close(2)", "r, w = os.pipe(); os.close(r); os.dup2(w, 2)"])
def test_ctrl_c_ends_it_as_ever_where_nobody_reads_what_it_says(folder: Path, gone: str) -> None:
    early = folder / "early-gone"
    early.mkdir(exist_ok=True)
    text = f"import os, signal, time\n{gone}\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (early / "json.py").write_text(text)
    assert _run_behind(early, folder).code == 130


@pytest.mark.parametrize("name", ["typing", "json", "types"])
def test_a_file_in_front_of_pythons_own_is_named_and_is_no_bug_of_ours(folder: Path, name: str) -> None:
    front = folder / f"front-{name}"
    front.mkdir()
    (front / f"{name}.py").write_text("x = 1\n")
    outcome = _run_behind(front, folder)
    assert (outcome.code, outcome.out) == (3, "")
    # Which name is missed first differs between Python's releases.
    caught = re.escape(f"[TMP]/front-{name}/{name}.py")
    assert re.fullmatch(
        rf"error: envdoctor cannot run: {caught} shadows Python's own module "
        rf"\((ImportError|AttributeError): .*'{name}'.*\)\n\n"
        r"hint: rename or remove that file: this Python searches its folder first, so no program of it works\n",
        outcome.err,
    ), outcome.err


@pytest.mark.parametrize("words", [("check", "-p"), ("diff",), ("history", "--venv")], ids=" ".join)
def test_a_path_longer_than_the_system_allows_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run_envdoctor(*words, "x" * 300, folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"error: \S+/x+…: File name too long\n\nhint: name a shorter path\n", done.err)
