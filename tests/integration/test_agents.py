"""`envdoctor mcp` with the SDK's own client over stdio: an agent finds the incident's cause, heals it, goes back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from envdoctor.analysis.symptoms import SUBJECTS
from envdoctor.report import schemas
from tests.factories.make_incident import CUDNN, Incident, make_broken_incident, sources_of
from tests.factories.make_venv import make_venv, tree_state
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import Outcome, run_behind, run_envdoctor

pytest.importorskip("mcp_types", reason="the MCP SDK is not installed")

from jsonschema import Draft202012Validator

from envdoctor.agents.tools import TOOLS
from tests.factories.agent import Agent, agent_in

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


def test_a_change_that_did_not_come_about_is_an_error(incident: Incident, agent: Agent) -> None:
    needy = make_wheel(incident.root / "wheels", "needy", "1", requires=["absent>=1"])
    venv = make_venv(incident.root / "needy", needy)
    before = tree_state(venv.prefix)
    result = agent.call("apply_repair", plan="any", venv=str(venv.prefix))
    document = result.structured_content
    assert (result.is_error, document["status"], len(document["remaining"])) == (True, "not repaired", 1)
    assert result.content[0].text.partition("\n")[0] == "not repaired"
    assert tree_state(venv.prefix) == before


def test_an_error_text_may_be_one_word_or_a_whole_traceback(agent: Agent) -> None:
    known = [text for group in SUBJECTS.values() for symptom in group for text in (symptom.text, *symptom.anchors)]
    fits = Draft202012Validator(TOOLS["explain_error"].input_schema)
    assert [text for text in known if not fits.is_valid({"text": text})] == []
    for text in ("ncclSystemError", 'File "train.py", line 1\n' * 2000 + "ncclSystemError"):
        (found,) = agent.document("explain_error", text=text)["found"]
        assert "ncclSystemError" in found["text"]
    for check in ("ED201", " files-removed-by-uninstall\n"):
        assert agent.refusal("explain_error", text=check) == (
            "explain_error: text: not what is wanted: An error text as it was printed, from one word of it "
            "(`ncclSystemError`) to a whole traceback. A check's code or name is for explain."
        )
    assert agent.refusal("explain", code="it is slow") == (
        "explain: code: not what is wanted: A check's code (ED201) or name. An error text is for explain_error."
    )
    assert agent.refusal("why", name="a\0") == "why: name: it has a NUL character"
    assert agent.refusal("explain_error", text="x" * 65_537) == (
        "explain_error: text: 65,537 characters, and 65,536 are the most"
    )
    # Below that, the system may refuse: it counts bytes.
    assert agent.refusal("explain_error", text="\N{DESERT}" * 65_536) == (
        "error: envdoctor cannot be started: Argument list too long"
    )


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


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    assert run_behind("sys.modules['mcp'] = None", "mcp", folder=tmp_path) == Outcome(
        code=2,
        out="",
        err="error: an agent is served by the MCP SDK (mcp 2.3 or newer), which is not installed\n\n"
        "hint: install envdoctor with it, from its checkout: `uv tool install '.[mcp]'`\n",
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
