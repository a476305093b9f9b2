"""The gate's two lines under the launchers that people use, on CPU, in a venv restored from a profile with the gate."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv

from tests.factories.make_slurm import make_slurm
from tests.factories.make_stack import ROOT

pytestmark = [pytest.mark.index, pytest.mark.torch_stack]
TRAIN = """\
import envdoctor_gate
envdoctor_gate.require("launch")
import os, sys
print("training", os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or "alone", flush=True)
"""
NOTEBOOK = """\
import sys
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

cells = ["import envdoctor_gate\\nenvdoctor_gate.require('launch')", "print('training alone')"]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
try:
    NotebookClient(notebook, timeout=120).execute()
    code = 0
except CellExecutionError as error:
    code = 1 if error.ename == "SystemExit" else 9
for cell in notebook.cells:
    for output in cell.outputs:
        (sys.stderr if output.get("name") == "stderr" else sys.stdout).write(output.get("text", ""))
sys.exit(code)
"""
RAY = """\
import sys
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

folder = sys.argv[1]

def train():
    import os
    import envdoctor_gate
    envdoctor_gate.require(folder + "/profiles/launch.toml")
    open(folder + "/ran-" + os.environ["RANK"], "w").close()

ray.init(num_cpus=2, include_dashboard=False)
TorchTrainer(
    train,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path=folder + "/ray"),
    torch_config=TorchConfig(backend="gloo"),
).fit()
"""
FINDING = "error[ED202]: filelock "
STOPPED = "does not start on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A project with a train script, and the venv that it is launched in."""

    folder: Path
    environment: dict[str, str]

    @property
    def programs(self) -> Path:
        """The venv's bin folder."""
        return self.folder / "venv" / "bin"

    def run(self, *words: str | Path, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the project's folder."""
        return subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env=self.environment | dict(extra or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def install(self, *names: str) -> None:
        """Install a launcher that the lock does not have, beside what it pins; skip where it cannot be had."""
        pins = re.findall(r"^([\w.-]+==[^ \\]+)", (self.folder / "lockfiles/launch.txt").read_text(), re.MULTILINE)
        constraints = self.folder / "constraints.txt"
        constraints.write_text("\n".join(pin for pin in pins if not pin.startswith("envdoctor-gate")))
        command = [uv.find_uv_bin(), "pip", "install", "--quiet", "--python", self.programs / "python"]
        done = subprocess.run(
            [*command, "--constraint", constraints, *names], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"{' and '.join(names)} cannot be installed: {done.stderr[-300:]}")

    @contextmanager
    def contaminated(self) -> Iterator[None]:
        """Hold a file of the venv with other bytes, as an install on top leaves it."""
        path = next((self.folder / "venv/lib").glob("python3*/site-packages")) / "filelock/__init__.py"
        content = path.read_bytes()
        path.unlink()  # the file is a hard link into uv's cache
        path.write_bytes(content + b"# other\n")
        try:
            yield
        finally:
            path.unlink()
            path.write_bytes(content)


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    folder = tmp_path_factory.mktemp("launch")
    for name in ("profiles", "lockfiles"):
        (folder / name).mkdir()
    text = (ROOT / "profiles/cpu-smoke.toml").read_text().replace("cpu-smoke", "launch")
    (folder / "profiles/launch.toml").write_text(text)
    shutil.copy(ROOT / "lockfiles/cpu-smoke.txt", folder / "lockfiles/launch.txt")
    for words in (["gate", "add", "-p", "launch"], ["restore", "-p", "launch", "--venv", "venv", "--yes"]):
        done = subprocess.run(
            [sys.executable, "-m", "envdoctor", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    (folder / "train.py").write_text(TRAIN)
    (folder / "notebook.py").write_text(NOTEBOOK)
    environment = {
        "PATH": f"{folder}/venv/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    return Launch(folder=folder, environment=environment)


def lines(text: str, start: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith(start))


def starts_and_is_refused(
    launch: Launch, words: Sequence[str | Path], ranks: Sequence[str], extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Launch healthy and contaminated; the report stands once, whichever rank is done first."""
    started = launch.run(*words, extra=extra)
    assert started.returncode == 0, started.stderr
    assert lines(started.stdout, "training") == [f"training {rank}" for rank in ranks]
    assert STOPPED not in started.stderr
    with launch.contaminated():
        refused = launch.run(*words, extra=extra)
    assert refused.returncode not in (0, 9), refused.stderr
    assert lines(refused.stdout, "training") == []
    assert refused.stderr.count(FINDING) == 1, refused.stderr
    return refused


def test_a_script(launch: Launch) -> None:
    refused = starts_and_is_refused(launch, ["python", "train.py"], ["alone"])
    assert refused.returncode == 1
    last = f"error: envdoctor gate: this process does not start on {launch.folder}/venv (profile launch)\n"
    assert refused.stderr.endswith(last)


def test_a_notebook(launch: Launch) -> None:
    launch.install("ipykernel", "nbclient")
    refused = starts_and_is_refused(launch, ["python", "notebook.py"], ["alone"])
    assert refused.returncode == 1


def test_torchrun(launch: Launch) -> None:
    words = ["torchrun", "--standalone", "--nproc-per-node", "2", "train.py"]
    refused = starts_and_is_refused(launch, words, ["0", "1"])
    assert f"rank 0 {STOPPED}" in refused.stderr


@pytest.mark.stack
def test_accelerate_launch(launch: Launch) -> None:
    words = ["accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    words += ["--mixed_precision", "no", "--dynamo_backend", "no", "train.py"]
    refused = starts_and_is_refused(launch, words, ["0", "1"])
    assert f"rank 0 {STOPPED}" in refused.stderr


def test_srun(launch: Launch, tmp_path: Path) -> None:
    with make_slurm(tmp_path) as slurm:
        extra = {**slurm, "PATH": f"{launch.programs}:{slurm['PATH']}"}
        refused = starts_and_is_refused(launch, ["srun", "--ntasks=2", "python", "train.py"], ["0", "1"], extra)
    assert sorted(re.findall(rf"rank (\d) {STOPPED}", refused.stderr)) == ["0", "1"]


@pytest.mark.stack
def test_ray_train(launch: Launch) -> None:
    launch.install("ray[train]")
    (launch.folder / "ray_train.py").write_text(RAY)
    extra = {"RAY_DEDUP_LOGS": "0", "RAY_CHDIR_TO_TRIAL_DIR": "0"}
    words = ["python", "ray_train.py", launch.folder]
    started = launch.run(*words, extra=extra)
    assert started.returncode == 0, started.stderr
    ran = sorted(launch.folder.glob("ran-*"))
    assert [path.name for path in ran] == ["ran-0", "ran-1"]
    for path in ran:
        path.unlink()
    with launch.contaminated():
        refused = launch.run(*words, extra=extra)
    assert refused.returncode == 1
    assert list(launch.folder.glob("ran-*")) == []
    told = refused.stdout + refused.stderr
    # Ray hands a worker's output on twice here and there: what counts is who reported.
    reporters = set(re.findall(rf"pid=(\d+)\).{{0,20}}{re.escape(FINDING)}", told))
    assert len(reporters) == 1
    assert set(re.findall(rf"rank (\d) {STOPPED}", told)) == {"0", "1"}
