"""What examines a venv runs nothing of it and reads nothing outside of it that a RECORD names."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.cli.app import COMMANDS
from tests.factories.audited import Audit, audited
from tests.factories.make_profile import make_profile
from tests.factories.make_venv import Venv, make_venv, rewrite, tree_state
from tests.factories.make_wheel import make_wheel, record_hash
from tests.factories.run_envdoctor import run_envdoctor

# What runs uv, the interpreter of a copy, the launch itself, or changes something that was shown first.
RUN_CODE = {
    "restore",
    "repair",
    "rollback",
    "prune",
    "run",
    "lock",
    "capture",
    "fetch",
    "impact install",
    "cache",
    "profile",
    "bisect",
    "try",
    # Each tool is one of the other commands: tests/integration/test_agents.py.
    "mcp",
}


@pytest.fixture
def trapped(tmp_path: Path) -> tuple[Venv, Path]:
    """Make a venv in which everything that could be run or imported writes its name into a folder."""
    sprung = tmp_path / "sprung"
    sprung.mkdir()

    def trap(name: str) -> str:
        return f"open({str(sprung / name)!r}, 'w').close()\n"

    version = "__version__ = '2.10.0+cpu'\ncuda = None\nhip = None\ngit_version = 'abc'\n"
    files = {
        "torch/__init__.py": trap("torch"),
        "torch/version.py": trap("version") + version,
        "torch/fx/_symbolic_trace.py": trap("tracer") + "_is_fx_tracing_flag = False\n",
        "thing/__init__.py": trap("thing"),
        "thing/setup.py": trap("setup"),
    }
    wheels = [
        make_wheel(
            tmp_path / "wheels", "torch", "2.10.0", files={k: v for k, v in files.items() if k.startswith("torch")}
        ),
        make_wheel(
            tmp_path / "wheels",
            "thing",
            "1.0",
            files={k: v for k, v in files.items() if k.startswith("thing")},
            scripts={"thing": "thing:main"},
        ),
    ]
    venv = make_venv(tmp_path / "venv", *wheels)
    make_profile(tmp_path, "small", wheels, torch="2.10.0+cpu", cuda="")
    site = venv.site_packages
    for name in ("sitecustomize.py", "usercustomize.py", "json.py", "packaging.py", "rich.py", "envdoctor.py"):
        (site / name).write_text(trap(name))
    (site / "trap.pth").write_text(f"import sys; exec({trap('pth')!r})\n")
    for name in ("python", "python3", "python3.11", "thing", "torchrun", "uv", "nvidia-smi", "ldconfig", "sh"):
        at = venv.prefix / "bin" / name
        at.unlink(missing_ok=True)
        at.write_text(f"#!/bin/sh\n: > {sprung / name}\n")
        at.chmod(0o755)
    return venv, sprung


def _environment(venv: Venv) -> dict[str, str]:
    # As in an activated venv: whatever envdoctor looked up by its bare name would be the venv's.
    return {"PATH": f"{venv.prefix / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(venv.prefix)}


EXAMINE = {
    "check": ["check"],
    "check --deep": ["check", "--deep"],
    "check with a profile": ["check", "-p", "small"],
    "check --json": ["check", "--json", "--deep"],
    "check by interpreter": ["check", "venv/bin/python"],
    "fingerprint": ["fingerprint"],
    "fingerprint --deep": ["fingerprint", "--deep", "-p", "small"],
    "why a distribution": ["why", "thing"],
    "why a module": ["why", "torch.version"],
    "why a path": ["why", "torch/__init__.py"],
    "why nothing": ["why", "libcudnn.so.9"],
    "impact remove": ["impact", "remove", "torch"],
    "sbom": ["sbom"],
    "explain": ["explain", "ED207"],
    "checks": ["checks"],
    "profiles": ["profiles"],
    "diff": ["diff", "venv", "small"],
    "diff with itself": ["diff", "venv", "venv"],
    "watch-stack": ["watch-stack", "--once"],
    "history": ["history"],
    "config": ["config"],
    "schema": ["schema", "check"],
    "fleet": ["fleet", "check", "--files", "absent.json"],
    "gate": ["gate", "--help"],
    "help": ["--help"],
}


def test_every_command_is_known_to_examine_or_to_run_code() -> None:
    examining = {words[0] for words in EXAMINE.values()} | {"impact"}
    assert sorted(COMMANDS) == sorted((examining | {name.split()[0] for name in RUN_CODE}) - {"--help"})


@pytest.mark.parametrize("words", EXAMINE.values(), ids=EXAMINE)
def test_nothing_of_the_venv_is_run(trapped: tuple[Venv, Path], words: list[str]) -> None:
    venv, sprung = trapped
    before = tree_state(venv.prefix)
    seen = audited(*words, folder=venv.prefix.parent, extra=_environment(venv))
    assert seen.code in (0, 1, 2, 3), seen.err
    assert "Traceback" not in seen.err
    assert sorted(path.name for path in sprung.iterdir()) == []
    assert tree_state(venv.prefix) == before
    # A fork that looks at files is envdoctor itself; what it would start is seen as what this process starts.
    assert seen.of("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system") == []
    assert [
        arguments for arguments in seen.of("import", "ctypes.dlopen", "exec") if str(venv.prefix) in str(arguments)
    ] == []
    assert _written(seen, venv) == []


def _written(seen: Audit, venv: Venv) -> list[tuple[str, tuple[object, ...]]]:
    """Return what was opened for writing, made, moved or removed in the venv."""
    changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    return [
        (event, arguments)
        for event, arguments in seen.touching(venv.prefix)
        if event not in ("open", "os.listdir", "os.scandir", "import", "mmap.__new__")
        or (event == "open" and isinstance(arguments[2], int) and arguments[2] & changing)
    ]


def test_the_traps_work(trapped: tuple[Venv, Path]) -> None:
    venv, sprung = trapped
    python = os.path.realpath(sys.executable)
    subprocess.run([python, "-c", "import torch"], env={"PYTHONPATH": str(venv.site_packages)}, check=True)
    subprocess.run([venv.python, "-V"], check=True)
    assert {"sitecustomize.py", "torch", "python"} <= {path.name for path in sprung.iterdir()}


ROWS = {
    "absolute": "{outside}/secret.txt",
    "climbing": "../../../../outside/secret.txt",
    "climbing from within": "thing/../../../../../outside/secret.txt",
    "behind a folder that is a link": "linked/secret.txt",
    "behind a link to a link": "twice/secret.txt",
    "behind a link in a package": "thing/inner/secret.txt",
    "behind a link with a relative target": "relative/secret.txt",
    "through a link and back up": "linked/../outside/secret.txt",
    "deep behind a link": "linked/deeper/secret.txt",
}


@pytest.fixture
def escaping(tmp_path: Path) -> tuple[Venv, Path]:
    """Make a venv whose RECORD lists the same secret outside of it in every way there is."""
    outside = tmp_path / "outside"
    (outside / "deeper").mkdir(parents=True)
    for path in ("secret.txt", "deeper/secret.txt"):
        (outside / path).write_text("secret")
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing/__init__.py": "x = 1\n"})
    venv = make_venv(tmp_path / "venv", wheel)
    site = venv.site_packages
    (site / "linked").symlink_to(outside)
    (site / "twice").symlink_to("linked")
    (site / "thing/inner").symlink_to(outside)
    (site / "relative").symlink_to("../../../../outside")
    (site / "file.txt").symlink_to(outside / "secret.txt")
    record = venv.dist_info("thing") / "RECORD"
    stated = record_hash(b"another")
    rows = "".join(f"{row.format(outside=outside)},{stated},6\n" for row in ROWS.values())
    rewrite(record, record.read_text() + rows + f"file.txt,{stated},6\n")
    return venv, outside


@pytest.mark.parametrize(
    "words",
    [
        ["check", "--json"],
        ["check", "--deep", "--json"],
        ["fingerprint", "--deep"],
        ["impact", "remove", "thing"],
        ["why", "thing"],
    ],
    ids=" ".join,
)
def test_rows_that_lead_out_are_never_read(escaping: tuple[Venv, Path], words: list[str]) -> None:
    venv, outside = escaping
    before = tree_state(outside)
    seen = audited(*words, folder=venv.prefix.parent, extra={"VIRTUAL_ENV": str(venv.prefix)})
    assert seen.code in (0, 1), seen.err
    assert seen.touching(outside) == []
    aliases = [venv.site_packages / name for name in ("linked", "twice", "thing/inner", "relative")]
    assert seen.touching(*aliases) == []
    # The one file that is a link itself is refused by open(2), not read: O_NOFOLLOW.
    opened = [arguments for _, arguments in seen.touching(venv.site_packages / "file.txt")]
    assert all(isinstance(flags, int) and flags & os.O_NOFOLLOW for _, _, flags in opened)
    assert tree_state(outside) == before


def test_rows_that_lead_out_are_all_reported(escaping: tuple[Venv, Path]) -> None:
    venv, outside = escaping
    outcome = run_envdoctor("fingerprint", "--deep", venv.prefix, folder=venv.prefix.parent)
    sections = json.loads(outcome.out.replace("[TMP]", str(venv.prefix.parent)))["sections"]
    told = sorted(path for _, path in sections["InstalledFiles"]["outside"])
    assert told == sorted(row.format(outside=outside) for row in ROWS.values() if "back up" not in row)
    (unverified,) = sections["DeepFiles"]["unverified"]
    assert unverified["reason"] == f"a link out of the environment, to {outside / 'secret.txt'}; not followed"
    assert sections["DeepFiles"]["altered"] == []


def test_a_fifo_or_device_behind_a_row_is_not_waited_for(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing/__init__.py": "x = 1\n"})
    venv = make_venv(tmp_path / "venv", wheel)
    record = venv.dist_info("thing") / "RECORD"
    os.mkfifo(venv.site_packages / "pipe")
    (venv.site_packages / "zero").symlink_to("/dev/zero")
    rewrite(record, record.read_text() + f"pipe,{record_hash(b'x')},0\nzero,{record_hash(b'x')},0\n")
    seen = audited("check", "--deep", venv.prefix, folder=tmp_path)
    assert [
        arguments for arguments in seen.of("open") if str(arguments[0]).endswith(("/pipe", "/zero", "/dev/zero"))
    ] == []
    assert stat.S_ISFIFO((venv.site_packages / "pipe").stat().st_mode)
    assert "ED202" in seen.out
