"""What the commands that change a fleet share: which nodes they were given, and how it ends."""

from envdoctor.app import rollout as app
from envdoctor.app.fleet import FleetOptions
from envdoctor.app.rollout import ChangeOptions
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.output import finish
from envdoctor.cli.signals import stoppable
from envdoctor.cli.values import ReportFormat
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.host import Host
from envdoctor.rollout.view import Kind

_ASK = "say which nodes: `--hosts FILE`, `--slurm` or `--ray ADDRESS`"


def carry_out(
    kind: Kind,
    wishes: FleetOptions,
    how: ChangeOptions,
    output_format: ReportFormat,
    *,
    json: bool,
    output: str,
) -> ExitCode:
    """Change the nodes, and write what became of them."""
    with stoppable():  # a command that works on a node is in a session of its own: no terminal ends it
        result = app.change(Host.current(), kind, wishes, how, Terminal())
    return finish(result, output_format, json=json, output=output)


def nodes_of(
    hosts: str,
    ray: str,
    nodes: str,
    *,
    slurm: bool,
    venv: str,
    python: str,
    ssh_config: str,
    ray_python: str,
    at_once: int,
    timeout: float,
) -> FleetOptions:
    """Return which nodes are meant. Raises UsageError for more or less than one engine."""
    chosen = [name for name, given in (("--hosts", hosts), ("--slurm", slurm), ("--ray", ray)) if given]
    if len(chosen) != 1:
        raise UsageError(f"{' and '.join(chosen)} are given" if chosen else "no nodes are named", _ASK)
    return FleetOptions(
        engine="hosts" if hosts else "slurm" if slurm else "ray",
        where=hosts or nodes or ray,
        venv=venv,
        python=python,
        ssh_config=ssh_config,
        ray_python=ray_python,
        at_once=at_once,
        timeout=timeout,
    )
