"""The nodes of a Ray cluster, through an interpreter that has Ray: this program's own never imports it."""

import base64
import json
import shlex
from pathlib import Path
from typing import Any

from envdoctor.errors import ProbeError
from envdoctor.fleet import ray_driver
from envdoctor.fleet.answer import MAXIMUM, NO_PYTHON, NodeReport, answer_in
from envdoctor.fleet.carried import Errand
from envdoctor.fleet.gather import hear, last_line, no_python
from envdoctor.standards.bounded_json import loads

_START_SECONDS = 60.0
"""In which Ray may connect, beyond what the tasks may take."""
_MOST = 1 << 28
"""Bytes of all nodes' answers together: 60 kB each."""


def ask_ray(address: str, interpreter: str, errand: Errand, program: str, timeout: float) -> list[NodeReport]:
    """Return a report of each node of the cluster. Raises ProbeError where the cluster cannot be reached.

    errand: for a node called `{node}`, which each task's own name replaces.
    """
    asked = {"address": address, "program": program, "shell": errand.shell(), "timeout": timeout, "maximum": MAXIMUM}
    text = Path(ray_driver.__file__).read_text(encoding="utf-8")
    heard = hear([interpreter, "-I", "-c", text], json.dumps(asked).encode(), timeout + _START_SECONDS, _MOST)
    reports = [_report(line, errand.mark) for line in heard.out.splitlines() if line.startswith(b"{")]
    found = [report for report in reports if report is not None]
    if found and not heard.problem and not heard.code:
        return sorted(found, key=lambda report: report.name)
    why = heard.problem or last_line(heard.err) or f"exit code {heard.code}"
    raise ProbeError(
        f"the Ray cluster at {address} was not asked: {why}",
        f"name an interpreter that has the cluster's Ray: `--ray-python PYTHON`; this was {shlex.quote(interpreter)}",
    )


def _report(line: bytes, mark: str) -> NodeReport | None:
    try:
        told: dict[str, Any] = loads(line)
        name, problem = str(told["node"])[:300], told.get("problem")
        if problem is not None:
            return NodeReport(name=name, answer=None, problem=str(problem)[:500])
        if told["code"] == NO_PYTHON:
            return NodeReport(name=name, answer=None, problem=no_python(str(told["err"])))
        if told["code"]:
            said = last_line(str(told["err"]).encode())
            return NodeReport(name=name, answer=None, problem=said or f"exit code {told['code']}")
        return answer_in(name, mark, base64.b85decode(told["out"]))
    except (ValueError, KeyError, TypeError):
        return None
