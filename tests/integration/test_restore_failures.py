"""Whatever goes wrong, the old venv is byte for byte as it was, and the message says what to do."""

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.factories.make_index import Fault, Index, make_index
from tests.factories.make_stack import PYTHON, Answer, Stack, make_stack
from tests.factories.make_venv import make_venv, tree_state
from tests.factories.make_wheel import make_wheel, sha256

PLAIN = "plain-3.0-py3-none-any.whl"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Make a stack with an old venv in place, and a wheel large enough for a slow index to take a while."""
    made = make_stack(
        tmp_path, make_wheel(tmp_path / "wheels", "large", "1.0", files={"large.bin": os.urandom(400_000)})
    )
    make_venv(made.venv, make_wheel(tmp_path / "old", "plain", "2.0"), cache=tmp_path / "another-cache")
    return made


@pytest.fixture
def index(stack: Stack) -> Iterator[Index]:
    """Serve the stack's wheels, with nothing else configured."""
    with make_index(stack.folder / "wheels") as made:
        stack.environment |= {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": made.url}
        yield made


def _refused(stack: Stack, *options: str) -> tuple[str, str]:
    """Restore, hold the old venv against its former self, and return message and hint."""
    before = tree_state(stack.venv)
    answer = stack.restore(*options)
    assert tree_state(stack.venv) == before
    assert (answer.code, answer.out) == (4, "")
    assert not (stack.store / "journal.json").exists()
    assert not (stack.store / "builds").exists() or list((stack.store / "builds").iterdir()) == []
    error, _, hint = ("\n" + answer.err).rpartition("\nerror: ")[2].partition("\n\nhint: ")
    return error.removesuffix("\nFOLDER/venv is as it was"), hint.strip()


@pytest.mark.parametrize(
    ("fault", "message", "hint"),
    [
        (
            "missing",
            "plain==3.0: the index names a file that it does not serve (404): {base}files/" + PLAIN,
            "try again later, or name another source that has the wheel: `export PIP_FIND_LINKS=FOLDER`",
        ),
        (
            "forbidden",
            "plain==3.0: the index refused access (403): {base}files/" + PLAIN,
            "give uv credentials for it (netrc, keyring, or UV_INDEX_<NAME>_USERNAME and _PASSWORD)",
        ),
        (
            "cut",
            "plain==3.0 could not be fetched: connection closed before message completed",
            "check the network and the proxy; what is in uv's cache or in a local folder needs neither",
        ),
        (
            "truncated",
            "plain==3.0 could not be fetched: end of file before message length reached",
            "check the network and the proxy; what is in uv's cache or in a local folder needs neither",
        ),
    ],
)
def test_a_fault_of_the_index_changes_nothing(
    stack: Stack, index: Index, fault: Fault, message: str, hint: str
) -> None:
    index.faults[PLAIN] = fault
    base = index.url.removesuffix("simple/")
    assert _refused(stack) == (message.format(base=base), hint)
    # And once the index is well again, the same command works.
    index.faults.clear()
    assert stack.restore().code == 0


def test_a_changed_wheel_is_refused(stack: Stack, index: Index) -> None:
    index.faults[PLAIN] = "changed"
    error, hint = _refused(stack)
    locked = sha256(stack.folder / "wheels" / PLAIN)
    got = error.split("it hashes to ")[1].split(",")[0]
    assert error == f"the wheel of plain==3.0 is not the locked one: it hashes to {got}, the lock allows {locked}"
    assert got != locked
    assert hint.startswith("do not install it; find out which source serves other bytes")


def test_a_wheel_in_a_folder_with_another_hash_is_not_taken(stack: Stack) -> None:
    wheels = stack.folder / "wheels"
    locked = sha256(wheels / PLAIN)
    make_wheel(wheels, "plain", "3.0", files={"plain.py": "tampered = True\n"})
    assert _refused(stack) == (
        f"plain 3.0 was not found: FOLDER/wheels has {PLAIN}, but with sha256 {sha256(wheels / PLAIN)}",
        f"download its wheel for CPython {PYTHON} (sha256 {locked}) on a machine with access, put it into a folder, "
        "and run again with `--wheelhouse FOLDER`",
    )


def test_offline_without_a_cache_says_what_is_missing(stack: Stack, index: Index) -> None:
    lacking = "it is neither in uv's cache nor in a local source, and --offline forbids to fetch it"
    error, hint = _refused(stack, "--offline")
    assert error == (
        "4 of 4 wheels were not found:\n"
        f"  large 1.0: {lacking}\n  plain 3.0: {lacking}\n  some-tool 1.2: {lacking}\n  torch 2.13.0+cpu: {lacking}"
    )
    assert hint == (
        "`envdoctor restore --dry-run` with the same profile and sources says for each what to do; `--rehearse` builds "
        "and verifies the others"
    )
    stack.environment["UV_OFFLINE"] = "1"
    assert _refused(stack)[0] == error.replace("--offline forbids", "UV_OFFLINE forbids")
    assert index.requests == []


def test_an_index_that_is_down_is_said(stack: Stack, index: Index) -> None:
    stack.environment["PIP_INDEX_URL"] = "http://127.0.0.1:9/simple"
    assert _refused(stack) == (
        "no answer for 4 of 4 wheels (large 1.0, ...): 127.0.0.1:9 did not answer: Connection refused",
        "run the same command again; if it stays so, look at the network and the proxy",
    )


def test_a_wheel_that_lies_about_its_files_is_refused(tmp_path: Path, stack: Stack) -> None:
    liar = make_wheel(
        tmp_path / "wheels", "liar", "1.0", files={"liar.py": "x = 1\n"}, record_says={"liar.py": "sha256=" + "A" * 43}
    )
    stack.lock(*stack.wheels, liar)
    assert _refused(stack) == (
        "the new venv is not what the lock says: liar: liar.py: does not have the recorded hash",
        "uv's cache may hold changed files: `uv cache clean liar`, then run it again",
    )


def test_a_wheel_with_a_file_in_no_record_is_refused(tmp_path: Path, stack: Stack) -> None:
    smuggler = make_wheel(
        tmp_path / "wheels",
        "smuggler",
        "1.0",
        files={"smuggler.py": "x = 1\n", "sneaky.pth": "import os\n"},
        record_says={"sneaky.pth": None},
    )
    stack.lock(*stack.wheels, smuggler)
    error, hint = _refused(stack)
    assert error == "the new venv is not what the lock says: smuggler: sneaky.pth: has no hash in RECORD"
    assert hint == "the wheel of smuggler is at fault: lock another version or build of it"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"files": {"../../../../escaped.txt": "out"}}, "its entry ../../../../escaped.txt leads out of the venv"),
        ({"files": {"/tmp/escaped-from.txt": "out"}}, "its entry /tmp/escaped-from.txt leads out of the venv"),
        ({"symlinks": {"evil_link": "/etc/passwd"}}, "its entry evil_link is a symbolic link"),
    ],
    ids=["parent folders", "absolute", "symlink"],
)
def test_a_wheel_that_reaches_out_of_the_venv_is_refused(
    stack: Stack, options: dict[str, dict[str, str]], problem: str
) -> None:
    evil = make_wheel(stack.folder / "wheels", "evil", "1.0", **options)  # type: ignore[arg-type]
    stack.lock(*stack.wheels, evil)
    error, _ = _refused(stack)
    assert error == (
        f"evil 1.0 was not found: FOLDER/wheels has evil-1.0-py3-none-any.whl with a locked hash, but {problem}"
    )
    # From an index uv reads the wheel while it comes: it leaves such an entry out, so nothing gets outside either.
    stack.environment["PIP_FIND_LINKS"] = stack.environment["PIP_NO_INDEX"] = ""
    with make_index(stack.folder / "wheels") as made:
        stack.restore(extra={"PIP_INDEX_URL": made.url})
    assert list(stack.folder.rglob("escaped*")) == []
    assert not Path("/tmp/escaped-from.txt").exists()
    assert [path for path in stack.venv.rglob("evil_link") if path.is_symlink()] == []


