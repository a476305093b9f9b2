"""The gate's two lines under the launchers that people use, on CPU, in a venv restored from a profile with the gate.

Each launcher starts a healthy venv, is refused a contaminated one with the report on rank 0 alone, and starts again
after a restore, which leaves the gate in it; `check` says the same with and without the profile.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv

from tests.factories.make_slurm import make_slurm
from tests.factories.make_stack import ROOT
from tests.factories.run_envdoctor import COMMAND

pytestmark = [pytest.mark.index, pytest.mark.torch_stack]
TRAIN = """\
import envdoctor_gate
envdoctor_gate.require("launch")
import os, sys
ranks = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
print("training", next(filter(None, map(os.environ.get, ranks)), "alone"), flush=True)
"""
ODD = """\
import os
ranks = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
if next(filter(None, map(os.environ.get, ranks))) == "1":
    os.environ["NCCL_PROTO"] = "LL"
"""
TABLE = """\
error: envdoctor gate: the ranks of this job do not run one stack: 1 of 3 differs, rank 1 (HOST)

  fact                 most ranks  others  who
  variable NCCL_PROTO  none        LL      rank 1 (HOST)

help: rank 1 (HOST): `unset NCCL_PROTO`
""".replace("HOST", os.uname().nodename)
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
import os
import sys
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

folder = sys.argv[1]

def train():
    import envdoctor_gate
    if os.path.exists(folder + "/odd") and os.environ["RANK"] == "1":
        os.environ["NCCL_PROTO"] = "LL"
    envdoctor_gate.require(folder + "/profiles/launch.toml")
    open(folder + "/ran-" + os.environ["RANK"], "w").close()

ranks = 3 if os.path.exists(folder + "/odd") else 2
ray.init(num_cpus=ranks, include_dashboard=False)
TorchTrainer(
    train,
    scaling_config=ScalingConfig(num_workers=ranks),
    run_config=RunConfig(storage_path=folder + "/ray"),
    torch_config=TorchConfig(backend="gloo"),
).fit()
"""
RAY_VARIABLES = {
    "RAY_DEDUP_LOGS": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Where other work shares the cores, a worker takes longer to start than Ray's minute.
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "900",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
}
RESTORE = ["restore", "-p", "launch", "--venv", "venv", "--yes"]
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
        if not names:
            return
        pins = re.findall(r"^([\w.-]+==[^ \\]+)", (self.folder / "lockfiles/launch.txt").read_text(), re.MULTILINE)
        constraints = self.folder / "constraints.txt"
        constraints.write_text("\n".join(pin for pin in pins if not pin.startswith("envdoctor-gate")))
        command = [uv.find_uv_bin(), "pip", "install", "--quiet", "--python", self.programs / "python"]
        done = subprocess.run(
            [*command, "--constraint", constraints, *names], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"{' and '.join(names)} cannot be installed: {done.stderr[-300:]}")

    def contaminate(self) -> None:
        """Let a file of the venv have other bytes, as an install on top leaves it."""
        path = next((self.folder / "venv/lib").glob("python3*/site-packages")) / "filelock/__init__.py"
        content = path.read_bytes()
        path.unlink()  # the file is a hard link into uv's cache
        path.write_bytes(content + b"# other\n")

    def envdoctor(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this checkout in the project's folder, with this machine's indexes."""
        return subprocess.run(
            [*COMMAND, *words], cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )

    @property
    def verdicts(self) -> Path:
        """The folder of the verdicts that ranks share."""
        return self.folder / "envdoctor"

    def examinations(self) -> int:
        """Return how many verdicts were shared: one a launch, where all ranks shared it."""
        return len(list(self.verdicts.glob("*.verdict")))

    def check(self) -> tuple[int, int]:
        """Return the exit codes of a check with the profile and of one without."""
        with_profile, without = (self.envdoctor("check", "venv", *words) for words in (["-p", "launch"], []))
        return with_profile.returncode, without.returncode


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    folder = tmp_path_factory.mktemp("launch")
    for name in ("profiles", "lockfiles"):
        (folder / name).mkdir()
    text = (ROOT / "profiles/cpu-smoke.toml").read_text().replace("cpu-smoke", "launch")
    (folder / "profiles/launch.toml").write_text(text)
    shutil.copy(ROOT / "lockfiles/cpu-smoke.txt", folder / "lockfiles/launch.txt")
    for words in (["gate", "add", "-p", "launch"], RESTORE):
        done = subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    (folder / "train.py").write_text(TRAIN)
    (folder / "odd.py").write_text(ODD + TRAIN)
    (folder / "wrong.py").write_text(TRAIN.replace('"launch"', '"lunch"'))
    (folder / "notebook.py").write_text(NOTEBOOK)
    environment = {
        "PATH": f"{folder}/venv/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    return Launch(folder=folder, environment=environment)


def trained(text: str) -> list[str]:
    return sorted(re.findall(r"training (\S+)$", text, re.MULTILINE))


def starts_is_refused_and_starts_again(
    launch: Launch,
    words: Sequence[str | Path],
    ranks: Sequence[str],
    *,
    tag: str = "",
    extra: Mapping[str, str] | None = None,
    beside: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Go through a launcher's life with the gate; return the refused launch.

    tag: what the launcher puts before a line of local rank 0. beside: distributions that a restore takes away.
    """
    launch.install(*beside)
    shutil.rmtree(launch.verdicts, ignore_errors=True)
    started = launch.run(*words, extra=extra)
    assert started.returncode == 0, started.stderr
    assert trained(started.stdout) == list(ranks)
    assert STOPPED not in started.stderr
    assert launch.examinations() == (len(ranks) > 1)
    assert launch.check() == (0, 0)
    launch.contaminate()
    assert launch.check() == (1, 1)
    refused = launch.run(*words, extra=extra)
    assert refused.returncode not in (0, 9), refused.stderr
    assert trained(refused.stdout) == []
    reports = [line for line in refused.stderr.splitlines() if FINDING in line]
    assert [line.startswith(f"{tag}{FINDING}") for line in reports] == [True], refused.stderr
    restored = launch.envdoctor(*RESTORE)
    assert restored.returncode == 0, restored.stderr
    launch.install(*beside)
    again = launch.run(*words, extra=extra)
    assert again.returncode == 0, again.stderr
    assert trained(again.stdout) == list(ranks)
    assert launch.check() == (0, 0)
    return refused


def names_the_rank_that_differs(
    launch: Launch, words: Sequence[str | Path], *, tag: str, extra: Mapping[str, str] | None = None
) -> None:
    """Start three ranks, of which one has another variable than the others."""
    refused = launch.run(*words, "python", "odd.py", extra=extra)
    assert refused.returncode not in (0, 9), refused.stderr
    assert trained(refused.stdout) == []
    first = [line.replace(tag, "") for line in refused.stderr.splitlines(keepends=True) if line.startswith(tag)]
    assert "".join(first).count(TABLE) == 1, refused.stderr
    assert refused.stderr.count("do not run one stack") == 1


def an_error_is_said_by_rank_0_alone(
    launch: Launch, words: Sequence[str | Path], *, tags: Sequence[str], extra: Mapping[str, str] | None = None
) -> None:
    """Start two ranks that ask for a profile which is not there: the error once, and a line of the other rank."""
    refused = launch.run(*words, extra=extra)
    assert refused.returncode not in (0, 9), refused.stderr
    assert trained(refused.stdout) == []
    first, second = (
        [line.removeprefix(tag) for line in refused.stderr.splitlines() if line.startswith(f"{tag}error: envdoctor")]
        for tag in tags
    )
    assert first == ["error: envdoctor gate: no profile is called `lunch`"], refused.stderr
    assert second == [f"error: envdoctor gate: rank 1 {STOPPED} {launch.folder}/venv (profile lunch)"], refused.stderr
    assert refused.stderr.count("hint: ") == 1, refused.stderr


def test_a_script(launch: Launch) -> None:
    refused = starts_is_refused_and_starts_again(launch, ["python", "train.py"], ["alone"])
    assert refused.returncode == 1
    last = f"error: envdoctor gate: this process does not start on {launch.folder}/venv (profile launch)\n"
    assert refused.stderr.endswith(last)


def test_a_notebook(launch: Launch) -> None:
    words = ["python", "notebook.py"]
    refused = starts_is_refused_and_starts_again(launch, words, ["alone"], beside=["ipykernel", "nbclient"])
    assert refused.returncode == 1


def test_torchrun(launch: Launch) -> None:
    words = ["torchrun", "--standalone", "--nproc-per-node", "2", "--tee", "3", "train.py"]
    refused = starts_is_refused_and_starts_again(launch, words, ["0", "1"], tag="[default0]:")
    assert f"rank 0 {STOPPED}" in refused.stderr
    an_error_is_said_by_rank_0_alone(launch, [*words[:-1], "wrong.py"], tags=("[default0]:", "[default1]:"))


@pytest.mark.stack
def test_accelerate_launch(launch: Launch) -> None:
    words = ["accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--tee", "3"]
    words += ["--mixed_precision", "no", "--dynamo_backend", "no", "train.py"]
    refused = starts_is_refused_and_starts_again(launch, words, ["0", "1"], tag="[default0]:")
    assert f"rank 0 {STOPPED}" in refused.stderr


def test_srun(launch: Launch, tmp_path: Path) -> None:
    with make_slurm(tmp_path, nodes=2) as slurm:
        extra = {**slurm, "PATH": f"{launch.programs}:{slurm['PATH']}"}
        words = ["srun", "--label", "--nodes=1", "--ntasks=2", "python", "train.py"]
        refused = starts_is_refused_and_starts_again(launch, words, ["0", "1"], tag="0: ", extra=extra)
        wrong = [*words[:-1], "wrong.py"]
        an_error_is_said_by_rank_0_alone(launch, wrong, tags=("0: ", "1: "), extra=extra)
        # Over two nodes they meet over TCP.
        three = ["srun", "--label", "--nodes=2", "--ntasks=3", "--overcommit"]
        between = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        names_the_rank_that_differs(launch, three, tag="0: ", extra={**extra, **between})
    assert sorted(re.findall(rf"rank (\d) {STOPPED}", refused.stderr)) == ["0", "1"]


def test_mpirun(launch: Launch) -> None:
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed (Debian: openmpi-bin)")
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--tag-output", "-n"]
    words = [*mpirun, "2", "python", "train.py"]
    refused = starts_is_refused_and_starts_again(launch, words, ["0", "1"], tag="[1,0]<stderr>:")
    names_the_rank_that_differs(launch, [*mpirun, "3"], tag="[1,0]<stderr>:")
    assert f"rank 0 {STOPPED}" in refused.stderr


def run_is_once_a_node(
    launch: Launch, launcher: Sequence[str], *, tag: str, extra: Mapping[str, str] | None = None
) -> None:
    """Start two ranks of `envdoctor run`: a healthy venv, a refused one, one that `--restore` restores."""
    (launch.folder / "plain.py").write_text(TRAIN.split("\n", 2)[2])
    words = [*launcher, *COMMAND, "run", "-p", "launch", "--venv", "venv"]
    shutil.rmtree(launch.verdicts, ignore_errors=True)
    started = launch.run(*words, "--", "python", "plain.py", extra=extra)
    assert (started.returncode, trained(started.stdout)) == (0, ["0", "1"]), started.stderr
    assert launch.examinations() == 1
    launch.contaminate()
    refused = launch.run(*words, "--", "python", "plain.py", extra=extra)
    assert refused.returncode not in (0, 9), refused.stderr
    assert trained(refused.stdout) == []
    reports = [line for line in refused.stderr.splitlines() if FINDING in line]
    assert [line.startswith(f"{tag}{FINDING}") for line in reports] == [True], refused.stderr
    assert f"{tag}error: `python plain.py` was not started on {launch.folder}/venv (profile launch)" in refused.stderr
    # With this machine's indexes and cache; torchrun and mpirun's children run from the venv that is swapped.
    sources = {name: value for name, value in os.environ.items() if name == "HOME" or name.startswith(("UV_", "PIP_"))}
    words += ["--restore", "--yes-while-in-use"]
    restored = launch.run(*words, "--", "python", "plain.py", extra={**(extra or {}), **sources})
    assert (restored.returncode, trained(restored.stdout)) == (0, ["0", "1"]), restored.stderr
    assert restored.stderr.count(f"restored {launch.folder}/venv: ") == 1, restored.stderr
    assert launch.check() == (0, 0)


def test_run_under_torchrun(launch: Launch) -> None:
    torchrun = ["torchrun", "--standalone", "--nproc-per-node", "2", "--tee", "3", "--no-python"]
    run_is_once_a_node(launch, torchrun, tag="[default0]:")


def test_run_under_srun(launch: Launch, tmp_path: Path) -> None:
    with make_slurm(tmp_path) as slurm:
        extra = {**slurm, "PATH": f"{launch.programs}:{slurm['PATH']}"}
        run_is_once_a_node(launch, ["srun", "--label", "--ntasks=2"], tag="0: ", extra=extra)


def test_run_under_mpirun(launch: Launch) -> None:
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed (Debian: openmpi-bin)")
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--tag-output", "-n", "2"]
    run_is_once_a_node(launch, mpirun, tag="[1,0]<stderr>:")


@pytest.mark.stack
def test_ray_train(launch: Launch) -> None:
    launch.install("ray[train]")
    (launch.folder / "ray_train.py").write_text(RAY)
    words = ["python", "ray_train.py", launch.folder]

    def ran() -> list[str]:
        names = sorted(path.name for path in launch.folder.glob("ran-*"))
        for name in names:
            (launch.folder / name).unlink()
        return names

    shutil.rmtree(launch.verdicts, ignore_errors=True)
    started = launch.run(*words, extra=RAY_VARIABLES)
    assert started.returncode == 0, started.stderr
    assert ran() == ["ran-0", "ran-1"]
    assert launch.examinations() == 1
    assert launch.check() == (0, 0)
    launch.contaminate()
    assert launch.check() == (1, 1)
    refused = launch.run(*words, extra=RAY_VARIABLES)
    assert refused.returncode == 1
    assert ran() == []
    said = refused.stdout + refused.stderr
    # Ray hands a worker's output on twice here and there: what counts is who reported.
    reporters = set(re.findall(rf"pid=(\d+)\).{{0,20}}{re.escape(FINDING)}", said))
    zero = set(re.findall(rf"pid=(\d+)\).{{0,40}}rank 0 {STOPPED}", said))
    assert len(reporters) == 1
    assert reporters == zero
    restored = launch.envdoctor(*RESTORE)
    assert restored.returncode == 0, restored.stderr
    launch.install("ray[train]")
    again = launch.run(*words, extra=RAY_VARIABLES)
    assert again.returncode == 0, again.stderr
    assert ran() == ["ran-0", "ran-1"]
    (launch.folder / "odd").touch()
    differing = launch.run(*words, extra=RAY_VARIABLES)
    (launch.folder / "odd").unlink()
    assert differing.returncode == 1
    assert ran() == []
    said = re.sub(r"^.*pid=\d+[^)]*\)(?:\x1b\[0m)? ", "", differing.stdout + differing.stderr, flags=re.MULTILINE)
    assert [line for line in TABLE.splitlines() if line and line not in said.splitlines()] == [], said
