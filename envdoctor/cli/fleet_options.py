"""Options of the fleet commands: whom to ask, and how, and how nodes are changed."""

from typing import Annotated

import typer

FilesArgument = Annotated[
    list[str], typer.Argument(metavar="[FILES]", help="With `--files`: fingerprints, or logs of the Job's pods.")
]
HostsOption = Annotated[
    str, typer.Option("--hosts", metavar="FILE", help="Ask these hosts by the system's ssh: `HOST [VENV]` a line.")
]
SshConfigOption = Annotated[str, typer.Option("--ssh-config", metavar="FILE", help="With `--hosts`: ssh's `-F`.")]
SlurmOption = Annotated[
    bool, typer.Option("--slurm", help="Ask the nodes of this allocation, or of the cluster, by srun.")
]
NodesOption = Annotated[str, typer.Option("--nodes", metavar="LIST", help="With `--slurm`: these, as `n[1-4]`.")]
RayOption = Annotated[
    str, typer.Option("--ray", metavar="ADDRESS", help="Ask the nodes of a Ray cluster, one task on each.")
]
RayPythonOption = Annotated[
    str, typer.Option("--ray-python", metavar="PYTHON", help="With `--ray`: an interpreter that has its Ray.")
]
KubernetesOption = Annotated[
    bool, typer.Option("--kubernetes", help="Print the manifest of a Job with one pod a node, for kubectl.")
]
NodeCountOption = Annotated[int, typer.Option("--node-count", metavar="N", help="With `--kubernetes`.")]
ImageOption = Annotated[str, typer.Option("--image", metavar="IMAGE", help="With `--kubernetes`: the training's.")]
FilesOption = Annotated[bool, typer.Option("--files", help="Compare the FILES; nobody is asked.")]
NodeVenvOption = Annotated[
    str,
    typer.Option(
        "--venv", metavar="VENV", help="On the nodes; `{node}` is a node's name. Default: the active one there."
    ),
]
NodePythonOption = Annotated[
    str,
    typer.Option("--python", metavar="PYTHON", help="On the nodes, 3.11 or newer; `{node}` too. Default: looked for."),
]
AtOnceOption = Annotated[int, typer.Option("--at-once", metavar="N", help="Nodes asked at a time.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="For each node.")]

ChangedVenvOption = Annotated[
    str,
    typer.Option("--venv", metavar="VENV", help="The venv that is changed on the nodes; `{node}` is a node's name."),
]
ChangedAtOnceOption = Annotated[
    int, typer.Option("--at-once", metavar="N", help="Nodes changed at a time, after the first one alone.")
]
FleetDryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what each node would do, and the digest of it all; change nothing.")
]
FleetPlanOption = Annotated[
    str,
    typer.Option("--plan", metavar="DIGEST", help="Carry out what `--dry-run` showed without a question, or nothing."),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on after a stop: leave out the nodes that are done.")]
ScratchOption = Annotated[
    str,
    typer.Option("--scratch", metavar="DIR", help="On the nodes: where the tool is unpacked while it is at work."),
]
FleetOfflineOption = Annotated[bool, typer.Option("--offline", help="Nodes use their uv cache and local sources only.")]
FleetWheelhouseOption = Annotated[
    list[str],
    typer.Option("--wheelhouse", metavar="DIR", help="Folder of wheels on the nodes, searched first. Repeatable."),
]
