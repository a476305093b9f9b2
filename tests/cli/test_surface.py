"""The command line's surface: a new, renamed or lost option fails here before a user meets it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envdoctor.cli.app import build
from envdoctor.cli.rules import all_rules
from envdoctor.report.rule_pages import pages
from tests.factories.run_envdoctor import ROOT, run_envdoctor

SURFACE = {
    "check": [
        "VENV",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--fingerprint",
        "--ignore",
        "--fail-on (ENVDOCTOR_FAIL_ON)",
        "--exit-zero",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
        "--output/-o",
        "--color (ENVDOCTOR_COLOR)",
        "--quiet/-q",
        "--verbose/-v",
    ],
    "restore": [
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--venv",
        "--python",
        "--dry-run",
        "--offline",
        "--yes/-y",
        "--force",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "run": [
        "COMMAND",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--venv",
        "--restore",
        "--gate (ENVDOCTOR_GATE)",
        "--reason (ENVDOCTOR_GATE_REASON)",
        "--color (ENVDOCTOR_COLOR)",
    ],
    "fingerprint": ["VENV", "--profile/-p (ENVDOCTOR_PROFILE)", "--output/-o"],
    "explain": ["CODE"],
    "checks": ["--format (ENVDOCTOR_FORMAT)", "--json"],
    "lock": ["REQUIREMENTS", "--python", "--machine", "--exclude-newer", "--undated", "--torch-backend", "--output/-o"],
    "profiles": ["--format (ENVDOCTOR_FORMAT)", "--json"],
}


def described(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    environ = f" ({parameter.envvar})" if parameter.envvar else ""
    return "/".join([*parameter.opts, *parameter.secondary_opts]) + environ


def surface(group: Any, context: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each command's words and its parameters, groups followed into."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from surface(command, context, f"{path}{name} ")
        else:
            yield f"{path}{name}", [described(item) for item in command.params]


def test_commands_and_options() -> None:
    root = build()
    context = root.make_context("envdoctor", ["checks"])
    assert dict(surface(root, context)) == SURFACE
    assert [described(item) for item in root.params] == ["--version/-V", "--install-completion", "--show-completion"]


def test_shell_completion(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "envdoctor che", "COMP_CWORD": "1", "_ENVDOCTOR_COMPLETE": "complete_bash"}
    assert run_envdoctor(folder=tmp_path, extra=words).out == "check\nchecks\n"
    words |= {"COMP_WORDS": "envdoctor check --fail", "COMP_CWORD": "2"}
    assert run_envdoctor(folder=tmp_path, extra=words).out == "--fail-on\n"


def test_the_generated_pages_are_up_to_date() -> None:
    folder = ROOT / "docs/checks"
    found = {path.name: path.read_text() for path in folder.glob("*.md")}
    assert found == pages(all_rules()), "run `make docs`"
