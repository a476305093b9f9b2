"""The journal of a venv: entries, what changed since then and since the last good run, real venvs throughout."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envdoctor.app import provenance
from envdoctor.app.watch_stack import once
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import stack_journal
from envdoctor.documents.stack_journal import StackJournal
from envdoctor.errors import UsageError
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from tests.factories.make_stack import ROOT, Stack, make_stack
from tests.factories.make_venv import Venv, install, make_venv
from tests.factories.make_wheel import make_wheel

PACKAGES = "\npackages (1)\n  + extra  1.0\n\n1 difference; the digests differ\n"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    made = make_stack(tmp_path)
    make_venv(made.venv, *made.wheels, cache=made.cache)
    made.environment["XDG_DATA_HOME"] = str(tmp_path / "data")
    # Not those below /tmp, which other programs of this machine fill and empty.
    made.environment |= {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs"),
        "TRITON_CACHE_DIR": str(tmp_path / "kernels"),
    }
    return made


def _workspace(stack: Stack, profile: str = "") -> Workspace:
    host = replace(Host.current(), environ=dict(stack.environment), cwd=stack.folder)
    return Workspace.open(str(stack.venv), profile, host)


def _journal(stack: Stack) -> StackJournal:
    return StackJournal.of(stack.venv, _workspace(stack).host)


def _install_extra(stack: Stack) -> None:
    install(Venv(prefix=stack.venv), make_wheel(stack.folder / "more", "extra", "1.0"), cache=stack.cache)


def _two_days_earlier(stack: Stack) -> str:
    """Let all entries of the journal be three days old; return when the last one was then made."""
    path = _journal(stack).path
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3 * 86_400))
    path.write_text(re.sub(r'"at": "[^"]*"', f'"at": "{at}"', path.read_text()))
    return at


def test_what_changed_since_two_days_is_one_command(stack: Stack) -> None:
    first = stack.run("watch-stack", "--once", "venv", "--json")
    entry = json.loads(first.out)["entry"]
    assert (first.code, entry["kind"], entry["changed"]) == (0, "seen", [])
    at = _two_days_earlier(stack)
    same = stack.run("diff", "--since", "2d", "--venv", "venv")
    assert (same.code, same.out) == (
        0,
        f"A  FOLDER/venv as of {at}  (fingerprint)\nB  venv  (venv)\n\nno difference; the digests are equal\n",
    )
    _install_extra(stack)
    changed = stack.run("diff", "--since", "2d", "--venv", "venv")
    assert (changed.code, changed.out) == (1, f"A  FOLDER/venv as of {at}  (fingerprint)\nB  venv  (venv)\n{PACKAGES}")
    again = stack.run("watch-stack", "--once", "venv")
    digest = _journal(stack).entries()[-1].digest
    assert (again.code, again.out) == (
        0,
        f"FOLDER/venv: 1 change since {at}, now stack {digest}\n"
        "  packages: extra: nothing -> 1.0\n"
        f"journal: {stack.plain(str(_journal(stack).path))}\n",
    )
    assert [stack.run("diff", "--since", since, "--venv", "venv").code for since in ("0m", "2d", "9w")] == [0, 1, 1]
    kept = sorted(path.name for path in _journal(stack).folder.iterdir())
    assert len(kept) == 3, "one fingerprint a stack, and the journal"


def test_what_changed_since_the_last_good_run(stack: Stack) -> None:
    unknown = stack.run("diff", "--last-good", "--venv", "venv")
    assert (unknown.code, unknown.err.splitlines()[0]) == (2, "error: no good run on FOLDER/venv is known")
    workspace = _workspace(stack, "small").launched()
    (stack.folder / "latest.json").symlink_to("written.json")
    facts = provenance.begun(workspace, ["python", "train.py"], "latest.json")
    assert (stack.folder / "latest.json").is_symlink(), "what a link leads to is written, as a device is"
    assert json.loads((stack.folder / "written.json").read_text())["run"]["command"] == ["python", "train.py"]
    assert provenance.good(workspace, facts, 0.94, 19_740.0) == ""
    assert provenance.good(workspace, facts, None, None) == ""
    assert _journal(stack).entries() == ()
    assert provenance.good(workspace, facts, 0.95, 21_034.0) == ""
    _install_extra(stack)
    variable = {"NCCL_DEBUG": "INFO"}
    assert stack.run("watch-stack", "--once", "venv", extra=variable).code == 0
    assert _journal(stack).entries()[-1].changed == ("packages: extra: nothing -> 1.0",)
    assert "NCCL_DEBUG" not in stack.run("diff", "--since", "0m", "--venv", "venv").out
    assert (
        "  ~ NCCL_DEBUG  not set -> INFO"
        in stack.run("diff", "--last-good", "--venv", "venv", extra=variable).out.splitlines()
    )
    found = stack.run("diff", "--last-good", "--venv", "venv")
    at = _journal(stack).entries()[0].at
    head = f"A  FOLDER/venv at its last good run, {at} (21,034 tok/s, profile small)  (fingerprint)\nB  venv  (venv)\n"
    assert (found.code, found.out) == (1, head + PACKAGES)


def test_a_run_writes_what_it_was_started_on_beside_its_outputs(stack: Stack) -> None:
    words = ["--provenance", "out/7/provenance.json", "--", "sh", "-c", "echo ran --token=hf_0123456789abcdefghij"]
    done = stack.run("run", "-p", "small", "--venv", "venv", *words)
    assert (done.code, done.out) == (0, "ran --token=hf_0123456789abcdefghij\n")
    written = json.loads((stack.folder / "out/7/provenance.json").read_text())
    assert written["run"]["profile"] == "small"
    assert written["run"]["command"] == ["sh", "-c", "echo ran --token=****"]
    _install_extra(stack)
    found = stack.run("diff", "out/7/provenance.json", "venv")
    assert (found.code, found.out.partition("\n\n")[2]) == (1, PACKAGES.lstrip("\n"))
    refused = stack.run("run", "-p", "small", "--venv", "venv", "--provenance", "/proc/no/file", "--", "echo", "ran")
    assert (refused.code, refused.out, refused.err) == (
        2,
        "",
        "error: /proc/no/file cannot be written: No such file or directory\n\n"
        "hint: name a file in a folder that you can write, or omit `--provenance`\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["diff"], "nothing to compare with"),
        (["diff", "small", "--since", "2d"], "two stacks of the past are given"),
        (["diff", "--since", "2d", "--last-good"], "two stacks of the past are given"),
        (["diff", "--since", "2d", "--venv", "venv"], "FOLDER/venv has no journal"),
        (["watch-stack", "--good"], "--good is about an entry, and none is made"),
        (["watch-stack", "--once", "--cron"], "--cron prints a timer, and `--once` makes an entry"),
        (["watch-stack", "venv", "--every", "second"], "`--every second` is not known"),
    ],
)
def test_bad_input_is_said(stack: Stack, words: list[str], message: str) -> None:
    answer = stack.run(*words)
    assert (answer.code, answer.err.splitlines()[0]) == (2, f"error: {message}")


@pytest.mark.parametrize("since", ["yesterday", "2y", "", "99999-01-01"])
def test_a_time_that_is_none(stack: Stack, since: str) -> None:
    assert stack.run("watch-stack", "--once", "venv").code == 0
    answer = stack.run("diff", f"--since={since}", "--venv", "venv")
    said = f"error: `--since {since}` is no time" if since else "error: nothing to compare with"
    assert (answer.code, answer.err.splitlines()[0]) == (2, said)


def test_the_timer_is_printed_and_nothing_is_written(stack: Stack) -> None:
    odd = stack.folder / "a $b%"
    stack.venv.rename(odd)
    printed = stack.run("watch-stack", str(odd), "--every", "daily")
    name = f"envdoctor-{re.sub(r'[^A-Za-z0-9_.-]+', '-', StackJournal.of(odd, _workspace(stack).host).folder.name)}"
    program = Path(sys.executable).parent / "envdoctor"
    assert printed.out == (
        f"# ~/.config/systemd/user/{name}.service\n[Unit]\nDescription=envdoctor: what changed in FOLDER/a $b%%\n"
        f'[Service]\nType=oneshot\nExecStart={program} watch-stack --once "FOLDER/a $$b%%"\n\n'
        f"# ~/.config/systemd/user/{name}.timer\n[Unit]\nDescription=envdoctor: daily, what changed in FOLDER/a $b%%\n"
        "[Timer]\nOnCalendar=daily\nPersistent=true\n[Install]\nWantedBy=timers.target\n\n# when both are saved:\n"
        f"# systemctl --user daemon-reload && systemctl --user enable --now {name}.timer\n"
    )
    line = stack.run("watch-stack", str(odd), "--cron").out
    assert line == f"# a line for `crontab -e`\n0 * * * * {program} watch-stack --once 'FOLDER/a $b\\%'\n"
    assert not (stack.folder / "data").exists()


ADD = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from envdoctor.documents import fingerprint_file
from envdoctor.documents.stack_journal import StackJournal, entry_of
journal = StackJournal(folder=Path(sys.argv[1]), prefix="/v")
facts = fingerprint_file.read(sys.argv[2])
print("adding", flush=True)
while True:
    journal.add(entry_of(facts, "seen", profile=""), facts)
"""


