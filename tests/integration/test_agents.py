"""`envdoctor mcp` with the SDK's own client over stdio: an agent finds the incident's cause, heals it, goes back."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envdoctor.report import schemas
from tests.factories.make_incident import CUDNN, Incident, make_broken_incident, sources_of
from tests.factories.make_venv import tree_state
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_behind, run_envdoctor

pytest.importorskip("mcp_types", reason="the MCP SDK is not installed")

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters

READING = {
    "check": "check",
    "why": "why",
    "impact_remove": "impact",
    "diff": "diff",
    "cache_status": "cache-status",
    "explain": "explain",
    "explain_error": "explain-text",
    "history": "history",
    "plan_restore": "restore",
    "plan_repair": "repair",
    "plan_rollback": "rollback",
    "plan_fix": "check-fix",
}
CHANGING = {"apply_restore": "restore", "apply_repair": "repair", "rollback": "rollback"}


@dataclass
class Agent:
    """A client with a server of its own."""

    client: Client
    portal: BlockingPortal
    folder: Path
    told: list[str] = field(default_factory=list)

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool; what is told meanwhile is kept. The SDK holds the answer to the tool's output schema."""

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            self.told.append(message or "")

        async def work() -> Any:
            return await self.client.call_tool(tool, arguments, progress_callback=tell)

        self.told.clear()
        result = self.portal.call(work)
        assert str(self.folder) not in f"{result.content[0].text}{json.dumps(result.structured_content)}{self.told}"
        return result

    def document(self, tool: str, /, **arguments: Any) -> Any:
        """Return the document that a tool answers with."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content[0].text
        return result.structured_content

    def refusal(self, tool: str, /, **arguments: Any) -> str:
        """Return what a tool says that answers with an error."""
        result = self.call(tool, **arguments)
        assert result.is_error
        return str(result.content[0].text)


@contextmanager
def agent_in(folder: Path, extra: dict[str, str]) -> Iterator[Agent]:
    """Start a server in a folder that is the user's home, so that every path in an answer is one to hide."""
    told = environment(folder, {**extra, "HOME": str(folder)})
    server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "mcp"], env=told, cwd=folder)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server)) as client,
    ):
        yield Agent(client=client, portal=portal, folder=folder)


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_broken_incident(tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="module")
def agent(incident: Incident) -> Iterator[Agent]:
    with agent_in(incident.root, sources_of(incident.root)) as made:
        yield made


def test_the_tools_say_what_they_take_what_they_answer_and_whether_they_only_read(agent: Agent) -> None:
    tools = {tool.name: tool for tool in agent.portal.call(agent.client.list_tools).tools}
    assert sorted(tools) == sorted([*READING, *CHANGING, "impact_install"])
    assert {name for name, tool in tools.items() if tool.annotations.read_only_hint} == set(READING)
    assert {name for name, tool in tools.items() if tool.annotations.destructive_hint} == set(CHANGING)
    for name, document in {**READING, **CHANGING, "impact_install": "impact"}.items():
        assert tools[name].output_schema == json.loads(schemas.read(document))
        assert tools[name].input_schema["additionalProperties"] is False
    assert {name for name, tool in tools.items() if "plan" in tool.input_schema["required"]} == set(CHANGING)


