"""The nodes of a fleet, to be visited with work: the engines of `fleet check`, which carry the whole tool then."""

import json
import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envdoctor.app.fleet import FleetOptions, ray_python, refuse_limits
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.programs import outside_venvs
from envdoctor.fleet import hosts, slurm
from envdoctor.fleet.carried import Errand
from envdoctor.fleet.gather import listen
from envdoctor.model.frozen import frozen
from envdoctor.rollout.said import VisitSaid, as_here, said_in

_DIGITS = 12
_PLAIN = re.compile(r"[A-Za-z0-9_@.-]{1,80}")


@frozen
class Fleet:
    """Nodes, and how each is reached."""

    host: Host
    wishes: FleetOptions
    names: tuple[str, ...]
    venvs: Mapping[str, str]
    """Node -> the venv that is meant there."""
    given: Mapping[str, str]
    """The same as it was given, with `{node}`."""
    down: Mapping[str, str]
    """Node -> why it cannot be reached, as the engine says."""
    version: tuple[int, int] | None
    """Of Python, where what travels is compiled for it."""
    scratch: str

    @classmethod
    def of(cls, host: Host, wishes: FleetOptions, *, scratch: str, version: tuple[int, int] | None) -> "Fleet":
        """Return the nodes that are meant. Raises UsageError, and ProbeError where the engine does not answer."""
        refuse_limits(wishes)
        venvs: dict[str, str] = {}
        down: dict[str, str] = {}
        if wishes.engine == "hosts":
            if outside_venvs("ssh", host.environ) is None:
                raise UsageError("ssh is not installed here", "install it (Debian: openssh-client)")
            venvs = {one.name: one.venv or wishes.venv for one in hosts.hosts_in(Path(host.cwd, wishes.where))}
        elif wishes.engine == "slurm":
            names, down = slurm.nodes_of(host.environ, wishes.where)
            venvs = dict.fromkeys(names, wishes.venv)
        else:
            from envdoctor.fleet.ray import nodes_of_ray  # noqa: PLC0415 - few fleets are Ray's

            names, down = nodes_of_ray(wishes.where, ray_python(host, wishes), wishes.timeout)
            venvs = dict.fromkeys(names, wishes.venv)
        if without := next((name for name, venv in venvs.items() if not venv), ""):
            raise UsageError(
                f"nothing says which venv of {without} is meant",
                "name it: `--venv VENV`, where `{node}` is the node's name",
            )
        named = {name: venv.replace("{node}", name) for name, venv in venvs.items()}
        return cls(
            host=host,
            wishes=wishes,
            names=tuple(named),
            venvs=named,
            given=venvs,
            down=down,
            version=version,
            scratch=scratch.rstrip("/") or "/",
        )

    @property
    def told(self) -> tuple[str, ...]:
        """Return what tells these nodes and their venvs apart from others, in whatever file they are named."""
        wishes = self.wishes
        if wishes.engine == "ray":
            return (*self.reached, wishes.venv)  # nodes come and go
        down = [f"{name}\0{wishes.venv.replace('{node}', name)}" for name in self.down]
        return (*self.reached, *sorted((*down, *(f"{name}\0{venv}" for name, venv in self.venvs.items()))))

    @property
    def reached(self) -> tuple[str, ...]:
        """Return what tells apart nodes of one name: how they are reached."""
        wishes = self.wishes
        if wishes.engine == "ray":
            return (wishes.engine, wishes.where)
        return (wishes.engine, str(Path(self.host.cwd, wishes.ssh_config)) if wishes.ssh_config else "")

    def paths(self, name: str) -> dict[str, str]:
        """Return paths of a node -> as they were given for all nodes."""
        venv = self.given[name].rstrip("/")
        folder, _, last = venv.rpartition("/")
        given = (venv, f"{folder}/.envdoctor/{last}", self.wishes.python)  # in the second, old venvs are kept
        return {path.replace("{node}", name): path for path in given if "{node}" in path}

    def visit(
        self, tasks: Mapping[str, Sequence[Mapping[str, Any]]], load: memoryview, here: Mapping[str, str]
    ) -> list[VisitSaid]:
        """Give each of these nodes its tasks and return what they say, in order; here: see `as_here`."""
        wishes, mark = self.wishes, secrets.token_hex(8)
        errands = [
            Errand(
                node=name,
                venv="",
                python=wishes.python.replace("{node}", name),
                mark=mark,
                request=json.dumps(
                    {
                        "name": _folder_name(name),
                        "scratch": self.scratch,
                        "machine": os.uname().machine,
                        "tasks": [{"venv": self.venvs[name], **task} for task in given],
                    }
                ),
                version=self.version,
            )
            for name, given in tasks.items()
        ]
        if wishes.engine == "ray":
            from envdoctor.fleet.ray import visit_ray  # noqa: PLC0415 - as above

            interpreter = ray_python(self.host, wishes)
            said = visit_ray(wishes.where, interpreter, errands, load, wishes.timeout)
        else:
            said = listen(errands, self._command, load, at_once=wishes.at_once, timeout=wishes.timeout)
        return [as_here(said_in(one, mark), self._folder(one.name), here) for one in said]

    def _folder(self, name: str) -> str:
        """Return the folder of files of a node as an expression: whose user it has is known there."""
        return rf"{re.escape(self.scratch)}/envdoctor-fleet-\d+-{re.escape(_folder_name(name))}/files"

    def _command(self, errand: Errand) -> Sequence[str]:
        if self.wishes.engine == "hosts":
            return hosts.ssh_command(errand, self.wishes.ssh_config)
        return slurm.srun_command(errand, self.host.environ, self.wishes.timeout)


def own_version() -> tuple[int, int]:
    """Return the version of Python for which this program's compiled parts are."""
    return sys.version_info[:2]


def _folder_name(node: str) -> str:
    """Return what its folder is called: as the node, where that is a plain name, so that like plans read alike."""
    if _PLAIN.fullmatch(node):
        return node
    import hashlib  # noqa: PLC0415 - it loads OpenSSL

    return hashlib.sha256(node.encode()).hexdigest()[:_DIGITS]
