"""A change on many nodes: each says what it would do, which is shown; then one node, then the rest, a few at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envdoctor.app.fleet import FleetOptions
from envdoctor.app.fleet_visits import Fleet, own_version
from envdoctor.app.result import Dialog, Result
from envdoctor.cache.store import SnapshotStore
from envdoctor.cache.vouched import Vouching, checked, vouched
from envdoctor.documents import profile_store
from envdoctor.errors import Interrupted, ProbeError, UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import open_regular
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.wording import counted
from envdoctor.rollout.payload import payload
from envdoctor.rollout.progress import Progress
from envdoctor.rollout.said import VisitSaid
from envdoctor.rollout.view import ChangedNode, FleetChange, Kind, carried_out, done_before, planned
from envdoctor.wheels.wheelhouse import beside

_HINT = "`--dry-run` shows what each node would do, and the digest of it all; `--plan DIGEST` carries that out"
_QUESTIONS: Mapping[Kind, str] = {
    "restore": "Restore {nodes}, {first} first?",
    "repair": "Repair {nodes}, {first} first?",
    "cache push": "Merge the snapshot on {nodes}, {first} first?",
}


@frozen
class ChangeOptions:
    """How nodes are changed."""

    profile: str = ""
    dry_run: bool = False
    plan: str = ""
    """Digest of what all nodes would do, as it was shown: carried out without a question, and nothing else."""
    resume: bool = False
    offline: bool = False
    wheelhouses: tuple[str, ...] = ()
    """On the nodes."""
    scratch: str = "/tmp"  # noqa: S108 - a folder of the user alone is made in it, on the node
    """On the nodes: where the tool is while it is at work."""
    snapshot: str = ""
    """Name or path of what `cache push` pushes."""
    signers: str = ""


@frozen
class _Work:
    """What travels, and what each node is asked to do with it."""

    files: Mapping[str, Path]
    """Path below the node's folder of files -> file here."""
    here: Mapping[str, str]
    """Path below the node's folder of files -> what that is called here: there, it is gone in the end."""
    change: Mapping[str, Any]
    check: Mapping[str, Any]
    told: tuple[str, ...]
    """What tells this change apart from another one of the same nodes."""

    def carried_out(self, plan: str) -> list[Mapping[str, Any]]:
        """Return the tasks that carry out a node's plan. A repair is compared with what was there right before."""
        before = [{**self.check, "before": True}] if self.change["do"] == "repair" else []
        return [*before, {**self.change, "plan": plan}, self.check]


def change(host: Host, kind: Kind, wishes: FleetOptions, how: ChangeOptions, dialog: Dialog) -> Result:
    """Plan on each node, show it, ask, carry it out. Raises UsageError, ProbeError, CacheError, Interrupted."""
    if how.plan and how.dry_run:
        raise UsageError("--plan and --dry-run are given", "`--dry-run` shows a plan, `--plan DIGEST` carries it out")
    if not how.scratch.startswith("/"):
        raise UsageError(f"--scratch {how.scratch} is not an absolute path", "name a folder of the nodes: `/var/tmp`")
    if not (how.plan or how.dry_run):
        dialog.needs_answer(_HINT)
    work = _work(host, kind, how)
    pushed = kind == "cache push"
    fleet = Fleet.of(host, wishes, scratch=how.scratch, version=own_version() if pushed else None)
    progress = Progress.of(host, (kind, *fleet.told, *work.told))
    done = progress.done() if how.resume else {}
    with _packed(work, host, dialog, zstd=pushed) as load:
        return _Change(fleet, work, load, progress, dialog).run(kind, how, done)


