"""The nodes of a Slurm cluster or allocation, and one step of srun on each."""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from envdoctor.errors import ProbeError, UsageError
from envdoctor.facts.children import run_child
from envdoctor.facts.programs import outside_venvs
from envdoctor.fleet.carried import Errand

_SECONDS = 30.0
_PATIENCE = 120
"""Seconds that a job may wait for its node, however long it may run then."""
_UP = ("idle", "mixed", "allocated", "completing", "planned", "idl", "mix", "alloc", "comp", "plnd")
"""States of sinfo(1) in which a step can start."""
_FLAGS = "~#!%$@^-+"
"""What sinfo(1) sets behind a state: powered off, or going to be, in a reservation, to be rebooted, planned for a job.
A `*` is not among them: the node does not respond.
"""


def nodes_of(environ: Mapping[str, str], wanted: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the nodes to ask, and node -> its state for those that Slurm itself says are not there.

    They are those of `wanted` (a node list of Slurm's), else of the allocation that this process is in, else of the
    cluster. A node of that allocation is asked in any state: draining, it still runs the steps of its jobs.
    Raises ProbeError where Slurm does not answer, UsageError for a list without a node.
    """
    own = environ.get("SLURM_JOB_NODELIST", "")
    listed = wanted or own
    states = dict(
        line.split(maxsplit=1) for line in _said("sinfo", "--noheader", "--Node", "--format=%N %t") if " " in line
    )
    names = _said("scontrol", "show", "hostnames", listed) if listed else list(dict.fromkeys(states))
    if not names:
        raise UsageError(f"--nodes {wanted}: Slurm knows no such node", "`sinfo --Node` lists them")
    allocated = _said("scontrol", "show", "hostnames", own) if own else []
    down = down_among([name for name in names if name not in set(allocated)], states)
    return tuple(name for name in names if name not in down), down


def down_among(names: Iterable[str], states: Mapping[str, str]) -> dict[str, str]:
    """Return those in which no step can start, and what Slurm says of each; states: as sinfo's `%t` has them."""
    return {
        name: f"Slurm says that it is {state}"
        for name in names
        if (state := states.get(name, "not one of its nodes").strip()) and state.rstrip(_FLAGS) not in _UP
    }


def srun_command(errand: Errand, environ: Mapping[str, str], timeout: float) -> Sequence[str]:
    """Return one step on that node: of this allocation, or else a job that is given up where it has to wait."""
    inside = bool(environ.get("SLURM_JOB_ID"))
    how = ["--overlap"] if inside else [f"--immediate={max(1, min(_PATIENCE, int(timeout)))}"]
    where = ["--nodes=1", "--ntasks=1", "--cpus-per-task=1", f"--nodelist={errand.node}", "--chdir=/", "--quiet"]
    return ["srun", *how, *where, "sh", "-c", errand.shell()]


def _said(*command: str) -> list[str]:
    program = outside_venvs(command[0], os.environ)
    if program is None:
        raise UsageError(f"{command[0]} is not installed here", "run it where Slurm's commands are")
    try:
        done = run_child(command, executable=program, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProbeError(f"{command[0]} did not answer: {error}", f"look at `{' '.join(command)}`") from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ProbeError(f"{command[0]}: {said}", f"look at `{' '.join(command)}`")
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
