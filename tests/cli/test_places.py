"""Environments of every kind that people have, as `envdoctor check` meets them; whole reports compared."""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uv

from envdoctor.doctor import inside_root
from envdoctor.errors import ProbeError
from envdoctor.probes.loading.demangle import demangle
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_envdoctor

PACKAGE = Path(inside_root.__file__).parents[1]
EMPTY = """\
envdoctor check  [TMP]/e   no profile   torch not installed

[✓] Interpreter         CPython [PYTHON], venv by uv [UV]
[–] Distributions       no distribution is installed
[–] torch build         torch is not installed
[–] Installed files     no RECORD lists any file
[–] Shared libraries    torch is not installed
[–] Compile cache       cold: no compiled graph or kernel
[✓] Environment         no LD_LIBRARY_PATH, LD_PRELOAD or PYTHONPATH
[–] Driver / GPU        no NVIDIA kernel module, device file or driver library
[–] Sources             no profile was given

Nothing found; no packages here: only the interpreter was checked.   exit 0
"""


def make(*command: str | Path, folder: Path) -> None:
    """Run one command of a maker of venvs in `folder`."""
    subprocess.run([*map(str, command)], cwd=folder, env=environment(folder), check=True, capture_output=True)


def test_an_empty_venv_is_not_called_well(tmp_path: Path) -> None:
    make(uv.find_uv_bin(), "venv", "-q", "e", folder=tmp_path)
    assert run_envdoctor("check", "e", folder=tmp_path) == Outcome(code=0, out=EMPTY, err="")


def test_ci_can_require_torch(tmp_path: Path) -> None:
    make(uv.find_uv_bin(), "venv", "-q", "e", folder=tmp_path)
    assert run_envdoctor("check", "e", "--require", "torch>=2.8", "-q", folder=tmp_path) == Outcome(
        code=1,
        out="error[ED413]: torch is required and not installed\n\n"
        "Found 1 error (1 cause); no packages here: only the interpreter was checked.   exit 1\n",
        err="",
    )


def test_the_heading_says_when_envdoctor_runs_from_the_venv(tmp_path: Path) -> None:
    found = json.loads(run_envdoctor("check", sys.prefix, "--json", folder=tmp_path).out)
    assert found["target"]["found_by"] == "envdoctor runs from it"
    found = json.loads(run_envdoctor("check", "--json", folder=tmp_path, extra={"VIRTUAL_ENV": sys.prefix}).out)
    assert found["target"]["found_by"] == "from $VIRTUAL_ENV; envdoctor runs from it"


