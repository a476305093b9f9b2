"""CUDA_HOME that is not a directory, and its like (N11); a read-only HF_HOME; a preload without contents."""

import subprocess
from pathlib import Path

import pytest

from envdoctor.facts.host import Host
from tests.factories.examine_venv import commands_of, environment_after, outline, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel
from tests.factories.small_disk import small_disk

COMPILES = {
    "flashinfer/__init__.py": "import os, subprocess\n"
    "def build(): subprocess.run([os.path.join(os.environ['CUDA_HOME'], 'bin', 'nvcc'), '--version'], check=True)\n"
}


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    root = tmp_path_factory.mktemp("n11")
    wheels = root / "wheels"
    return make_venv(
        root / "venv",
        make_torch(wheels, "2.9.0+cu128", "12.8"),
        make_wheel(wheels, "flashinfer-python", "0.6.4", files=COMPILES),
        make_wheel(wheels, "triton", "3.5.0"),
        make_wheel(wheels, "huggingface-hub", "1.4.0"),
    )


def _toolkit(root: Path) -> Path:
    nvcc = root / "cuda/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\necho release 12.8\n")
    nvcc.chmod(0o755)
    return root / "cuda"


def _error(venv: Venv, host: Host) -> str:
    command = [venv.python, "-c", "import flashinfer; flashinfer.build()"]
    done = subprocess.run(command, env=dict(host.environ), capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("\n")[2]


def test_n11_cuda_home_is_one_folder_and_not_a_list(venv: Venv, tmp_path: Path) -> None:
    cuda = _toolkit(tmp_path)
    host = bare_host(tmp_path / "home", CUDA_HOME=f":{cuda}")
    assert _error(venv, host) == f"FileNotFoundError: [Errno 2] No such file or directory: ':{cuda}/bin/nvcc'"
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "warning ED607 CUDA_HOME is ':[TMP]/cuda', and :[TMP]/cuda does not exist: "
        "every compilation at run time ends in FileNotFoundError"
    ]
    assert commands_of(verdict.findings[0], tmp_path) == ["export CUDA_HOME=[TMP]/cuda"]
    healed = environment_after(host, *verdict.findings[0].remediation.commands)
    assert (_error(venv, healed), verdict_of(venv.prefix, healed).findings) == ("", ())


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("CUDA_PATH", "/gone", "/gone does not exist"),
        ("CUDACXX", "/gone/nvcc", "/gone/nvcc does not exist"),
        ("CC", "no-such-gcc -O2", "no-such-gcc does not exist"),
        ("CXX", "/etc/passwd", "/etc/passwd is not executable"),
        ("TRITON_PTXAS_PATH", "/usr", "/usr is not a file"),
        ("TRITON_LIBCUDA_PATH", "/etc/passwd", "/etc/passwd is not a directory"),
        ("SSL_CERT_FILE", "/gone.pem", "/gone.pem does not exist"),
        ("REQUESTS_CA_BUNDLE", "/gone", "/gone does not exist"),
        ("TMPDIR", "/gone", "/gone does not exist"),
        ("HF_HOME", "/etc/passwd/hf", "/etc/passwd/hf is not a directory"),
        ("TORCH_HOME", "/etc/passwd/hub", "/etc/passwd/hub is not a directory"),
    ],
)
def test_finds_ed607_each_kind_of_path(venv: Venv, tmp_path: Path, name: str, value: str, told: str) -> None:
    host = bare_host(tmp_path / "home", **{name: value})
    (finding,) = verdict_of(venv.prefix, host).findings
    assert (finding.code, finding.severity) == ("ED607", "warning")
    assert finding.title.startswith(f"{name} is {value!r}, and {told}: ")
    assert finding.remediation.commands == (f"unset {name}",)
    assert verdict_of(venv.prefix, environment_after(host, *finding.remediation.commands)).findings == ()


def test_passes_ed607_paths_that_are_there_and_variables_that_nothing_reads(venv: Venv, tmp_path: Path) -> None:
    right = {
        "CC": "gcc -O2",
        "CXX": "/bin/sh",
        "TMPDIR": "/tmp",
        "REQUESTS_CA_BUNDLE": "/etc",
        "HF_HOME": str(tmp_path),
    }
    assert verdict_of(venv.prefix, bare_host(tmp_path / "home", **right)).findings == ()
    offline = bare_host(tmp_path / "home", HF_HOME="/etc/passwd/hf", HF_HUB_OFFLINE="1")
    assert verdict_of(venv.prefix, offline).findings == ()
    bare = make_venv(tmp_path / "bare")
    unread = {"CUDA_HOME": "/gone", "CXX": "/gone", "TRITON_PTXAS_PATH": "/gone", "HF_HOME": "/etc/passwd/hf"}
    assert verdict_of(bare.prefix, bare_host(tmp_path / "home", **unread)).findings == ()


def test_finds_ed607_a_home_of_models_on_a_read_only_disk(venv: Venv, tmp_path: Path) -> None:
    try:
        with small_disk(tmp_path / "disk") as disk:
            host = bare_host(tmp_path / "home", HF_HOME=str(disk / "hf"))
            assert verdict_of(venv.prefix, host).findings == ()
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            found = outline(verdict_of(venv.prefix, host), tmp_path)
    except OSError as error:
        pytest.skip(str(error))
    assert found == [
        "warning ED607 HF_HOME is '[TMP]/disk/hf', and [TMP]/disk/hf cannot be written: nothing can be downloaded"
    ]


def test_n11_a_preload_without_contents(venv: Venv, tmp_path: Path) -> None:
    (tmp_path / "libjemalloc.so.2").touch()
    host = bare_host(tmp_path / "home", LD_PRELOAD=str(tmp_path / "libjemalloc.so.2"))
    done = subprocess.run(["true"], env=dict(host.environ), capture_output=True, text=True, check=True)
    assert "cannot be preloaded" in done.stderr
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == ["warning ED602 LD_PRELOAD names [TMP]/libjemalloc.so.2, which is empty"]
    healed = environment_after(host, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, healed).findings == ()
