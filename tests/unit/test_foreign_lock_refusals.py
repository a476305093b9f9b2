"""What cannot be read as a lock, or gives no wheels, is refused with what to do. Nothing of it is written."""

from pathlib import Path

import pytest

from envdoctor.errors import EnvdoctorError
from envdoctor.facts.host import Host
from envdoctor.foreign_locks import conda_lock
from envdoctor.foreign_locks.exporters import exported
from envdoctor.foreign_locks.formats import LockFile, lock_file
from tests.factories.make_reading import bare_host

KNOWN = "uv.lock, poetry.lock, pdm.lock, pylock.toml, pylock.NAME.toml, requirements as NAME.txt, or conda-lock.yml"


def host_of(folder: Path) -> Host:
    return bare_host(folder, PATH=str(folder / "bin"))


def refused(folder: Path, name: str, text: str = "") -> tuple[str, str]:
    path = folder / name
    path.write_text(text)
    with pytest.raises(EnvdoctorError) as caught:
        exported(lock_file(name, folder), host_of(folder), "3.11")
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("tool", "title", "command"),
    [
        ("poetry", "Poetry", "pipx install poetry && pipx inject poetry poetry-plugin-export"),
        ("pdm", "PDM", "pipx install pdm"),
    ],
)
def test_only_its_own_tool_reads_a_lock(tmp_path: Path, tool: str, title: str, command: str) -> None:
    assert refused(tmp_path, f"{tool}.lock") == (
        f"{tmp_path}/{tool}.lock: only {title} reads its own lock, and `{tool}` is not on PATH "
        "(one in the examined venv is not run)",
        f"`{command}`, or export it where {title} is: a pylock.toml can be named instead",
    )


def test_what_a_tool_says_is_passed_on(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "poetry"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'The requested command export does not exist.' >&2\nexit 1\n")
    program.chmod(0o755)
    assert refused(tmp_path, "poetry.lock") == (
        f"{tmp_path}/poetry.lock: `poetry export` failed with 1:\n  The requested command export does not exist.",
        "`pipx install poetry && pipx inject poetry poetry-plugin-export`",
    )


def test_a_tool_of_the_examined_venv_or_of_a_relative_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "venv" / "bin" / "pdm"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    (tmp_path / "pdm.lock").touch()
    (tmp_path / "link").symlink_to("venv")
    for path in ("venv/bin", f"{tmp_path}/venv/bin", f"{tmp_path}/link/bin"):
        with pytest.raises(EnvdoctorError, match="`pdm` is not on PATH"):
            exported(lock_file("pdm.lock", tmp_path), bare_host(tmp_path, PATH=path), "3.11", f"{tmp_path}/venv")
    assert not (tmp_path / "ran").exists()


def test_a_file_without_a_known_name(tmp_path: Path) -> None:
    assert refused(tmp_path, "stack.lock") == (
        "stack.lock is not the name of a lock that can be read",
        f"known are {KNOWN}",
    )
    with pytest.raises(EnvdoctorError) as caught:
        lock_file("nothing.txt", tmp_path)
    assert (caught.value.message, caught.value.hint) == (
        f"{tmp_path}/nothing.txt: no such file",
        f"name a lock: {KNOWN}",
    )


def test_a_folder_means_the_one_lock_in_it(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").touch()
    (tmp_path / "requirements.txt").touch()
    assert lock_file(".", tmp_path) == LockFile(path=tmp_path / "uv.lock", kind="uv")
    (tmp_path / "pdm.lock").touch()
    with pytest.raises(EnvdoctorError) as caught:
        lock_file(".", tmp_path)
    assert (caught.value.message, caught.value.hint) == (
        f"{tmp_path} is a folder, and the locks in it are: pdm.lock, uv.lock",
        f"name the file: {KNOWN}",
    )


def test_extras_of_what_has_none(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").touch()
    with pytest.raises(EnvdoctorError) as caught:
        lock_file("requirements.txt", tmp_path, extras=["cuda"])
    assert (caught.value.message, caught.value.hint) == (
        "requirements.txt has no extras and no dependency groups",
        "omit `--extra` and `--group`",
    )


def conda(*entries: str) -> str:
    return "version: 1\npackage:\n" + "".join(f"- {{{entry}, platform: linux-64}}\n" for entry in entries)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            conda(
                "name: python, manager: conda, dependencies: {openssl: '*'}",
                "name: numpy, manager: conda, dependencies: {python: '*', libblas: '*'}",
                "name: pytorch, manager: conda, dependencies: {python_abi: '*'}",
            ),
            "c.yml: conda installs 2 Python packages of it, which are not wheels: numpy, pytorch",
            "let pip install them (the `pip:` part of environment.yml, and only python from conda), and lock again; "
            "or capture the environment with what it is made of: `conda list --explicit --md5`",
        ),
        (
            conda("name: plain, version: '1', manager: pip, url: 'https://x.test/plain-1-py3-none-any.whl'"),
            "c.yml: plain has no sha256",
            "lock again",
        ),
        ("version: 2\npackage: []\n", "c.yml: not a conda-lock file of version 1", "lock again: `conda-lock`"),
        ("[]", "c.yml: not a conda-lock file of version 1", "lock again: `conda-lock`"),
        ("version: 1\npackage: [3]\n", "c.yml: package[0] has no name", "lock again: `conda-lock`"),
        (
            conda("name: plain, manager: pip").replace("linux-64", "osx-64"),
            "c.yml: nothing is locked for linux-64",
            "lock for that platform too",
        ),
    ],
)
def test_a_conda_lock_that_gives_no_wheels(text: str, message: str, hint: str) -> None:
    with pytest.raises(EnvdoctorError) as caught:
        conda_lock.document(text, "c.yml", "linux-64")
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_damaged_yaml_is_an_error_and_no_traceback() -> None:
    with pytest.raises(EnvdoctorError, match="^c.yml: not YAML: "):
        conda_lock.document("a: [", "c.yml")


def test_a_damaged_pylock_is_an_error(tmp_path: Path) -> None:
    message, hint = refused(tmp_path, "pylock.toml", "packages = [")
    assert message.startswith(f"{tmp_path}/pylock.toml is not TOML: ")
    assert hint == "lock again"
