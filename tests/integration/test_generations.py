"""Going back, forth, and making room: what is kept, what a rollback exchanges, what a prune may take."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import make_venv, tree_state
from tests.factories.make_wheel import make_wheel

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Restore a stack over a venv that envdoctor did not make."""
    made = make_stack(tmp_path)
    make_venv(made.venv, make_wheel(tmp_path / "old", "plain", "2.0"), cache=tmp_path / "another-cache")
    assert made.restore().code == 0
    return made


def _plain(text: str) -> str:
    text = re.sub(_TIME, "TIME", text)
    text = re.sub(r"CPython [\d.]+", "CPython VERSION", text)
    return re.sub(r"\d+(\.\d+)? (bytes|kB|MB)", "SIZE", text)


def _kept(stack: Stack, number: int) -> Path:
    return stack.store / "generations" / f"{number:04d}"


def test_history_names_what_is_in_place_and_what_is_kept(stack: Stack) -> None:
    answer = stack.run("history", "--venv", "venv")
    assert (answer.code, answer.err) == (0, "")
    assert _plain(answer.out) == (
        "  now   small, CPython VERSION, torch 2.13.0+cpu, 3 packages   FOLDER/venv\n"
        "  1     not made by envdoctor, CPython VERSION, no torch, 1 package, no errors found   kept TIME   "
        "SIZE, SIZE its own\n"
        "\n"
        "all backups take SIZE, hardlinks counted once; removing them all frees SIZE, the rest is shared with the "
        "venv, uv's cache or other venvs\n"
        "with the venv itself: SIZE, of which SIZE shared with uv's cache or other venvs\n"
    )