def test_entries_survive_kill_9_and_writers_at_once(stack: Stack) -> None:
    once(_workspace(stack))
    journal = _journal(stack)
    (kept,) = journal.folder.glob("*.json")
    for _ in range(3):
        writers = [
            subprocess.Popen([sys.executable, "-c", ADD, journal.folder, kept], stdout=subprocess.PIPE) for _ in (1, 2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        time.sleep(0.05)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
    written = journal.path.read_bytes()
    assert len(journal.entries()) == written.count(b"\n") > 3
    journal.path.write_bytes(written[:-9])  # a line that a full disk cut short
    count = len(journal.entries())
    once(_workspace(stack))
    assert len(journal.entries()) == count + 1 == written.count(b"\n")


def test_a_journal_is_bounded_and_keeps_the_last_good_run(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_journal, "KEPT", 4)
    workspace = _workspace(stack)
    once(workspace, "good", 21_000.0)
    good = _journal(stack).entries()[0]
    _install_extra(stack)
    facts = workspace.facts(Options(contents=True))
    for _ in range(6):
        _journal(stack).add(stack_journal.entry_of(facts, "seen", profile=""), facts)
    entries = _journal(stack).entries()
    assert [entry.kind for entry in entries] == ["good", "seen", "seen", "seen", "seen"]
    assert entries[0] == good
    assert len(list(_journal(stack).folder.glob("*.json"))) == 2
    once(workspace, "good", 21_001.0)
    for _ in range(3):
        once(workspace)
    assert good not in _journal(stack).entries()
    assert len(list(_journal(stack).folder.glob("*.json"))) == 1


def test_a_good_run_whose_journal_cannot_be_written_is_warned_of(stack: Stack) -> None:
    (stack.folder / "data").write_text("")
    workspace = _workspace(stack, "small").launched()
    said = provenance.good(workspace, provenance.begun(workspace, ["x"], ""), 1.0, 21_034.0)
    assert stack.plain(said) == (
        "warning: this run reached its profile's rate, which is not noted: "
        f"{stack.plain(str(_journal(stack).path))} is not read: Not a directory"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_journal_of_another_user_is_not_read(stack: Stack) -> None:
    once(_workspace(stack))
    journal = _journal(stack)
    os.chown(journal.path, 65534, 65534)
    with pytest.raises(UsageError) as caught:
        journal.entries()
    assert caught.value.message == f"{journal.path} is not read: it belongs to user 65534"
