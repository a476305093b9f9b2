"""JUnit XML, read by junitparser as a reporter reads it."""

from pathlib import Path

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from envdoctor.report.formats import junit
from tests.factories.run_envdoctor import run_envdoctor
from tests.formats.make_outline import HOSTILE, make_outline
from tests.formats.scene import COMMANDS, Scene


def cases(text: str) -> dict[str, list[type]]:
    """Return case -> the kinds of its results, after the counts were compared with what is there."""
    (suite,) = JUnitXml.fromstring(text.encode())
    assert isinstance(suite, TestSuite)
    listed = [case for case in suite if isinstance(case, TestCase)]
    kinds = [type(item) for case in listed for item in case.result]
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (
        len(listed),
        kinds.count(Failure),
        kinds.count(Error),
        kinds.count(Skipped),
    )
    return {case.name: [type(item) for item in case.result] for case in listed}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_red_test_is_there_exactly_when_the_command_exits_with_1(scene: Scene, command: str, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    done = run_envdoctor(*COMMANDS[command], "--format", "junit", "-o", file, folder=scene.root)
    assert (done.out, done.err) == ("", "")
    assert (done.code == 1) == any(Failure in kinds for kinds in cases(file.read_text()).values())


def test_a_case_for_each_area_and_each_cause_and_none_is_green_that_was_not_looked_at() -> None:
    assert cases(junit.render(make_outline())) == {
        "Interpreter": [],
        "Driver / GPU": [Skipped],
        "ED201 files-removed-by-uninstall: nvidia-cudnn-cu12 plain": [Failure],
        "ED403 extra-distribution: plain": [Skipped],  # the waived one; the note itself is green, and named the same
        "ED801 source-drift": [Error],
    }


def test_a_failure_says_what_a_person_needs() -> None:
    (suite,) = JUnitXml.fromstring(junit.render(make_outline()).encode())
    failure = next(item for case in suite for item in case.result if isinstance(item, Failure))
    assert (failure.type, failure.message, failure.text) == (
        "ED201",
        "files are missing: plain",
        "error: files are missing: plain\nevidence plain\nexplains ED301 unresolved-library: plain\n"
        "fix: reinstall plain\nuv pip install plain",
    )


def test_what_a_name_holds_stays_text() -> None:
    (suite,) = JUnitXml.fromstring(junit.render(make_outline(HOSTILE)).encode())
    failure = next(item for case in suite for item in case.result if isinstance(item, Failure))
    assert failure.message == f"files are missing: {HOSTILE}".replace("\x00", "\ufffd").replace("\udce9", "\ufffd")
