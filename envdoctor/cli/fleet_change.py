"""What the commands that change a fleet share: the options that say which nodes, and how; and how it ends."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from envdoctor.app import rollout as app
from envdoctor.app.fleet import FleetOptions
from envdoctor.app.rollout_work import ChangeOptions
from envdoctor.cli import fleet_options as options
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import FormatOption, JsonOption, OutputOption
from envdoctor.cli.output import finish
from envdoctor.cli.terminal import programs
from envdoctor.cli.values import ReportFormat
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen, replace
from envdoctor.report.style import typable
from envdoctor.rollout.view import Kind

_ASK = "say which nodes: `--hosts FILE`, `--slurm` or `--ray ADDRESS`"


@frozen
class FleetAsked:
    """What the shared options say."""

    wishes: FleetOptions
    how: ChangeOptions
    output_format: ReportFormat
    json: bool
    output: str

    def carry_out(self, kind: Kind, **own: Any) -> ExitCode:
        """Change the nodes, and write what became of them. own: further options, as ChangeOptions has them."""
        result = app.change(Host.current(), kind, self.wishes, replace(self.how, **own), Terminal())
        # Of what it names this alone is typed on this machine.
        result = replace(result, data=replace(result.data, undo=typable(result.data.undo, programs)))
        return finish(result, self.output_format, json=self.json, output=self.output)


def with_nodes(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the parameters of `_asked` behind its own; what they say comes first when it is called."""
    _, *own = inspect.signature(command).parameters.values()
    shared = inspect.signature(_asked).parameters

    @functools.wraps(command)
    def run(**given: Any) -> int:
        return command(_asked(**{name: given.pop(name) for name in shared}), **given)

    parameters = [*own, *shared.values()]
    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _asked(
    hosts: options.HostsOption = "",
    ssh_config: options.SshConfigOption = "",
    slurm: options.SlurmOption = False,
    nodes: options.NodesOption = "",
    ray: options.RayOption = "",
    ray_python: options.RayPythonOption = "",
    venv: options.ChangedVenvOption = "",
    python: options.NodePythonOption = "",
    scratch: options.ScratchOption = "/tmp",  # noqa: S108 - on the nodes, where a folder of the user alone is made in it
    dry_run: options.FleetDryRunOption = False,
    plan: options.FleetPlanOption = "",
    resume: options.ResumeOption = False,
    at_once: options.ChangedAtOnceOption = 8,
    timeout: options.TimeoutOption = 3600.0,
    output_format: FormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> FleetAsked:
    """Return which nodes are meant, and how they are changed. Raises UsageError for more or less than one engine."""
    chosen = [name for name, given in (("--hosts", hosts), ("--slurm", slurm), ("--ray", ray)) if given]
    if len(chosen) != 1:
        raise UsageError(f"{' and '.join(chosen)} are given" if chosen else "no nodes are named", _ASK)
    wishes = FleetOptions(
        engine="hosts" if hosts else "slurm" if slurm else "ray",
        where=hosts or nodes or ray,
        venv=venv,
        python=python,
        ssh_config=ssh_config,
        ray_python=ray_python,
        at_once=at_once,
        timeout=timeout,
    )
    how = ChangeOptions(dry_run=dry_run, plan=plan, resume=resume, scratch=scratch)
    return FleetAsked(wishes=wishes, how=how, output_format=output_format, json=json, output=output)
