"""A real Ray cluster on this machine, of an interpreter of its own that has Ray, gone afterwards."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv

_CLUSTER = """\
import sys
from ray.cluster_utils import Cluster

# Not the 30 s that it waits for each node by default: a busy machine takes longer.
cluster = Cluster()
nodes = [cluster.add_node(wait=False, num_cpus=1, node_name=name, include_dashboard=False) for name in sys.argv[1:2]]
nodes += [cluster.add_node(wait=False, num_cpus=1, node_name=name) for name in sys.argv[2:]]
cluster.wait_for_nodes(timeout=900)
print(cluster.address, flush=True)
for line in sys.stdin:
    cluster.remove_node(nodes[-1], allow_graceful=False)
cluster.shutdown()
"""
_PATIENCE = {"RAY_gcs_server_request_timeout_seconds": "900", "RAY_gcs_server_port_wait_time_s": "900"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RayCluster:
    """A cluster that runs."""

    python: str
    """An interpreter that has its Ray."""
    address: str
    process: "subprocess.Popen[str]"

    def lose_last(self) -> None:
        """End its last node, without a word to the others."""
        assert self.process.stdin is not None
        self.process.stdin.write("now\n")
        self.process.stdin.flush()


@contextmanager
def make_ray(folder: Path, names: Sequence[str]) -> Iterator[RayCluster]:
    """Start a cluster with these nodes; skip, saying why, where Ray cannot be installed."""
    python = str(folder / "ray/bin/python")
    subprocess.run([uv.find_uv_bin(), "venv", "--quiet", "--python", "3.11", str(folder / "ray")], check=True)
    install = [uv.find_uv_bin(), "pip", "install", "--quiet", "--python", python, "ray"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"ray cannot be installed: {done.stderr[-300:]}")
    (folder / "cluster.py").write_text(_CLUSTER)
    with (folder / "cluster.log").open("wb") as log:
        process = subprocess.Popen(
            [python, folder / "cluster.py", *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **_PATIENCE},
            text=True,
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address, (folder / "cluster.log").read_text()[-2000:]
        yield RayCluster(python=python, address=address, process=process)
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