def test_the_heading_says_why_a_venv_was_taken(tmp_path: Path) -> None:
    make(uv.find_uv_bin(), "venv", "-q", "proj/.venv", folder=tmp_path)
    (tmp_path / "proj/sub/deep").mkdir(parents=True)
    home = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}

    def heading(*arguments: str, cwd: str = ".", **extra: str) -> str:
        outcome = run_envdoctor("check", *arguments, folder=tmp_path / cwd, extra={**home, **extra})
        return outcome.out.splitlines()[0].replace(str(tmp_path), "[TMP]") if outcome.out else outcome.err

    end = "   no profile   torch not installed"
    assert heading("proj") == f"envdoctor check  [TMP]/proj/.venv (the .venv of that project){end}"
    assert heading(cwd="proj/sub/deep") == (f"envdoctor check  [TMP]/proj/.venv (found above [TMP]){end}")
    assert heading(VIRTUAL_ENV=str(tmp_path / "proj/.venv")) == (
        f"envdoctor check  [TMP]/proj/.venv (from $VIRTUAL_ENV){end}"
    )
    assert heading(CONDA_PREFIX=str(tmp_path / "proj/.venv")) == (
        f"envdoctor check  [TMP]/proj/.venv (from $CONDA_PREFIX){end}"
    )
    assert heading("proj/.venv") == f"envdoctor check  [TMP]/proj/.venv{end}"


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_another_system_is_refused_in_one_clear_word(tmp_path: Path, system: str) -> None:
    start = COMMAND[-1].replace("import sys;", f"import sys; sys.platform = {system!r};", 1)
    done = subprocess.run(
        [*COMMAND[:-1], start, "check"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"error: envdoctor runs on Linux only, and this is {system}\n\n"
        "hint: run it where the environment is: in WSL, in a Linux container, or on the Linux machine that trains\n",
    )


INSIDE = """\
envdoctor check  /opt/venv (inside the root folder [TMP]/image)   no profile   torch not installed

[✓] Interpreter         CPython [PYTHON], venv by venv
[✓] Distributions       1 distribution, no lock to compare with
[–] torch build         torch is not installed
[✓] Installed files     [N] files as their RECORDs say, by size
[–] Shared libraries    torch is not installed
[–] Compile cache       cold: no compiled graph or kernel
[✓] Environment         no LD_LIBRARY_PATH, LD_PRELOAD or PYTHONPATH
[–] Driver / GPU        no NVIDIA kernel module, device file or driver library
[–] Sources             no profile was given

Nothing found; no torch here: torch and its libraries were not checked.   exit 0
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Make a Debian-like root folder: a system Python with dist-packages, and a venv linked to it absolutely."""
    image, system = tmp_path / "image", Path("/usr/bin/python3").resolve()
    if not system.is_file():
        pytest.skip("no system Python here")
    library = f"usr/lib/{system.name}"
    for folder in ("etc", "usr/bin", f"{library}/encodings", "usr/lib/python3/dist-packages", "opt/venv/bin", "root"):
        (image / folder).mkdir(parents=True)
    (image / "etc/os-release").write_text("ID=debian\n")
    (image / "etc/debian_version").write_text("12\n")
    shutil.copy(system, image / "usr/bin")
    (image / "usr/bin/python3").symlink_to(system.name)
    listed = subprocess.run(["ldd", system], capture_output=True, text=True, check=True).stdout
    for library_file in re.findall(r"/\S+", listed):
        (image / library_file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library_file, image / library_file[1:])
    for module in ("os.py", "encodings/__init__.py"):
        (image / library / module).touch()
    packages = image / "usr/lib/python3/dist-packages"
    (packages / "thing.py").write_text("x = 1\n")
    info = packages / "thing-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
    rows = ("thing.py,,6", "thing-1.dist-info/METADATA,,", "thing-1.dist-info/RECORD,,")
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    (image / "opt/venv/bin/python").symlink_to("/usr/bin/python3")
    (image / f"opt/venv/lib/{system.name}/site-packages").mkdir(parents=True)
    (image / "opt/venv/pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = true\nversion = {system.name[6:]}.2\n"
    )
    return image


def test_a_venv_inside_a_root_folder_is_seen_as_that_root_sees_it(image: Path, tmp_path: Path) -> None:
    before = {str(path): path.lstat().st_mtime_ns for path in image.rglob("*")}
    outcome = run_envdoctor("check", "--root", "image", "/opt/venv", folder=tmp_path)
    assert outcome == Outcome(code=0, out=INSIDE, err="")
    assert run_envdoctor("check", "--root", image, image / "opt/venv", folder=tmp_path) == outcome
    system = run_envdoctor("check", "--root", "image", "/usr", folder=tmp_path)
    assert system.out.splitlines()[3] == "[✓] Distributions       1 distribution, no lock to compare with"
    assert {str(path): path.lstat().st_mtime_ns for path in image.rglob("*")} == before


def test_what_a_function_imports_is_loaded_before_the_root_is_another() -> None:
    late: set[str] = set()
    for path in (path for room in inside_root._ROOMS for path in (PACKAGE / room).rglob("*.py")):
        functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
        for node in (node for function in functions for node in ast.walk(function)):
            if isinstance(node, ast.Import):
                late.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                late.add(node.module or "")
    outside = {name for name in late if not name.startswith("envdoctor")}
    assert outside - set(inside_root._LATE) == {"concurrent.futures", "pynvml"}


def test_no_command_for_a_root_folder_can_be_pasted_on_this_machine(image: Path, tmp_path: Path) -> None:
    info = next((image / "opt/venv/lib").glob("*/site-packages")) / "lost-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lost\nVersion: 1\n")
    (info / "RECORD").write_text("lost.py,,6\nlost-1.dist-info/METADATA,,\nlost-1.dist-info/RECORD,,\n")
    outcome = run_envdoctor("check", "--root", "image", "/opt/venv", "--json", folder=tmp_path)
    found = json.loads(outcome.out)["findings"]
    assert [item["code"] for item in found] == ["ED202"]
    assert [item["remediation"]["commands"] for item in found] == [[]]
    assert [item["remediation"]["by_hand"] for item in found] == [[]]
    text = found[0]["remediation"]["text"]
    assert ". To be run inside image, not on this machine: `" in text, text
    assert "--python /opt/venv/bin/python" in text, text


def test_a_root_folder_is_told_from_this_machine(image: Path, tmp_path: Path) -> None:
    refused = "is inside another root folder, [TMP]/image: its absolute paths mean files of that root"
    hint = "hint: check it as that root sees it: `envdoctor check --root [TMP]/image"
    for command, named in (("check", "opt/venv"), ("check", "usr"), ("why torch", "opt/venv"), ("repair", "opt/venv")):
        assert run_envdoctor(*command.split(), "--venv", image / named, folder=tmp_path) == Outcome(
            code=2, out="", err=f"error: [TMP]/image/{named} {refused}\n\n{hint} /{named}`\n"
        )
    assert run_envdoctor("check", "--root", "image", "/opt/none", folder=tmp_path) == Outcome(
        code=2,
        out="",
        err="error: /opt/none does not exist\n\n"
        "hint: name a venv folder or its interpreter: `envdoctor check path/to/.venv`\n",
    )
    assert run_envdoctor("check", "--root", "image", folder=tmp_path) == Outcome(
        code=2,
        out="",
        err="error: --root needs the environment's path inside it\n\n"
        "hint: `envdoctor check --root [TMP]/image /opt/venv`\n",
    )


def test_a_root_folder_without_libstdcxx_has_names_in_words(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    def work() -> dict[str, Any]:
        inside_root._enter(tmp_path / "empty")
        return {"name": demangle("_Z1fv"), "libraries": list(Path("/").iterdir())}

    inside_root._load_everything()
    assert inside_root._in_child(work) == {"name": "f()", "libraries": []}


def test_the_child_of_a_root_folder_never_returns_into_the_command(tmp_path: Path) -> None:
    def work() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(ProbeError, match=r"^the child that read the root folder gave no answer \(1\)$"):
        inside_root._in_child(work)
