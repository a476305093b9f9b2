"""What a call of a tool starts: this program, with no other code in front of it, and it ends when it is cancelled."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_own_libraries import LIBRARIES
from tests.factories.make_incident import Incident, make_incident
from tests.factories.make_profile import make_profile
from tests.factories.run_envdoctor import COMMAND, ROOT, environment

pytest.importorskip("mcp_types", reason="the MCP SDK is not installed")

import anyio

from envdoctor.agents.child import Start, run_command
from tests.factories.agent import agent_in


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_incident(tmp_path_factory.mktemp("agents"))


def test_the_configuration_of_the_page_works_and_no_call_runs_code_that_variables_name(
    incident: Incident, tmp_path: Path
) -> None:
    """Python runs sitecustomize when the server is started, before it can prevent that, and then no more."""
    page = (ROOT / "docs/agents.md").read_text()
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    configured = json.loads(block)["mcpServers"]["envdoctor"]["env"]
    told = {name: value.replace("/srv/trainer", str(incident.root)) for name, value in configured.items()}
    make_profile(incident.root, "good", incident.own, torch="2.11.0+cu128", cuda="12.8")
    folder, marks = tmp_path / "folder", tmp_path / "marks"
    (folder / "envdoctor").mkdir(parents=True)
    for name in ("sitecustomize.py", "envdoctor/__init__.py"):
        (folder / name).write_text(f"with open({str(marks)!r}, 'a') as file:\n    file.write('{name} ')\n")
    for name in LIBRARIES:
        (folder / name).write_bytes(b"not a library")
    told |= {"PYTHONPATH": str(folder), "LD_LIBRARY_PATH": str(folder)}
    with agent_in(incident.root, told, started_in=tmp_path) as agent:
        found = agent.document("check")
    assert (found["target"]["prefix"], found["profile"]) == ("/home/user/.venv", "good")
    assert marks.read_text() == "sitecustomize.py "
    # What is reported are the variables of the server, those too that its Python was started without.
    (area,) = [area["summary"] for area in found["areas"] if area["area"] == "Environment"]
    assert area == "LD_LIBRARY_PATH, PYTHONPATH set"


def test_a_command_that_is_cancelled_can_finish_what_it_writes(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "print('begun', file=sys.stderr, flush=True)\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "for stream in (sys.stdout, sys.stderr):\n    print('x' * 1_000_000, file=stream, flush=True)\n"
        "pathlib.Path(sys.argv[1]).write_text('finished')\n"
    )
    start = Start(words=(sys.executable, "-I", "-c", code), environ=os.environ)

    async def work() -> bool:
        with anyio.CancelScope() as scope:

            async def tell(line: str) -> None:
                assert line == "begun"
                scope.cancel()

            await run_command(start, [str(tmp_path / "done")], tell)
        return scope.cancelled_caught

    assert anyio.run(work)
    assert (tmp_path / "done").read_text() == "finished"


def test_a_call_that_is_cancelled_ends_its_command_and_no_other(incident: Incident, tmp_path: Path) -> None:
    """The index takes connections and never answers, so that a plan waits until it is cancelled or the server stopped.

    Spoken by hand: every line on stdout has to be the protocol's.
    """
    plan = {"name": "plan_restore", "arguments": {"profile": "small", "force": True}}
    with socket.create_server(("127.0.0.1", 0)) as index, ExitStack() as asked:
        port = str(index.getsockname()[1])
        silent = {"PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple", "PIP_CONFIG_FILE": os.devnull}
        told = environment(incident.root, {**silent, "UV_CACHE_DIR": str(tmp_path / "cache")})
        command = [*COMMAND, "mcp", "--no-redact", "-v"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, cwd=incident.root, env=told, text=True, **pipes) as server:

            def ask(number: int, method: str, parameters: dict[str, Any]) -> None:
                request = {"jsonrpc": "2.0", "method": method, "params": parameters}
                server.stdin.write(json.dumps(request | ({"id": number} if number else {})) + "\n")
                server.stdin.flush()

            who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}}
            ask(1, "initialize", who)
            assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "envdoctor"
            ask(0, "notifications/initialized", {})
            ask(2, "tools/call", plan)
            asked.enter_context(index.accept()[0])
            ask(3, "tools/call", {"name": "check", "arguments": {}})
            answer = json.loads(server.stdout.readline())
            assert answer["result"]["structuredContent"]["target"]["prefix"] == str(incident.venv.prefix)
            ask(0, "notifications/cancelled", {"requestId": 2})
            _wait_until_gone(port)
            ask(4, "tools/call", plan)
            asked.enter_context(index.accept()[0])
            server.send_signal(signal.SIGTERM)
            out, err = server.communicate()
        # The answer to a call that was cancelled may come or not; nothing else does.
        assert [json.loads(line)["id"] for line in out.splitlines()] in ([], [2], [2, 4], [4])
        assert (answer["id"], server.returncode, err) == (3, 130, "")
        assert not _planning(port)


def _wait_until_gone(mark: str) -> None:
    while _planning(mark):
        time.sleep(0.05)


def _planning(mark: str) -> bool:
    """Tell whether a command is still there that plans a restore with that index."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words, told = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if b"--dry-run" in words and mark.encode() in told:
            return True
    return False