def test_an_agent_finds_the_cause_heals_it_and_goes_back(incident: Incident, agent: Agent) -> None:
    venv = incident.venv.prefix
    lost = venv / "lib" / incident.venv.site_packages.parent.name / "site-packages" / CUDNN
    found = agent.document("check")
    (cause,) = [finding for finding in found["findings"] if finding["caused_by"] is None]
    assert (cause["code"], found["summary"]["exit_code"], "stack" in found) == ("ED201", 1, False)
    assert agent.document("check", stack=True)["stack"]["distributions"]["torch"] == "2.11.0+cu128"
    assert agent.document("why", name="libcudnn.so.9")["library"]["state"] == "missing"
    assert agent.document("explain", code="ED201")["code"] == "ED201"
    said = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"
    assert "ED201" in json.dumps(agent.document("explain_error", text=said)["found"])
    assert agent.document("plan_fix")["steps"][0]["kind"] == "commands"

    before = tree_state(venv)
    planned = agent.document("plan_repair")
    assert (planned["status"], tree_state(venv)) == ("planned", before)

    # Something else is in the venv than when the plan was made: nothing is changed, and the new plan is there.
    later = incident.venv.site_packages / "later.py"
    later.write_text("")
    changed = tree_state(venv)
    stale = agent.call("apply_repair", plan=planned["digest"])
    shown = stale.structured_content
    assert (stale.is_error, shown["status"], tree_state(venv)) == (True, "planned", changed)
    assert shown["refused"] == stale.content[0].text.partition("\n")[0]
    assert shown["refused"] == (
        "nothing was changed: the files are not those that the plan was made on, though it is the same "
        f"(digest {planned['digest']}, now {shown['digest']})"
    )
    later.unlink()

    done = agent.document("apply_repair", plan=planned["digest"])
    assert (done["status"], done["digest"], lost.is_file()) == ("repaired", planned["digest"], True)
    assert "Swap     swapping the new venv in" in agent.told
    assert agent.document("check")["findings"] == []
    # A digest is of one state: what was carried out is not carried out again.
    assert agent.document("apply_repair", plan=planned["digest"])["status"] == "nothing to repair"

    (kept,) = agent.document("history")["generations"]
    back = agent.document("plan_rollback", number=kept["number"])
    refused = agent.refusal("rollback", plan=planned["digest"], number=kept["number"])
    assert refused.startswith("nothing was changed: the plan is not the one that was shown")
    assert lost.is_file()
    assert agent.document("rollback", plan=back["digest"], number=kept["number"])["status"] == "rolled back"
    assert not lost.exists()


def test_a_restore_is_of_the_lock_that_was_shown(incident: Incident, agent: Agent) -> None:
    lock = incident.root / "lockfiles/small.txt"
    planned = agent.document("plan_restore", profile="small")
    text = lock.read_text()
    lock.write_text(f"# another comment\n{text}")
    before = tree_state(incident.venv.prefix)
    assert agent.refusal("apply_restore", profile="small", plan=planned["digest"]).startswith("nothing was changed: ")
    assert tree_state(incident.venv.prefix) == before
    lock.write_text(text)
    done = agent.document(
        "apply_restore", profile="small", plan=agent.document("plan_restore", profile="small")["digest"]
    )
    assert (done["status"], agent.document("check", profile="small")["findings"]) == ("restored", [])
    assert agent.document("diff", a="small", b=".venv")["digests"] in ("equal", "unknown")
    assert agent.document("impact_remove", distributions=["torch"])["action"] == "remove"
    assert agent.document("impact_install", specs=["torch"])["distributions"] == []
    assert agent.document("cache_status")["state"] == "cold"


def test_what_does_not_fit_is_said(agent: Agent) -> None:
    assert agent.refusal("nosuch").startswith("there is no tool `nosuch`; there are check, why, ")
    assert agent.refusal("why") == "why: arguments: 'name' is a required property"
    assert agent.refusal("apply_repair") == "apply_repair: arguments: 'plan' is a required property"
    assert agent.refusal("check", deep="yes") == "check: deep: 'yes' is not of type 'boolean'"
    assert agent.refusal("check", fix=True) == (
        "check: arguments: Additional properties are not allowed ('fix' was unexpected)"
    )
    # Values are never read as options.
    assert agent.refusal("why", name="--help") == (
        "error: /home/user/.venv has no library, module or distribution called `--help`\n\n"
        "hint: name a soname (libcudnn.so.9), a module (torch._C), a path, or a distribution"
    )
    assert agent.refusal("check", venv="--version").startswith("error: ")
    assert "is not a requirement" in agent.refusal("impact_install", specs=["--index-url=x"])


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


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    assert run_behind("sys.modules['mcp'] = None", "mcp", folder=tmp_path) == Outcome(
        code=2,
        out="",
        err="error: an agent is served by the MCP SDK (mcp 2.3 or newer), which is not installed\n\n"
        "hint: install envdoctor with it: `uv tool install 'torch-envdoctor[mcp]'`\n",
    )


@pytest.mark.parametrize("command", ["repair", "rollback"])
@pytest.mark.parametrize("other", ["--yes", "--dry-run"])
def test_a_digest_beside_another_answer_is_refused(tmp_path: Path, command: str, other: str) -> None:
    assert run_envdoctor(command, "--plan", "x", other, folder=tmp_path) == Outcome(
        code=2,
        out="",
        err=f"error: --plan and {other} are given\n\nhint: give one of them: `--dry-run --json` shows a plan with its "
        "digest, `--plan DIGEST` carries it out\n",
    )