def test_files_changed_in_the_cache_are_noticed_and_can_be_mended(tmp_path: Path, stack: Stack) -> None:
    assert stack.restore().code == 0
    edited = next(stack.venv.glob("lib/python3*/site-packages/plain/__init__.py"))
    with edited.open("a") as file:  # in place, as an editor does it that does not write a new file
        file.write("# edited\n")
    error, hint = _refused(stack)
    assert (
        error == "the new venv is not what the lock says: plain: plain/__init__.py: has 29 bytes, not the recorded 20"
    )
    assert hint == "uv's cache may hold changed files: `uv cache clean plain`, then run it again"
    subprocess.run([*_uv(), "cache", "clean", "-q", "plain"], env=stack.environment, check=True, capture_output=True)
    assert stack.restore().code == 0
    assert edited.read_text() == "__version__ = '3.0'\n"


def _cut_anew(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:10])


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_files_replaced_in_the_cache_are_neither_installed_nor_waited_at(stack: Stack) -> None:
    """As by an editor that writes a new file: the folder's times move with it, and do not tell when it was filled."""
    assert stack.restore("--force").code == 0
    notice = " in uv's cache is not a regular file, and uv would wait at it; nothing was installed"
    faults: tuple[tuple[Callable[[Path], None], str, str], ...] = (
        (_cut_anew, "some_tool.py", "some_tool.py: has 10 bytes, not the recorded 31"),
        (_pipe, "some_tool.py", notice),
        (_pipe, "some_tool-1.2.dist-info/RECORD", notice),
    )
    for harm, name, told in faults:
        (wheel,) = stack.cache.glob("wheels-v*/index/*/some-tool/1.2-py3-none-any")
        harm(wheel / name)
        error, hint = _refused(stack, "--force")
        clean = "`uv cache clean some-tool`"
        if told == notice:
            shown = stack.plain(f"{wheel}/{name}")
            assert (error, hint) == (f"{shown}{notice}", f"{clean}, then run it again")
        else:
            assert error == f"the new venv is not what the lock says: some-tool: {told}"
            assert hint == f"uv's cache may hold changed files: {clean}, then run it again"
        clean_up = [*_uv(), "cache", "clean", "-q", "some-tool"]
        subprocess.run(clean_up, env=stack.environment, check=True, capture_output=True)
        assert stack.restore("--force").code == 0


