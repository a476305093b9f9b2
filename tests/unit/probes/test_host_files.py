"""What is read of the machine: mounts, containers, compilers, variables; and the named sources and targets."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.errors import TargetError
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.mounts import mount_of
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.machine.toolchain import Toolchain
from envdoctor.probes.venv.conda import Conda, CondaPackage
from envdoctor.probes.venv.training_sources import SourceFile, Sources
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, make_venv


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    return make_venv(tmp_path_factory.mktemp("venv") / "venv")


def _mounted(root: Path, *lines: str) -> Host:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("".join(f"{line}\n" for line in lines))
    return replace(bare_host(root / "home"), proc=root / "proc")


MOUNTS = (
    "22 1 0:20 / / rw - overlay overlay rw",
    "40 22 0:45 / /data rw,relatime shared:1 - nfs4 fs1:/data rw",
    "41 40 0:46 / /data/local rw - ext4 /dev/sdb1 rw",
    "42 22 0:47 / /with\\040blank rw - lustre x rw",
    "43 41 0:48 / /data/local rw master:3 propagate_from:2 - xfs /dev/sdc1 rw",
    "a line that is none",
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data", "nfs4"),
        ("/data/x/y", "nfs4"),
        ("/database", "overlay"),
        ("/data/local/z", "xfs"),
        ("/with blank/a", "lustre"),
        ("/", "overlay"),
    ],
)
def test_the_longest_mount_point_decides_and_the_last_of_equals(tmp_path: Path, path: str, kind: str) -> None:
    assert mount_of(Path(path), _mounted(tmp_path, *MOUNTS)).type == kind


def test_a_link_lies_where_it_leads(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    host = _mounted(tmp_path, MOUNTS[0], f"50 22 0:49 / {real} rw - beegfs x rw")
    assert mount_of(tmp_path / "link/a/b", host).type == "beegfs"


def test_without_a_mount_table_nothing_is_claimed(tmp_path: Path) -> None:
    assert mount_of(tmp_path, replace(bare_host(tmp_path / "home"), proc=tmp_path / "none")).type == ""


def test_this_machines_own_table_is_understood(tmp_path: Path) -> None:
    assert mount_of(Path("/proc/self"), bare_host(tmp_path / "home")).type == "proc"


@pytest.mark.parametrize(
    ("marker", "environ", "container"),
    [
        ("", {}, ""),
        (".dockerenv", {}, "docker"),
        ("run/.containerenv", {}, "podman"),
        (".dockerenv", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ("", {"APPTAINER_CONTAINER": "/x.sif"}, "singularity"),
        ("", {"container": "lxc"}, "lxc"),
        ("", {"container": "systemd-nspawn"}, "container"),
    ],
)
def test_a_container_is_told_by_its_marks(
    venv: Venv, tmp_path: Path, marker: str, environ: dict[str, str], container: str
) -> None:
    root = tmp_path / "root"
    if marker:
        (root / marker).parent.mkdir(parents=True)
        (root / marker).touch()
    host = replace(bare_host(tmp_path / "home", **environ), root=root)
    assert read(venv.prefix, host).fact(Platform).container == container


@pytest.mark.parametrize(("kernel", "wsl"), [("5.15.167.4-microsoft-standard-WSL2", True), ("6.1.0-amd64", False)])
def test_wsl_is_told_by_its_kernel(venv: Venv, tmp_path: Path, kernel: str, wsl: bool) -> None:  # noqa: FBT001
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text(f"{kernel}\n")
    host = replace(bare_host(tmp_path / "home"), proc=tmp_path / "proc")
    found = read(venv.prefix, host).fact(Platform)
    assert (found.kernel, found.wsl) == (kernel, wsl)


@pytest.mark.parametrize(("glibc", "musl"), [(False, True), (True, False)], ids=["alpine", "musl beside glibc"])
def test_musl_is_told_by_its_loader(venv: Venv, tmp_path: Path, glibc: bool, musl: bool) -> None:  # noqa: FBT001
    host = bare_host(tmp_path / "home")
    host = replace(host, root=tmp_path / "root", ld_so_cache=tmp_path / "root/etc/ld.so.cache")
    for name in (f"lib/ld-musl-{host.machine}.so.1", *(["etc/ld.so.cache"] if glibc else [])):
        (host.root / name).parent.mkdir(parents=True, exist_ok=True)
        (host.root / name).touch()
    assert read(venv.prefix, host).fact(Platform).musl is musl


def _compilers(root: Path, *names: str) -> Path:
    folder = root / "tools"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_compilers_are_found_as_torch_and_triton_find_them(venv: Venv, tmp_path: Path) -> None:
    tools = _compilers(tmp_path, "clang", "clang++", "mycc")
    found = read(venv.prefix, bare_host(tmp_path / "home", PATH=str(tools))).fact(Toolchain)
    assert (found.cc, found.cxx) == (f"{tools}/clang", f"{tools}/clang++")
    named = read(venv.prefix, bare_host(tmp_path / "home", PATH=str(tools), CC="mycc")).fact(Toolchain)
    assert named.cc == f"{tools}/mycc"
    none = read(venv.prefix, bare_host(tmp_path / "home", PATH="/gone")).fact(Toolchain)
    assert (none.cc, none.cxx) == ("", "")


def test_the_header_is_the_base_interpreters(venv: Venv, tmp_path: Path) -> None:
    minor = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = read(venv.prefix, bare_host(tmp_path / "home")).fact(Toolchain)
    assert found.python_header == f"{sys.base_prefix}/include/{minor}/Python.h"


def test_only_variables_that_matter_are_kept_and_no_secret(venv: Venv, tmp_path: Path) -> None:
    host = bare_host(
        tmp_path / "home",
        LD_LIBRARY_PATH="/x",
        NCCL_DEBUG="INFO",
        TORCH_LOGS="dynamo",
        MY_PASSWORD="hunter2",  # noqa: S106
        UV_PUBLISH_TOKEN="abc",  # noqa: S106
        PIP_INDEX_URL="https://user:secret@example.org/simple",
        SLURM_NNODES="2",
    )
    kept = {variable.name: variable.value for variable in read(venv.prefix, host).fact(Environment).variables}
    assert kept == {
        "LD_LIBRARY_PATH": "/x",
        "NCCL_DEBUG": "INFO",
        "PATH": "/usr/bin:/bin",
        "SLURM_NNODES": "2",
        "TORCH_LOGS": "dynamo",
    }


def test_sources_are_hashed_and_nothing_outside_the_project_is(venv: Venv, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_bytes(b"print()\n")
    (tmp_path / "secret").write_text("x")
    (project / "link.py").symlink_to(tmp_path / "secret")
    (project / "folder.py").mkdir()
    options = Options(source_root=project, source_files=("train.py", "gone.py", "../secret", "link.py", "folder.py"))
    found = read(venv.prefix, options=options).fact(Sources)
    outside = "leads out of the project"
    assert found == Sources(
        root=str(project),
        files=(
            SourceFile(path="train.py", sha256=hashlib.sha256(b"print()\n").hexdigest(), problem=""),
            SourceFile(path="gone.py", sha256="", problem="missing"),
            SourceFile(path="../secret", sha256="", problem=outside),
            SourceFile(path="link.py", sha256="", problem=outside),
            SourceFile(path="folder.py", sha256="", problem="not a regular file"),
        ),
    )


def test_conda_is_told_by_its_own_record(tmp_path: Path) -> None:
    prefix = tmp_path / "env"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python").symlink_to(sys.executable)
    (prefix / "lib/python3.12/site-packages").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    for name in ("pytorch-2.5.1-py3.12_cuda12.4_0.json", "typing_extensions-4.12.2-py312h1.json", "history"):
        (prefix / "conda-meta" / name).touch()
    found = read(prefix, bare_host(tmp_path / "home", CONDA_PREFIX="/opt/conda")).fact(Conda)
    assert found == Conda(
        packages=(
            CondaPackage(name="torch", version="2.5.1", build="py3.12_cuda12.4_0"),
            CondaPackage(name="typing-extensions", version="4.12.2", build="py312h1"),
        ),
        base="",
        active="/opt/conda",
    )


def test_a_venv_on_condas_python_says_so(venv: Venv, tmp_path: Path) -> None:
    prefix = tmp_path / "venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python").symlink_to(sys.executable)
    (prefix / "lib/python3.12/site-packages").mkdir(parents=True)
    (tmp_path / "conda/conda-meta").mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text(f"home = {tmp_path}/conda/bin\nversion = 3.12.1\n")
    assert read(prefix).fact(Conda).base == f"{tmp_path}/conda"
    assert read(venv.prefix, bare_host(tmp_path / "home")).fact(Conda) == Conda(packages=(), base="", active="")


def test_a_target_is_a_folder_or_an_interpreter(venv: Venv, tmp_path: Path) -> None:
    by_folder, by_python = resolve(venv.prefix), resolve(venv.python)
    assert (by_folder.prefix, by_folder.interpreter) == (venv.prefix, venv.python)
    assert by_python == by_folder
    link = tmp_path / "python3"
    link.symlink_to(venv.python)
    assert resolve(link).prefix == venv.prefix
    assert resolve("python3", str(venv.prefix / "bin")).prefix == venv.prefix


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", "{0}/gone does not exist"),
        ("folder", "{0}/folder is not a Python environment: it has neither pyvenv.cfg nor bin/python"),
        ("file", "{0}/file is not a Python interpreter"),
    ],
)
def test_what_is_no_environment_is_said(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(TargetError) as told:
        resolve(tmp_path / name)
    assert told.value.message == message.format(tmp_path)