def test_history_of_a_venv_that_was_never_restored(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    answer = stack.run("history", "--venv", "venv")
    assert (answer.code, answer.out, answer.err) == (
        2,
        "",
        "error: there is no venv at FOLDER/venv, and none was kept of it\n\n"
        "hint: name a venv folder or its interpreter: `envdoctor history path/to/.venv`\n",
    )


def test_a_rollback_and_another_are_where_one_began(stack: Stack) -> None:
    new, old = tree_state(stack.venv), tree_state(_kept(stack, 1))
    answer = stack.run("rollback", "--venv", "venv", "--yes")
    assert answer.code == 0, answer.err
    assert answer.out == (
        "backup 1 is back at FOLDER/venv\n"
        "the old venv is kept at FOLDER/.envdoctor/venv/generations/0002; no process that this user can see uses it\n"
        "to go back: envdoctor rollback --venv FOLDER/venv\n"
    )
    assert _plain(answer.err) == (
        "backup 1 comes back to FOLDER/venv: not made by envdoctor, CPython VERSION, no torch, 1 package, "
        "no errors found\n"
        "what is there now is kept at FOLDER/.envdoctor/venv/generations/0002: small, CPython VERSION, "
        "torch 2.13.0+cpu, 3 packages, no errors found\n"
        "exchanging the venv with backup 1\n"
    )
    assert (tree_state(stack.venv), tree_state(_kept(stack, 2))) == (old, new)
    assert not _kept(stack, 1).exists()
    assert stack.run("rollback", "--venv", "venv", "-y").code == 0
    assert (tree_state(stack.venv), tree_state(_kept(stack, 3))) == (new, old)
    assert subprocess.run([stack.venv / "bin/hello"], capture_output=True, check=True).stdout == b"hello\n"


def test_a_deleted_venv_comes_back(stack: Stack) -> None:
    old = tree_state(_kept(stack, 1))
    stack.venv.rename(stack.folder / "elsewhere")
    answer = stack.run("rollback", "--venv", "venv", "-y", "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["result"]["kept"] is None
    assert tree_state(stack.venv) == old
    assert list((stack.store / "generations").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (
            ("rollback", "7", "--venv", "venv", "-y"),
            2,
            "there is no backup 7 of FOLDER/venv",
            "`envdoctor history --venv FOLDER/venv` lists what is kept",
        ),
        (
            ("rollback", "--venv", "other", "-y"),
            2,
            "no backup of FOLDER/other is kept, so there is nothing to go back to",
            "`envdoctor history --venv FOLDER/other` lists what is kept",
        ),
        (
            ("rollback", "--venv", "venv"),
            2,
            "confirmation needed, but stdin is not a terminal",
            "check the plan, then add `--yes`",
        ),
        (
            ("prune", "--venv", "venv"),
            2,
            "--keep needs a number of backups to keep, 0 or more",
            "`envdoctor prune --keep 1`, or `--broken` for those that had errors; `envdoctor history` lists them",
        ),
    ],
    ids=["no such number", "none kept", "nobody there", "keep what"],
)
def test_what_cannot_be_done_is_said(
    stack: Stack, arguments: tuple[str, ...], code: int, message: str, hint: str
) -> None:
    before = _but_what_is_remembered(stack)
    answer = stack.run(*arguments)
    assert (answer.code, answer.out) == (code, "")
    assert ("\n" + answer.err).endswith(f"\nerror: {message}\n\nhint: {hint}\n")
    assert _but_what_is_remembered(stack) == before


def _but_what_is_remembered(stack: Stack) -> dict[str, str]:
    # The plan of a rollback examines the venv, which keeps what it found for the next check.
    return {
        path: told for path, told in tree_state(stack.folder).items() if not path.startswith("home/.cache/envdoctor/")
    }


def test_a_generation_whose_interpreter_is_gone_is_refused(stack: Stack) -> None:
    link = _kept(stack, 1) / "bin" / "python"
    link.unlink()
    link.symlink_to("/nonexistent/python")
    before = tree_state(stack.folder)
    answer = stack.run("rollback", "--venv", "venv", "-y")
    assert (answer.code, answer.err) == (
        4,
        "error: backup 1 cannot run: its interpreter /nonexistent/python is gone\n\n"
        "hint: choose another one with `envdoctor history`, or restore a profile\n",
    )
    assert tree_state(stack.folder) == before


def test_prune_takes_the_oldest_and_nothing_else(stack: Stack) -> None:
    assert stack.restore("--force").code == 0
    assert stack.restore("--force").code == 0
    newest = tree_state(_kept(stack, 3))
    venv, cache = tree_state(stack.venv), tree_state(stack.cache)
    shown = stack.run("prune", "--venv", "venv", "--keep", "1", "--dry-run")
    assert [path.name for path in sorted(_kept(stack, 1).parent.iterdir())] == ["0001", "0002", "0003"]
    assert _plain(shown.out) == (
        "  - 1    not made by envdoctor, CPython VERSION, no torch, 1 package, no errors found   kept TIME\n"
        "  - 2    small, CPython VERSION, torch 2.13.0+cpu, 3 packages, no errors found   kept TIME\n"
        "    3    small, CPython VERSION, torch 2.13.0+cpu, 3 packages, no errors found   stays\n"
        "removing 2 backups of FOLDER/venv frees SIZE; SIZE more is shared with the venv, uv's cache or "
        "other venvs and stays\n"
    )
    answer = stack.run("prune", "--venv", "venv", "--keep", "1", "-y")
    assert answer.code == 0, answer.err
    assert _plain(answer.out) == "2 backups removed, SIZE freed\n"
    assert answer.err == stack.plain(shown.out) + "removing backup 1\nremoving backup 2\n"
    assert [path.name for path in _kept(stack, 1).parent.iterdir()] == ["0003"]
    assert (tree_state(_kept(stack, 3)), tree_state(stack.venv), tree_state(stack.cache)) == (newest, venv, cache)
    again = stack.run("prune", "--venv", "venv", "--keep", "1", "-y")
    assert (again.code, again.out) == (0, "nothing to remove\n")


def _lose_torchs_code(stack: Stack) -> str:
    """Remove a file of torch; return what the checks say of that, without a profile, as history shows it."""
    next(stack.venv.glob("lib/python*/site-packages/torch/version.py")).unlink()
    found = json.loads(stack.run("check", "venv", "--json").out)["findings"]
    ((code, title),) = {(item["code"], item["title"]) for item in found if item["severity"] == "error"}
    return f"1 error: {code} {title}"


@pytest.mark.parametrize("command", ["restore", "repair", "rollback"])
def test_a_backup_that_was_broken_is_told_from_a_good_one(stack: Stack, command: str) -> None:
    said = _lose_torchs_code(stack)
    names = {"restore": ("-p", "small"), "repair": ("-p", "small"), "rollback": ()}
    assert stack.run(command, *names[command], "--venv", "venv", "-y").code == 0
    number = max(int(path.name) for path in _kept(stack, 1).parent.iterdir())
    listed = _plain(stack.run("history", "--venv", "venv").out).splitlines()
    assert listed[1] == (
        f"  {number:<5} small, CPython VERSION, torch 2.13.0+cpu, 3 packages, {said}   kept TIME   SIZE, SIZE its own"
    )
    answer = stack.run("rollback", str(number), "--venv", "venv", "--dry-run")
    assert _plain(answer.out).splitlines()[0] == (
        f"backup {number} comes back to FOLDER/venv: small, CPython VERSION, torch 2.13.0+cpu, 3 packages, {said}"
    )
    told = json.loads(stack.run("rollback", str(number), "--venv", "venv", "--dry-run", "--json").out)
    code, _, title = said.removeprefix("1 error: ").partition(" ")
    assert told["generation"]["verdict"] == {"errors": [{"code": code, "title": title}], "could_not_tell": []}


def test_prune_of_the_broken_ones_takes_no_other(stack: Stack) -> None:
    none = stack.run("prune", "--venv", "venv", "--broken", "-y")
    assert (none.code, none.out) == (0, "nothing to remove\n")
    assert none.err.endswith("nothing to remove: no backup is known to have had errors\n")
    said = _lose_torchs_code(stack)
    assert stack.restore().code == 0
    answer = stack.run("prune", "--venv", "venv", "--broken", "-y")
    assert (answer.code, _plain(answer.out)) == (0, "1 backup removed, SIZE freed\n")
    assert _plain(answer.err) == (
        f"  - 2    small, CPython VERSION, torch 2.13.0+cpu, 3 packages, {said}   kept TIME\n"
        "    1    not made by envdoctor, CPython VERSION, no torch, 1 package, no errors found   stays\n"
        "removing 1 backup of FOLDER/venv frees SIZE; SIZE more is shared with the venv, uv's cache or "
        "other venvs and stays\n"
        "removing backup 2\n"
    )
    # The number comes back; what was said of the venv that is gone does not.
    assert stack.restore("--force").code == 0
    assert "3 packages, no errors found   kept" in stack.run("history", "--venv", "venv").out


def test_a_backup_without_a_record_is_not_called_good(stack: Stack) -> None:
    record = stack.store / "verdicts.json"
    for text in ("half a reco", '{"1": {"inode": 1, "verdict": {"errors": [], "could_not_tell": []}}}'):
        record.write_text(text)
        assert "no torch, 1 package   kept" in stack.run("history", "--venv", "venv").out
    assert json.loads(stack.run("history", "--venv", "venv", "--json").out)["generations"][0]["verdict"] is None


def test_the_room_it_frees_is_the_room_that_was_freed(stack: Stack) -> None:
    assert stack.restore("--force").code == 0  # its files are uv's cache's, hardlinked
    told = json.loads(stack.run("history", "--venv", "venv", "--json").out)
    # Folders shrink and grow by whole blocks as entries come and go: only files are compared.
    kept = [path for top in _kept(stack, 1).parent.iterdir() for path in top.rglob("*")]
    folders = sum(path.lstat().st_blocks * 512 for path in kept if path.is_dir() and not path.is_symlink())
    # What was found in them goes with them.
    before = _file_bytes(stack.folder) - (stack.store / "verdicts.json").lstat().st_blocks * 512
    plan = json.loads(stack.run("prune", "--venv", "venv", "--keep", "0", "-y", "--json").out)
    assert plan["space"] == told["space"]
    assert plan["space"]["bytes"] == plan["space"]["frees"] + plan["space"]["shared"]
    assert plan["space"]["shared"] > 0
    assert before - _file_bytes(stack.folder) == plan["space"]["frees"] - folders


def _file_bytes(folder: Path) -> int:
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            status = path.lstat()
            found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


@pytest.mark.parametrize("where", ["share/fxgraph", "named by a variable"])
def test_a_generation_that_holds_a_compile_cache_stays(stack: Stack, where: str) -> None:
    extra = {}
    cache = _kept(stack, 1) / where
    if where == "named by a variable":
        cache = _kept(stack, 1) / "lib" / "compiled"
        extra = {"TORCHINDUCTOR_CACHE_DIR": str(stack.venv / "lib" / "compiled")}
    cache.mkdir(parents=True)
    (cache / "kernel.py").write_text("hours of work")
    before = tree_state(stack.folder)
    answer = stack.run("prune", "--venv", "venv", "--keep", "0", "-y", extra=extra)
    assert (answer.code, answer.out) == (0, "nothing to remove\n")
    assert f"stays: it holds a compile cache, {stack.plain(str(cache))}\n" in answer.err
    after = tree_state(stack.folder)
    assert {path for path in after if path.startswith(".envdoctor") and path.endswith("kernel.py")}
    assert {path: told for path, told in after.items() if "lock" not in path} == {
        path: told for path, told in before.items() if "lock" not in path
    }


@pytest.mark.parametrize(
    "where", ["notes.txt", "share/results.csv", "etc/mine/a.cfg", "lib/python{}/site-packages/torch/mine.py"]
)
def test_a_generation_that_holds_a_persons_files_stays(stack: Stack, where: str) -> None:
    inner = where.format(f"{sys.version_info[0]}.{sys.version_info[1]}")
    mine = _kept(stack, 1) / inner
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("hours of work")
    # Made by Python, uv and a Makefile: nobody's.
    (mine.parent / "__pycache__").mkdir(exist_ok=True)
    (mine.parent / "__pycache__" / "x.pyc").write_bytes(b"x")
    (mine.parent / "stamp").touch()
    before = tree_state(_kept(stack, 1))
    answer = stack.run("prune", "--venv", "venv", "--keep", "0", "-y")
    assert (answer.code, answer.out) == (0, "nothing to remove\n")
    assert f"stays: it holds files that no RECORD lists, {inner}\n" in answer.err
    assert "move those files to where they belong, or add --with-unrecorded to remove them too\n" in answer.err
    told = json.loads(stack.run("prune", "--venv", "venv", "--keep", "0", "--dry-run", "--json").out)
    (spared,) = told["spared"]
    assert (told["removed"], spared["number"], spared["compile_cache"], spared["unrecorded"], spared["holds"]) == (
        [], 1, None, [inner], f"files that no RECORD lists, {inner}",
    )  # fmt: skip
    assert tree_state(_kept(stack, 1)) == before
    answer = stack.run("prune", "--venv", "venv", "--keep", "0", "-y", "--with-unrecorded")
    assert (answer.code, _kept(stack, 1).exists()) == (0, False)


def test_a_process_that_runs_from_the_venv_is_named(stack: Stack) -> None:
    code = "print('up'); input()"
    with subprocess.Popen(
        [stack.venv / "bin" / "python", "-uc", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        told = stack.restore("--force")
        back = stack.run("rollback", "--venv", "venv", "-y")
        process.kill()
    command = f"{stack.venv}/bin/python -uc {code}"
    shown = stack.plain(command if len(command) <= 120 else f"{command[:117]}...")
    named = f"process {process.pid}: {shown} (started from it)"
    meanwhile = (
        "what such a process has open stays the old venv's; what it imports or opens by path later is the new one's"
    )
    assert told.out.splitlines()[1:] == [
        "the old venv is kept at FOLDER/.envdoctor/venv/generations/0002",
        f"in use by {named}",
        meanwhile,
        "to go back: envdoctor rollback --venv FOLDER/venv",
    ]
    assert f"  in use by    {named}\n{'':15}{meanwhile}\n" in told.err
    assert back.code == 0


@pytest.mark.parametrize("way", ["runs", "maps"])
def test_prune_leaves_what_a_process_uses(stack: Stack, way: str) -> None:
    kept = _kept(stack, 1)
    library = kept / "lib/mapped.so"
    library.write_bytes(b"x" * 4096)
    hold = f"import mmap; f = open({str(library)!r}, 'rb'); held = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); "
    code = f"{hold if way == 'maps' else ''}print('up'); input()"
    python = kept / "bin/python" if way == "runs" else Path(sys.executable)
    prune = ("prune", "--venv", "venv", "--keep", "0", "--with-unrecorded")
    with subprocess.Popen([python, "-uc", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        plan = json.loads(stack.run(*prune, "--dry-run", "--json").out)
        answer = stack.run(*prune, "-y")
        there = library.exists()
        forced = stack.run(*prune, "-y", "--while-in-use")
        process.kill()
    assert (answer.code, answer.out, there) == (0, "nothing to remove\n", True), answer.err
    how = "(started from it)" if way == "runs" else "(maps 1 of its files)"
    assert f"stays: it holds what is in use by process {process.pid}: " in answer.err
    assert how in answer.err
    assert "wait until those processes have ended, or add --while-in-use to remove what they use too\n" in answer.err
    ((user,),) = ([one["pid"] for one in item["users"]] for item in plan["spared"])
    assert (plan["removed"], user) == ([], process.pid)
    assert (forced.code, kept.exists()) == (0, False)


def test_what_a_running_process_then_sees_is_what_is_said(stack: Stack) -> None:
    """An open file stays the old venv's; a file opened by its path, a module too, is the new venv's."""
    module = next(stack.venv.glob("lib/python3.*/site-packages/torch")) / "__init__.py"
    before = module.read_text()
    module.unlink()
    module.write_text("__version__ = 'changed by hand'\n")
    code = (
        f"kept = open({str(module)!r}); print('up'); input(); import torch; print(torch.__version__, kept.readline())"
    )
    with subprocess.Popen(
        [stack.venv / "bin" / "python", "-uc", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        assert stack.restore("--force").code == 0
        told, _ = process.communicate("go on\n")
    assert module.read_text() == before
    assert told.split(maxsplit=1) == ["2.13.0+cpu", "__version__ = 'changed by hand'\n\n"]


def test_a_restore_unless_in_use_looks_again_before_the_swap(stack: Stack) -> None:
    old = tree_state(stack.venv)
    command = stack.command("restore", "--profile", "small", "--venv", "venv", "--yes", "--force", "--unless-in-use")
    with subprocess.Popen(
        command, cwd=stack.folder, env=stack.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as restoring:
        while not (stack.store / "journal.json").exists():
            assert restoring.poll() is None
        with subprocess.Popen([stack.venv / "bin" / "python", "-c", "input()"], stdin=subprocess.PIPE) as process:
            out, err = restoring.communicate()
            process.kill()
    assert (restoring.returncode, out) == (4, "")
    assert stack.plain(err).endswith(
        "error: FOLDER/venv is in use, and is not swapped under "
        f"process {process.pid}: FOLDER/venv/bin/python -c input() (started from it)\n"
        "FOLDER/venv is as it was\n\n"
        "hint: wait until it has ended; `run --yes-while-in-use`, or a restore without `--unless-in-use`, swaps all "
        "the same: what it has open stays, what it imports or opens by path later is the new venv's\n"
    )
    assert tree_state(stack.venv) == old


def test_what_a_crash_left_is_never_the_only_copy(stack: Stack) -> None:
    """Killed after the exchange, then the user deletes the venv and makes another: the old one must still be kept."""
    old = tree_state(stack.venv)
    build = stack.store / "builds" / "20260101T000000"
    stack.venv.rename(build)
    make_venv(stack.venv, cache=stack.cache)
    entry = {
        "phase": "swapping", "profile": "small", "build": str(build), "keep": str(_kept(stack, 2)),
        "new_inode": 1, "old_inode": build.stat().st_ino, "started": "", "command": "restore",
    }  # fmt: skip
    (stack.store / "journal.json").write_text(json.dumps(entry))
    mine = tree_state(stack.venv)
    assert stack.run("prune", "--venv", "venv", "--keep", "9", "-y").code == 0
    assert (tree_state(stack.venv), tree_state(_kept(stack, 2))) == (mine, old)
    assert not (stack.store / "journal.json").exists()


def test_a_restore_beside_a_rollback_refuses(stack: Stack) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from envdoctor.swap.store import BackupStore, locked\n"
        f"with locked(BackupStore.of(Path({str(stack.venv)!r})), print): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, env=stack.environment) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        before = tree_state(stack.venv)
        for command in (("rollback",), ("prune", "--keep", "0")):
            answer = stack.run(*command, "--venv", "venv", "-y")
            assert (answer.code, answer.out) == (4, "")
            assert answer.err.endswith(
                f"error: another envdoctor (process {process.pid}) is changing FOLDER/venv\n\n"
                "hint: wait until it is done, then run this again\n"
            )
        process.kill()
    assert tree_state(stack.venv) == before
    assert _kept(stack, 1).is_dir()
