"""Restoring a small stack with real uv: what is built, what is kept, what is said."""

import json
import os
import shlex
import stat
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.factories.make_index import make_index
from tests.factories.make_stack import PYTHON, ROOT, Stack, make_stack, make_torch, profile_text
from tests.factories.make_venv import Venv, install, make_venv, tree_state, uninstall
from tests.factories.make_wheel import make_wheel, sha256

OWN = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]


@pytest.fixture(scope="module")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """Restore a stack once; tests only read it."""
    stack = make_stack(tmp_path_factory.mktemp("stack"))
    answer = stack.restore()
    assert answer.code == 0, answer.err
    assert answer.out == "restored FOLDER/venv: 3 packages, 24 files (1 kB) verified by sha256\n"
    return stack


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _online(stack: Stack, *urls: str) -> dict[str, str]:
    """Return variables that give the stack indexes in place of its folder of wheels."""
    kept = {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": urls[0]}
    return {**kept, "PIP_EXTRA_INDEX_URL": " ".join(urls[1:])}


def test_a_venv_that_did_not_exist_works_where_it_was_moved_to(restored: Stack) -> None:
    code = "import sys, torch; print(torch.__version__, sys.prefix)"
    assert _output(restored.venv / "bin/python", "-c", code) == f"2.13.0+cpu {restored.venv}\n"
    assert _output(restored.venv / "bin/hello") == "hello\n"
    told = subprocess.run(
        ["bash", "-c", ". venv/bin/activate && echo $VIRTUAL_ENV $PS1"],
        cwd=restored.folder, env={"PATH": os.environ["PATH"], "PS1": "$"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == f"{restored.venv} (venv)\n"
    assert list(restored.store.joinpath("builds").iterdir()) == []


def test_a_venv_that_is_right_is_left_alone(restored: Stack) -> None:
    before = tree_state(restored.folder / "venv")
    answer = restored.restore()
    assert (answer.code, answer.out) == (
        0,
        "FOLDER/venv already holds small: 3 packages, 24 files (1 kB) verified by sha256; nothing to do\n",
    )
    assert tree_state(restored.venv) == before
    assert not (restored.store / "generations").exists()


def test_the_venv_that_envdoctor_runs_from_is_not_put_away(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    own = make_wheel(tmp_path / "other", OWN, "0", files={"nothing.py": ""})
    venv = make_venv(stack.venv, own, cache=stack.cache)
    libraries = [str(ROOT), sysconfig.get_path("purelib")]
    (venv.site_packages / "own.pth").write_text("\n".join(libraries) + "\n")
    before = tree_state(stack.venv)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [venv.prefix / "bin/python", "-m", "envdoctor", "restore", "-p", "small", *arguments]
        environ = {**stack.environment, "VIRTUAL_ENV": str(stack.venv)}
        del environ["PYTHONPATH"]
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    for how in ("--yes", "--dry-run"):
        refused = run(how)
        assert (refused.returncode, refused.stdout, stack.plain(refused.stderr)) == (
            2,
            "",
            f"error: FOLDER/venv is the venv that envdoctor itself runs from, and the lock does not have "
            f"{OWN}: "
            "a restore would move it away with the old venv, and a rollback would need it\n\n"
            "hint: name the venv to restore: `--venv PATH`; "
            "to restore this one, run an envdoctor installed elsewhere\n",
        )
    assert tree_state(stack.venv) == before
    stack.lock(*stack.wheels, own)
    assert run("--dry-run", "--wheelhouse", "other").returncode == 0


def test_a_dry_run_shows_the_plan_on_stdout_and_changes_nothing(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    old = make_wheel(tmp_path / "other", "plain", "2.0")
    venv = make_venv(stack.venv, old, cache=stack.cache)
    before = tree_state(tmp_path / "venv")
    answer = stack.restore("--dry-run")
    base = (venv.prefix / "pyvenv.cfg").read_text().split("home = ")[1].splitlines()[0]
    interpreter = next(line for line in answer.out.splitlines() if line.startswith("  interpreter"))
    assert (base in interpreter, interpreter.endswith("(the old venv's base)")) == (True, True)
    assert answer.out.replace(interpreter, "  interpreter  HERE") == (
        "envdoctor restore  FOLDER/venv   profile small\n"
        "\n"
        "  interpreter  HERE\n"
        "  lock         FOLDER/lockfiles/small.txt\n"
        "  packages     3: 0 in uv's cache, 3 from FOLDER/wheels; nothing to download\n"
        f"  venv         CPython {_full(venv)}; 0 removed, 2 added, 1 changed, 0 as locked\n"
        "    - plain 2.0 -> 3.0\n"
        "\n"
        "  1. build a new venv with 3 packages beside FOLDER/venv\n"
        "  2. compare the sha256 of every file with its RECORD, and the packages with the lock; "
        "what an earlier restore read and nobody has changed is not read again\n"
        "  3. examine the copy as `envdoctor check` does\n"
        "  4. swap it in, in one step; the old venv is kept at FOLDER/.envdoctor/venv/generations/0001\n"
    )
    assert (answer.code, answer.err) == (0, "")
    assert tree_state(stack.venv) == before
    assert not (tmp_path / ".envdoctor").exists()


def _full(venv: Venv) -> str:
    return (venv.prefix / "pyvenv.cfg").read_text().split("version_info = ")[1].splitlines()[0]


def test_nobody_to_ask_means_no_restore(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    answer = stack.run("restore", "-p", "small", "--venv", "venv")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(
        "error: confirmation needed, but stdin is not a terminal\n\nhint: check the plan, then add `--yes`\n"
    )
    assert not stack.venv.exists()


def test_a_contaminated_venv_is_replaced_and_kept(tmp_path: Path) -> None:
    owner = make_wheel(tmp_path / "wheels", "nvidia-nccl-cu12", "2.1", files={"nvidia/nccl/lib/libnccl.so.2": "12"})
    other = make_wheel(tmp_path / "other", "nvidia-nccl-cu13", "2.1", files={"nvidia/nccl/lib/libnccl.so.2": "13"})
    stack = make_stack(tmp_path, owner)
    assert stack.restore().code == 0
    venv = Venv(prefix=stack.venv)
    install(venv, other)
    uninstall(venv, "nvidia-nccl-cu13")
    lost = venv.site_packages / "nvidia/nccl/lib/libnccl.so.2"
    assert not lost.exists()
    before = tree_state(stack.venv)
    answer = stack.restore()
    assert answer.code == 0, answer.err
    kept = stack.store / "generations" / "0001"
    assert answer.out == (
        "restored FOLDER/venv: 4 packages, 31 files (2 kB) verified by sha256\n"
        "the old venv is kept at FOLDER/.envdoctor/venv/generations/0001; no process that this user can see uses it\n"
        "to go back: envdoctor rollback --venv FOLDER/venv\n"
    )
    assert tree_state(kept) == before
    assert lost.read_text() == "12"


def test_the_json_document_is_alone_on_stdout(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    planned = json.loads(stack.restore("--dry-run", "--json").out)
    done = json.loads(stack.restore("--format", "json").out)
    again = json.loads(stack.restore("--json").out)
    assert [(document["schema_version"], document["status"]) for document in (planned, done, again)] == [
        (1, "planned"),
        (1, "restored"),
        (1, "already in place"),
    ]
    for room in (*planned["plan"]["rooms"], *done["plan"]["rooms"]):
        assert room.pop("free") > 0, "how much is free, other programs change"
    assert planned["plan"] == done["plan"]
    with zipfile.ZipFile(tmp_path / "wheels/plain-3.0-py3-none-any.whl") as wheel:
        unpacked = sum(item.file_size for item in wheel.infolist())
    assert done["plan"]["packages"][0] == {
        "name": "plain",
        "version": "3.0",
        "source": {
            "kind": "find-links",
            "location": "FOLDER/wheels",
            "cached": False,
            "filename": "plain-3.0-py3-none-any.whl",
            "bytes": 0,
            "unpacked_bytes": unpacked,
        },
    }
    seconds = done["result"].pop("seconds")
    assert sorted(seconds) == ["build", "check", "compare", "swap", "sync", "verify"]
    assert done["result"] == {
        "target": "FOLDER/venv",
        "kept": None,
        "users": [],
        "distributions": 3,
        "files": 24,
        "bytes": done["result"]["bytes"],
        "remembered": 0,
        "remembered_bytes": 0,
        "recovered": [],
    }


def test_a_symlinked_venv_is_replaced_where_it_really_lies(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    (tmp_path / "real").mkdir()
    make_venv(tmp_path / "real" / "env", cache=stack.cache)
    stack.venv.symlink_to("real/env")
    answer = stack.restore()
    assert answer.code == 0, answer.err
    assert stack.venv.readlink() == Path("real/env")
    assert _output(stack.venv / "bin/hello") == "hello\n"
    assert [path.name for path in (tmp_path / "real" / ".envdoctor" / "env" / "generations").iterdir()] == ["0001"]


def test_a_wheel_is_taken_from_the_source_that_has_the_locked_bytes(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    # The same file name with other bytes, in the index that uv would ask first.
    wrong = make_wheel(tmp_path / "wrong", "plain", "3.0", files={"plain.py": "wrong = True\n"})
    with make_index(wrong.parent) as first, make_index(tmp_path / "wheels") as second:
        answer = stack.restore("--json", extra=_online(stack, second.url, first.url))
        assert answer.code == 0, answer.err
        downloads = (first.downloads(), second.downloads())
    plain = next(item for item in json.loads(answer.out)["plan"]["packages"] if item["name"] == "plain")
    assert plain["source"]["location"] == second.url
    assert plain["source"]["bytes"] == (tmp_path / "wheels" / "plain-3.0-py3-none-any.whl").stat().st_size
    assert downloads[0] == []
    assert "plain-3.0-py3-none-any.whl" in downloads[1]


def test_a_warm_cache_needs_no_source_at_all(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    with make_index(tmp_path / "wheels") as index:
        variables = _online(stack, index.url)
        assert stack.restore(extra=variables).code == 0
    # The index is gone now.
    for option in ((), ("--offline",)):
        answer = stack.restore("--force", "--json", *option, extra=variables)
        assert answer.code == 0, answer.err
        assert {item["source"]["cached"] for item in json.loads(answer.out)["plan"]["packages"]} == {True}


def test_a_constraint_of_the_users_that_contradicts_the_lock_is_named(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    (tmp_path / "constraints.txt").write_text("torch<=2.12\nplain<4\n")
    answer = stack.restore("--dry-run", extra={"PIP_CONSTRAINT": "constraints.txt"})
    warnings = [line for line in answer.out.splitlines() if line.startswith("warning:")]
    assert warnings == [
        "warning: the constraint `torch<=2.12` (FOLDER/constraints.txt) contradicts the lock, which has torch "
        "2.13.0+cpu; the lock is followed, the constraint is not"
    ]


def test_settings_that_would_loosen_the_lock_have_no_effect(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    (tmp_path / "c.txt").write_text("plain<1\n")
    answer = stack.restore(
        extra={
            "UV_CONSTRAINT": str(tmp_path / "c.txt"),
            "UV_OVERRIDE": str(tmp_path / "c.txt"),
            "UV_EXCLUDE_NEWER": "2000-01-01",
            "UV_PYTHON": "2.7",
            "VIRTUAL_ENV": "/nonexistent",
            "PYTHONHOME": "",
            "UV_NO_BINARY": "1",
        }
    )
    assert answer.code == 0, answer.err


def test_the_checks_have_the_last_word(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    old = make_venv(stack.venv, cache=stack.cache)
    before = tree_state(old.prefix)
    # The wheel is the locked one, but the build inside it is not the profile's.
    other_build = {"torch/version.py": "__version__ = '2.13.0+cu130'\ncuda = '13.0'\n"}
    stack.lock(make_torch(tmp_path / "wheels", files=other_build))
    answer = stack.restore()
    assert answer.code == 4
    assert answer.err.endswith(
        "error: the rebuilt venv fails these checks: ED404 torch is 2.13.0+cu130; the profile wants "
        "2.13.0+cpu (torch)\nFOLDER/venv is as it was\n\n"
        "hint: correct the profile or its lock: the wheels are as locked, so another build gives the same result\n"
    )
    assert tree_state(stack.venv) == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda path: (path / "notes.txt").write_text("mine"),
            "is not a venv (it has no pyvenv.cfg), so it is not replaced",
        ),
        (lambda path: (path / "conda-meta").mkdir(), "is a conda environment, which a lock of wheels cannot replace"),
    ],
    ids=["a folder of somebody's", "conda"],
)
def test_what_is_no_venv_is_not_replaced(tmp_path: Path, make: "object", message: str) -> None:
    stack = make_stack(tmp_path)
    stack.venv.mkdir()
    make(stack.venv)  # type: ignore[operator]
    before = tree_state(stack.venv)
    answer = stack.restore()
    assert (answer.code, answer.err) == (
        2,
        f"error: FOLDER/venv {message}\n\nhint: name a venv, or a path where there is nothing yet: `--venv PATH`\n",
    )
    assert tree_state(stack.venv) == before


def test_another_python_is_said(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    (tmp_path / "profiles" / "small.toml").write_text(profile_text(versions=("3.99",)))
    answer = stack.restore()
    assert answer.code == 4
    assert answer.err.startswith("error: no CPython 3.99 was found (")


def test_a_persons_files_in_the_venvs_folder_are_named_and_left_where_they_are(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    make_venv(stack.venv)
    (stack.venv / ".git").mkdir()
    (stack.venv / "train_code.py").write_text("precious")
    (stack.venv / ".made").touch()
    before = tree_state(stack.venv)
    answer = stack.restore()
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "error: FOLDER/venv also contains files that are not part of a venv: .git, train_code.py; "
        "a restore would move them away with the old venv\n\n"
        "hint: move them out of the venv first, or restore into another folder: `--venv PATH`\n"
    )
    assert tree_state(stack.venv) == before
    # Among the packages they are named, and kept with the old venv.
    (stack.venv / ".git").rmdir()
    (stack.venv / "train_code.py").unlink()
    site = next(stack.venv.glob("lib/python3*/site-packages"))
    for name in ("a.py", "mine/b.py", "mine/c.py", "mine/empty.py", "mymodule.py"):
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text("" if name == "mine/empty.py" else "precious")
    inner = site.relative_to(stack.venv)
    warning = (
        "warning: 4 files that no RECORD lists will be in the old venv only, "
        f"FOLDER/.envdoctor/venv/generations/0001: {inner}/a.py, {inner}/mine/b.py, {inner}/mine/c.py and 1 more"
    )
    answer = stack.restore()
    assert answer.code == 0, answer.err
    assert warning in answer.err
    assert (stack.store / "generations/0001" / inner / "mymodule.py").read_text() == "precious"


def test_no_setting_of_uvs_changes_what_is_built(tmp_path: Path) -> None:
    """Every one that could, at once: in the shell, in the project's file and in the user's."""
    stack = make_stack(tmp_path / "stack")
    plain = stack.restore()
    assert plain.code == 0, plain.err
    expected = {path: told for path, told in tree_state(stack.venv).items() if "envdoctor-restore" not in path}
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "pins.txt").write_text("torch==1.0\n")
    names = (
        "UV_NO_BINARY", "UV_SYSTEM_PYTHON", "UV_COMPILE_BYTECODE", "UV_BREAK_SYSTEM_PACKAGES", "UV_VENV_SEED",
        "UV_NO_INSTALLER_METADATA", "UV_NO_VERIFY_HASHES", "UV_REINSTALL", "UV_NO_CACHE", "UV_PREVIEW", "UV_ISOLATED",
        "UV_NO_BUILD_ISOLATION", "UV_REQUIRE_HASHES", "UV_NO_SOURCES", "UV_VENV_CLEAR",
    )  # fmt: skip
    hostile = dict.fromkeys(names, "1") | {
        "UV_LINK_MODE": "symlink",
        "UV_TARGET": str(elsewhere),
        "UV_PREFIX": str(elsewhere),
        "UV_CONSTRAINT": str(tmp_path / "pins.txt"),
        "UV_OVERRIDE": str(tmp_path / "pins.txt"),
        "UV_EXTRA_INDEX_URL": "http://127.0.0.1:9/simple",
        "UV_EXCLUDE_NEWER": "2001-01-01",
        "UV_PYTHON": "/nowhere/python",
        "UV_PROJECT_ENVIRONMENT": str(elsewhere),
        "UV_RESOLUTION": "lowest",
        "UV_TORCH_BACKEND": "cu118",
        "UV_NO_CONFIG": "",
    }
    settings = (
        'link-mode = "symlink"\ncompile-bytecode = true\nno-binary = true\nexclude-newer = "2001-01-01T00:00:00Z"\n'
    )
    settings += 'override-dependencies = ["torch==1.0"]\nconstraint-dependencies = ["torch==1.0"]\n'
    pip = f'[pip]\ntarget = "{elsewhere}"\npython-platform = "windows"\npython-version = "3.9"\nlink-mode = "symlink"\n'
    (stack.folder / "uv.toml").write_text(settings + pip)
    answer = stack.restore("--force", extra=hostile)
    assert answer.code == 0, answer.err
    assert {path: told for path, told in tree_state(stack.venv).items() if "envdoctor-restore" not in path} == expected
    assert not elsewhere.exists()
    assert (
        "warning: uv's setting link-mode (FOLDER/uv.toml) is not followed: it would change what is built" in answer.err
    )


def test_a_venv_whose_files_lie_in_uvs_cache_is_not_taken_for_restored(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    assert stack.restore().code == 0
    module = next(stack.venv.glob("lib/python3.*/site-packages/torch")) / "__init__.py"
    module.rename(tmp_path / "elsewhere.py")
    module.symlink_to(tmp_path / "elsewhere.py")
    answer = stack.restore()
    assert (answer.code, answer.out.splitlines()[0]) == (
        0,
        "restored FOLDER/venv: 3 packages, 24 files (1 kB) verified by sha256",
    )
    assert not module.is_symlink()


def test_the_folders_above_the_venv_are_made(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    planned = stack.run("restore", "-p", "small", "--venv", "no/such/venv", "--dry-run")
    assert planned.code == 0, planned.err
    assert "\n  1. make the folder FOLDER/no/such\n  2. build a new venv with 3 packages beside" in planned.out
    assert not (tmp_path / "no").exists()
    answer = stack.run("restore", "-p", "small", "--venv", "no/such/venv", "--yes")
    assert answer.code == 0, answer.err
    assert stack.run("check", "no/such/venv", "-p", "small").code == 0
    for command in ("repair", "history"):
        answer = stack.run(command, "--venv", "neither/there/venv", *(["--yes"] if command == "repair" else []))
        assert answer.code == 2, answer.err
        assert "Traceback" not in answer.err


@pytest.mark.parametrize("how", ["--rehearse", "failed"])
def test_folders_made_for_a_venv_that_does_not_come_go_again(tmp_path: Path, how: str) -> None:
    stack = make_stack(tmp_path)
    (tmp_path / "no").mkdir()
    if how == "failed":
        (tmp_path / "profiles/small.toml").write_text(profile_text(torch="9.9"))
    options = ["--rehearse"] if how == "--rehearse" else ["--yes"]
    answer = stack.run("restore", "-p", "small", "--venv", "no/such/place/venv", *options)
    assert answer.code == (0 if how == "--rehearse" else 4), answer.err
    assert list((tmp_path / "no").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to any group")
@pytest.mark.parametrize("command", ["restore", "repair"])
def test_a_shared_venv_stays_shared(tmp_path: Path, command: str) -> None:
    stack = make_stack(tmp_path)
    assert stack.restore().code == 0
    group = 54321
    for path in (stack.venv, *stack.venv.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            os.chown(path, 0, group)
            path.chmod(0o2775)
    (Venv(prefix=stack.venv).site_packages / "some_tool.py").unlink()
    more = {"restore": ["-p", "small", "--force"], "repair": []}[command]
    line = " ".join([*map(shlex.quote, stack.command(command, "--venv", "venv", "--yes", *more))])
    done = subprocess.run(
        ["sh", "-c", f"umask 077; {line}"],
        cwd=tmp_path,
        env=stack.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for path in (stack.venv, *stack.venv.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            continue
        shared = 0o075 if path.is_dir() else 0o044
        assert status.st_mode & shared == shared, (path, oct(status.st_mode))
        if path.is_dir():
            assert (status.st_gid, status.st_mode & stat.S_ISGID) == (group, stat.S_ISGID), path
    assert stack.run("check", "venv", "-p", "small").code == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("plain==", "plain[extra,other]=="),
        lambda text: "\ufeff" + text,
        lambda text: "--index-url https://me:secret@index.invalid/simple\n--pre\n" + text,
    ],
    ids=["extras", "byte order mark", "options"],
)
def test_locks_as_other_tools_write_them(tmp_path: Path, change: Callable[[str], str]) -> None:
    stack = make_stack(tmp_path)
    lock = tmp_path / "lockfiles" / "small.txt"
    text = change(lock.read_text())
    lock.write_text(text)
    answer = stack.restore()
    assert answer.code == 0, answer.err
    note = "warning: `--index-url`, `--pre` in the lock: not used, since pip's and uv's configuration says where wheels"
    assert (note in answer.err) == text.startswith("--index-url")
    assert "secret" not in answer.err + answer.out


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("warm", ["", "a", "b"])
def test_of_all_sources_the_wheel_that_fits_best_is_taken(tmp_path: Path, order: str, warm: str) -> None:
    # "twin" for an older Python is in a, the one for this Python in b; the lock allows both.
    stack = make_stack(tmp_path)
    tags = {"a": "py310-none-any", "b": f"py3{sys.version_info[1]}-none-any"}
    twins = {
        name: make_wheel(tmp_path / name, "twin", "1.0", tag=tag, files={"twin.py": f"name = {name!r}\n"})
        for name, tag in tags.items()
    }
    stack.lock(*stack.wheels, *twins.values())
    places = [str(tmp_path / "wheels"), *(str(tmp_path / name) for name in order)]
    if warm:
        make_venv(tmp_path / "warming", twins[warm], cache=stack.cache)
    answer = stack.restore(extra={"PIP_FIND_LINKS": " ".join(places)})
    assert answer.code == 0, answer.err
    assert (Venv(prefix=stack.venv).site_packages / "twin.py").read_text() == "name = 'b'\n"


def test_a_wheel_of_another_python_in_the_locked_version_is_replaced(tmp_path: Path) -> None:
    # As `multiprocess` has them: pure wheels, one for each Python, of which each installs anywhere.
    minor = sys.version_info[1]
    right = make_wheel(tmp_path / "wheels", "twin", "1.0", tag=f"py3{minor}-none-any", files={"twin.py": "a = 1\n"})
    wrong = make_wheel(tmp_path / "other", "twin", "1.0", tag=f"py3{minor - 1}-none-any", files={"twin.py": "a = 0\n"})
    stack = make_stack(tmp_path, right)
    assert stack.restore().code == 0
    assert stack.restore().out.startswith("FOLDER/venv already holds small: ")
    venv = Venv(prefix=stack.venv)
    uninstall(venv, "twin", cache=stack.cache)
    install(venv, wrong, cache=stack.cache)
    assert stack.run("check", "venv", "-p", "small").code == 0
    told = stack.restore()
    assert told.code == 0
    assert (
        f"warning: twin 1.0 in the venv is the wheel for py3{minor - 1}-none-any; the locked one that fits this Python "
        f"best is {right.name}\n"
    ) in told.err
    assert (venv.site_packages / "twin.py").read_text() == "a = 1\n"


def test_a_wheel_that_was_renamed_after_its_build_is_built_once(tmp_path: Path) -> None:
    minor = sys.version_info[1]
    made = make_wheel(tmp_path / "wheels", "twin", "1.0", tag="py3-none-any", files={"twin.py": "a = 1\n"})
    named = made.rename(made.with_name(f"twin-1.0-py3{minor}-none-any.whl"))
    stack = make_stack(tmp_path, named)
    assert stack.restore().code == 0
    again = stack.restore()
    assert (again.code, again.out.startswith("FOLDER/venv already holds small: "), again.err) == (0, True, again.err)
    assert "twin" not in again.err


def test_a_renamed_wheel_is_as_locked_until_the_lock_has_a_better_one(tmp_path: Path) -> None:
    minor = sys.version_info[1]
    made = make_wheel(tmp_path / "wheels", "twin", "1.0", tag="py3-none-any", files={"twin.py": "a = 1\n"})
    named = made.rename(made.with_name(f"twin-1.0-py3{minor - 1}-none-any.whl"))
    stack = make_stack(tmp_path, named)
    lock = stack.folder / "lockfiles" / "small.txt"
    locked = lock.read_text()
    lock.write_text(f"{locked}    # {sha256(named)[:12]}: py3{minor - 1}-none-any\n")
    assert stack.restore().code == 0

    def titles() -> list[str]:
        document = json.loads(stack.run("check", "venv", "-p", "small", "--json").out)
        return [finding["title"] for finding in document["findings"] if finding["code"] == "ED418"]

    assert titles() == []
    better = f" --hash=sha256:{'e' * 64}\n    # {'e' * 12}: py3{minor}-none-any\n"
    lock.write_text(f"{locked.rstrip()}{better}    # {sha256(named)[:12]}: py3{minor - 1}-none-any\n")
    assert titles() == [
        f"twin 1.0 was installed from a wheel for py3{minor - 1}-none, and the lock has one for py3{minor}-none",
    ]
    lock.write_text(f"{locked}    # {sha256(named)[:12]}: py3{minor - 1}-none-any\n")
    note = stack.venv / "envdoctor-restore.json"
    document = json.loads(note.read_text())
    assert document.pop("as_built") == {
        "twin": {"version": "1.0", "tags": ["py3-none-any"], "wheel": named.name},
    }
    note.write_text(json.dumps(document))
    assert titles() == [
        f"twin 1.0 was installed from a wheel for py3-none, and the lock has one for py3{minor - 1}-none",
    ]


def test_tags_in_the_lock_alone_build_nothing_again(tmp_path: Path) -> None:
    minor = sys.version_info[1]
    twin = make_wheel(tmp_path / "wheels", "twin", "1.0", tag="py3-none-any", files={"twin.py": "a = 1\n"})
    stack = make_stack(tmp_path, twin)
    lock = stack.folder / "lockfiles" / "small.txt"
    lock.write_text(f"{lock.read_text()}    # {sha256(twin)[:12]}: py3{minor}-none-any\n")
    assert stack.restore().code == 0
    assert stack.restore().out.startswith("FOLDER/venv already holds small: ")


def test_a_lock_that_says_its_wheels_accuses_another_build_and_its_remedy_heals(tmp_path: Path) -> None:
    minor = sys.version_info[1]
    right = make_wheel(tmp_path / "wheels", "twin", "1.0", tag=f"py3{minor}-none-any", files={"twin.py": "a = 1\n"})
    wrong = make_wheel(tmp_path / "other", "twin", "1.0", tag=f"py3{minor - 1}-none-any", files={"twin.py": "a = 0\n"})
    stack = make_stack(tmp_path, right)
    lock = stack.folder / "lockfiles" / "small.txt"
    lock.write_text(f"{lock.read_text()}    # {sha256(right)[:12]}: py3{minor}-none-any\n")
    assert stack.restore().code == 0
    venv = Venv(prefix=stack.venv)
    uninstall(venv, "twin", cache=stack.cache)
    install(venv, wrong, cache=stack.cache)

    def found() -> list[tuple[str, str, list[str]]]:
        document = json.loads(stack.run("check", "venv", "-p", "small", "--json").out)
        return [
            (finding["code"], finding["title"], finding["remediation"]["commands"])
            for finding in document["findings"]
            if finding["code"].startswith("ED4")
        ]

    ((code, title, commands),) = found()
    assert (code, title) == (
        "ED418",
        f"twin 1.0 was installed from a wheel for py3{minor - 1}-none, and the lock has one for py3{minor}-none",
    )
    assert commands == ["envdoctor restore --force --profile small --venv FOLDER/venv"]
    printed = shlex.split(commands[0].replace("FOLDER", str(stack.folder)))
    assert stack.run(*printed[1:], "-y").code == 0
    assert found() == []


def test_a_lock_for_another_machine_is_said_by_check(restored: Stack) -> None:
    (wheel,) = (one for one in restored.wheels if one.name.startswith("plain"))
    text = (restored.folder / "lockfiles/small.txt").read_text()
    digest = sha256(wheel)
    lock = restored.folder / "other.txt"
    for tags, said in (("cp39-cp39-linux_s390x", True), ("py3-none-any", False)):
        lock.write_text(text.replace(f"sha256:{digest}\n", f"sha256:{digest}\n    # {digest[:12]}: {tags}\n"))
        told = restored.run("check", "venv", "--lock", "other.txt").err
        note = (
            "note: FOLDER/other.txt was made for another Python or machine: of 1 of its 3 packages (plain) it has no "
            f"wheel for CPython {PYTHON} on {os.uname().machine}\n"
        )
        assert told == (note if said else ""), tags
    lock.unlink()
