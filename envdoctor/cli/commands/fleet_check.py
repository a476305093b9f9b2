"""`envdoctor fleet check`: whether every node has one stack."""

import json as json_document

from envdoctor.app import fleet as app
from envdoctor.cli import fleet_options as options
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import JsonOption, OutputOption, ReportFormatOption
from envdoctor.cli.output import finish
from envdoctor.cli.terminal import say, write_result
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host

_ASK = "say whom to ask: `--hosts FILE`, `--slurm`, `--ray ADDRESS`, `--kubernetes` or `--files *.json`"
_KUBECTL = """\
next: add a nodeSelector and tolerations to FILE where pods would run on other nodes, or not on all
      kubectl create -f FILE
      kubectl wait --for=condition=complete job/envdoctor-fleet
      for pod in $(kubectl get pods -l app=envdoctor-fleet -o name); do kubectl logs "$pod" >"${pod##*/}.log"; done
      envdoctor fleet check --files envdoctor-fleet-*.log
      kubectl delete -f FILE"""


def check(
    names: options.FilesArgument = [],  # noqa: B006 - typer reads the default and never shares it
    hosts: options.HostsOption = "",
    ssh_config: options.SshConfigOption = "",
    slurm: options.SlurmOption = False,
    nodes: options.NodesOption = "",
    ray: options.RayOption = "",
    ray_python: options.RayPythonOption = "",
    kubernetes: options.KubernetesOption = False,
    node_count: options.NodeCountOption = 0,
    image: options.ImageOption = "",
    files: options.FilesOption = False,
    venv: options.NodeVenvOption = "",
    python: options.NodePythonOption = "",
    at_once: options.AtOnceOption = 32,
    timeout: options.TimeoutOption = 120.0,
    output_format: ReportFormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Ask every node what its stack is, and compare: one table, and the command for the odd nodes alone.

    The tool travels to the nodes over standard input; nothing is installed or written there, and a Python 3.11 or newer
    must be there. A node that dies, times out or answers something else "could not tell".
    Exit codes: 0 one stack, 1 nodes differ or have errors, 2 bad input, 3 equal as far as could be determined.
    """
    engines = {"--hosts": hosts, "--slurm": slurm, "--ray": ray, "--kubernetes": kubernetes, "--files": files}
    _refuse(names, [name for name, given in engines.items() if given])
    wishes = app.FleetOptions(
        engine="hosts" if hosts else "slurm" if slurm else "ray" if ray else "files",
        where=hosts or nodes or ray,
        files=tuple(names),
        venv=venv,
        python=python,
        ssh_config=ssh_config,
        ray_python=ray_python,
        at_once=at_once,
        timeout=timeout,
    )
    if kubernetes:
        write_result(json_document.dumps(app.manifest(wishes, node_count, image), indent=1) + "\n", output)
        say(_KUBECTL)
        return 0
    result = app.check(Host.current(), wishes, Terminal())
    return finish(result, output_format, json=json, output=output)


def _refuse(names: list[str], chosen: list[str]) -> None:
    """Raise UsageError for more or less than one engine, and for files that nobody reads."""
    if len(chosen) != 1:
        raise UsageError(f"{' and '.join(chosen)} are given" if chosen else "nobody is asked", _ASK)
    if names and chosen != ["--files"]:
        raise UsageError(f"{names[0]} is a file, and {chosen[0]} reads none", "add `--files` to compare files")
