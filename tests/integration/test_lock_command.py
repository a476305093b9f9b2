"""`envdoctor lock` with real uv against a local index."""

import os
import re
from pathlib import Path

import pytest
import tomli
from packaging.pylock import Pylock

from tests.factories.make_index import make_index
from tests.factories.make_stack import PYTHON, make_stack
from tests.factories.make_venv import make_venv, rewrite
from tests.factories.make_wheel import lock_text, make_wheel, sha256


def test_requirements_become_a_lock_that_names_no_host(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    needed = make_wheel(tmp_path / "served", "needed", "2.0")
    served = make_wheel(tmp_path / "served", "asked-for", "1.5", requires=["needed>=1"])
    make_wheel(tmp_path / "served", "asked-for", "1.5", tag="cp312-cp312-win_amd64", requires=["needed>=1"])
    (tmp_path / "direct.in").write_text("asked-for==1.5\n")
    (tmp_path / "direct.txt").write_text("# Kept head.\n# Second line.\nold==1 --hash=sha256:00\n")
    with make_index(tmp_path / "served") as index:
        online = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": index.url}
        options = ("--exclude-newer", "2026-02-01T00:00:00Z")
        answer = stack.run("lock", "direct.in", "-o", "direct.txt", *options, extra=online)
        too_early = stack.run("lock", "direct.in", "--exclude-newer", "2026-01-01T00:00:00Z", extra=online)
    assert (answer.code, answer.out) == (0, "locked 2 packages in direct.txt\n")
    machine = os.uname().machine
    assert answer.err == f"note: the lock is for Python 3.12 on {machine}; `--python` and `--machine` name others\n"
    assert (tmp_path / "direct.txt").read_text() == (
        "# Kept head.\n# Second line.\n"
        f"asked-for==1.5 \\\n    --hash=sha256:{sha256(served)}\n    # {sha256(served)[:12]}: py3-none-any\n"
        f"needed==2.0 \\\n    --hash=sha256:{sha256(needed)}\n    # {sha256(needed)[:12]}: py3-none-any\n"
    )
    assert too_early.code == 4


def test_a_lock_is_for_the_python_of_the_venv_that_is_there(tmp_path: Path) -> None:
    stack = make_stack(tmp_path, make_wheel(tmp_path / "wheels", "needed", "2.0"))
    (tmp_path / "direct.in").write_text("needed\n")
    venv = make_venv(tmp_path / ".venv", cache=stack.cache)
    config = venv.prefix / "pyvenv.cfg"
    # As of a venv of another Python: the version is read, nothing is started.
    text = re.sub(r"(?m)^(version\w*) = .*", r"\1 = 3.14.1", config.read_text())
    rewrite(config, text)
    answer = stack.run("lock", "direct.in", "-o", "direct.txt")
    assert (answer.code, answer.err) == (
        0,
        f"note: the lock is for Python 3.14, that of FOLDER/.venv, on {os.uname().machine}; "
        "`--python` and `--machine` name others\n",
    )


def test_a_venv_that_does_not_say_its_python_is_no_reason_to_take_another(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    (tmp_path / "direct.in").write_text("needed\n")
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    hint = "hint: name the Python that the lock is for: `--python 3.12`\n"
    for name, error in (
        ("gone", "$VIRTUAL_ENV: FOLDER/gone does not exist"),
        ("venv", "the Python of FOLDER/venv could not be determined"),
    ):
        answer = stack.run("lock", "direct.in", extra={"VIRTUAL_ENV": str(tmp_path / name)})
        assert (answer.code, answer.out, answer.err) == (2, "", f"error: {error}\n\n{hint}")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    answer = make_stack(tmp_path).run("lock", "absent.in")
    assert (answer.code, answer.err) == (
        2,
        "error: absent.in cannot be read: No such file or directory\n\nhint: name a file of direct requirements\n",
    )


def _told(*wheels: Path) -> str:
    """Return a lock of these wheels, for any Python, as the command writes it: with the tags of each hash."""
    return re.sub(r"(sha256:([0-9a-f]{12})[0-9a-f]{52})", r"\1\n    # \2: py3-none-any", lock_text(*wheels))


def test_a_lock_is_updated_in_one_package_only(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    for version in ("1.0", "2.0"):
        make_wheel(tmp_path / "served", "first", version, requires=["under"])
        make_wheel(tmp_path / "served", "second", version)
        make_wheel(tmp_path / "served", "under", version)
    (tmp_path / "direct.in").write_text("first\nsecond\n")
    old = [tmp_path / "served" / f"{name}-1.0-py3-none-any.whl" for name in ("first", "second", "under")]
    (tmp_path / "direct.txt").write_text("# Kept head.\n" + lock_text(*old))
    with make_index(tmp_path / "served") as index:
        online = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": index.url}
        answer = stack.run("lock", "direct.in", "-o", "direct.txt", "--upgrade", "first", extra=online)
        assert answer.code == 0, answer.err
        new = tmp_path / "served" / "first-2.0-py3-none-any.whl"
        assert (tmp_path / "direct.txt").read_text() == "# Kept head.\n" + _told(new, *old[1:])
        assert stack.run("lock", "direct.in", "-o", "direct.txt", extra=online).code == 0
    newest = [tmp_path / "served" / f"{name}-2.0-py3-none-any.whl" for name in ("first", "second", "under")]
    assert (tmp_path / "direct.txt").read_text() == "# Kept head.\n" + _told(*newest)


def test_a_pep_751_lock_is_written_and_restored_from(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    names = ("torch==2.13.0+cpu", "some-tool", "plain ; python_version > '3'")
    (tmp_path / "direct.in").write_text("\n".join(names) + "\n")
    with make_index(tmp_path / "wheels") as index:
        online = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": index.url}
        made = ("--format", "pylock", "-o", "lockfiles/pylock.small.toml", "--python", PYTHON)
        answer = stack.run("lock", "direct.in", *made, extra=online)
    assert (answer.code, answer.out) == (0, "locked 3 packages in lockfiles/pylock.small.toml\n")
    lock = stack.folder / "lockfiles" / "pylock.small.toml"
    read = Pylock.from_dict(tomli.loads(lock.read_text()))
    assert [(package.name, str(package.version)) for package in read.packages] == [
        ("plain", "3.0"),
        ("some-tool", "1.2"),
        ("torch", "2.13.0+cpu"),
    ]
    profile = stack.folder / "profiles" / "small.toml"
    profile.write_text(profile.read_text().replace("small.txt", "pylock.small.toml"))
    assert stack.restore().code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "pylock", "-o", "x.txt"), "x.txt cannot name a lock of the format pylock"),
        (("-o", "pylock.x.toml"), "pylock.x.toml cannot name a lock of the format requirements"),
        (("--upgrade", "plain"), "--upgrade updates a lock, and there is none"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    stack = make_stack(tmp_path)
    (tmp_path / "direct.in").write_text("plain\n")
    answer = stack.run("lock", "direct.in", *options)
    assert (answer.code, answer.err.partition("\n")[0]) == (2, f"error: {message}")


def test_a_lock_of_nothing_and_one_in_place_of_its_requirements_are_refused(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    asked = tmp_path / "direct.in"
    asked.write_text("plain\n")
    answer = stack.run("lock", "direct.in", "-o", "./direct.in")
    assert (answer.code, answer.err) == (
        2,
        "error: the lock would replace direct.in, which it is made of\n\nhint: name another output\n",
    )
    assert asked.read_text() == "plain\n"
    asked.write_text("-r direct.in\n")
    answer = stack.run("lock", "direct.in", "-o", "direct.txt", "--python", "3.12", "--machine", "x86_64")
    assert (answer.code, answer.err) == (
        2,
        "error: direct.in asks for nothing here, and nothing was written\n\n"
        "hint: name what the stack is to have in it\n",
    )
    assert not (tmp_path / "direct.txt").exists()