def test_a_find_links_place_that_is_no_folder_is_named(stack: Stack) -> None:
    pipe = stack.folder / "pipe"
    os.mkfifo(pipe)
    stack.environment["PIP_FIND_LINKS"] += f" {pipe} /dev/zero"
    (stack.folder / "wheels" / PLAIN).unlink()
    answer = stack.restore()
    assert answer.code == 4
    assert answer.err.startswith(
        "warning: pip's find-links place FOLDER/pipe is neither a folder nor a page and is passed over\n\n"
        "warning: pip's find-links place /dev/zero is neither a folder nor a page and is passed over\n\n"
        "error: plain 3.0 was not found: no configured source has it\n"
    )
    answer = stack.restore(extra={"UV_FIND_LINKS": str(pipe)})
    assert (answer.code, answer.err) == (
        2,
        "error: the find-links place FOLDER/pipe cannot be read: Not a directory (os error 20)\n\n"
        "hint: correct where it is named: UV_FIND_LINKS or `find-links` of uv.toml, PIP_FIND_LINKS or pip.conf\n",
    )
    answer = stack.restore("--wheelhouse", "pipe")
    told = "error: the wheelhouse FOLDER/pipe is not a directory\n\nhint: name another\n"
    assert (answer.code, answer.err) == (2, told)


def test_a_cache_of_uv_inside_the_venv_is_refused(stack: Stack) -> None:
    answer = stack.restore(extra={"UV_CACHE_DIR": str(stack.venv / "cache")})
    assert (answer.code, answer.err) == (
        2,
        "error: uv's cache FOLDER/venv/cache is inside FOLDER/venv, which is replaced as a whole\n\n"
        "hint: name a folder elsewhere: `export UV_CACHE_DIR=FOLDER`\n",
    )
    assert not (stack.venv / "cache").exists()


