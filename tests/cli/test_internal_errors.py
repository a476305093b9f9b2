"""A check or a probe of ours that crashes: the others still answer, and the verdict says that it could not tell."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from envdoctor.doctor.examine import written_down
from envdoctor.errors import internal_error
from envdoctor.facts.context import Reading
from envdoctor.model.fingerprint import MissingFactError
from tests.factories.make_reading import read
from tests.factories.make_venv import make_venv
from tests.factories.run_envdoctor import ROOT, run_behind
from tests.factories.schemas import closed

SCHEMA = json.loads((ROOT / "envdoctor/report/schema/check-1.json").read_text())

RULE = '''\
"""What it finds: nothing, it crashes."""

CODE = "ED999"
NAME = "crashing-rule"
AREA = "Environment"


def run(case):
    raise KeyError("gone")
    yield
'''
PROBE = "from envdoctor.probes.machine.gpu import Gpu\ndef crash(reading): return {}[1]\nPROBES[Gpu] = crash\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_venv(tmp_path / ".venv")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/crashing.py").write_text(RULE)
    return tmp_path


def rule(folder: Path) -> str:
    return f"import envdoctor.checks; envdoctor.checks.__path__.append({str(folder / 'rules')!r})\n"


def test_a_rule_that_crashes_is_could_not_tell_and_the_others_answer(folder: Path) -> None:
    outcome = run_behind(rule(folder), "check", folder=folder)
    assert (outcome.code, outcome.err) == (3, "")
    assert outcome.out.endswith(
        "could not tell:\n"
        "  ED999 crashing-rule: internal error: KeyError: 'gone', raised in rules/crashing.py:9\n"
        "    this is a bug of envdoctor: report it with the traceback that `-v` shows\n\n"
        "Nothing found; 1 check could not tell; no packages here: only the interpreter was checked.   exit 3\n"
    )
    assert re.search(r"^\[\?\] Environment ", outcome.out, re.MULTILINE)


def test_its_traceback_stands_under_verbose_and_in_json(folder: Path) -> None:
    shown = run_behind(rule(folder), "check", "-v", folder=folder).out.partition("could not tell:\n")[2]
    head, ours, planted = shown.partition("does not apply:")[0].partition('      File "[TMP]/')
    assert head.startswith(
        "  ED999 crashing-rule: internal error: KeyError: 'gone', raised in rules/crashing.py:9\n"
        '    Traceback (most recent call last):\n      File "'
    )
    assert ours + planted == (
        '      File "[TMP]/rules/crashing.py", line 9, in run\n        raise KeyError("gone")\n    KeyError: \'gone\'\n'
    )
    document = json.loads(run_behind(rule(folder), "check", "--json", folder=folder).out)
    jsonschema.validate(document, closed(SCHEMA))
    (gap,) = document["could_not_tell"]
    assert gap["traceback"].splitlines()[-1] == "KeyError: 'gone'"


def test_a_probe_that_crashes_costs_its_own_facts_only(folder: Path) -> None:
    planted = f"from envdoctor.probes.registry import PROBES\n{PROBE}"
    outcome = run_behind(planted, "check", "-v", folder=folder)
    assert (outcome.code, outcome.err) == (3, "")
    said = "internal error: KeyError: 1, raised in <string>:4"
    assert f"[?] Driver / GPU        could not tell: {said}\n" in outcome.out
    assert f"): {said} Traceback (most recent call last): File " in " ".join(outcome.out.split())
    assert "    KeyError: 1\n" in outcome.out


def test_the_facts_of_a_probe_that_crashed_carry_its_traceback(tmp_path: Path) -> None:
    def crash(reading: Reading) -> dict[str, str]:
        return {"found": reading.host.environ["NOT SET"]}

    reading = replace(read(make_venv(tmp_path / ".venv").prefix), probes={dict: crash})
    with pytest.raises(MissingFactError) as caught:
        written_down(reading)[dict]
    assert caught.value.reason.startswith("internal error: KeyError: 'NOT SET', raised in cli/test_internal_errors.py:")
    assert caught.value.traceback.splitlines()[-1] == "KeyError: 'NOT SET'"


def test_an_exception_that_was_never_raised_has_no_place() -> None:
    assert internal_error(ValueError()) == "internal error: ValueError"
