"""The nodes of a Ray cluster, through an interpreter that has Ray: this program's own never imports it."""

import base64
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envdoctor.errors import ProbeError
from envdoctor.fleet import ray_driver
from envdoctor.fleet.answer import MAXIMUM, NO_PYTHON, NodeReport, answer_in
from envdoctor.fleet.carried import Errand
from envdoctor.fleet.gather import Said, hear, last_line, no_python
from envdoctor.standards.bounded_json import loads

_START_SECONDS = 60.0
"""In which Ray may connect, beyond what the tasks may take."""
_MOST = 1 << 28
"""Bytes of all nodes' answers together: 60 kB each."""
_BEGUN = ""
"""The name under which the driver says that it gives tasks to nodes from now on."""
_LARGEST = 256 << 20
"""Bytes that are sent to nodes: the driver and the object store hold all of them."""


def ask_ray(address: str, interpreter: str, errand: Errand, program: str, timeout: float) -> list[NodeReport]:
    """Return a report of each node of the cluster. Raises ProbeError where the cluster cannot be reached.

    errand: for a node called `{node}`, which each task's own name replaces.
    """
    asked = {"shell": errand.shell()}
    return sorted(
        (
            NodeReport(name=said.name, answer=None, problem=said.problem)
            if said.problem
            else answer_in(said.name, errand.mark, said.out)
            for said in _driven(address, interpreter, asked, program.encode(), timeout)
        ),
        key=lambda report: report.name,
    )


def nodes_of_ray(address: str, interpreter: str, timeout: float) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the nodes of a cluster that can be asked, by name, and node -> why for those that cannot.

    Raises ProbeError where the cluster cannot be reached.
    """
    said = sorted(_driven(address, interpreter, {}, b"", timeout), key=lambda one: one.name)
    return tuple(one.name for one in said if not one.problem), {one.name: one.problem for one in said if one.problem}


def visit_ray(
    address: str, interpreter: str, errands: Sequence[Errand], payload: bytes | memoryview, timeout: float
) -> list[Said]:
    """Return what the node of each errand printed, in order; where Ray ends meanwhile, what was told until then.

    Raises ProbeError where the cluster cannot be reached.
    """
    if len(payload) > _LARGEST:
        raise ProbeError(
            f"{len(payload) >> 20} MB are too much to send through Ray's object store",
            "use `--hosts` or `--slurm`, or copy the snapshot and run `cache restore` on each node",
        )
    shells = {errand.node: errand.shell() for errand in errands}
    said, why = _heard(address, interpreter, {"shells": shells}, payload, timeout, errands[0].version)
    told = {one.name: one for one in said}
    if why and not told.keys() & {_BEGUN, *shells}:
        raise _not_asked(address, interpreter, why)
    lost = f"Ray's driver ended: {why}" if why else "Ray does not know it any more"
    return [told.get(errand.node, Said(name=errand.node, out=b"", problem=lost, begun=bool(why))) for errand in errands]


def _driven(
    address: str, interpreter: str, asked: Mapping[str, Any], payload: bytes | memoryview, timeout: float
) -> list[Said]:
    found, why = _heard(address, interpreter, asked, payload, timeout, None)
    if why or not found:
        raise _not_asked(address, interpreter, why or "it names no node")
    return found


def _heard(
    address: str,
    interpreter: str,
    asked: Mapping[str, Any],
    payload: bytes | memoryview,
    timeout: float,
    version: tuple[int, int] | None,
) -> tuple[list[Said], str]:
    """Return what was said of each node, and why the driver did not end well; empty where it did."""
    given = {"address": address, "timeout": timeout, "maximum": MAXIMUM, "bytes": len(payload), **asked}
    text = Path(ray_driver.__file__).read_text(encoding="utf-8")
    sent = b"".join((json.dumps(given).encode(), b"\n", payload))
    heard = hear([interpreter, "-I", "-c", text], sent, timeout + _START_SECONDS, _MOST)
    said = [_said(line, version) for line in heard.out.splitlines() if line.startswith(b"{")]
    why = heard.problem or (last_line(heard.err) or f"exit code {heard.code}" if heard.code else "")
    return [one for one in said if one is not None], why


def _not_asked(address: str, interpreter: str, why: str) -> ProbeError:
    return ProbeError(
        f"the Ray cluster at {address} was not asked: {why}",
        f"name an interpreter that has the cluster's Ray: `--ray-python PYTHON`; this was {shlex.quote(interpreter)}",
    )


def _said(line: bytes, version: tuple[int, int] | None) -> Said | None:
    try:
        told: dict[str, Any] = loads(line)
        name, problem, begun = str(told["node"])[:300], told.get("problem"), told.get("begun") is not False
        if problem is None and told["code"] == NO_PYTHON:
            problem, begun = no_python(str(told["err"]), version), False
        elif problem is None and told["code"]:
            problem = last_line(str(told["err"]).encode()) or f"exit code {told['code']}"
        if problem is not None:
            return Said(name=name, out=b"", problem=str(problem)[:500], begun=begun)
        return Said(name=name, out=base64.b85decode(told["out"]))
    except (ValueError, KeyError, TypeError):
        return None
