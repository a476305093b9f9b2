"""`[tool.envdoctor]`: what it sets, what comes before it, and what is wrong with it."""

import json
import os
from pathlib import Path

import pytest

from envdoctor.documents.project_config import ProjectConfig, load
from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import install, make_venv
from tests.factories.make_wheel import make_wheel

WAIVER = '\n[[tool.envdoctor.waivers]]\ncode = "{code}"\nreason = "installed by hand"\n{more}\n'


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Make a venv of the small profile with one package more, below a project's folder."""
    made = make_stack(tmp_path)
    venv = make_venv(tmp_path / "train-venv", *made.wheels, cache=made.cache)
    install(venv, make_wheel(tmp_path / "more", "extra", "1.0"), cache=made.cache)
    return made


def _configure(stack: Stack, text: str) -> None:
    (stack.folder / "pyproject.toml").write_text(f'[project]\nname = "x"\n\n[tool.envdoctor]\n{text}')


def _codes(stack: Stack, *arguments: str, **variables: str) -> tuple[int, list[str], object]:
    answer = stack.run("check", "--json", *arguments, extra=variables)
    found = json.loads(answer.out)
    return answer.code, [item["code"] for item in found["findings"]], found["profile"]


def test_profile_venv_and_fail_on_come_from_the_file_the_variable_and_the_option_in_turn(stack: Stack) -> None:
    _configure(stack, 'profile = "small"\nvenv = "train-venv"\nfail-on = "note"\n')
    assert _codes(stack) == (1, ["ED403"], "small")
    assert _codes(stack, ENVDOCTOR_FAIL_ON="warning") == (0, ["ED403"], "small")
    assert _codes(stack, "--fail-on", "note", ENVDOCTOR_FAIL_ON="warning") == (1, ["ED403"], "small")
    assert _codes(stack, ENVDOCTOR_PROFILE="") == (0, [], None)
    make_venv(stack.folder / "other", *stack.wheels, cache=stack.cache)
    assert _codes(stack, "other") == (0, [], "small")
    assert _codes(stack, VIRTUAL_ENV=str(stack.folder / "other")) == (0, [], "small")
    compared = stack.run("diff", "train-venv", "other", "--json")
    assert compared.code == 1, "two stacks that are named do not meet a third one from the file"
    assert stack.run("fingerprint", "other", "-o", "other.json").code == 0
    assert _codes(stack, "--fingerprint", "other.json") == (0, [], "small")


def test_it_holds_below_the_project_and_a_path_starts_at_its_file(stack: Stack) -> None:
    (stack.folder / "profiles/small.toml").rename(stack.folder / "small.toml")
    (stack.folder / "lockfiles/small.txt").rename(stack.folder / "small.txt")
    _configure(stack, 'profile = "./small.toml"\nvenv = "train-venv"\n')
    below = stack.folder / "src/deep"
    below.mkdir(parents=True)
    (below.parent / "pyproject.toml").write_text("[tool.other]\n# not [tool.envdoctor]\n")
    stack.environment["PWD"] = str(below)
    assert load(below).venv == str(stack.folder / "train-venv")
    assert load(below).profile == str(stack.folder / "small.toml")


def test_a_waiver_holds_until_its_last_day(stack: Stack) -> None:
    text = 'profile = "small"\nvenv = "train-venv"\nfail-on = "note"\n'
    _configure(stack, text + WAIVER.format(code="ED403", more='subject = "extra"\nexpires = 2999-12-31'))
    waived = json.loads(stack.run("check", "--json").out)
    assert [(item["finding"]["code"], item["reason"]) for item in waived["waived"]] == [("ED403", "installed by hand")]
    assert waived["findings"] == []
    _configure(stack, text + WAIVER.format(code="extra-distribution", more='expires = "2001-01-31"'))
    (found,) = json.loads(stack.run("check", "--json").out)["findings"]
    assert found["evidence"][-1] == "it was waived until 2001-01-31, because: installed by hand"


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        (
            'profil = "x"\n',
            ".profil: unknown key; known here: profile, venv, fail-on, ranks, ranks-ignore, waivers",
            "{example}",
        ),
        ("fail-on = 3\n", ".fail-on: {severities}, got 3", "{example}"),
        (WAIVER.format(code="none", more=""), ".waivers[0].code: there is no check `none`", "{codes}"),
        (
            WAIVER.format(code="ED403", more='expires = "soon"'),
            ".waivers[0].expires: `soon` is not a day",
            'write it as "2027-01-31"',
        ),
        ('[[tool.envdoctor.waivers]]\ncode = "ED403"\nreason = " "\n', ".waivers[0].reason: empty", "{why}"),
    ],
    ids=["unknown key", "wrong type", "unknown code", "no day", "no reason"],
)
def test_what_is_wrong_is_said_with_file_and_key(stack: Stack, text: str, error: str, hint: str) -> None:
    _configure(stack, text)
    answer = stack.run("check", "train-venv")
    severities = "expected one of error, warning, note"
    expected = error.format(severities=severities)
    hints = {
        "example": "docs/config.md shows an example",
        "codes": "`envdoctor checks` lists the codes",
        "why": "say why ED403 is accepted",
    }
    assert (answer.code, answer.err) == (
        2,
        f"error: FOLDER/pyproject.toml: tool.envdoctor{expected}\n\nhint: {hint.format(**hints)}\n",
    )


