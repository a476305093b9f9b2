"""The document a program reads: held to its schema, and to exactly its keys."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envdoctor.report
from envdoctor.model.verdict import Verdict
from envdoctor.report.as_json import document
from envdoctor.report.envelope import SCHEMA_VERSION, dump, envelope
from tests.factories.make_verdict import incident, make_finding, make_header, make_verdict
from tests.factories.schemas import closed

SCHEMA = json.loads((Path(envdoctor.report.__file__).parent / f"schema/check-{SCHEMA_VERSION}.json").read_text())


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("verdict", [incident(), make_verdict()], ids=["incident", "clean"])
def test_documents_have_exactly_the_schemas_keys(verdict: Verdict) -> None:
    jsonschema.validate(json.loads(dump(envelope(document(make_header(), verdict)))), closed(SCHEMA))


def test_the_whole_document() -> None:
    value = document(make_header(), incident())
    assert [(item["code"], item["subject"], item["explains"], item["caused_by"]) for item in value["findings"]] == [
        ("ED201", "nvidia/cudnn/lib/libcudnn.so.9", ["ED301"], None),
        ("ED301", "libcudnn.so.9", [], 0),
        ("ED301", "libnccl.so.2", [], 0),
        ("ED510", "torch", [], None),
    ]
    assert value["findings"][1] == {
        "code": "ED301",
        "name": "unresolved-soname",
        "severity": "error",
        "confidence": "high",
        "title": "libcudnn.so.9 is found nowhere",
        "subject": "libcudnn.so.9",
        "evidence": ["asked for by torch/lib/libtorch_cuda.so"],
        "explains": [],
        "caused_by": 0,
        "same_remedy_as": None,
        "remediation": {"text": "fix the cause", "commands": [], "safe": False, "by_hand": []},
    }
    del value["findings"]
    assert value == {
        "target": {
            "prefix": "/srv/dflash/.venv",
            "found_by": None,
            "torch": "2.11.0+cu128",
            "taken_at": "2026-11-29T12:00:00+00:00",
        },
        "profile": "21k-toks",
        "summary": {
            "errors": 3,
            "warnings": 1,
            "notes": 0,
            "causes": 2,
            "shared_remedies": {"commands": 0, "causes": 0},
            "could_not_tell": 1,
            "waived": 1,
            "not_checked": [],
            "fail_on": "error",
            "exit_code": 1,
        },
        "areas": [
            {"area": "Interpreter, wheels", "state": "ok", "summary": "CPython 3.12.1, 57 distributions"},
            {"area": "Installed files", "state": "error", "summary": "2 distributions damaged (2 files missing)"},
            {"area": "Shared libraries", "state": "error", "summary": "2 of 21 sonames unresolved for torch"},
            {"area": "Compile cache", "state": "warning", "summary": "cold: the profile expects 353 MB"},
            {"area": "Driver, GPU", "state": "unknown", "summary": "NVML did not answer within 5 s"},
        ],
        "could_not_tell": [{"code": "ED601", "name": "driver-too-old", "reason": "NVML did not answer within 5 s"}],
        "waived": [
            {
                "finding": {
                    "code": "ED210",
                    "name": "two-owners",
                    "severity": "note",
                    "confidence": "high",
                    "title": "two owners, same bytes",
                    "subject": "nvidia/__init__.py",
                    "evidence": [],
                    "explains": [],
                    "caused_by": None,
                    "same_remedy_as": None,
                    "remediation": {"text": "reinstall the owner", "commands": [], "safe": False, "by_hand": []},
                },
                "reason": "empty file",
            }
        ],
    }


def test_a_file_name_of_undecodable_bytes_survives() -> None:
    text = dump(document(make_header(target="/srv/\udcff"), make_verdict(make_finding(subject="é\udc80"))))
    assert text.isascii()
    assert json.loads(text)["findings"][0]["subject"] == "é\udc80"


@pytest.mark.property
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.sampled_from(["error", "warning", "note"])))
)
def test_causes_come_first_and_nothing_is_lost(links: list[tuple[str, str, Any]]) -> None:
    findings = [
        make_finding(f"ED{index:03}", severity=severity, causes=(cause,), symptom_of=(symptom,))
        for index, (cause, symptom, severity) in enumerate(links)
    ]
    listed = document(make_header(), make_verdict(*findings))["findings"]
    assert sorted(item["code"] for item in listed) == [finding.code for finding in findings]
    for index, item in enumerate(listed):
        cause = item["caused_by"]
        assert cause is None or (cause < index and listed[cause]["caused_by"] is None)
        assert cause is None or item["code"] in listed[cause]["explains"]


def test_what_the_same_command_fixes_points_at_the_first() -> None:
    verdict = make_verdict(
        make_finding("ED401", commands=["envdoctor restore"]),
        make_finding("ED402", commands=["envdoctor restore"]),
        make_finding("ED510", commands=[]),
        make_finding("ED511", commands=[]),
    )
    value = document(make_header(), verdict)
    assert [(item["code"], item["same_remedy_as"]) for item in value["findings"]] == [
        ("ED401", None),
        ("ED402", 0),
        ("ED510", None),
        ("ED511", None),
    ]
    assert value["summary"]["shared_remedies"] == {"commands": 1, "causes": 2}
