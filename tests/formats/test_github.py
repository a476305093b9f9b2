"""Workflow commands, taken apart by the runner's grammar, and the summary of the job."""

import re
from pathlib import Path

import pytest

from envdoctor.report.formats import github
from tests.factories.run_envdoctor import run_envdoctor
from tests.formats.make_outline import HOSTILE, make_outline
from tests.formats.scene import COMMANDS, Scene

# As actions/runner reads them (src/Runner.Common/ActionCommand.cs): `::name key=value,key=value::data`.
_COMMAND = re.compile(r"^::(?P<name>[a-z]+) (?P<properties>[^:\n]*)::(?P<data>[^\r\n]*)$")
_ESCAPES = {"%25": "%", "%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}


def unescaped(text: str) -> str:
    return re.sub("%25|%0D|%0A|%3A|%2C", lambda match: _ESCAPES[match[0]], text)


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    found = []
    for line in text.splitlines():
        match = _COMMAND.match(line)
        assert match is not None, line
        pairs = (item.partition("=") for item in match["properties"].split(","))
        found.append((match["name"], {key: unescaped(value) for key, _, value in pairs}, unescaped(match["data"])))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_line_is_a_command_and_the_summary_is_appended(scene: Scene, command: str, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    extra = {"GITHUB_STEP_SUMMARY": str(summary)}
    done = run_envdoctor(*COMMANDS[command], "--format", "github", folder=scene.root, extra=extra)
    assert done.err == ""
    name, properties, _ = commands(done.out)[-1]
    assert properties == {"title": f"envdoctor {'impact remove' if command == 'impact' else command}"}
    assert (name == "error") == (done.code == 1 and command != "diff")
    assert summary.read_text().startswith(f"before\n## envdoctor {properties['title'].removeprefix('envdoctor ')}: ")


def test_annotations_are_at_the_lines_of_the_lock(scene: Scene) -> None:
    found = commands(run_envdoctor(*COMMANDS["check"], "--format", "github", folder=scene.root).out)
    first = found[0][1]
    line = str(scene.line_of("lockfiles/small.txt", "nvidia-cudnn-cu12=="))
    assert first == {"file": "lockfiles/small.txt", "line": line, "title": "ED201 files-removed-by-uninstall"}


def test_a_summary_that_cannot_be_written_is_said_and_changes_nothing(scene: Scene, tmp_path: Path) -> None:
    extra = {"GITHUB_STEP_SUMMARY": str(tmp_path / "absent/summary.md")}
    plain = run_envdoctor(*COMMANDS["check"], "--format", "github", folder=scene.root)
    done = run_envdoctor(*COMMANDS["check"], "--format", "github", folder=scene.root, extra=extra)
    assert (done.code, done.out) == (plain.code, plain.out)
    assert done.err == (
        f"warning: the step summary was not written: {tmp_path}/absent/summary.md ($GITHUB_STEP_SUMMARY): "
        "No such file or directory\n"
    )


def test_what_a_name_holds_is_data() -> None:
    name, properties, data = commands(github.render(make_outline(HOSTILE)))[0]
    assert (name, properties["file"], data) == (
        "error",
        f"locks/{HOSTILE}.txt",
        f"files are missing: {HOSTILE}\nevidence {HOSTILE}\nexplains ED301 unresolved-library: {HOSTILE}\n"
        f"fix: reinstall {HOSTILE}\nuv pip install {HOSTILE}",
    )


def test_levels_and_gaps() -> None:
    assert [(name, properties["title"]) for name, properties, _ in commands(github.render(make_outline()))] == [
        ("error", "ED201 files-removed-by-uninstall"),
        ("notice", "ED403 extra-distribution"),
        ("warning", "ED801 source-drift: could not tell"),
        ("error", "envdoctor check"),
    ]
