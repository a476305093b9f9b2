"""Which change broke it: copies between a good end and a bad one, each built, judged and written down."""

import os
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from envdoctor import __version__
from envdoctor.errors import RestoreError, UsageError
from envdoctor.facts.host import Host
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.wording import counted
from envdoctor.stack.named import NamedStack
from envdoctor.standards.redaction import redacted_words
from envdoctor.swap.store import remove_tree
from envdoctor.trial.changes import StackChange, cut
from envdoctor.trial.command import Criterion, Judged, judge
from envdoctor.trial.contested import ContestedPaths
from envdoctor.trial.delta import Outcome, explain
from envdoctor.trial.ends import BisectEnd, open_end
from envdoctor.trial.foreseen import error_of
from envdoctor.trial.identity import key_of, state, unlike, value, variable_changes
from envdoctor.trial.journal import Asked, Caches, CopyVerdict, TrialJournal
from envdoctor.trial.launch import as_typed, launch_environment, placed, tested_environment
from envdoctor.trial.mixture import Mixture, shown
from envdoctor.trial.own_caches import as_launched, own_caches
from envdoctor.trial.training_code import training_code
from envdoctor.trial.tree import VenvTree, differing
from envdoctor.trial.work_folder import WorkFolder

Beginning = Literal["any", "resumed", "known"]
"""What the journal must be of this bisection for: nothing, to go on with it, or to repeat what it found."""
_CACHE = StackChange(kind="cache", name="compile cache", before="cold", after="as it is now", rank=9)


@frozen
class BisectRequest:
    """What is asked."""

    good: NamedStack
    bad: NamedStack
    command: tuple[str, ...]
    criterion: Criterion = Criterion()
    caches: Caches = "warm"
    offline: bool = False
    sources: bool = False
    """The commits of the training code are changes too."""


@frozen
class Bisected:
    """What a bisection found."""

    good: str
    bad: str
    command: tuple[str, ...]
    changes: tuple[StackChange, ...]
    """All in which the ends differ."""
    verdicts: tuple[CopyVerdict, ...]
    """Of every copy, in the order in which they were built; those of an earlier, interrupted run come first."""
    resumed: int
    """How many of them were known from an earlier run."""
    causes: tuple[tuple[StackChange, ...], ...]
    """Independent causes; the changes of one are bad only together."""
    undone: tuple[StackChange, ...]
    """What is to be undone: the causes, and what requires one of them."""
    verified: bool
    """A copy of the bad end without them was tested, and is good."""
    log: str
    """The file with the output of every run."""
    notes: tuple[str, ...] = ()