class _Change:
    """One change while it is under way."""

    def __init__(self, fleet: Fleet, work: _Work, load: memoryview, progress: Progress, dialog: Dialog) -> None:
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
            self._progress.begin()
        view = self._carry_out(view)
        if not any(one.step in ("failed", "not begun", "could not plan") for one in view.nodes):
            self._progress.end()
        return _result(view)

    def _plan(self, kind: Kind, done: Mapping[str, str]) -> FleetChange:
        fleet = self._fleet
        asked = [name for name in fleet.names if name not in done]
        with self._dialog.waiting(f"planning on {counted(len(asked), 'node')}"):
            said = self._visit({name: [self._work.change] for name in asked}) if asked else []
        found = {one.node: planned(kind, one, fleet.paths(one.node)) for one in said}
        found |= {name: ChangedNode(name=name, step="could not plan", problem=why) for name, why in fleet.down.items()}
        before = {name: done_before(name, done[name]) for name in fleet.names if name in done}
        nodes = {name: (found | before)[name] for name in (*fleet.names, *fleet.down)}
        return FleetChange(kind=kind, engine=fleet.wishes.engine, nodes=tuple(nodes.values()))

    def _carry_out(self, view: FleetChange) -> FleetChange:
        waiting = list(view.planned)
        at_once = 1  # one first: nothing else is begun before it has proven itself
        while waiting:
            batch, waiting = waiting[:at_once], waiting[at_once:]
            at_once = self._fleet.wishes.at_once
            names = ", ".join(one.name for one in batch)
            tasks = {one.name: self._work.carried_out(one.digest) for one in batch}
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
            self._note(now.values())
            view = view.with_nodes(now)
            if any(one.step == "failed" for one in now.values()):
                return _left(view, waiting)
        return view

    def _visit(self, tasks: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[VisitSaid]:
        return self._fleet.visit(tasks, self._load, self._work.here)

    def _note(self, nodes: Iterable[ChangedNode]) -> None:
        """Note what became of nodes. A full disk loses no result: it is said, and `--resume` plans for them too."""
        try:
            for one in nodes:
                self._progress.note(one.name, one.step)
        except OSError as error:
            why = f"{self._progress.path} cannot be written: {error.strerror or error}"
            self._dialog.note(f"warning: {why}\n\nhint: `--resume` will plan again for nodes that are done")


def _left(view: FleetChange, nodes: Iterable[ChangedNode]) -> FleetChange:
    return view.with_nodes({one.name: replace(one, step="not begun") for one in nodes})


def _result(view: FleetChange) -> Result:
    return Result(command=f"fleet {view.kind}", data=view, exit_code=view.exit_code)


@contextmanager
def _packed(work: _Work, host: Host, dialog: Dialog, *, zstd: bool) -> Iterator[memoryview]:
    packing = payload(work.files, host.environ, zstd=zstd)
    with dialog.waiting("packing what travels to the nodes"):
        load = packing.__enter__()
    try:
        yield load
    finally:
        packing.__exit__(None, None, None)


def _work(host: Host, kind: Kind, how: ChangeOptions) -> _Work:
    """Return what travels. Raises UsageError, ProfileError, LockError, CacheError."""
    files: dict[str, Path] = {}
    here: dict[str, str] = {}
    profile, told = "", ""
    if how.profile:
        found = profile_store.find(how.profile, host.cwd)
        _ = found.lock  # a lock that cannot be read is an error of this machine, and not of each node
        files = {f"profiles/{found.path.name}": found.path, f"lockfiles/{found.lock_path.name}": found.lock_path}
        wheels = beside(found.lock_path, found.name)
        files |= {f"lockfiles/{wheels.name}/{path.name}": path for path in wheels.glob("*.whl")}
        here = {f"profiles/{found.path.name}": how.profile, "lockfiles": str(found.lock_path.parent)}
        profile, told = f"{{files}}/profiles/{found.path.name}", found.digest
    elif kind == "restore":
        raise UsageError("no profile to restore", "`envdoctor profiles` lists them: `envdoctor fleet restore -p NAME`")
    if kind == "cache push":
        path, sha256 = _snapshot(host, how)
        files |= {f"cache/{path.name}": path}
        here |= {"cache": str(path.parent)}
        merged = {"do": "cache", "profile": profile, "archive": f"{{files}}/cache/{path.name}", "sha256": sha256}
        return _Work(
            files=files,
            here=here,
            change=merged,
            check={"do": "cache status", "profile": profile},
            told=(told, sha256),
        )
    wanted = {"do": kind, "profile": profile, "offline": how.offline}
    if kind == "restore":
        wanted["wheelhouses"] = list(how.wheelhouses)
    return _Work(files=files, here=here, change=wanted, check={"do": "check", "profile": profile}, told=(told,))


def _snapshot(host: Host, how: ChangeOptions) -> tuple[Path, str]:
    """Return a snapshot and its sha256. Raises UsageError, and CacheError where its signature is not as asked."""
    path = SnapshotStore.of(host).find(how.snapshot, host.cwd)
    wanted = checked(Vouching(signers=how.signers), host.environ, host.cwd)
    with open_regular(path) as content:
        vouched(content, path, wanted, host.environ)
        content.seek(0)
        import hashlib  # noqa: PLC0415 - it loads OpenSSL

        return path, hashlib.file_digest(content, "sha256").hexdigest()
