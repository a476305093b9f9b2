"""Triton's cache on NFS, shared by ranks of several nodes: Stale file handle (prime-rl pull 2305, pytorch 173679)."""

from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.facts.host import Host
from tests.factories.examine_venv import commands_of, environment_after, first, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    root = tmp_path_factory.mktemp("torch")
    return make_venv(root / "venv", make_torch(root / "wheels", "2.10.0", None))


def _host(root: Path, **environ: str) -> Host:
    """Return a host whose home is on NFS and whose /tmp is in memory."""
    host = bare_host(root / "home", **environ)
    proc = root / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text(
        "22 1 0:20 / / rw - ext4 /dev/sda1 rw\n"
        f"40 22 0:45 / {root}/home rw,relatime shared:1 - nfs4 fs1:/home rw,vers=4.1\n"
        "41 22 0:46 / /tmp rw - tmpfs tmpfs rw\n"
        f"42 22 0:47 / {root}/local rw - ext4 /dev/sdb1 rw\n"
    )
    return replace(host, proc=proc, tmp=root / "local")


def test_br33_two_nodes_write_one_cache(tmp_path: Path, venv: Venv) -> None:
    host = _host(tmp_path, NNODES="2")
    verdict = verdict_of(venv.prefix, host)
    assert first(verdict, tmp_path) == (
        "ED502",
        "2 nodes would share the triton, torch_extensions, flashinfer cache on nfs4: ranks replace each other's files",
    )
    assert verdict.findings[0].evidence[0].replace(str(tmp_path), "[TMP]") == (
        "triton: [TMP]/home/.triton/cache is on nfs4 (default)"
    )
    # Nothing is deleted: the same files would collide again at the next compile.
    assert commands_of(verdict.findings[0], tmp_path) == [
        'export TRITON_CACHE_DIR="/tmp/triton-$USER-${SLURM_JOB_ID:-local}"',
        'export TORCH_EXTENSIONS_DIR="/tmp/torch_extensions-$USER-${SLURM_JOB_ID:-local}"',
        'export FLASHINFER_WORKSPACE_BASE="/tmp/flashinfer-$USER-${SLURM_JOB_ID:-local}"',
    ]
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert mended.environ["TRITON_CACHE_DIR"] == "/tmp/triton-me-local"
    assert verdict_of(venv.prefix, mended).findings == ()


@pytest.mark.parametrize(
    "environ",
    [{}, {"NNODES": "1"}, {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, {"SLURM_NNODES": "1"}, {"NNODES": "1:4"}],
)
def test_br33_one_node_shares_with_nobody(tmp_path: Path, venv: Venv, environ: dict[str, str]) -> None:
    assert verdict_of(venv.prefix, _host(tmp_path, **environ)).findings == ()


@pytest.mark.parametrize(
    "environ", [{"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, {"SLURM_NNODES": "2"}, {"SLURM_JOB_NUM_NODES": "4"}]
)
def test_br33_other_launchers_tell_the_nodes_too(tmp_path: Path, venv: Venv, environ: dict[str, str]) -> None:
    assert first(verdict_of(venv.prefix, _host(tmp_path, **environ)), tmp_path)[0] == "ED502"


def test_br33_a_link_is_followed_to_its_filesystem(tmp_path: Path, venv: Venv) -> None:
    host = _host(tmp_path, NNODES="2", TORCH_EXTENSIONS_DIR="/tmp/t", FLASHINFER_WORKSPACE_BASE="/tmp/f")
    (tmp_path / "local").mkdir()
    (host.home / ".triton").symlink_to(tmp_path / "local")
    assert verdict_of(venv.prefix, host).findings == ()
