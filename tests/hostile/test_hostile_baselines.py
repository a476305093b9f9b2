"""A baseline that somebody else wrote: it is taken, or refused with what is wrong."""

from pathlib import Path

import pytest

from envdoctor.app import baseline
from envdoctor.errors import UsageError
from tests.factories.make_incident import make_incident
from tests.factories.run_envdoctor import run_envdoctor


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not a baseline"),
        ('{"schema_version": 2, "findings": []}', "is not a baseline"),
        *((f'{{"schema_version": 1{more}}}', "it has no list of findings")
          for more in ("", *(f', "findings": {value}' for value in ("null", "NaN", "3", "true", '"x"', "{}")))),
        *((f'{{"schema_version": 1, "findings": [{value}]}}', "a finding needs a code and a subject")
          for value in ("null", "3", "[]", "{}", '{"code": "ED202"}', '{"code": 3, "subject": "x"}')),
        *((f'{{"schema_version": 1, "findings": [{{"code": "E", "subject": "x", "severity": {value}, "about": []}}]}}',
           "a finding needs a severity and a list of what it is about") for value in ("[]", "{}", "3", '"bad"')),
        ("[" * 100_000, "is not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        baseline.read(file)


def test_start_up_code_with_a_secret_is_no_change_since_it_was_kept_without(tmp_path: Path) -> None:
    incident = make_incident(tmp_path)
    (incident.venv.site_packages / "hook.pth").write_text("import os; x = 'https://bob:pw1234567@packages.invalid/'\n")
    assert run_envdoctor("watch-stack", "--once", "--good", ".venv", folder=tmp_path).code == 0
    assert run_envdoctor("fingerprint", ".venv", "-o", "facts.json", folder=tmp_path).code == 0
    kept = [*tmp_path.glob("home/.local/share/envdoctor/stacks/*/*"), tmp_path / "facts.json"]
    assert ["pw1234567" in path.read_text() for path in kept] == [False, False, False]
    for words in (("--last-good", "--venv", ".venv"), ("facts.json", ".venv")):
        done = run_envdoctor("diff", *words, folder=tmp_path)
        assert done.code == 0, done.out
