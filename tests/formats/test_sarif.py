"""SARIF: held to the committee's schema, and read by the tool that people read it with."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sarif import loader

from envdoctor.report.formats import sarif
from tests.factories.run_envdoctor import ROOT, run_envdoctor
from tests.formats.make_outline import HOSTILE, make_outline
from tests.formats.scene import COMMANDS, Scene

SCHEMA = json.loads((ROOT / "tests/vendor/sarif-2.1.0-rtm.5.json").read_text())


def valid(text: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(text)
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    return log


@pytest.mark.parametrize("command", COMMANDS)
def test_every_log_is_valid_and_read_by_a_consumer(scene: Scene, command: str, tmp_path: Path) -> None:
    file = tmp_path / "log.sarif"
    done = run_envdoctor(*COMMANDS[command], "--format", "sarif", "-o", file, folder=scene.root)
    assert (done.out, done.err) == ("", "")
    log = valid(file.read_text())
    run = log["runs"][0]
    assert run["invocations"][0]["exitCode"] == done.code
    read = loader.load_sarif_file(str(file))
    assert [(record["Severity"], record["Code"]) for record in read.get_records()] == [
        (result["level"], result["ruleId"]) for result in run["results"]
    ]


def test_locations_are_lines_of_the_lock_and_the_profile(scene: Scene) -> None:
    log = valid(run_envdoctor(*COMMANDS["check"], "--format", "sarif", folder=scene.root).out)
    found = {}
    for result in log["runs"][0]["results"]:
        physical = result["locations"][0]["physicalLocation"]
        at = physical["artifactLocation"]
        found[result["ruleId"], result["properties"]["subject"]] = (
            at["uri"],
            at.get("uriBaseId"),
            physical.get("region", {}).get("startLine"),
        )
    pin = scene.line_of("lockfiles/small.txt", "nvidia-cudnn-cu12==")
    assert found == {
        ("ED201", "nvidia-cudnn-cu12"): ("lockfiles/small.txt", "%SRCROOT%", pin),
        ("ED403", "stranger"): ("file://[TMP]/.venv/", None, None),
        ("ED404", "torch"): ("profiles/small.toml", "%SRCROOT%", scene.line_of("profiles/small.toml", "version =")),
    }


def test_levels_rules_suppressions_and_gaps() -> None:
    run = valid(sarif.render(make_outline()))["runs"][0]
    assert [(item["ruleId"], item["level"], item.get("suppressions")) for item in run["results"]] == [
        ("ED201", "error", None),
        ("ED301", "error", None),
        ("ED403", "note", None),
        ("ED403", "note", [{"kind": "external", "justification": "wanted plain"}]),
    ]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[item["ruleIndex"]]["id"] for item in run["results"]] == ["ED201", "ED301", "ED403", "ED403"]
    assert run["invocations"][0]["toolExecutionNotifications"] == [
        {
            "level": "warning",
            "descriptor": {"id": "ED801"},
            "message": {"text": "could not tell: source-drift: unreadable plain"},
        }
    ]
    assert run["results"][1]["message"]["text"] == "not found\ncaused by ED201: files are missing: plain"


def test_what_a_name_holds_stays_text() -> None:
    run = valid(sarif.render(make_outline(HOSTILE)))["runs"][0]
    assert run["results"][0]["properties"]["commands"] == [f"uv pip install {HOSTILE}"]
    assert " " not in run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


def test_a_result_is_the_same_one_on_another_machine_and_with_other_evidence() -> None:
    prints = [
        [item["partialFingerprints"] for item in valid(sarif.render(outline))["runs"][0]["results"]]
        for outline in (make_outline(exit_code=0), make_outline(exit_code=1), make_outline("other"))
    ]
    assert prints[0] == prints[1] != prints[2]
