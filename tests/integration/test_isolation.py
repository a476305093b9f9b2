"""No code of the examined venv, of the current folder or of PYTHONPATH runs: every program started, by strace."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.factories.make_driver import FakeGpu, make_driver
from tests.factories.make_incident import Incident, make_incident
from tests.factories.run_envdoctor import ROOT, environment

# Names that an import of ours, or a child of ours, would take from a folder in front of its own.
TRAPS = ("json", "typing", "random", "typer", "pynvml", "packaging", "shellingham", "annotated_doc", "tomli", "uv")
pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """A venv whose every file that could be taken for one of ours leaves a mark, on a machine with a driver."""

    incident: Incident
    project: Path
    """The current folder, with modules of its own."""
    marks: Path
    driver: Path


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Trap:
    root = tmp_path_factory.mktemp("trap")
    incident = make_incident(root)
    marks, project = root / "marks", root / "project"
    marks.mkdir()
    (project / "json").mkdir(parents=True)
    for folder in (incident.venv.site_packages, project):
        for name in TRAPS:
            _mine(folder / f"{name}.py", marks / f"{folder.name}-{name}")
    for name in ("gcc", "git", "uv", "nvidia-smi", "ninja", "env"):
        _script(incident.venv.prefix / "bin" / name, marks / f"bin-{name}")
        _script(project / name, marks / f"project-{name}")
    driver = make_driver(root, gpus=(FakeGpu(uuid="GPU-aaaa"),))
    shutil.copytree(driver.libraries, incident.venv.prefix / "nvml", symlinks=True)
    return Trap(incident=incident, project=project, marks=marks, driver=driver.libraries)


def _mine(path: Path, mark: Path) -> None:
    path.write_text(f"open({str(mark)!r}, 'w').close()\nraise ImportError('not yours')\n")


def _script(path: Path, mark: Path) -> None:
    path.write_text(f"#!/bin/sh\ntouch {mark}\n")
    path.chmod(0o755)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What one command started and mapped."""

    code: int
    out: str
    err: str
    started: tuple[str, ...]
    """Programs, in order; the tool's own Python as "python"."""
    mapped: frozenset[str]
    """Files whose code was mapped."""


def traced(trap: Trap, *arguments: str, **extra: str) -> Traced:
    """Run the installed command under strace, in the hostile folder, with the venv's bin folder first on PATH."""
    log = trap.marks.parent / "strace.log"
    environ = environment(trap.incident.root, extra)
    environ["PATH"] = f"{trap.incident.venv.prefix / 'bin'}:{trap.project}:{environ['PATH']}"
    done = subprocess.run(
        [
            *(shutil.which("strace") or "", "-f", "-qq", "-y", "-s", "9999", "-e", "trace=execve,execveat,mmap"),
            *("-o", log, sys.executable, Path(sys.executable).parent / "envdoctor", *arguments),
        ],
        cwd=trap.project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    text = log.read_text(errors="replace")
    own = {sys.executable, os.path.realpath(sys.executable)}
    programs = re.findall(r'execve\("([^"]*)".* = 0$', text, re.MULTILINE)
    return Traced(
        code=done.returncode,
        out=done.stdout,
        err=done.stderr,
        started=tuple("python" if program in own else program for program in programs),
        mapped=frozenset(re.findall(r"mmap\(.*PROT_EXEC.*, \d+<([^>]*)>", text)),
    )


COMMANDS = (
    ("check",),
    ("check", "-v"),
    ("why", "torch"),
    ("impact", "remove", "torch"),
    ("cache", "status"),
    ("diff",),
    ("fingerprint",),
)


def _arguments(trap: Trap, command: tuple[str, ...]) -> tuple[str, ...]:
    prefix = str(trap.incident.venv.prefix)
    if command[0] in ("check", "fingerprint"):
        return (*command, prefix)
    return (*command, prefix, prefix) if command[0] == "diff" else (*command, "--venv", prefix)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("leading", ["nothing", "PYTHONPATH", "current folder", "driver in the venv"])
def test_nothing_of_the_venv_or_the_folder_is_run(trap: Trap, command: tuple[str, ...], leading: str) -> None:
    site = trap.incident.venv.site_packages
    extra = {"LD_LIBRARY_PATH": str(trap.driver)}
    if leading == "PYTHONPATH":
        extra["PYTHONPATH"] = str(site)
    elif leading == "current folder":
        extra["PYTHONPATH"] = f":{trap.project}"
    elif leading == "driver in the venv":
        extra["LD_LIBRARY_PATH"] = str(trap.incident.venv.prefix / "nvml")
    done = traced(trap, *_arguments(trap, command), **extra)
    assert "Traceback" not in done.err, done.err
    assert done.code in (0, 1), done.err
    assert [mark.name for mark in trap.marks.iterdir()] == []
    # The tool's Python: the start, the second one with -I where a variable leads Python elsewhere (or without an
    # LD_LIBRARY_PATH that leads into another environment), and the NVML child.
    asked = command[0] in ("check", "cache", "diff", "fingerprint") and leading != "driver in the venv"
    children = (2 if command[0] == "diff" else 1) if asked else 0
    again = "PYTHONPATH" in extra or leading == "driver in the venv"
    assert done.started == ("python",) * (1 + again + children)
    inside = (f"{trap.incident.venv.prefix}/", f"{trap.project}/")
    assert {file for file in done.mapped if file.startswith(inside)} == set()
    nvml = {file for file in done.mapped if "libnvidia-ml" in file}
    assert nvml == ({str(trap.driver / "libnvidia-ml.so.570.86.10")} if asked else set())


def test_nothing_else_is_started_by_what_only_reads(trap: Trap) -> None:
    venv = ("--venv", str(trap.incident.venv.prefix))
    codes: dict[tuple[str, ...], int] = {
        ("history", *venv): 0,
        ("prune", "--keep", "1", "--dry-run", *venv): 0,
        ("rollback", "--dry-run", *venv): 2,
        ("sbom", *venv): 0,
        ("cache", "list"): 0,
        ("cache", "undo"): 0,
        ("cache", "gc", "--dry-run", "--damaged", *venv): 0,
        ("profiles",): 0,
        ("config",): 0,
        ("explain", "ED202"): 0,
        ("gate", "write", "--force", "envdoctor_gate.py"): 0,
    }
    for command, code in codes.items():
        done = traced(trap, *command, PYTHONPATH=str(trap.incident.venv.site_packages))
        assert done.code == code, (command, done.code, done.err)
        assert "Traceback" not in done.err, done.err
        assert ([mark.name for mark in trap.marks.iterdir()], done.started) == ([], ("python", "python")), command


def test_the_variable_is_still_reported_and_its_arguments_arrive(trap: Trap) -> None:
    site = str(trap.incident.venv.site_packages)
    done = traced(trap, "check", str(trap.incident.venv.prefix), "--color", "never", PYTHONPATH=site)
    assert "PYTHONPATH set" in done.out
    wrong = traced(trap, "check", "a b", 'c"d', PYTHONPATH=site)
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, 'error: got unexpected extra argument(s) (c"d)')


