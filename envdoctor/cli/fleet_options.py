"""Options of `fleet check`: whom to ask, and how."""

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
