"""A program that the stack starts by name is in the venv, and PATH does not lead there: ninja (N06)."""

import os
import subprocess
import sysconfig
from dataclasses import replace
from pathlib import Path

from envdoctor.doctor.examine import judge, take_fingerprint
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from tests.factories.examine_venv import commands_of, environment_after, first, outline, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import COMMAND, ROOT

FLASHINFER = {
    "flashinfer/__init__.py": "import os, subprocess\n"
    "def build(): subprocess.run([os.environ.get('FLASHINFER_NINJA_PATH', 'ninja'), '--version'], check=True)\n"
}
GATE_OFF = ("--gate", "off", "--reason", "x")
BUILD = "import flashinfer; flashinfer.build()"


def _stack(root: Path, *, installed: bool = True) -> Venv:
    ninja = make_wheel(
        root / "wheels",
        "ninja",
        "1.13.0",
        files={"ninja/__init__.py": "def main():\n    print('1.13')\n"},
        scripts={"ninja": "ninja:main"},
    )
    user = make_wheel(root / "wheels", "flashinfer-python", "0.6.4", files=FLASHINFER, requires=["ninja"])
    torch = make_torch(root / "wheels", "2.9.0+cu128", "12.8")
    return make_venv(root / "venv", torch, user, *([ninja] if installed else []))


def _builds(venv: Venv, host: Host) -> tuple[int, str]:
    done = subprocess.run(
        [venv.python, "-c", BUILD], env=dict(host.environ), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.strip().rpartition("\n")[2]


def test_finds_ed608_n06_ninja_lies_in_the_venv_and_path_does_not_lead_there(tmp_path: Path) -> None:
    venv = _stack(tmp_path)
    (tmp_path / "bin").mkdir()
    host = bare_host(tmp_path / "home", PATH=str(tmp_path / "bin"), VIRTUAL_ENV=str(venv.prefix))
    assert _builds(venv, host) == (1, "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'")
    verdict = verdict_of(venv.prefix, host)
    assert first(verdict, tmp_path) == (
        "ED608",
        "flashinfer-python 0.6.4 starts ninja by name, and PATH does not lead to [TMP]/venv/bin/ninja",
    )
    assert commands_of(verdict.findings[0], tmp_path) == ['export PATH=[TMP]/venv/bin:"$PATH"']
    healed = environment_after(host, *verdict.findings[0].remediation.commands)
    assert _builds(venv, healed)[0] == 0
    assert verdict_of(venv.prefix, healed).findings == ()


def test_n06_a_check_from_another_shell_cannot_know_the_launch(tmp_path: Path) -> None:
    venv = _stack(tmp_path)
    for elsewhere in ({}, {"VIRTUAL_ENV": str(tmp_path / "other")}):
        host = bare_host(tmp_path / "home", PATH="/nowhere", **elsewhere)
        finding = next(item for item in verdict_of(venv.prefix, host).findings if item.code == "ED608")
        assert (finding.severity, finding.evidence) == (
            "note",
            (
                "no ninja on PATH: the first compilation at run time ends in FileNotFoundError: 'ninja'",
                "the venv is not active in this shell: a job that is launched with another PATH may find it",
            ),
        )
    facts = take_fingerprint(resolve(venv.prefix, host.environ.get("PATH")), host, Options(ask_nvml=True))
    assert [item.severity for item in judge(facts, launching=True).findings if item.code == "ED608"] == ["warning"]


def test_n06_the_gate_knows_the_launch(tmp_path: Path) -> None:
    venv = _stack(tmp_path)
    _profile(tmp_path)
    (tmp_path / "lockfiles/small.txt").write_text(f"absent==1.0 --hash=sha256:{'0' * 64}\n")
    libraries = "\n".join((str(ROOT), sysconfig.get_path("purelib")))
    (venv.site_packages / "own.pth").write_text(f"{libraries}\n")
    done = subprocess.run(
        [venv.python, "-c", "from envdoctor import gate; gate.require('small')"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path / "home"), "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "warning[ED608]: flashinfer-python 0.6.4 starts ninja by name, " in done.stderr, done.stderr


def _profile(root: Path) -> None:
    (root / "profiles").mkdir()
    (root / "lockfiles").mkdir()
    (root / "profiles/small.toml").write_text(
        'schema = 1\nname = "small"\nsummary = "x"\n[python]\nversions = ["3.11"]\n'
        '[torch]\nversion = "2.9.0+cu128"\ncuda = "12.8"\n[lock]\nfile = "small.txt"\n'
    )
    (root / "lockfiles/small.txt").write_text("")


def test_n06_envdoctor_run_puts_the_venvs_programs_first(tmp_path: Path) -> None:
    venv = _stack(tmp_path)
    host = bare_host(tmp_path / "home", PATH=os.environ["PATH"])
    _profile(tmp_path)
    done = subprocess.run(
        [*COMMAND, "run", "-p", "small", "--venv", venv.prefix, *GATE_OFF, "--", "python", "-c", BUILD],
        cwd=tmp_path,
        env=dict(host.environ) | {"HOME": str(host.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1.13\n"), done.stderr


def test_passes_ed608_where_nothing_starts_ninja_or_it_is_found(tmp_path: Path) -> None:
    venv = _stack(tmp_path)
    other = tmp_path / "other/ninja"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 1.11\n")
    other.chmod(0o755)
    found = bare_host(tmp_path / "home", PATH=f"{other.parent}")
    assert verdict_of(venv.prefix, found).findings == ()
    named = bare_host(tmp_path / "home", PATH="/nowhere", FLASHINFER_NINJA_PATH=str(other))
    assert verdict_of(venv.prefix, named).findings == ()


def test_n06_a_variable_that_names_another_ninja_which_is_gone(tmp_path: Path) -> None:
    venv = _stack(tmp_path)
    path = f"{venv.prefix}/bin:/usr/bin:/bin"
    host = bare_host(tmp_path / "home", PATH=path, FLASHINFER_NINJA_PATH="/gone/ninja")
    assert _builds(venv, host) == (1, "FileNotFoundError: [Errno 2] No such file or directory: '/gone/ninja'")
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "warning ED607 FLASHINFER_NINJA_PATH is '/gone/ninja', and /gone/ninja does not exist: "
        "FlashInfer cannot compile a kernel"
    ]
    healed = environment_after(host, *verdict.findings[0].remediation.commands)
    assert _builds(venv, healed)[0] == 0
    assert verdict_of(venv.prefix, healed).findings == ()
    unused = replace(host, environ={**host.environ, "FLASHINFER_NVCC": "/gone/nvcc"})
    bare = make_venv(tmp_path / "bare")
    assert verdict_of(bare.prefix, unused).findings == ()
