"""What a change takes to the nodes of a fleet, and what each of them is asked to do with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envdoctor.app.fleet_visits import Fleet
from envdoctor.cache.store import SnapshotStore
from envdoctor.cache.vouched import Vouching, checked, vouched
from envdoctor.documents import profile_store
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import open_regular
from envdoctor.model.frozen import field, frozen, replace
from envdoctor.rollout import before
from envdoctor.rollout.progress import folder_of
from envdoctor.rollout.view import ChangedNode, Kind
from envdoctor.wheels.wheelhouse import beside


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
class Work:
    """What travels, and what each node is asked to do with it."""

    files: Mapping[str, Path]
    """Path below the node's folder of files -> file here."""
    here: Mapping[str, str]
    """Path below the node's folder of files -> what that is called here: there, it is gone in the end."""
    change: Mapping[str, Any]
    check: Mapping[str, Any]
    told: tuple[str, ...]
    """What tells this change apart from another one of the same nodes."""

    of_node: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Node -> what its change is asked with besides."""
    known: Mapping[str, ChangedNode] = field(default_factory=dict)
    """Nodes that need not be asked, and why."""
    back: str = ""
    """Of a rollback: which change it goes back before."""

    def planned(self, name: str) -> list[Mapping[str, Any]]:
        """Return the task that has a node plan."""
        return [{**self.change, **self.of_node.get(name, {})}]

    def carried_out(self, node: ChangedNode) -> list[Mapping[str, Any]]:
        """Return the tasks that carry out a node's plan. A repair is compared with what was there right before."""
        earlier = [{**self.check, "before": True}] if self.change["do"] == "repair" else []
        (change,) = self.planned(node.name)
        return [*earlier, {**change, "plan": node.digest}, self.check]


def work_of(host: Host, kind: Kind, how: ChangeOptions) -> Work:
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
        return Work(
            files=files,
            here=here,
            change=merged,
            check={"do": "cache status", "profile": profile},
            told=(told, sha256),
        )
    wanted = {"do": kind, "profile": profile, "offline": how.offline}
    if kind == "restore":
        wanted["wheelhouses"] = list(how.wheelhouses)
    return Work(files=files, here=here, change=wanted, check={"do": "check", "profile": profile}, told=(told,))


def _snapshot(host: Host, how: ChangeOptions) -> tuple[Path, str]:
    """Return a snapshot and its sha256. Raises UsageError, and CacheError where its signature is not as asked."""
    path = SnapshotStore.of(host).find(how.snapshot, host.cwd)
    wanted = checked(Vouching(signers=how.signers), host.environ, host.cwd)
    with open_regular(path) as content:
        vouched(content, path, wanted, host.environ)
        content.seek(0)
        import hashlib  # noqa: PLC0415 - it loads OpenSSL

        return path, hashlib.file_digest(content, "sha256").hexdigest()


def going_back(work: Work, fleet: Fleet) -> Work:
    """Return the work of a rollback: each node goes back to the venv that it had before the last change of them.

    Raises UsageError where no change of these nodes is noted here.
    """
    noted = before.newest(folder_of(fleet.host), fleet.reached, fleet.venvs)
    if noted is None:
        raise UsageError(
            "no fleet restore or repair of these nodes and venvs was begun here",
            "give the nodes and the venv as they were given then; `rollback` on a node goes back there",
        )
    of_node, known = {}, {}
    for name, venv in fleet.venvs.items():
        had = noted.nodes.get(name)
        if had is None or had.venv != venv:
            problem = f"{noted.change} had nothing to do there"
            known[name] = ChangedNode(name=name, step="nothing to do", problem=problem)
        elif not had.made:
            problem = f"there was no venv before {noted.change}, so there is none to go back to"
            known[name] = ChangedNode(name=name, step="could not plan", problem=problem)
        else:
            of_node[name] = {"before": had.made, "change": noted.change}
    return replace(work, of_node=of_node, known=known, back=noted.change, told=(noted.begun,))
