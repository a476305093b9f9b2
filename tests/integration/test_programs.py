"""Which programs each command starts, by strace: the exact set, for every command that there is.

The venv is active, and every name that one of ours could be taken for waits in its bin, in its site-packages and in the
current folder, and leaves a mark when it is run or imported.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv

from envdoctor.cli.app import COMMANDS
from envdoctor.cli.commands import cache, fleet, gate, impact, profile
from tests.factories.make_cache import filled
from tests.factories.make_driver import FakeGpu, make_driver
from tests.factories.make_incident import make_incident, sources_of
from tests.factories.run_envdoctor import environment, run_envdoctor
from tests.integration.test_isolation import TRAPS

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
VENV = ("--venv", ".venv")
SMALL = ("-p", "small", *VENV)
OWN, UV, NEW, ITS, FOUND = "python", "uv", "python of the copy", "python of the venv", "ld.so"
"""envdoctor's Python or its base's; uv; the interpreter of a copy that is made; the venv's own; what uv asks which libc
there is."""
STARTED: tuple[tuple[tuple[str, ...], set[str]], ...] = (
    (("check", "-p", "small", ".venv"), {OWN}),
    (("check", "--deep", ".venv"), {OWN}),
    (("check", "--write-baseline", "baseline.json", ".venv"), {OWN}),
    (("check", "--baseline", "baseline.json", ".venv"), {OWN}),
    (("check", "--fingerprint", "facts.json"), {OWN}),
    (("check", "--lock", "requirements.txt", ".venv"), {OWN}),
    (("check", "--fix", "-y", "broken"), {OWN, UV, NEW}),
    (("why", "torch", *VENV), {OWN}),
    (("impact", "remove", "torch", *VENV), {OWN}),
    (("impact", "install", "--offline", "nvidia-cudnn-cu13", "--venv", "whole"), {OWN, UV, NEW}),
    (("diff", ".venv", "small"), {OWN}),
    (("diff", "facts.json", "second"), {OWN}),
    (("watch-stack", ".venv"), {OWN}),
    (("watch-stack", "--once", "--good", ".venv"), {OWN}),
    (("diff", "--last-good"), {OWN}),
    (("fingerprint", ".venv"), {OWN}),
    (("sbom", *VENV), {OWN}),
    (("explain", "libcudnn.so.9: cannot open shared object file"), {OWN}),
    (("checks",), {OWN}),
    (("schema", "check"), {OWN}),
    (("config",), {OWN}),
    (("profiles",), {OWN}),
    (("restore", "--dry-run", "--offline", *SMALL), {OWN, UV}),
    (("restore", "--offline", "--force", "-y", *SMALL), {OWN, UV, NEW}),
    (("history", *VENV), {OWN}),
    (("rollback", "-y", *VENV), {OWN}),
    (("prune", "--keep", "0", "-y", *VENV), {OWN}),
    (("bisect", "--offline", "whole", "second", "--", "python", "-E", "-c", "import torch.version"), {OWN, NEW}),
    (("repair", "--dry-run", "--offline", "-p", "small", "--venv", "second"), {OWN}),
    (("repair", "--offline", "-y", "-p", "small", "--venv", "second"), {OWN, UV, NEW}),
    (("run", "--gate", "warn", "--reason", "r", *SMALL, "--", "true"), {OWN, "true"}),
    (("gate", "write", "--force", "envdoctor_gate.py"), {OWN}),
    (("gate", "add", "-p", "small"), {OWN}),
    (("fleet", "check", "--files", "facts.json", "facts2.json"), {OWN}),
    (("fleet", "check", "--kubernetes", "--node-count", "2", "--image", "i"), {OWN}),
    (("fleet", "check", "--hosts", "hosts.txt"), {OWN, "ssh"}),
    (("fleet", "restore", "--dry-run", "--hosts", "hosts.txt", "-p", "small"), {OWN, "ssh"}),
    (("fleet", "rollback", "--dry-run", "--hosts", "hosts.txt"), {OWN}),
    (("fleet", "repair", "--dry-run", "--hosts", "hosts.txt", "-p", "small"), {OWN, "ssh"}),
    (("profile", "new", "other", "--from", "requirements.txt", "-y"), {OWN, UV, FOUND}),
    (("capture", "made", "--offline", "--venv", "whole"), {OWN, UV, "git"}),
    (("fetch", "-p", "small", "--wheelhouse", "fetched"), {OWN, UV}),
    (("lock", "direct.txt", "-o", "locked.txt"), {OWN, UV, FOUND}),
    (("try", "--discard", *VENV, "--", "true"), {OWN, "true"}),
    (("cache", "status", *VENV), {OWN}),
    (("cache", "save", "kept", *VENV), {OWN}),
    (("cache", "list"), {OWN}),
    (("fleet", "cache", "push", "kept", "--dry-run", "--hosts", "hosts.txt"), {OWN, "ssh"}),
    (("cache", "restore", "kept", *VENV), {OWN}),
    (("cache", "warm", *SMALL), {OWN, ITS}),
    (("cache", "gc", "--damaged", "-y", *VENV), {OWN}),
    (("cache", "undo"), {OWN}),
    (("cache", "export", "exported.bin"), {OWN}),
    (("cache", "import", "exported.bin"), {OWN}),
)
SERVED = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "check", "arguments": {"venv": ".venv"}}},
)
GROUPS = {"cache": cache, "fleet": fleet, "gate": gate, "impact": impact, "profile": profile}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trapped:
    """A project with an active venv, both full of names that are ours."""

    root: Path
    marks: Path
    environ: dict[str, str]

    def command(self, *words: str) -> list[str]:
        """Return a command line under strace."""
        strace = (shutil.which("strace") or "", "-f", "-qq", "-s", "9999", "-e", "trace=execve,execveat")
        return [*strace, "-o", str(self.log), sys.executable, str(Path(sys.executable).parent / "envdoctor"), *words]

    @property
    def log(self) -> Path:
        """What strace wrote."""
        return self.root.parent / "strace.log"

    def started(self) -> set[str]:
        """Return the programs of the last command."""
        found = re.findall(r'execve\("([^"]*)".* = 0$', self.log.read_text(errors="replace"), re.MULTILINE)
        return {self._called(program) for program in found}

    def _called(self, program: str) -> str:
        venv = f"{self.root}/.venv/"
        if program.startswith(venv):
            return ITS if Path(program).name.startswith("python") else program.replace(venv, "venv:")
        if program.startswith(f"{self.root}/"):
            inside = program.removeprefix(f"{self.root}/")
            return NEW if re.fullmatch(r"\.envdoctor/.+/bin/python[\d.]*", inside) else f"root:{inside}"
        if program == uv.find_uv_bin():
            return UV
        if program == sys.executable or os.path.realpath(program) == os.path.realpath(sys.executable):
            return OWN
        return FOUND if Path(program).name.startswith("ld-") else Path(program).name


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory) -> Trapped:
    root = tmp_path_factory.mktemp("programs") / "project"
    root.mkdir()
    incident = make_incident(root)
    marks = root.parent / "marks"
    marks.mkdir()
    driver = make_driver(root.parent, gpus=(FakeGpu(uuid="GPU-aaaa"),))
    base = Path(os.path.realpath(sys.executable)).parent
    environ = environment(root.parent, sources_of(root)) | {
        "TORCHINDUCTOR_CACHE_DIR": str(root / "inductor"),
        "ENVDOCTOR_CACHE_STORE": str(root / "snapshots"),
    }
    (root / "requirements.txt").write_text((root / "lockfiles/small.txt").read_text())
    (root / "direct.txt").write_text("torch\n")
    (root / "hosts.txt").write_text("nowhere.invalid /srv/venv\n")
    subprocess.run(["git", "init", "-q", root], check=True)
    filled(root / "inductor")
    for words in (
        *(
            ("restore", "--offline", "--force", "-y", "-p", "small", "--venv", name)
            for name in ("whole", "second", "broken")
        ),
        ("fingerprint", ".venv", "-o", "facts.json"),
        ("fingerprint", "second", "-o", "facts2.json"),
    ):
        done = run_envdoctor(*words, folder=root, extra=environ)
        assert done.code == 0, done.err
    for name in ("second", "broken"):
        next((root / name).glob("lib/python3*/site-packages/torch/version.py")).unlink()
    for folder in (incident.venv.site_packages, root):
        for name in TRAPS:
            mark = marks / f"{folder.name}-{name}"
            (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\nraise ImportError('not yours')\n")
    for folder in (incident.venv.prefix / "bin", root):
        for name in ("gcc", "git", "uv", "nvidia-smi", "ssh", "ssh-keygen", "rm", "mv", "sh", "python3.12", "poetry"):
            (folder / name).write_text(f"#!/bin/sh\n: > {marks}/{folder.name}-{name}\n")
            (folder / name).chmod(0o755)
    environ |= {
        "PATH": f"{incident.venv.prefix}/bin:.:{base}:/usr/bin:/bin",
        "VIRTUAL_ENV": str(incident.venv.prefix),
        "PYTHONPATH": str(incident.venv.site_packages),
        "LD_LIBRARY_PATH": str(driver.libraries),
    }
    return Trapped(root=root, marks=marks, environ=environ)


def test_each_command_starts_these_programs_and_no_other(trapped: Trapped) -> None:
    said = {}
    for words, _ in STARTED:
        done = subprocess.run(
            trapped.command(*words),
            cwd=trapped.root,
            env=trapped.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        # Each did its work; 3: ssh finds no such host, and there is nothing that says whether the cache will hit.
        # No fleet was changed here, so that a rollback ends before it reaches a node, which it would as a restore does.
        ends = {2} if words[:2] == ("fleet", "rollback") else {0, 1, 3, 4}
        assert done.returncode in ends, (words, done.stderr)
        said[words] = (trapped.started(), sorted(mark.name for mark in trapped.marks.iterdir()))
        for mark in trapped.marks.iterdir():
            mark.unlink()
    # What an earlier command was told is remembered for a moment, so one may go without uv.
    more = {words: (said[words][0] - programs, said[words][1]) for words, programs in STARTED}
    assert {words: told for words, told in more.items() if told != (set(), [])} == {}
    assert all(OWN in programs for programs, _ in said.values())
    assert set().union(*(programs for programs, _ in said.values())) >= {OWN, UV, NEW, ITS, "git", "ssh", "true"}


def test_the_server_of_agents_starts_itself_alone(trapped: Trapped) -> None:
    pytest.importorskip("mcp")
    with subprocess.Popen(
        trapped.command("mcp"),
        cwd=trapped.root,
        env=trapped.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in SERVED:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
        answer = next(found for line in server.stdout if (found := json.loads(line)).get("id") == SERVED[-1]["id"])
        server.stdin.close()
    assert not answer["result"].get("isError"), answer
    assert (trapped.started(), list(trapped.marks.iterdir())) == ({OWN}, [])


def test_no_command_is_left_out() -> None:
    there = {(name,) for name in COMMANDS if name not in GROUPS}
    there |= {(name, inner) for name, module in GROUPS.items() for inner in module.SUBCOMMANDS}
    covered = {words[: 2 if words[0] in GROUPS else 1] for words, _ in STARTED}
    assert there - covered == {("mcp",)}, "each command has a row, `mcp` a test"