class Bisection:
    """One bisection in its folder."""

    def __init__(self, request: BisectRequest, work: WorkFolder, host: Host, listen: Listener) -> None:
        """Open both ends and cut their difference into changes. Raises UsageError, RestoreError."""
        self.request, self.work, self.host, self.listen = request, work, host, listen
        ends = [
            open_end(named, host, work.ends, listen, offline=request.offline) for named in (request.good, request.bad)
        ]
        self.good, self.bad = ends
        self.code = training_code(self.good.commit, self.bad.commit, host) if request.sources else None
        more = list(self.code.changes()) if self.code else []
        self.mixture = _mixture(self.good, self.bad, host, more, request, listen)
        self.journal = TrialJournal(work.folder)
        self.notes: list[str] = []
        self.resumed = 0
        self._compiled: list[VenvTree] = []
        self._reference: float | None = None
        self._known_only = False
        self.left: frozenset[int] = frozenset()
        """Once it is done: the changes that need not be undone."""

    def find(self, beginning: Beginning = "any") -> Bisected:
        """Verify both ends, find the causes, and remove the copies. Raises UsageError where an end is not as said.

        With `known` nothing is built and run: the journal must hold all of it.
        """
        changes = self.mixture.changes
        self._open_journal(beginning)
        self._known_only = beginning == "known"
        whole = frozenset(range(changes.forces.count))
        self._verify(frozenset(), "good", self.request.good.label, "GOOD")
        self._verify(whole, "bad", self.request.bad.label, "BAD")
        found = explain(changes.forces, self.test)
        self.left = whole - found.undone
        return Bisected(
            good=self.request.good.label,
            bad=self.request.bad.label,
            command=self.request.command,
            changes=changes.items,
            verdicts=tuple(self.journal.verdicts),
            resumed=self.resumed,
            causes=tuple(tuple(changes.items[at] for at in sorted(cause)) for cause in found.causes),
            undone=tuple(changes.items[at] for at in sorted(found.undone)),
            verified=found.verified,
            log=str(self.work.log),
            notes=tuple(self.notes),
        )

    def test(self, chosen: Collection[int]) -> Outcome:
        """Return what a copy with those changes is: from the journal, else built and judged."""
        names = tuple(self.mixture.changes.named(chosen))
        known = next((one for one in self.journal.verdicts if one.changes == names), None)
        if known is None and self._known_only:
            venv = shlex.quote(str(self.work.venv))
            raise UsageError(
                f"the bisection is not finished ({counted(len(self.journal.verdicts), 'verdict')} so far), so what is "
                "to be undone is not known",
                f"`envdoctor bisect --resume --venv {venv}` finishes it; then `--undo` swaps in what it found",
            )
        if known is None:
            known = self._probe(chosen, names)
            self.journal.add(known)
        if not names and known.number is not None:
            self._reference = known.number
        return known.outcome

    def _probe(self, chosen: Collection[int], names: tuple[str, ...]) -> CopyVerdict:
        whole = len(chosen) == self.mixture.changes.forces.count
        folder = self.work.copy("bad" if chosen and whole else "probe" if chosen else "good")
        what = f"with {len(chosen)} of {counted(len(self.mixture.changes.items), 'change')}, to run the command in it"
        self.listen(Event(phase="build", text=f"copy {len(self.journal.verdicts) + 1} {what}"))
        started = time.monotonic()
        remove_tree(folder)
        self.mixture.build(chosen, folder, folder, self._compiled)
        variables = self._variables(chosen)
        warm = self.request.caches == "warm" or any(self.mixture.changes.items[at].kind == "cache" for at in chosen)
        launched = replace(self.host, environ=as_launched(self.host, variables))
        caches = own_caches(launched, self.work.caches, warm=warm)
        built = time.monotonic() - started
        if chosen and whole:
            self._compare_with_bad(folder)
        judged, ran = self._judged(folder, {**variables, **caches}, self._cwd(chosen))
        self._refuse_written()
        if folder.name != "probe" and folder.is_dir():  # the command may have removed it
            self._compiled.append(VenvTree(folder))
        seconds = time.monotonic() - started
        is_ = "cannot be judged" if judged.outcome == "skip" else f"is {judged.outcome}"
        self.listen(Event(phase="check", text=f"copy {len(self.journal.verdicts) + 1} {is_}: {judged.why}"))
        return CopyVerdict(
            changes=names,
            outcome=judged.outcome,
            why=judged.why,
            seconds=round(seconds, 3),
            build_seconds=round(built, 3),
            ran=ran,
            number=judged.number,
        )

    def _cwd(self, chosen: Collection[int]) -> Path:
        """Return where the command is run: the current folder, or that folder as of the commits that are made."""
        if self.code is None:
            return self.host.cwd
        folder = self.work.copy("code")
        remove_tree(folder)
        items = [self.mixture.changes.items[at] for at in chosen]
        return self.code.export([one.name for one in items if one.kind == "commit"], folder, self.host)

    def _judged(self, folder: Path, variables: Mapping[str, str | None], cwd: Path) -> tuple[Judged, bool]:
        environment = tested_environment(launch_environment(self.host.environ, folder, variables, self._names, cwd))
        command = placed(self.request.command, self._names, folder, self.host.cwd, environment["PATH"])
        wanted = self.request.criterion
        if not wanted.pattern and (error := error_of(command, folder, replace(self.host, cwd=cwd), environment)):
            return Judged(outcome="bad", why=f"{error} (from its files; not run)", runs=()), False
        judged = judge(command, environment, cwd, self.work.log, wanted, self._reference, self._note)
        return judged, True

    def _note(self, text: str) -> None:
        self.listen(Event(phase="check", text=text))

    @property
    def _names(self) -> tuple[str, ...]:
        """Return what the command may call the venvs that its copy stands for."""
        typed = (named.path for named in (self.request.good, self.request.bad) if named.kind == "venv")
        trees = (name for end in (self.good, self.bad) for name in end.side.tree.names)
        return tuple(dict.fromkeys((*trees, *typed, str(self.work.venv))))

    def _verify(self, chosen: Collection[int], wanted: Outcome, label: str, name: str) -> None:
        outcome = self.test(chosen)
        if outcome == wanted:
            return
        names = tuple(self.mixture.changes.named(chosen))
        verdict = next(one for one in self.journal.verdicts if one.changes == names)
        command = as_typed(redacted_words(self.request.command))
        if outcome == "skip":
            hint = "exit code 125, and a run without a number where one is measured, say nothing: look at its output"
        elif wanted == "good":
            hint = "name an end where it works; one that fails sometimes: `--runs 10 --fails 3`"
        else:
            hint = "name an end where it fails; one that fails sometimes: `--runs 10`; a number: `--measure`"
        found = f"is not {name}" if outcome != "skip" else f"cannot be judged, and must be {name}"
        raise UsageError(
            f"{label} {found}: `{command}` in a copy of it: {verdict.why} (output in {self.work.log})", hint
        )

    def _variables(self, chosen: Collection[int]) -> dict[str, str | None]:
        changed = {
            self.mixture.changes.items[at].name for at in chosen if self.mixture.changes.items[at].kind == "variable"
        }
        return {
            name: value(self.bad if name in changed else self.good, name, self.host)
            for name in self.good.variables.keys() | self.bad.variables.keys()
        }

    def _compare_with_bad(self, folder: Path) -> None:
        if unlike := self.mixture.unlike(VenvTree(folder)):
            self.notes.append(
                f"a copy with every change is not as {self.request.bad.label} in {counted(len(unlike), 'file')}: "
                f"{shown(unlike)}"
            )

    def refuse_changed(self) -> None:
        """Raise RestoreError where the bad end is no longer what it was when it was read: a new file counts too."""
        before = self.bad.side.tree
        now = VenvTree(Path(before.root), Path(before.home))
        paths = before.entries.keys() | now.entries.keys()
        if changed := sorted(path for path in paths if before.entries.get(path) != now.entries.get(path)):
            raise RestoreError(
                f"{counted(len(changed), 'file')} of {before.root} changed since it was read: {shown(changed)}",
                "nothing was swapped; run it again once nothing else changes that venv",
            )

    def _refuse_written(self) -> None:
        """Stop where the command wrote into a file that a copy shares with an end."""
        for end in (self.good, self.bad):
            tree = VenvTree(Path(end.side.tree.root))
            changed = sorted(
                path
                for path, entry in end.side.tree.entries.items()
                if path not in tree.entries or tree.entries[path][:5] != entry[:5]
            )
            if changed:
                raise RestoreError(
                    f"{counted(len(changed), 'file')} of {end.side.tree.root} changed while the command ran: "
                    f"{shown(changed)}",
                    "the command writes into installed files, which its copies share, or something else changes that "
                    f"venv: `envdoctor check --deep {shlex.quote(str(end.side.tree.root))}`",
                )

    def _open_journal(self, beginning: Beginning) -> None:
        request, changes = self.request, [change.key for change in self.mixture.changes.items]
        states = (state(self.good), state(self.bad))
        words = (__version__, *request.command, str(request.criterion), request.caches, str(self.host.cwd))
        key = key_of(self.good, self.bad, states, (*words, *changes), self.host)
        asked = self.journal.asked if self.journal.read() else None
        if asked and asked.key == key:
            self.resumed = len(self.journal.verdicts)
            if self.resumed:
                text = f"copies judged in an earlier run, which are not built again: {self.resumed}"
                self.listen(Event(phase="recover", text=text))
            return
        ends = (request.good.label, request.bad.label)
        if asked and (beginning != "any" or (asked.good, asked.bad, asked.command) == (*ends, request.command)):
            now = unlike(asked, ends, states, changes)
            if beginning != "any":
                command = f"envdoctor bisect {as_typed(ends)} -- {as_typed(redacted_words(request.command))}"
                undone = "; `envdoctor history` tells whether it was undone already" if beginning == "known" else ""
                raise UsageError(
                    f"{now}: what was {'found' if beginning == 'known' else 'judged'} may not hold",
                    f"bisect again: `cd {shlex.quote(str(self.host.cwd))} && {command}`{undone}",
                )
            again = f"{now}: it starts over, without its {counted(len(self.journal.verdicts), 'verdict')}"
            self.listen(Event(phase="recover", text=again))
        self.work.log.unlink(missing_ok=True)
        self.journal.begin(
            Asked(
                key=key,
                good=request.good.label,
                bad=request.bad.label,
                command=request.command,
                criterion=request.criterion,
                caches=request.caches,
                offline=request.offline,
                sources=request.sources,
                folder=str(self.host.cwd),
                states=states,
                changes=tuple(changes),
                version=__version__,
                started=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        )


def _mixture(
    good: BisectEnd,
    bad: BisectEnd,
    host: Host,
    commits: Sequence[StackChange],
    request: BisectRequest,
    listen: Listener,
) -> Mixture:
    if good.side.python != bad.side.python:
        raise UsageError(
            f"{good.side.label} is a venv of Python {good.side.python}, {bad.side.label} one of {bad.side.python}: "
            "no distribution of one can be put into the other",
            "name two ends of one Python version",
        )
    listen(Event(phase="copy", text="comparing both ends"))
    good.side.tree.kin, bad.side.tree.kin = bad.side.tree.names, good.side.tree.names
    different = differing(good.side.tree, bad.side.tree, listen)
    more = [*variable_changes(good, bad, host), *commits, *([_CACHE] if request.caches == "bisect" else [])]
    changes = cut(good.side, bad.side, different, more)
    if not changes.items and os.path.samefile(good.side.tree.root, bad.side.tree.root):
        raise UsageError(
            f"{good.side.label} and {bad.side.label} are the same venv, {os.path.realpath(bad.side.tree.root)}",
            "name two that differ: a backup (`envdoctor history` lists them), a profile, another venv; "
            "a compile cache: `--cache bisect`",
        )
    if not changes.items:
        raise UsageError(
            f"{good.side.label} and {bad.side.label} do not differ in anything that a copy can have",
            "name two ends that differ: `envdoctor diff` compares them; a compile cache: `--cache bisect`",
        )
    return Mixture(good=good.side, bad=bad.side, changes=changes, contested=ContestedPaths(good.side, bad.side))
