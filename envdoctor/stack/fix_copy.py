"""Printed commands, carried out on a linked copy of the venv that is examined and then swapped in."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from envdoctor.analysis.context import CheckContext
from envdoctor.doctor.examine import written_down
from envdoctor.errors import RestoreError
from envdoctor.facts.children import run_child
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.whole_file import rewrite
from envdoctor.model.events import Event, Listener
from envdoctor.model.finding import Finding
from envdoctor.model.profile import Profile
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.stack.examination import added, blocking_findings, line, read_deep, reading_of_copy, verdict_on
from envdoctor.stack.fix_commands import on_a_copy, touched
from envdoctor.stack.folders_in_the_way import refuse_linked_out
from envdoctor.stack.hidden_errors import hidden
from envdoctor.stack.record_audit import RecordAudit, audit
from envdoctor.standards.lock import Lock
from envdoctor.swap.hardlinks import linked_copy
from envdoctor.swap.permissions import carry_over
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import BackupStore
from envdoctor.swap.swap import sync_file_system
from envdoctor.swap.transaction import Copying, Exchanged, exchange
from envdoctor.wheels import index_config, pip_config
from envdoctor.wheels import uv as uv_tool

_MAXIMUM_CONFIG = 1 << 20


def carry_out(
    store: BackupStore,
    commands: Sequence[str],
    host: Host,
    wanted: tuple[Profile | None, Lock | None],
    listen: Listener,
    shown: ShownVenv,
) -> Exchanged[tuple[Finding, ...]]:
    """Copy the venv, run the commands there in order, examine, swap. A failure leaves the venv as it was.

    wanted: profile and lock that the environment is compared with. shown: the venv that was judged. What was made are
    the errors of the copy that could not be seen before.
    Raises RestoreError: a command failed, or the copy has an error that the venv does not have.
    """

    def make(copying: Copying) -> tuple[Finding, ...]:
        target, folder = store.target, copying.folder
        there, facts = read_deep(target, host, listen)
        before, read = blocking_findings(facts, *wanted), audit(there)
        _refuse_linked_out(commands, there, read, target)
        behind = hidden(CheckContext(facts=facts, profile=wanted[0], lock=wanted[1]), before, read)
        listen(Event(phase="copy", text="linking every file of the venv into a copy"))
        linked_copy(target, folder)
        copying.made()
        config = folder / "pyvenv.cfg"
        kept = read_regular(config, _MAXIMUM_CONFIG)
        # uv then writes scripts that find their interpreter from where they are: the copy is about to be renamed.
        rewrite(config, kept.rstrip(b"\n") + b"\nrelocatable = true\n")
        for command in commands:
            listen(Event(phase="build", text=command))
            for words in on_a_copy(command, str(target), str(folder)):
                _run(words, host, copying)
        rewrite(config, kept)
        carry_over(target, folder)
        listen(Event(phase="check", text="examining the copy"))
        reading = reading_of_copy(folder, host, listen, target, read.proven)
        after = written_down(reading)
        new = added(blocking_findings(after, *wanted, target), before)
        revealed = behind.revealed(new, after, audit(reading))
        new = tuple(item for item in new if item not in revealed)
        if new:
            raise RestoreError(
                f"the copy has an error that the venv does not have: {'; '.join(map(line, new))}",
                "nothing was changed; run the commands one by one, and check after each",
            )
        sync_file_system(folder)
        return revealed

    return exchange(
        store,
        "fix",
        "",
        make,
        listen,
        host=host,
        shown=shown,
        verdict=lambda: verdict_on(store.target, host),
    )


def _refuse_linked_out(commands: Sequence[str], there: Reading, read: RecordAudit, target: Path) -> None:
    """Raise RestoreError where uv would follow a link out of the copy, which is the venv's too, and delete there."""
    site, removed = Path(there.fact(Interpreter).library, "site-packages"), list[str]()
    installed = {name: item.version for name, item in read.packages.items()}
    for command in commands:
        for words in on_a_copy(command, str(target), str(target)):
            if words[0] == "uv":
                refuse_linked_out(read, target, site, touched(words, installed), removed)
            else:
                removed += [os.path.relpath(word, target) for word in words[1:] if word.startswith(f"{target}/")]


def _run(words: Sequence[str], host: Host, copying: Copying) -> None:
    if words[0] == "uv":
        uv = uv_tool.locate(host.environ, host.cwd, keep_open=(copying.descriptor,))
        if words[2] != "install":
            uv.run(words[1:])
            return
        # What pip is configured with counts too, as in a repair: whichever index has the version may give it.
        pip = pip_config.read(host.environ, host.home, venv=copying.folder)
        reach = index_config.configured(uv, pip, host.home, str(copying.folder / "bin/python")).everywhere
        strategy = () if "--index-strategy" in words else ("--index-strategy", "unsafe-best-match")
        added = [word for word in reach.arguments if word not in words]
        uv.run([*words[1:], *strategy, *added], extra=reach.variables)
        return
    # The system's own: the venv that is examined may be the first on PATH.
    program = shutil.which(words[0], path=os.defpath)
    if program is None:
        raise RestoreError(f"there is no {words[0]} in {os.defpath}", "nothing was changed")
    done = run_child(
        [program, *words[1:]],
        text=True,
        errors="replace",
        pass_fds=(copying.descriptor,),
        env={"PATH": os.defpath, "LC_ALL": "C"},
    )
    if done.returncode:
        raise RestoreError(f"{' '.join(words)}: {done.stderr.strip()}", "nothing was changed")
