"""Words and variables of a command that is started in a copy: what names the venv, in whichever way, names the copy."""

from pathlib import Path

import pytest

from envdoctor.trial.launch import launch_environment, placed


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    made = tmp_path / "project/.venv"
    (made / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(made)
    return made


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (".venv", "COPY"),
        ("./.venv", "COPY"),
        (".venv/", "COPY"),
        ("../project/.venv/bin", "COPY/bin"),
        ("--venv=.venv", "--venv=COPY"),
        ("V=.venv:./.venv/bin:x", "V=COPY:COPY/bin:x"),
        ("ROOT/project/.venv", "COPY"),
        ("--venv=ROOT/project/.venv/", "--venv=COPY/"),
        ("../link/bin/python", "COPY/bin/python"),
        ("cd .venv && bin/python -c 'import six'", "cd COPY && bin/python -c 'import six'"),
        ("cd ./.venv/ && bin/pip install six", "cd COPY && bin/pip install six"),
        ("(.venv/bin/python;.venv/bin/pip)", "(COPY/bin/python;COPY/bin/pip)"),
        (".venv2", ".venv2"),
        (".venv2/bin", ".venv2/bin"),
        ("x/.venv", "x/.venv"),
        ("x.venv", "x.venv"),
        ("bin/python", "bin/python"),
        ("$V/.venv", "$V/.venv"),
        (".", "."),
        ("..", ".."),
        ("1.5/.5 -k not", "1.5/.5 -k not"),
    ],
)
def test_a_word_that_names_the_venv_names_the_copy(venv: Path, typed: str, meant: str) -> None:
    root, copy = venv.parent.parent, venv.parent.parent / "copy"
    word = typed.replace("ROOT", str(root))
    assert placed(["true", word], [str(venv)], copy, venv.parent)[1] == meant.replace("COPY", str(copy))


def test_a_folder_with_a_plain_name_needs_a_slash(tmp_path: Path) -> None:
    (tmp_path / "env/bin").mkdir(parents=True)
    words = ["env", "env", "./env", "env/", "env/bin", "cd env && ./env/bin/python"]
    copy = tmp_path / "copy"
    assert placed(words, [str(tmp_path / "env")], copy, tmp_path)[1:] == [
        "env", str(copy), str(copy), f"{copy}/bin", f"cd env && {copy}/bin/python",
    ]  # fmt: skip


def test_in_the_venv_itself_relative_paths_are_the_copys(venv: Path) -> None:
    copy = venv.parent / "copy"
    words = ["bin/python", "./bin/python", "sh", "bin/python -c 'import six'", "../train.py"]
    assert placed(words, [str(venv)], copy, venv) == [
        f"{copy}/bin/python", f"{copy}/bin/python", "sh", f"{copy}/bin/python -c 'import six'", "../train.py",
    ]  # fmt: skip


def test_variables_that_name_the_venv_name_the_copy(venv: Path) -> None:
    copy = venv.parent / "copy"
    environ = {"A": ".venv", "LD_LIBRARY_PATH": f"/lib:.venv/lib:{venv}/lib", "PWD": str(venv), "TEXT": "a sentence."}
    made = launch_environment(environ, copy, {}, [str(venv)], venv.parent)
    assert {name: made[name] for name in environ} == {
        "A": str(copy),
        "LD_LIBRARY_PATH": f"/lib:{copy}/lib:{copy}/lib",
        "PWD": str(venv),
        "TEXT": "a sentence.",
    }
