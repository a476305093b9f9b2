"""What runs on a node: it examines one environment there and prints one answer. Nothing is written or remembered.

It is read from standard input by a Python of the node (`fleet/carried.py`), isolated and without site, so that no code
of the examined environment runs, even where that Python is the environment's own.
"""

import json
import socket
import sys

from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import EnvdoctorError, internal_error
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.locate import locate
from envdoctor.fleet.answer import MARK, NodeAnswer, answer_about
from envdoctor.model.codec import encode
from envdoctor.model.frozen import replace
from envdoctor.standards.redaction import redacted, secrets_of


def main(arguments: list[str]) -> None:
    """Print the answer. arguments: a word that nobody else can have printed, and the venv, empty for the active one."""
    mark, venv = arguments
    host = replace(Host.current(), remembers=False)
    try:
        told = encode(answer_of(host, venv))
    except EnvdoctorError as error:
        told = {"problem": error.message, "hint": error.hint}
    except Exception as error:  # noqa: BLE001 - a fault of ours is that node's answer
        told = {"problem": internal_error(error), "hint": ""}
    text = redacted(json.dumps(told), secrets_of(host.environ))
    sys.stdout.write(f"\n{MARK} {mark} {len(text.encode())}\n{text}\n")
    sys.stdout.flush()


def answer_of(host: Host, venv: str) -> NodeAnswer:
    """Return what is said of the environment. Raises EnvdoctorError where there is none."""
    workspace = Workspace(host, venv, None, locate(venv, host).target)
    # The driver is asked through NVML in a child with bindings that a node does not have: the kernel module is read.
    facts = workspace.facts(Options(contents=True, ask_nvml=False))
    # A pod's own name says nothing of the node that it is on (fleet/kubernetes.py).
    name = host.environ.get("ENVDOCTOR_NODE") or socket.gethostname()
    return answer_about(name, facts, workspace.verdict(facts))
