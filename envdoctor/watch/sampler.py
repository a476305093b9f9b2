"""The child that samples NVML: how it is started, and what its lines say."""

import os
import subprocess
import sys
from pathlib import Path

from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.probes.machine.driver_libraries import outside
from envdoctor.watch.judgement import Sample

_SONAME = "libnvidia-ml.so.1"
# As the probe of the driver starts its own: without site, without the caller's variables and folder.
_CHILD = "import sys; sys.path.append(sys.argv[4]); from envdoctor.watch.nvml_samples import main; main(*sys.argv[1:4])"


@frozen
class Sampling:
    """The child, or why there is none."""

    process: "subprocess.Popen[bytes] | None"
    problem: str = ""


def start(host: Host, venv: Path, interval: float = 1.0) -> Sampling:
    """Start to sample the GPUs that the launch sees, with the driver's own NVML and never one of the venv."""
    library = outside(host, _SONAME, venv)
    if not library:
        return Sampling(process=None, problem=f"no {_SONAME} was found outside of {venv}")
    command = [sys.executable, "-I", "-S", "-c", _CHILD]
    try:
        process = subprocess.Popen(
            [*command, library, host.environ.get("CUDA_VISIBLE_DEVICES", "*"), f"{interval:g}", _own_folder()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: value for name, value in host.environ.items() if not name.startswith(("LD_", "PYTHON"))},
            process_group=0,  # Ctrl-C in a terminal is for the training
        )
    except OSError as error:
        return Sampling(process=None, problem=f"the sampling child cannot be started: {error.strerror}")
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    os.set_blocking(process.stdout.fileno(), False)
    return Sampling(process=process)


def sample_of(line: str) -> Sample | str:
    """Return what a line of the child says: a sample, or why there are no more."""
    word, _, rest = line.partition(" ")
    if word == "error":
        return rest
    try:
        at, *gpus = rest.split()
        pairs = [tuple(map(int, told.split(":"))) for told in gpus]
        busy = tuple(percent for _, percent in pairs if percent >= 0)
        return Sample(at=float(at), used=tuple(used for used, _ in pairs), busy=busy)
    except ValueError:
        return f"the sampling child said {line[:80]!r}"


def _own_folder() -> str:
    return str(Path(__file__).resolve().parents[2])