def test_a_wheel_of_another_machine_alone_is_named(tmp_path: Path, stack: Stack) -> None:
    other = make_wheel(tmp_path / "wheels", "other", "1.0", tag="cp311-cp311-win_amd64")
    stack.lock(*stack.wheels, other)
    error, hint = _refused(stack)
    assert error == (
        f"other 1.0 was not found: FOLDER/wheels has {other.name}, with a locked hash, for another Python or machine"
    )
    python, machine = f"--python {PYTHON}", f"--machine {os.uname().machine}"
    assert hint == f"the lock has none for this Python and machine: lock it again with `{python} {machine}`"
    # Where the lock has another hash, that may be the wheel that fits.
    lock = stack.folder / "lockfiles" / "small.txt"
    lock.write_text(
        lock.read_text().replace(f"sha256:{sha256(other)}", f"sha256:{sha256(other)} --hash=sha256:{'0' * 64}")
    )
    assert _refused(stack)[1].startswith(f"download its wheel for CPython {PYTHON} (sha256 ")


def _uv() -> list[str]:
    import uv  # noqa: PLC0415

    return [str(uv.find_uv_bin())]


def _start(stack: Stack) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        stack.command("restore", "--profile", "small", "--venv", "venv", "--yes"),
        cwd=stack.folder, env=stack.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _until_building(stack: Stack, index: Index) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if "large-1.0-py3-none-any.whl" in index.downloads():
            return
        time.sleep(0.01)
    raise AssertionError(f"no build began: {index.requests}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_an_interrupt_during_the_build_cleans_up(stack: Stack, index: Index, number: signal.Signals) -> None:
    before = tree_state(stack.venv)
    index.faults["large-1.0-py3-none-any.whl"] = "slow"
    process = _start(stack)
    _until_building(stack, index)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert stack.plain(err).endswith("\nerror: interrupted\nFOLDER/venv is as it was\n")
    assert tree_state(stack.venv) == before
    assert list((stack.store / "builds").iterdir()) == []


def test_a_kill_during_the_build_is_recovered_by_the_next_restore(stack: Stack, index: Index) -> None:
    before = tree_state(stack.venv)
    index.faults["large-1.0-py3-none-any.whl"] = "slow"
    process = _start(stack)
    _until_building(stack, index)
    process.kill()
    process.communicate(timeout=60)
    assert tree_state(stack.venv) == before
    assert (stack.store / "journal.json").exists()
    # The kernel ended the uv that was still downloading and held the lock.
    answer = stack.restore()
    assert answer.code == 0, answer.err
    told = [line for line in answer.err.splitlines() if line.startswith("Recover")]
    assert told == [
        "Recover  an earlier restore (small) was stopped while it built its copy; nothing had been changed",
    ]
    assert tree_state(stack.store / "generations" / "0001") == before
    assert list((stack.store / "builds").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("command", ["restore", "repair", "rollback"])
def test_a_stop_at_any_moment_says_what_the_venv_is(
    stack: Stack, index: Index, number: signal.Signals, command: str
) -> None:
    """From the first words of Python on, not from the plan on."""
    before = tree_state(stack.venv)
    index.faults["large-1.0-py3-none-any.whl"] = "slow"
    words = [command, *(("--profile", "small") if command != "rollback" else ()), "--venv", "venv"]
    with subprocess.Popen(
        stack.command(*words), cwd=stack.folder, env=stack.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not _caught(process.pid, signal.SIGTERM):
            time.sleep(0.001)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert stack.plain(err).endswith("error: interrupted\nFOLDER/venv is as it was\n") or err == "error: interrupted\n"
    assert tree_state(stack.venv) == before


def _caught(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal: SigCgt of proc(5)."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def _has_children(pid: int) -> bool:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            if path.read_text():
                return True
        except OSError:
            continue  # the thread has ended meanwhile
    return False


def test_a_stop_while_it_plans_says_what_the_venv_is(stack: Stack, index: Index) -> None:
    before = tree_state(stack.venv)
    process = _start(stack)
    # Its first children are the uv and the interpreter that the plan asks.
    while not _has_children(process.pid):
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert stack.plain(err) == "error: interrupted\nFOLDER/venv is as it was\n"
    assert tree_state(stack.venv) == before


def test_no_uv_outlives_a_kill(stack: Stack, index: Index) -> None:
    index.faults["large-1.0-py3-none-any.whl"] = "slow"
    process = _start(stack)
    _until_building(stack, index)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert [Path(f"/proc/{child}/comm").read_text() for child in children] == ["uv\n"]
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{child}/exe").exists() for child in children):
        assert time.monotonic() < deadline, "the uv lives on"
        time.sleep(0.01)


def test_what_a_killed_run_left_in_tmpdir_is_swept_by_the_next(stack: Stack, tmp_path: Path) -> None:
    folder = stack.folder / "tmp"
    folder.mkdir()
    old = time.time() - 3600
    names = (
        "envdoctor-run-abcdefgh",
        "envdoctor-run-inuse_00",
        "envdoctor-run-young_00",
        "envdoctor-run-notours-x",
        "mine",
    )
    for name in names:
        (folder / name).mkdir(mode=0o700)
        (folder / name / "asked.txt").write_text("torch==2.13.0\n")
        if "young" not in name:
            os.utime(folder / name, (old, old))
    (folder / "envdoctor-run-alink_00").symlink_to(folder / "mine")
    held = os.open(folder / "envdoctor-run-inuse_00", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        answer = stack.restore("--dry-run", extra={"TMPDIR": str(folder)})
    finally:
        os.close(held)
    assert answer.code == 0, answer.err
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names[1:], "envdoctor-run-alink_00"])


def test_two_restores_at_once(stack: Stack, index: Index) -> None:
    index.faults["large-1.0-py3-none-any.whl"] = "slow"
    first = _start(stack)
    _until_building(stack, index)
    second = stack.restore()
    _, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    assert second.code == 4
    assert second.err.endswith(
        f"error: another envdoctor (process {first.pid}) is changing FOLDER/venv\n\n"
        "hint: wait until it is done, then run this again\n"
    )


def test_a_reader_of_the_venv_never_sees_it_missing(stack: Stack) -> None:
    seen: set[str] = set()
    stop = threading.Event()
    path = os.fsencode(stack.venv / "pyvenv.cfg")

    def look() -> None:
        while not stop.is_set():
            try:
                os.close(os.open(path, os.O_RDONLY))
                seen.add("there")
            except FileNotFoundError:
                seen.add("missing")

    thread = threading.Thread(target=look)
    thread.start()
    answers: list[Answer] = [stack.restore("--force") for _ in range(2)]
    stop.set()
    thread.join()
    assert [answer.code for answer in answers] == [0, 0]
    assert seen == {"there"}


@pytest.mark.parametrize("command", ["restore", "repair"])
def test_a_path_that_uv_cannot_be_given_is_named(stack: Stack, command: str) -> None:
    folder = os.fsencode(stack.folder) + b"/odd\xff"
    if command == "repair":
        made = make_venv(stack.folder / "made", *stack.wheels, cache=stack.cache)
        os.rename(os.fsencode(made.prefix), folder)  # noqa: PTH104 - bytes
    words = [*map(os.fsencode, stack.command(command, "-p", "small", "-y", "--venv")), folder]
    done = subprocess.run(words, env=stack.environment, cwd=stack.folder, capture_output=True, check=False)
    assert done.returncode == 2
    assert stack.plain(done.stderr.decode()) == (
        "error: the path FOLDER/odd\\udcff is not UTF-8, and uv, which builds the venv, takes no such path\n\n"
        "hint: name another folder: `--venv PATH`\n"
    )
    assert done.stdout == b""
