"""`try`: the user's own installer works on a copy, which is compared, tested, and swapped in or thrown away."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envdoctor.facts.folders import remove_folder
from tests.factories.deep import deep
from tests.factories.make_profile import make_profile
from tests.factories.make_venv import Venv, install, make_venv, offline_settings, rewrite, tree_state
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import COMMAND, Outcome, answering, environment, run_behind, run_envdoctor

LARGE = bytes(range(256)) * 512


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """Distributions that later wheels replace, overwrite, or leave alone."""
    wheels = tmp_path / "wheels"
    own = [
        make_wheel(wheels, "one", "1.0", files={"one.py": "def main(): print(1)\n"}, scripts={"one": "one:main"}),
        make_wheel(wheels, "shared", "1.0", files={"shared/lib.so": LARGE}),
    ]
    make_wheel(wheels, "one", "2.0", files={"one.py": "def main(): print(2)\n"}, scripts={"one": "one:main"})
    make_wheel(wheels, "thief", "1.0", files={"shared/lib.so": LARGE[::-1]})
    make_profile(tmp_path, "small", own)
    return make_venv(tmp_path / "venv", *own)


def _settings(venv: Venv, **more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return offline_settings(venv, **{"PATH": path, **more})


def _try(venv: Venv, *words: str | Path, **more: str) -> Outcome:
    return run_envdoctor("try", "--venv", venv.prefix, *words, folder=venv.prefix.parent, extra=_settings(venv, **more))


def _document(venv: Venv, *words: str | Path, **more: str) -> tuple[int, dict[str, Any]]:
    outcome = _try(venv, "--json", *words, **more)
    assert outcome.out, outcome.err
    return outcome.code, json.loads(outcome.out)


@pytest.mark.parametrize("name", ["d", "a-name-that-makes-the-path-longer-than-linux-takes"])
def test_folders_however_deep_are_copied_and_thrown_away(venv: Venv, name: str) -> None:
    deep(venv.prefix / "share", 1100)
    code = f"import os\nos.chdir(os.environ['VIRTUAL_ENV'])\nfor _ in range(99): os.mkdir('{name}'); os.chdir('{name}')"
    done = _try(venv, "--discard", "--", "python", "-c", code)
    if name == "d":
        assert done.code == 0, done.err
    else:
        assert (done.code, done.err.splitlines()[-1]) == (
            4,
            "hint: a folder in it is nested deeper than a path may be long: look at what makes it",
        )
    store = venv.prefix.parent / ".envdoctor/venv"
    assert list((store / "builds").iterdir()) == []
    assert not (store / "journal.json").exists()
    remove_folder(venv.prefix)  # pytest's own removal knows depth


def test_what_is_kept_is_the_venv_with_the_change_and_the_way_back(venv: Venv) -> None:
    before = tree_state(venv.prefix)
    code, told = _document(venv, "--yes", "--test", "one", "--", "uv", "pip", "install", "one==2.0")
    assert (code, told["status"]) == (0, "kept")
    assert told["impact"]["distributions"] == [{"name": "one", "before": "1.0", "after": "2.0"}]
    assert told["test"]["exit_code"] == 0
    # Its scripts name it and not the copy, and its RECORDs say so.
    assert (venv.prefix / "bin/one").read_text().startswith(f"#!{venv.prefix}/bin/python")
    checked = run_envdoctor("check", "--deep", venv.prefix, "--json", folder=venv.prefix.parent)
    assert json.loads(checked.out)["findings"] == []
    back = run_envdoctor("rollback", "--venv", venv.prefix, "--yes", folder=venv.prefix.parent)
    assert (back.code, tree_state(venv.prefix)) == (0, before)


def test_what_is_kept_without_a_question_was_shown_before(venv: Venv) -> None:
    outcome = _try(venv, "--yes", "--", "uv", "pip", "install", "--quiet", "one==2.0")
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "[TMP]/venv is the copy with the change")
    assert "  ~ one 1.0 -> 2.0\n" in outcome.err


def test_what_harms_another_is_thrown_away(venv: Venv) -> None:
    before = tree_state(venv.prefix)
    code, told = _document(venv, "--yes", "--with", "thief")
    assert (code, told["status"]) == (1, "thrown away")
    assert [(loss["owner"], loss["taken_by"]) for loss in told["impact"]["losses"]] == [("shared", "thief")]
    assert tree_state(venv.prefix) == before
    assert list((venv.prefix.parent / ".envdoctor/venv/builds").iterdir()) == []


def test_an_uninstall_stops_what_impact_says_it_stops(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    own = [
        make_wheel(wheels, "base", "1.0", files={"base/__init__.py": "", "base/more.py": ""}),
        make_wheel(wheels, "user", "1.0", files={"user/__init__.py": "import base\n"}, requires=["base"]),
        make_wheel(wheels, "lazy", "1.0", files={"lazy/__init__.py": ""}, requires=["base"]),
    ]
    venv = make_venv(tmp_path / "venv", *own)
    code, told = _document(venv, "--discard", "--", "uv", "pip", "uninstall", "base")
    foreseen = run_envdoctor("impact", "remove", "base", "--venv", venv.prefix, "--json", folder=tmp_path)
    stops = told["impact"]["stops"]
    assert [(stop["module"], stop["owner"]) for stop in stops] == [("base", "base"), ("user", "user")]
    assert (code, stops) == (1, json.loads(foreseen.out)["stops"])


def test_a_test_that_fails_throws_it_away(venv: Venv) -> None:
    before = tree_state(venv.prefix)
    test = "python -c 'import one; print(one.__file__); raise SystemExit(7)'"
    code, told = _document(venv, "--yes", "--test", test, "--with", "one==2.0")
    assert (code, told["status"], told["test"]["exit_code"]) == (1, "thrown away", 7)
    assert "/.envdoctor/venv/builds/" in told["test"]["output"], "it ran in the copy"
    assert tree_state(venv.prefix) == before


def test_a_venv_drifts_from_its_profile(venv: Venv) -> None:
    code, told = _document(venv, "--discard", "-p", "small", "--with", "one==2.0")
    assert (code, told["status"]) == (1, "thrown away")
    assert "ED401" in {line["code"] for line in told["impact"]["appear"]}


def test_a_question_needs_a_terminal(venv: Venv) -> None:
    before = tree_state(venv.prefix.parent)
    outcome = _try(venv, "--with", "one==2.0")
    assert (outcome.code, outcome.out, outcome.err) == (
        2,
        "",
        "error: confirmation needed, but stdin is not a terminal\n\n"
        "hint: add `--yes` to keep it if nothing would break, or `--discard` to see what it would do\n",
    )
    after = tree_state(venv.prefix.parent)
    assert {path for path in after.keys() ^ before.keys() if path.split("/")[0] not in ("home", "tmp")} == set()


def test_what_is_changed_while_the_question_is_open_is_not_lost(venv: Venv) -> None:
    mine = venv.site_packages / "mine.py"
    person = answering(f"pathlib.Path({str(mine)!r}).write_text('X = 1')")
    outcome = run_behind(
        person, "try", "--venv", venv.prefix, "--with", "one==2.0", folder=venv.prefix.parent, extra=_settings(venv)
    )
    assert outcome.code == 4, outcome.err
    assert "  ~ one 1.0 -> 2.0\n" in outcome.err
    site = mine.relative_to(venv.prefix)
    assert f"error: 1 file of [TMP]/venv changed meanwhile: {site}\n" in outcome.err
    assert mine.read_text() == "X = 1"


def test_a_shell_may_write_into_the_files_of_its_copy_and_remove_it(venv: Venv) -> None:
    before = tree_state(venv.prefix)
    site = f"$VIRTUAL_ENV/lib/{venv.site_packages.parent.name}/site-packages"
    deeds = f"printf x >>{site}/shared/lib.so; printf x >>{site}/one.py; chmod -R a-w {site}"
    code, told = _document(venv, "--discard", "--", "sh", "-c", deeds)
    assert (code, told["status"]) == (1, "thrown away")
    assert tree_state(venv.prefix) == before
    outcome = _try(venv, "--yes", "--", "sh", "-c", "rm -r $VIRTUAL_ENV; ln -s / $VIRTUAL_ENV")
    assert outcome.code == 4
    assert "error: the command removed the copy that it was to work on; [TMP]/venv is as it was\n" in outcome.err
    assert tree_state(venv.prefix) == before
    assert list((venv.prefix.parent / ".envdoctor/venv/builds").iterdir()) == []


def test_what_leads_out_of_the_venv_is_as_it_was(venv: Venv) -> None:
    outside = venv.prefix.parent / "outside"
    outside.mkdir()
    (outside / "mine.py").write_text("")
    rewrite(venv.site_packages / "mine.pth", "../../../../outside\n")
    (venv.site_packages / "link.py").symlink_to("../../../../outside/mine.py")
    script = venv.prefix / "bin/mine"
    script.write_text(f"#!{os.path.realpath(sys.executable)}\nprint('not of this venv')\n")
    test = f"{venv.python} -c 'import mine, link, os; assert os.path.samefile(mine.__file__, link.__file__)'"
    code, told = _document(
        venv, "--yes", "--test", test, "--", "uv", "-q", "--color", "never", "pip", "install", "one==2.0"
    )
    assert (code, told["status"]) == (0, "kept"), told
    assert (venv.site_packages / "mine.pth").read_text() == "../../../../outside\n"
    assert str((venv.site_packages / "link.py").readlink()) == "../../../../outside/mine.py"
    assert script.read_text() == f"#!{os.path.realpath(sys.executable)}\nprint('not of this venv')\n"


def test_a_program_of_the_venv_is_the_copys_and_what_it_leaves_running_is_ended(venv: Venv) -> None:
    script = venv.prefix / "bin/own"
    rewrite(script, "#!/bin/sh\nsetsid sh -c 'exec sleep 987' &\nprintf 'X = 1' >$VIRTUAL_ENV/lib/x.py\nsleep 0.5\n")
    script.chmod(0o755)
    code, told = _document(venv, "--discard", "--", "own")
    assert (code, told["status"], told["ended"]) == (0, "thrown away", ["sleep 987"])
    code, told = _document(venv, "--discard", "--", venv.prefix / "bin/own")
    assert (code, told["status"], told["ended"]) == (0, "thrown away", ["sleep 987"])
    assert not (venv.prefix / "lib/x.py").exists()


def test_pip_of_the_copy_works_on_the_copy(venv: Venv) -> None:
    wheel = Path(__import__("ensurepip").__file__).parent / "_bundled"
    install(venv, next(wheel.glob("pip-*.whl")))
    before = tree_state(venv.prefix)
    extra = {"PIP_FIND_LINKS": str(venv.prefix.parent / "wheels"), "PIP_NO_INDEX": "1"}
    code, told = _document(venv, "--yes", "--", "pip", "install", "-q", "one==2.0", **extra)
    assert (code, told["status"]) == (0, "kept")
    assert (venv.prefix / "bin/one").read_text().startswith(f"#!{venv.prefix}/bin/python")
    assert tree_state(Path(told["kept"].replace("[TMP]", str(venv.prefix.parent)))) == before
    checked = run_envdoctor("check", "--deep", venv.prefix, "--json", folder=venv.prefix.parent)
    assert json.loads(checked.out)["findings"] == []


def test_a_shell_in_the_copy(venv: Venv) -> None:
    shell = venv.prefix.parent / "shell"
    rewrite(shell, "#!/bin/sh\nuv pip install -q one==2.0\nwhich python\n")
    shell.chmod(0o755)
    code, told = _document(venv, "--discard", "shell", SHELL=str(shell))
    assert (code, told["status"]) == (0, "thrown away")
    assert told["impact"]["distributions"] == [{"name": "one", "before": "1.0", "after": "2.0"}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("uv", "pip", "install", "--python", "/usr/bin/python3", "one"),
            "`--python` leads the installer elsewhere, and the copy is what it must change",
        ),
        (
            ("uv", "pip", "install", "-t/x", "one"),
            "`-t/x` leads the installer elsewhere, and the copy is what it must change",
        ),
        (
            ("pip", "install", "--targ", "/x", "one"),
            "`--targ` leads the installer elsewhere, and the copy is what it must change",
        ),
        (("uv", "venv"), "`uv venv` does not change a venv"),
        (("pip", "install", "one"), "[TMP]/venv has no pip, and another one would install somewhere else"),
        (("nosuch", "install"), "`nosuch` is neither in [TMP]/venv/bin nor on PATH"),
        (("/usr/bin/python3", "-m", "pip"), "`/usr/bin/python3` is not in [TMP]/venv"),
        (("uv", "-q", "venv"), "`uv -q venv` does not change a venv"),
    ],
)
def test_what_would_change_something_else_is_refused(venv: Venv, words: tuple[str, ...], message: str) -> None:
    outcome = _try(venv, "--yes", "--", *words)
    assert (outcome.code, outcome.err.partition("\n")[0]) == (2, f"error: {message}")


def test_without_a_uv_on_path_its_own_is_used(venv: Venv) -> None:
    code, told = _document(venv, "--discard", "--with", "one==2.0", PATH="/usr/bin:/bin")
    assert (code, told["status"]) == (0, "thrown away")
    assert told["impact"]["distributions"] == [{"name": "one", "before": "1.0", "after": "2.0"}]


def test_no_variable_leads_it_into_another_venv(venv: Venv, tmp_path: Path) -> None:
    other = make_venv(tmp_path / "other")
    before = tree_state(other.prefix)
    code, told = _document(venv, "--discard", "--with", "one==2.0", UV_PYTHON=str(other.python))
    assert (code, told["status"]) == (0, "thrown away")
    assert told["impact"]["distributions"] == [{"name": "one", "before": "1.0", "after": "2.0"}]
    assert tree_state(other.prefix) == before


def test_the_test_of_a_venvs_own_python_is_run_in_the_copy(venv: Venv) -> None:
    test = f"{venv.python} -c \"import importlib.metadata as m; assert m.version('one') == '2.0'\""
    code, told = _document(venv, "--discard", "--test", test, "--with", "one==2.0")
    assert (code, told["test"]["exit_code"]) == (0, 0)


def test_an_installer_that_fails(venv: Venv) -> None:
    before = tree_state(venv.prefix)
    outcome = _try(venv, "--yes", "--with", "one==9")
    assert outcome.code == 4
    assert "error: `uv pip install one==9` ended with exit code 1 in the copy, which was removed" in outcome.err
    assert tree_state(venv.prefix) == before


def test_nothing_changes(venv: Venv) -> None:
    outcome = _try(venv, "--yes", "--with", "one")
    assert (outcome.code, outcome.out) == (
        0,
        "nothing changed in the copy of [TMP]/venv, which was thrown away\n",
    )


def test_a_command_that_changes_the_venv_itself_is_told(venv: Venv) -> None:
    script = venv.prefix.parent / "evil.sh"
    script.write_text(f"rm {venv.site_packages}/one.py\n")
    outcome = _try(venv, "--yes", "--", "sh", script)
    assert outcome.code == 4
    python = venv.site_packages.parent.name
    assert f"error: 1 file of [TMP]/venv itself changed meanwhile: lib/{python}/site-packages/one.py" in outcome.err


def test_permissions_that_are_set_back_are_told(venv: Venv) -> None:
    large, deed = venv.site_packages / "shared/large.so", venv.prefix.parent / "deed.sh"
    large.write_bytes(b"x" * ((1 << 20) + 1))
    large.chmod(0o640)
    # By somebody in another terminal: the copy has the file as a second link.
    deed.write_text(f"chmod 0660 {large}\n")
    outcome = _try(venv, "--yes", "--", "sh", deed)
    assert (outcome.code, outcome.out) == (0, "nothing changed in the copy of [TMP]/venv, which was thrown away\n")
    assert outcome.err.endswith(
        "the copy shares 1 file with [TMP]/venv whose permissions were changed meanwhile, there or in the copy; they "
        f"are set back: {large.relative_to(venv.prefix)}\n"
    )
    assert large.stat().st_mode & 0o777 == 0o640


def test_killed_it_leaves_the_venv_and_the_next_command_tidies_up(venv: Venv) -> None:
    before = tree_state(venv.prefix)
    ready = venv.prefix.parent / "ready"
    command = f"touch {ready}; sleep 60"
    with subprocess.Popen(
        [*COMMAND, "try", "--venv", venv.prefix, "--yes", "--", "sh", "-c", command],
        cwd=venv.prefix.parent,
        env=environment(venv.prefix.parent, _settings(venv)),
        stderr=subprocess.DEVNULL,
    ) as process:
        while not ready.exists():
            assert process.poll() is None
        process.kill()
    assert tree_state(venv.prefix) == before
    tidied = run_envdoctor("prune", "--keep", "9", "--yes", "--venv", venv.prefix, folder=venv.prefix.parent)
    assert tidied.err.startswith("an earlier try was stopped while it built its copy; nothing had been changed\n"), (
        tidied.err
    )
    assert list((venv.prefix.parent / ".envdoctor/venv/builds").iterdir()) == []


def test_pip_of_a_venv_that_is_a_link_works_on_the_copy(venv: Venv) -> None:
    wheel = Path(__import__("ensurepip").__file__).parent / "_bundled"
    link = venv.prefix.parent / "link"
    link.symlink_to(venv.prefix)
    install(Venv(prefix=link), next(wheel.glob("pip-*.whl")))
    assert f"{link}/bin/python" in (venv.prefix / "bin/pip").read_text()
    before = tree_state(venv.prefix)
    extra = {"PIP_FIND_LINKS": str(venv.prefix.parent / "wheels"), "PIP_NO_INDEX": "1"}
    outcome = run_envdoctor(
        "try", "--venv", link, "--discard", "--json", "--", "pip", "install", "-q", "one==2.0",
        folder=venv.prefix.parent, extra=_settings(venv, **extra),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["impact"]["distributions"] == [{"name": "one", "before": "1.0", "after": "2.0"}]
    assert tree_state(venv.prefix) == before
