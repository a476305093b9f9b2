"""A change on many nodes: each says what it would do, which is shown; then one node, then the rest, a few at a time."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from envdoctor.app.fleet import FleetOptions
from envdoctor.app.fleet_visits import Fleet, own_version
from envdoctor.app.result import Dialog, Result
from envdoctor.app.rollout_work import ChangeOptions, Work, going_back, work_of
from envdoctor.errors import Interrupted, ProbeError, UsageError
from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from envdoctor.model.wording import counted
from envdoctor.rollout import before
from envdoctor.rollout.before import Before, NodeBefore
from envdoctor.rollout.payload import payload
from envdoctor.rollout.progress import Progress
from envdoctor.rollout.said import VisitSaid
from envdoctor.rollout.sharing import ready, with_shared, without_contrary
from envdoctor.rollout.view import ChangedNode, FleetChange, Kind, carried_out, done_before, planned

_HINT = "`--dry-run` shows what each node would do, and the digest of it all; `--plan DIGEST` carries that out"
_QUESTIONS: Mapping[Kind, str] = {
    "restore": "Restore {nodes}, {first} first?",
    "repair": "Repair {nodes}, {first} first?",
    "rollback": "Put the venv of before back on {nodes}, {first} first?",
    "cache push": "Merge the snapshot on {nodes}, {first} first?",
}


def change(host: Host, kind: Kind, wishes: FleetOptions, how: ChangeOptions, dialog: Dialog) -> Result:
    """Plan on each node, show it, ask, carry it out. Raises UsageError, ProbeError, CacheError, Interrupted."""
    if how.plan and how.dry_run:
        raise UsageError("--plan and --dry-run are given", "`--dry-run` shows a plan, `--plan DIGEST` carries it out")
    if not how.scratch.startswith("/"):
        raise UsageError(f"--scratch {how.scratch} is not an absolute path", "name a folder of the nodes: `/var/tmp`")
    if not (how.plan or how.dry_run):
        dialog.needs_answer(_HINT)
    work = work_of(host, kind, how)
    pushed = kind == "cache push"
    fleet = Fleet.of(host, wishes, scratch=how.scratch, version=own_version() if pushed else None)
    if kind == "rollback":
        work = going_back(work, fleet)
    progress = Progress.of(host, (kind, *fleet.told, *work.told))
    done = progress.done() if how.resume else {}
    with _packed(work, host, dialog, zstd=pushed) as load:
        return _Change(fleet, work, load, progress, dialog).run(kind, how, done)


class _Change:
    """One change while it is under way."""

    def __init__(self, fleet: Fleet, work: Work, load: memoryview, progress: Progress, dialog: Dialog) -> None:
        self._fleet, self._work, self._load = fleet, work, load
        self._progress, self._dialog = progress, dialog

    def run(self, kind: Kind, how: ChangeOptions, done: Mapping[str, str]) -> Result:
        """Go through all of it."""
        view = self._plan(kind, done)
        if how.dry_run:
            return _result(view)
        if how.plan and how.plan != view.digest:
            why = f"nothing was changed: the plan is not the one that was shown (digest {how.plan}, now {view.digest})"
            return _result(replace(view, refused=why))
        if not view.planned:
            return _result(view)
        if not how.plan:
            self._dialog.show(_result(view))
            nodes = counted(len(view.planned), "node")
            if not self._dialog.agreed(_QUESTIONS[kind].format(nodes=nodes, first=view.planned[0].name)):
                raise Interrupted("declined; no node was changed")
        if not how.resume:
            self._progress.forget()
        if kind in ("restore", "repair"):
            self._note_before(view, how)
        if not how.resume:
            self._progress.begin()
        view = self._carry_out(view)
        if not any(one.step in ("failed", "not begun", "could not plan") for one in view.nodes):
            self._progress.end()
        return _result(view)

    def _plan(self, kind: Kind, done: Mapping[str, str]) -> FleetChange:
        fleet = self._fleet
        asked = [name for name in fleet.names if name not in (done.keys() | self._work.known.keys())]
        with self._dialog.waiting(f"planning on {counted(len(asked), 'node')}"):
            said = self._visit({name: self._work.planned(name) for name in asked}) if asked else []
        found = {one.node: planned(kind, one, fleet.paths(one.node)) for one in said}
        found |= self._work.known
        found |= {name: ChangedNode(name=name, step="could not plan", problem=why) for name, why in fleet.down.items()}
        before = {name: done_before(name, done[name]) for name in fleet.names if name in done}
        nodes = {name: (found | before)[name] for name in (*fleet.names, *fleet.down)}
        undo = _command("fleet rollback", fleet) if kind in ("restore", "repair") else ""
        view = FleetChange(
            kind=kind, engine=fleet.wishes.engine, nodes=tuple(nodes.values()), back=self._work.back, undo=undo
        )
        had = {name: str(told["before"]) for name, told in self._work.of_node.items()}
        return with_shared(without_contrary(view, had))

    def _carry_out(self, view: FleetChange) -> FleetChange:
        waiting = list(view.planned)
        at_once = 1  # one first: nothing else is begun before it has proven itself
        while waiting:
            batch = ready(waiting, at_once)
            waiting = [one for one in waiting if one not in batch]
            at_once = self._fleet.wishes.at_once
            names = ", ".join(one.name for one in batch)
            tasks = {one.name: self._work.carried_out(one) for one in batch}
            try:
                with self._dialog.stage(f"{view.kind}: {names}"):
                    said = self._visit(tasks)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"interrupted while {names} {'was' if len(batch) == 1 else 'were'} at work; each ends with its old "
                    "stack or the new one\n"
                    "the same command with `--resume` and without `--plan` plans for those that are not done"
                ) from None
            except ProbeError as error:
                asked = {one.name: replace(one, step="not begun", problem=error.message) for one in batch}
                return _left(view.with_nodes(asked), waiting)
            now = {node.name: carried_out(view.kind, node, one) for node, one in zip(batch, said, strict=True)}
            self._note(view.kind, now.values())
            view = view.with_nodes(now)
            if any(one.step == "failed" for one in now.values()):
                return _left(view, waiting)
        return view

    def _visit(self, tasks: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[VisitSaid]:
        return self._fleet.visit(tasks, self._load, self._work.here)

    def _note_before(self, view: FleetChange, how: ChangeOptions) -> None:
        """Note what each node has that is about to be changed."""
        nodes = {one.name: NodeBefore(venv=self._fleet.venvs[one.name], made=one.venv) for one in view.planned}
        begun = datetime.now(UTC).isoformat()
        noted = Before(kind=view.kind, profile=how.profile, begun=begun, fleet=self._fleet.reached, nodes=nodes)
        before.write(self._progress.path, noted, resumed=how.resume)

    def _note(self, kind: Kind, nodes: Collection[ChangedNode]) -> None:
        """Note what became of nodes. A full disk loses no result: it is said, and `--resume` plans for them too."""
        try:
            if kind in ("restore", "repair"):
                before.became(self._progress.path, {one.name: one.became for one in nodes})
            for one in nodes:
                self._progress.note(one.name, one.step)
        except OSError as error:
            why = f"{self._progress.path} cannot be written: {error.strerror or error}"
            self._dialog.note(f"warning: {why}\n\nhint: `--resume` will plan again for nodes that are done")
        except UsageError as error:
            self._dialog.note(f"warning: {error.message}\n\nhint: {error.hint}")


def _left(view: FleetChange, nodes: Iterable[ChangedNode]) -> FleetChange:
    return view.with_nodes({one.name: replace(one, step="not begun") for one in nodes})


def _result(view: FleetChange) -> Result:
    return Result(command=f"fleet {view.kind}", data=view, exit_code=view.exit_code, elsewhere=True)


@contextmanager
def _packed(work: Work, host: Host, dialog: Dialog, *, zstd: bool) -> Iterator[memoryview]:
    packing = payload(work.files, host.environ, zstd=zstd)
    with dialog.waiting("packing what travels to the nodes"):
        load = packing.__enter__()
    try:
        yield load
    finally:
        packing.__exit__(None, None, None)


def _command(name: str, fleet: Fleet) -> str:
    """Return a command for the same nodes."""
    wishes = fleet.wishes
    words = ["--slurm"] if wishes.engine == "slurm" else []
    given = {
        "--nodes" if words else f"--{wishes.engine}": wishes.where,
        "--ssh-config": wishes.ssh_config,
        "--ray-python": wishes.ray_python,
        "--venv": wishes.venv,
        "--python": wishes.python,
        "--scratch": fleet.scratch if fleet.scratch != ChangeOptions().scratch else "",
    }
    words += [word for option, value in given.items() if value for word in (option, value)]
    return f"envdoctor {name} {shlex.join(words)}"
