"""`envdoctor fleet cache push`: a snapshot of the compile cache on many nodes, where its keys fit."""

from typing import Annotated

import typer

from envdoctor.app.rollout import ChangeOptions
from envdoctor.cli import completion
from envdoctor.cli import fleet_options as options
from envdoctor.cli.cache_options import SignersOption
from envdoctor.cli.fleet_change import carry_out, nodes_of
from envdoctor.cli.options import FormatOption, JsonOption, OutputOption, ProfileOption


def push(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.snapshots,
            help="A snapshot that `cache save` made here, or the path of its archive.",
        ),
    ],
    profile: ProfileOption = "",
    signers: SignersOption = "",
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
) -> int:
    """Merge a snapshot of this machine's compile cache on the nodes whose stack and GPUs it was made for.

    Its signature is looked at here (`--signers`), its sha256 on each node before anything is unpacked. A node that it
    does not fit says why and is left as it is. The snapshot travels, and is removed again once it is merged.
    Exit codes: 0 done or nothing to do, 1 a snapshot that is damaged or not signed as asked, 2 bad input, 3 some could
    not plan and the others are done, 4 a node failed or the plan is not the one that was shown, 130 declined or
    interrupted.
    """
    wishes = nodes_of(
        hosts,
        ray,
        nodes,
        slurm=slurm,
        venv=venv,
        python=python,
        ssh_config=ssh_config,
        ray_python=ray_python,
        at_once=at_once,
        timeout=timeout,
    )
    how = ChangeOptions(
        profile=profile, dry_run=dry_run, plan=plan, resume=resume, scratch=scratch, snapshot=name, signers=signers
    )
    return carry_out("cache push", wishes, how, output_format, json=json, output=output)