def test_a_package_of_another_python_on_pythonpath_does_not_end_the_tool(trap: Trap, tmp_path: Path) -> None:
    leak = tmp_path / "leak/shellingham"
    leak.mkdir(parents=True)
    (leak / "__init__.py").write_text("raise ImportError('built for python 3.9')\n")
    done = traced(trap, "check", str(trap.incident.venv.prefix), PYTHONPATH=str(leak.parent))
    assert done.code in (0, 1), done.err
    assert (done.err, "exit" in done.out) == ("", True)


@pytest.mark.parametrize(
    ("variable", "folder", "name"),
    [
        ("PYTHONPATH", "", "sitecustomize"),
        ("PYTHONPATH", "", "usercustomize"),
        ("PYTHONUSERBASE", f"lib/python3.{sys.version_info[1]}/site-packages", "usercustomize"),
    ],
)
def test_start_up_code_that_a_variable_leads_to_is_named(
    trap: Trap, tmp_path: Path, variable: str, folder: str, name: str
) -> None:
    """Python has run it by then, and a script installed by pip cannot be started with -I."""
    code = tmp_path / folder / f"{name}.py"
    code.parent.mkdir(parents=True, exist_ok=True)
    code.write_text("")
    venv = str(trap.incident.venv.prefix)
    # A venv's Python has no user site, so it is the base's, with the folders of this one.
    python = os.path.realpath(sys.executable)
    ours = [str(ROOT), *(entry for entry in sys.path if entry.endswith("site-packages"))]
    start = f"import sys; sys.path[:1] = {ours!r}; from envdoctor.__main__ import main; main()"
    said = {
        flag: subprocess.run(
            [python, *flag, "-c", start, "why", "torch", "--venv", venv],
            cwd=tmp_path, env=environment(tmp_path, {variable: str(tmp_path)}), capture_output=True, text=True,
            check=False,
        ).stderr
        for flag in ((), ("-I",))
    }  # fmt: skip
    assert said[()] == (
        f"warning: {variable} made Python run '{code}' before envdoctor began; `{python} -I -m envdoctor` "
        f"starts without it, and reports {variable} all the same\n"
    )
    assert said[("-I",)] == ""


def test_the_module_form_runs_without_the_current_folder(trap: Trap, tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ImportError('not yours')\n")
    code = f"import sys; sys.path[0] = {str(tmp_path)!r}; sys.path.append({str(ROOT)!r})\n"
    code += "from envdoctor.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
