"""One stack on every node: each is asked through the engine that people run, and what they answer is compared."""

import secrets
import shutil
from pathlib import Path
from typing import Any, Literal

from envdoctor.app.result import Dialog, Result
from envdoctor.documents import fingerprint_file
from envdoctor.errors import FingerprintError, UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.programs import outside_venvs
from envdoctor.facts.regular_file import read_regular
from envdoctor.fleet import hosts, kubernetes, slurm
from envdoctor.fleet.answer import MARK, MAXIMUM, NodeReport, answer_about, answer_in, answer_of_text
from envdoctor.fleet.carried import Errand, errand_for
from envdoctor.fleet.gather import gather
from envdoctor.fleet.matrix import beside_each_other
from envdoctor.gate_package.single_file import program
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.wording import counted

Engine = Literal["hosts", "slurm", "ray", "files"]
MANIFEST_MARK = "of-a-pod"
"""What the answers of the Job are recognized by: they are read later, from its logs."""
_LONGEST_SECONDS = 86_400


@frozen
class FleetOptions:
    """Whom to ask, and for what."""

    engine: Engine
    where: str = ""
    """The file of hosts, the nodes of Slurm (empty: all), or the address of Ray."""
    files: tuple[str, ...] = ()
    venv: str = ""
    """On the nodes; `{node}` is a node's name. Empty: the one that is active there."""
    python: str = ""
    """On the nodes; empty to look for one."""
    ssh_config: str = ""
    ray_python: str = ""
    at_once: int = 32
    timeout: float = 120.0


def check(host: Host, wishes: FleetOptions, dialog: Dialog) -> Result:
    """Ask every node and compare what they say. Raises UsageError, ProbeError where the engine does not answer."""
    refuse_limits(wishes)
    asked = {"files": _files, "ray": _ray, "slurm": _slurm, "hosts": _hosts}[wishes.engine](host, wishes, dialog)
    view = beside_each_other(wishes.engine, asked)
    return Result(command="fleet check", data=view, exit_code=view.exit_code, elsewhere=True)


def manifest(wishes: FleetOptions, nodes: int, image: str) -> dict[str, Any]:
    """Return the manifest of a Job that asks so many nodes. Raises UsageError."""
    if nodes < 1 or not image:
        raise UsageError(
            "--kubernetes needs the number of nodes and the training's image",
            "`envdoctor fleet check --kubernetes --node-count 4 --image IMAGE --venv VENV >job.json`",
        )
    refuse_limits(wishes)
    if named := next((path for path in (wishes.venv, wishes.python) if "{node}" in path), ""):
        raise UsageError(
            f"{named}: all pods have one image, and a path in it is the same on each node",
            "name the path as the image has it, without `{node}`",
        )
    errand = Errand(node="", venv=wishes.venv, python=wishes.python, mark=MANIFEST_MARK)
    return kubernetes.manifest(errand, program("fleet.node"), nodes, image, wishes.timeout)


def refuse_limits(wishes: FleetOptions) -> None:
    """Raise UsageError for limits that ask nobody, or that no clock has (`inf` and `nan` are numbers to an option)."""
    if not 0 < wishes.timeout <= _LONGEST_SECONDS or wishes.at_once < 1:
        raise UsageError(
            f"--timeout {wishes.timeout:g} --at-once {wishes.at_once} asks nobody",
            f"give seconds up to {_LONGEST_SECONDS:,}, and nodes at a time",
        )


def ray_python(host: Host, wishes: FleetOptions) -> str:
    """Return the interpreter that has Ray. Raises UsageError where it is no program here."""
    found = shutil.which(wishes.ray_python or "python3", path=host.environ.get("PATH"))
    if found is None:
        raise UsageError(f"{wishes.ray_python or 'python3'} is not a program here", "name it: `--ray-python PYTHON`")
    return found


def _hosts(host: Host, wishes: FleetOptions, dialog: Dialog) -> list[NodeReport]:
    if outside_venvs("ssh", host.environ) is None:
        raise UsageError("ssh is not installed here", "install it (Debian: openssh-client)")
    mark = secrets.token_hex(8)
    errands = [
        errand_for(one.name, one.venv or wishes.venv, wishes.python, mark)
        for one in hosts.hosts_in(Path(host.cwd, wishes.where))
    ]
    return _gathered(errands, lambda errand: hosts.ssh_command(errand, wishes.ssh_config), wishes, dialog)


def _slurm(host: Host, wishes: FleetOptions, dialog: Dialog) -> list[NodeReport]:
    names, down = slurm.nodes_of(host.environ, wishes.where)
    mark = secrets.token_hex(8)
    errands = [errand_for(name, wishes.venv, wishes.python, mark) for name in names]
    reports = _gathered(
        errands, lambda errand: slurm.srun_command(errand, host.environ, wishes.timeout), wishes, dialog
    )
    return reports + [NodeReport(name=name, answer=None, problem=problem) for name, problem in down.items()]


def _gathered(errands: list[Errand], command_of: Any, wishes: FleetOptions, dialog: Dialog) -> list[NodeReport]:
    if not errands:
        return []
    payload = program("fleet.node").encode()
    with dialog.waiting(f"asking {counted(len(errands), 'node')}"):
        return gather(errands, command_of, payload, at_once=wishes.at_once, timeout=wishes.timeout)


def _ray(host: Host, wishes: FleetOptions, dialog: Dialog) -> list[NodeReport]:
    from envdoctor.fleet.ray import ask_ray  # noqa: PLC0415 - few fleets are Ray's

    interpreter = ray_python(host, wishes)
    errand = Errand(node="{node}", venv=wishes.venv, python=wishes.python, mark=secrets.token_hex(8))
    with dialog.waiting(f"asking the nodes of the Ray cluster at {wishes.where}"):
        return ask_ray(wishes.where, interpreter, errand, program("fleet.node"), wishes.timeout)


def _files(host: Host, wishes: FleetOptions, dialog: Dialog) -> list[NodeReport]:
    del dialog
    if not wishes.files:
        raise UsageError("--files names no file", "name fingerprints: `envdoctor fleet check --files *.json`")
    names = [Path(file).name.rpartition(".")[0] or Path(file).name for file in wishes.files]
    called = names if len(set(names)) == len(names) else list(wishes.files)
    if len(set(called)) != len(called):
        raise UsageError("a file is named twice", "name each once")
    return [_file(name, Path(host.cwd, file)) for name, file in zip(called, wishes.files, strict=True)]


def _file(name: str, path: Path) -> NodeReport:
    """Return what a file says: a fingerprint, a node's answer, or a log with one in it."""
    try:
        data = read_regular(path, 4 * MAXIMUM)
    except OSError as error:
        return NodeReport(name=name, answer=None, problem=f"{path}: {error.strerror or error}")
    if f"\n{MARK} {MANIFEST_MARK} ".encode() in b"\n" + data:
        report = answer_in(name, MANIFEST_MARK, b"\n" + data)
        return replace(report, name=f"{report.answer.host} ({name})") if report.answer else report
    if b'"sections"' not in data:
        return answer_of_text(name, data)
    try:
        facts = fingerprint_file.read(str(path))
    except FingerprintError as error:
        return NodeReport(name=name, answer=None, problem=error.message)
    from envdoctor.doctor.examine import judge  # noqa: PLC0415 - every check comes with it

    return NodeReport(name=name, answer=answer_about(name, facts, judge(facts)))
