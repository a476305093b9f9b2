"""How `uv` and `envdoctor` are written in printed commands: as the shell that reads them finds them."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.facts.programs import by_path
from envdoctor.report.style import Style, typable, typable_prose
from tests.factories.run_envdoctor import environment

_PATHS = st.text(st.characters(blacklist_characters="\0\n", blacklist_categories=("Cs",)), min_size=1)
_BIN = Path(sys.executable).parent


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def only(folder: Path, *names: str) -> dict[str, str]:
    """Return an environment of its own whose PATH has these programs of this machine and no other."""
    (folder / "few").mkdir()
    for name in names:
        (folder / "few" / name).symlink_to(str(shutil.which(name)))
    return environment(folder, {"PATH": str(folder / "few")})


def found(
    environ: Mapping[str, str], started_as: str = "-c", uv: str | None = "/opt/tool dir/bin/uv"
) -> dict[str, str]:
    return {name: words for name, words in by_path(environ, started_as, lambda: uv).items() if name != "sudo"}


def test_uv_keeps_its_name_where_a_shell_finds_it(tmp_path: Path) -> None:
    program(tmp_path / "bin", "uv")
    assert found({"PATH": f"/nowhere:{tmp_path}/bin"}) == {}


def test_uv_is_named_by_its_path_where_no_shell_finds_it(tmp_path: Path) -> None:
    assert found({"PATH": str(tmp_path)}) == {"uv": "'/opt/tool dir/bin/uv'"}
    assert found({"PATH": str(tmp_path)}, uv=None) == {}


@pytest.mark.parametrize("runner", ["UV_RUN_RECURSION_DEPTH", "POETRY_ACTIVE", "HATCH_ENV_ACTIVE"])
def test_a_path_that_ends_with_the_command_does_not_count(runner: str) -> None:
    path = {"PATH": str(_BIN)}
    assert found(path) == {}
    assert found({**path, runner: "1"}, str(_BIN / "envdoctor")) == {
        "uv": "'/opt/tool dir/bin/uv'",
        "envdoctor": str(_BIN / "envdoctor"),
    }


@pytest.mark.parametrize(("user", "folder", "words"), [(0, "", ""), (0, "bin", None), (1000, "", None)])
def test_root_of_a_container_has_no_sudo_and_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, folder: str, words: str | None
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    program(tmp_path / "bin", "sudo")
    assert by_path({"PATH": str(tmp_path / folder)}, "-c", lambda: None).get("sudo") == words


def test_a_shim_of_pyenv_may_start_nothing(tmp_path: Path) -> None:
    shim = program(tmp_path / "shims", "uv")
    shim.write_text(f'#!/usr/bin/env bash\nexec "{tmp_path}/libexec/pyenv" exec "$program" "$@"\n')
    assert found({"PATH": str(shim.parent)}) == {"uv": "'/opt/tool dir/bin/uv'"}


def test_envdoctor_is_named_by_the_path_that_started_it(tmp_path: Path) -> None:
    own, other = program(tmp_path / "a b", "envdoctor"), program(tmp_path / "other", "envdoctor")
    link = tmp_path / "links/envdoctor"
    link.parent.mkdir()
    link.symlink_to(own)
    assert found({"PATH": "/nowhere"}, str(own), None) == {"envdoctor": f"'{own}'"}
    # As pipx and `uv tool install` link it: the shell finds this one.
    assert found({"PATH": str(link.parent)}, str(own), None) == {}
    assert found({"PATH": str(other.parent)}, str(own), None) == {"envdoctor": f"'{own}'"}
    assert found({"PATH": "/nowhere"}, os.path.relpath(other), None) == {"envdoctor": str(other)}


def test_a_module_that_was_started_is_named_by_its_script_or_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    started = "/site-packages/envdoctor/__main__.py"
    assert found({"PATH": "/nowhere"}, started, None) == {"envdoctor": str(_BIN / "envdoctor")}
    monkeypatch.setattr(sys, "executable", "/opt/no script/python")
    assert found({"PATH": "/nowhere"}, started, None) == {"envdoctor": "'/opt/no script/python' -m envdoctor"}


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        ("uv pip install torch", "/t/uv pip install torch"),
        ("rm x && uv pip install uv", "rm x && /t/uv pip install uv"),
        ("UV_PROJECT_ENVIRONMENT='/a b/v' uv sync", "UV_PROJECT_ENVIRONMENT='/a b/v' /t/uv sync"),
        ("envdoctor run -p good -- uv run x", "/t/ed run -p good -- uv run x"),
        ("uv pip uninstall envdoctor && envdoctor check", "/t/uv pip uninstall envdoctor && /t/ed check"),
        ("mv uv envdoctor", "mv uv envdoctor"),
        ("sudo apt-get update && sudo apt-get install sudo", "apt-get update && apt-get install sudo"),
        ("envdoctor-gate write", "envdoctor-gate write"),
    ],
)
def test_only_programs_are_replaced(command: str, typed: str) -> None:
    assert typable(command, lambda: {"uv": "/t/uv", "envdoctor": "/t/ed", "sudo": ""}) == typed


@given(words=st.lists(_PATHS, min_size=1), folder=_PATHS)
def test_words_of_a_command_stay_what_they_are(words: list[str], folder: str) -> None:
    uv = f"/{folder}/uv"
    typed = typable(f"uv {shlex.join(words)}", lambda: {"uv": shlex.quote(uv)})
    assert shlex.split(typed) == [uv, *words]


def test_prose_has_it_in_backticks_only() -> None:
    style = Style(programs=lambda: {"envdoctor": "/t/ed"})
    text = "envdoctor check says more: `envdoctor check /v`, then `pip check`"
    assert typable_prose(text, style.programs) == "envdoctor check says more: `/t/ed check /v`, then `pip check`"
    assert style.paint("command", "envdoctor check") == "/t/ed check"
    assert style.paint("strong", "envdoctor check") == "envdoctor check"


def test_every_command_of_a_report_is_typable(tmp_path: Path) -> None:
    """Text and JSON, from an environment whose PATH has neither program: what is printed starts as it stands."""
    subprocess.run([_BIN / "uv", "venv", "-q", "--python", sys.executable, tmp_path / "v"], check=True)
    own = only(tmp_path, "sh")
    asked = [_BIN / "envdoctor", "check", tmp_path / "v", "--require", "torch"]
    text = subprocess.run(asked, env=own, capture_output=True, text=True, check=False).stdout
    json = subprocess.run([*asked, "--json"], env=own, capture_output=True, text=True, check=False).stdout
    line = f"{_BIN}/uv pip install --python {tmp_path}/v/bin/python --torch-backend auto torch"
    assert f"        {line}\n" in text
    assert f'"{line}"' in json
    assert text.endswith(f"For more about a finding, run `{_BIN}/envdoctor explain ED413`.\n")
    nothing = [_BIN / "envdoctor", "check", tmp_path, "--json"]
    refused = subprocess.run(nothing, env=own, capture_output=True, text=True, check=False)
    assert f"`{_BIN}/envdoctor check path/to/.venv`" in refused.stderr
    assert f"`{_BIN}/envdoctor check path/to/.venv`" in refused.stdout
    shell = ["sh", "-c", f"{_BIN}/envdoctor explain ED413 >/dev/null && {line} --help >/dev/null"]
    assert subprocess.run(shell, env=own, check=False).returncode == 0


def test_commands_for_another_machine_keep_the_names(tmp_path: Path) -> None:
    """What is examined here and fixed there: no path of this machine is in a command."""
    root = tmp_path / "root"
    made = subprocess.run([_BIN / "uv", "venv", "-q", "--python", sys.executable, root / "v"], check=False)
    assert made.returncode == 0
    own = only(tmp_path, "sh")
    (tmp_path / "few/python3").symlink_to(os.path.realpath(sys.executable))
    facts = tmp_path / "facts.json"
    subprocess.run([_BIN / "envdoctor", "fingerprint", root / "v", "-o", facts], env=own, check=True)
    other = tmp_path / "other.json"
    other.write_text(facts.read_text().replace('"hostname": "', '"hostname": "other-'))
    hosts = tmp_path / "hosts"
    hosts.write_text("node\n")
    (tmp_path / "few/ssh").write_text('#!/bin/sh\nfor command; do :; done\nexec sh -c "$command"\n')
    (tmp_path / "few/ssh").chmod(0o755)
    nodes = ["--hosts", hosts, "--venv", root / "tmp", "--scratch", tmp_path, "--dry-run"]
    (root / "tmp").mkdir()
    install = "uv pip install --python /v/bin/python --torch-backend auto torch"
    asked: list[tuple[list[str | Path], str]] = [
        (["check", "--fingerprint", facts, "--require", "torch"], install.replace("/v", f"{root}/v")),
        (["check", "/v", "--root", root, "--require", "torch"], install),
        (["fleet", "check", "--files", facts, other], "2 nodes over files: one stack"),
        (["fleet", "repair", *nodes], "name the venv to repair: `envdoctor repair --venv PATH`"),
        (["fleet", "rollback", *nodes], "as they were given then; `rollback` on a node goes back there"),
    ]
    for words, told in asked:
        for shape in ((), ("--json",)):
            done = subprocess.run(
                [_BIN / "envdoctor", *words, *shape], env=own, capture_output=True, text=True, check=False
            )
            assert told in (done.stdout or done.stderr)
            # What undoes it on all nodes is typed here.
            undo = f'"undo": "{_BIN}/envdoctor fleet rollback '
            assert (undo in done.stdout) == ("repair" in words and bool(shape))
            assert str(_BIN) not in done.stdout.replace(undo, "") + done.stderr