def test_what_the_file_names_and_is_not_there_is_said_with_the_file(stack: Stack) -> None:
    _configure(stack, 'profile = "gone"\nvenv = "~/gone"\n')
    named = stack.run("check").err
    assert named.startswith("error: no profile is called `gone` (FOLDER/pyproject.toml names it)\n")
    by_variable = stack.run("check", extra={"ENVDOCTOR_PROFILE": "nowhere"}).err
    assert by_variable.startswith("error: no profile is called `nowhere` ($ENVDOCTOR_PROFILE names it)\n")
    absent = stack.run("check", extra={"ENVDOCTOR_PROFILE": ""})
    assert (absent.code, absent.err.partition("\n")[0]) == (
        2,
        "error: FOLDER/home/gone does not exist (FOLDER/pyproject.toml names it)",
    )


def test_a_byte_order_mark_is_passed_over(stack: Stack) -> None:
    (stack.folder / "pyproject.toml").write_bytes(b'\xef\xbb\xbf[tool.envdoctor]\r\nvenv = "train-venv"\r\n')
    assert load(stack.folder).venv == str(stack.folder / "train-venv")


def test_config_shows_each_value_and_where_it_comes_from(stack: Stack) -> None:
    _configure(
        stack,
        'profile = "small"\nvenv = "train-venv"\nranks = "require"\n'
        + WAIVER.format(code="ED403", more='subject = "extra"\nexpires = 2001-01-31'),
    )
    shown = stack.run("config", extra={"ENVDOCTOR_FAIL_ON": "warning"})
    assert (shown.code, shown.err) == (0, "")
    assert [line.split(maxsplit=2) for line in shown.out.splitlines()] == [
        ["profile", "small", "FOLDER/pyproject.toml"],
        ["venv", "FOLDER/train-venv", "FOLDER/pyproject.toml"],
        ["fail-on", "warning", "$ENVDOCTOR_FAIL_ON"],
        ["format", "text", "default"],
        ["color", "auto", "default"],
        ["gate", "enforce", "default"],
        ["ranks", "require", "FOLDER/pyproject.toml"],
        ["ranks-ignore", "-", "default"],
        ["ranks-timeout", "300", "default"],
        ["waiver", "ED403", "(extra): installed by hand, expired on 2001-01-31  FOLDER/pyproject.toml"],
    ]
    document = json.loads(stack.run("config", "--json").out)
    assert (document["file"], document["ignored"]) == ("FOLDER/pyproject.toml", None)
    assert document["settings"][2] == {"name": "fail-on", "value": "error", "source": "default"}
    assert document["waivers"] == [
        {"code": "ED403", "reason": "installed by hand", "subject": "extra", "expires": "2001-01-31"}
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_decides_nothing(stack: Stack) -> None:
    _configure(stack, 'profile = "small"\nvenv = "train-venv"\n')
    os.chown(stack.folder / "pyproject.toml", 12345, 12345)
    assert load(stack.folder) == ProjectConfig(ignored=str(stack.folder / "pyproject.toml"))
    shown = stack.run("config")
    assert shown.out.splitlines()[-1] == "ignored        FOLDER/pyproject.toml: it belongs to another user"
    assert _codes(stack, "train-venv") == (0, [], None)
    assert stack.run("check", "train-venv").err == (
        "note: FOLDER/pyproject.toml belongs to another user, so its profile, venv and waivers do not count\n"
    )


def test_a_file_that_is_edited_counts_as_it_is_now_in_one_process_too(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    assert load(tmp_path).path != str(file)
    for profile in ("first", "other"):
        file.write_text(f'[tool.envdoctor]\nprofile = "{profile}"\n')
        assert load(tmp_path).profile == profile
    file.unlink()
    assert load(tmp_path).path != str(file)
