"""`envdoctor fleet repair`: what is damaged on many nodes, the first one alone."""

from envdoctor.app.rollout import ChangeOptions
from envdoctor.cli import fleet_options as options
from envdoctor.cli.fleet_change import carry_out, nodes_of
from envdoctor.cli.options import FormatOption, JsonOption, OutputOption, ProfileOption


def repair(
    profile: ProfileOption = "",
    offline: options.FleetOfflineOption = False,
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
    """Repair the venv of each node that needs it: each plans, all plans are shown, one node is done, then the rest.

    Each node repairs a copy, verifies it and swaps it in, as `repair` does; it carries out the plan that was shown, or
    nothing. At the first node that fails, no other is begun; the tool travels and is removed again.
    Exit codes: 0 done or nothing to do, 2 bad input, 3 some could not plan or have errors that they had before and the
    others are done, 4 a node failed or the plan is not the one that was shown, 130 declined or interrupted.
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
    how = ChangeOptions(profile=profile, dry_run=dry_run, plan=plan, resume=resume, offline=offline, scratch=scratch)
    return carry_out("repair", wishes, how, output_format, json=json, output=output)
