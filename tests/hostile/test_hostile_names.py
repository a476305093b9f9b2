"""Names of files that are made to move a terminal, to forge a line, to be run, or to be read in no encoding."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.factories.answered import COMMANDS, answered
from tests.factories.make_cache import write
from tests.factories.make_incident import Incident

# What no name of a file may do to a terminal or to a report: move it, turn it, or begin a line of its own.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e"
LINE = "\nforged   exit 0"
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|(?m:^forged)")


@pytest.mark.parametrize("evil", [EVIL, LINE], ids=["escapes", "lines"])
def test_no_name_moves_the_terminal_or_writes_a_line(project: Incident, evil: str) -> None:
    site, root = project.venv.site_packages, project.root
    info = site / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: evil\nVersion: 1.0{evil}\nRequires-Dist: a{evil}>=1\n")
    (info / "RECORD").write_text(f'"evil/{evil}.py",sha256=x,1\n"evil/a{evil}b.so",,\n')
    (info / "direct_url.json").write_text(
        json.dumps({"url": f"https://h/{evil}", "vcs_info": {"vcs": "git", "commit_id": evil}})
    )
    (info / "entry_points.txt").write_text(f"[console_scripts]\n{evil} = a:b\n")
    (site / f"{evil}.pth").write_text(f"import os; {evil}\n/no{evil}\n")
    (site / f"x{evil}.dist-info").mkdir()
    script = project.venv.prefix / f"bin/s{evil}"
    script.write_text(f"#!/no/{evil}/python\n")
    script.chmod(0o755)
    kept = root / "cache/.envdoctor/made.json"
    document = json.loads(kept.read_text())
    document["key"] = [{**part, "value": f"{part['value']}{evil}"} for part in document["key"]]
    kept.write_text(json.dumps(document))
    write(root / f"cache/ab/{evil}.so", b"")
    (root / "profiles" / f"{evil}.toml").write_text("schema = 1\n")
    profile = root / "profiles/small.toml"
    profile.write_text(profile.read_text().replace('"for a test"', json.dumps(f"x{evil}")))
    found = RAW.search(answered(project, *(command for command in COMMANDS if command[0] != "sbom")))
    assert found is None, found.string[found.start() - 200 : found.end() + 50]


MARKUP = "<script>alert(1)</script>\n::error::forged\n]]>"


@pytest.mark.parametrize("form", ["html", "markdown", "sarif", "junit", "github", "json"])
def test_no_name_is_markup(project: Incident, form: str) -> None:
    site = project.venv.site_packages
    (site / f"{MARKUP.replace('/', '')}.pth").write_text(f"import os; {MARKUP}\n")
    info = site / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {MARKUP}\nVersion: 1.0{MARKUP}\n")
    (info / "RECORD").write_text(f'"evil/{MARKUP}.py",sha256=x,1\n')
    said = answered(project, ("check", "--format", form, ".venv"))
    assert re.search(r"(?m)^::error::forged", said) is None
    if form in ("html", "junit"):
        assert "<script>" not in said
        assert "alert(1)" in said
    if form == "junit":
        ET.fromstring(said[said.index("<") :])
    elif form in ("sarif", "json"):
        json.loads(said)


LOCALES = (
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
)


@pytest.mark.parametrize("locale", LOCALES, ids=["ascii names", "ascii terminal"])
def test_names_in_no_encoding(project: Incident, locale: dict[str, str]) -> None:
    odd, site = os.fsdecode(b"\xff\xfe\xed\xa0\x80"), project.venv.site_packages
    info = site / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_bytes(b"Name: evil\nVersion: 1.0\nSummary: \xff\xfe\n")
    (info / "RECORD").write_bytes(b"evil/\xff\xfe.py,,\nevil/\xc3\xa9.py,,\n")
    (site / odd).mkdir()
    (site / f"{odd}.pth").write_text("/x\n")
    script = project.venv.prefix / "bin" / odd
    script.write_bytes(b"#!/\xff\xfe\xc3\xa9/python\n")
    script.chmod(0o755)
    write(project.root / f"cache/ab/{odd}.so", b"")
    answered(project, **locale)
    # The venv itself has such a name.
    (project.root / ".venv").rename(project.root / odd)
    answered(project, ("check", "--json", odd), ("sbom", "--venv", odd), ("why", "torch", "--venv", odd), **locale)


def _loops(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, goal in (("again", "."), ("up", ".."), ("root", "/"), ("self", "self"), ("proc", "/proc/self/root")):
        (folder / name).symlink_to(goal)


def _depth(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Longer than a path can be, and as deep as makes a walk by calls fail.
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.mark.parametrize("make", [_loops, _depth], ids=["loops", "depth"])
def test_loops_and_depths(project: Incident, make: Callable[[Path], None]) -> None:
    site, root = project.venv.site_packages, project.root
    try:
        for folder in (site / "torch", site, project.venv.prefix / "bin", root / "cache", root / "home/.cache/x"):
            make(folder)
        answered(project)
    finally:
        subprocess.run(["rm", "-rf", *root.iterdir()], check=True)  # pytest's own removal cannot


def test_a_sparse_file_of_terabytes(project: Incident) -> None:
    for name in ("torch/lib/libtorch_python.so", "huge.so"):
        path = project.venv.site_packages / name
        write(path, b"\x7fELF\2\1\1")
        os.truncate(path, 1 << 42)
    said = answered(project, ("check", ".venv"), ("sbom", "--venv", ".venv"), ("capture", "x", "--venv", ".venv"))
    assert "not hashed, it has 4398046511104 bytes" in said


def test_what_is_printed_to_paste_is_quoted(project: Incident, tmp_path: Path) -> None:
    site = project.venv.site_packages
    for name in (
        "$(touch ran).pth",
        "`touch ran`.pth",
        "a;touch ran.pth",
        "-rf.pth",
        "a\ntouch ran\n.pth",
        "' touch ran '.pth",
    ):
        (site / name).write_text("import os\n/no\n")
    (site / "easy-install.pth").write_text("./evil-1.0-py3.11.egg\n/dev/zero\n")
    (site / "evil-1.0-py3.11.egg").write_bytes(b"PK\5\6" + bytes(18))
    for name in ("$(touch ran)-1.0.dist-info", "a;touch ran-1.dist-info", "--target=x-1.dist-info"):
        (site / name).mkdir()
        (site / name / "METADATA").write_text(f"Name: {name}\nVersion: 1;$(touch ran)\n")
        (site / name / "RECORD").write_text("$(touch ran)/a.py,,\n")
    (document,) = [json.loads(answered(project, ("check", "--json", ".venv")))]
    commands = [command for found in document["findings"] for command in found["remediation"]["commands"]]
    assert any("touch ran" in command for command in commands)
    # Each word of each command is one word for the shell, whatever it holds: nothing runs but `printf`.
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", f"printf '%s\\n' {command}"], cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode in (0, 1, 2)
    assert not (tmp_path / "ran").exists()
