"""The command line's surface: a new, renamed or lost option fails here before a user meets it."""

from pathlib import Path
from typing import Any

import pytest

from envdoctor.app.checks import all_rules
from envdoctor.app.explain import all_symptoms
from envdoctor.cli.app import COMMANDS, build
from envdoctor.cli.commands import fleet, gate, impact, profile
from envdoctor.cli.commands.cache import SUBCOMMANDS
from envdoctor.report import symptom_pages
from envdoctor.report.rule_pages import pages
from tests.factories.run_envdoctor import ROOT, run_envdoctor

SURFACE = {
    "check": [
        "VENV",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--fingerprint",
        "--root",
        "--deep",
        "--lock",
        "--extra",
        "--group",
        "--require",
        "--ignore",
        "--fail-on (ENVDOCTOR_FAIL_ON)",
        "--exit-zero",
        "--baseline",
        "--write-baseline",
        "--fix",
        "--dry-run",
        "--yes/-y",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
        "--output/-o",
    ],
    "restore": [
        "VENV",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--python",
        "--dry-run",
        "--rehearse",
        "--offline",
        "--wheelhouse",
        "--yes/-y",
        "--plan",
        "--sources",
        "--unless-in-use",
        "--verify",
        "--force",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
        "--output/-o",
    ],
    "repair": [
        "VENV",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--offline",
        "--dry-run",
        "--yes/-y",
        "--plan",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "history": ["VENV", "--venv", "--format (ENVDOCTOR_FORMAT)", "--json", "--output/-o"],
    "rollback": ["NUMBER", "--venv", "--dry-run", "--yes/-y", "--plan", "--format (ENVDOCTOR_FORMAT)", "--json"],
    "prune": [
        "VENV",
        "--venv",
        "--keep",
        "--broken",
        "--with-unrecorded",
        "--while-in-use",
        "--dry-run",
        "--yes/-y",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "run": [
        "COMMAND",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--venv",
        "--restore",
        "--yes-while-in-use",
        "--trust-variables",
        "--gate (ENVDOCTOR_GATE)",
        "--reason (ENVDOCTOR_GATE_REASON)",
        "--watch",
        "--measure",
        "--metrics",
        "--provenance (ENVDOCTOR_PROVENANCE)",
    ],
    "fingerprint": [
        "VENV",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--deep",
        "--json",
        "--output/-o",
    ],
    "why": ["NAME", "--venv", "--format (ENVDOCTOR_FORMAT)", "--json"],
    "impact": [],
    "explain": ["CODE", "--log", "--format (ENVDOCTOR_FORMAT)", "--json"],
    "schema": ["NAME"],
    "checks": ["--format (ENVDOCTOR_FORMAT)", "--json"],
    "lock": [
        "REQUIREMENTS",
        "--python",
        "--machine",
        "--exclude-newer",
        "--undated",
        "--torch-backend",
        "--upgrade",
        "--format",
        "--with-gate",
        "--output/-o",
        "--json",
    ],
    "capture": [
        "NAME",
        "--venv",
        "--project",
        "--format",
        "--without",
        "--source",
        "--ignore",
        "--summary",
        "--offline",
        "--with-outside",
        "--with-gate",
        "--force",
        "--json",
    ],
    "fetch": [
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--wheelhouse",
        "--python",
        "--machine",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "diff": [
        "A",
        "B",
        "--venv",
        "--since",
        "--last-good",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
        "--output/-o",
    ],
    "watch-stack": [
        "VENV",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--once",
        "--good",
        "--every",
        "--cron",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "bisect": [
        "WORDS",
        "--venv",
        "--runs",
        "--fails",
        "--timeout",
        "--measure",
        "--drop",
        "--rise",
        "--cache",
        "--sources",
        "--offline",
        "--trust-variables",
        "--resume",
        "--log",
        "--undo",
        "--yes/-y",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "try": [
        "WORDS",
        "--with",
        "--test",
        "--timeout",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--discard",
        "--yes/-y",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "profiles": ["--format (ENVDOCTOR_FORMAT)", "--json"],
    "profile": [],
    "sbom": ["VENV", "--venv", "--files", "--output/-o"],
    "mcp": [],
    "cache": [],
    "gate": [],
    "fleet": [],
    "config": ["--format (ENVDOCTOR_FORMAT)", "--json"],
}
PROFILE_SURFACE = {
    "new": [
        "NAME",
        "--from",
        "--project",
        "--python",
        "--extra",
        "--group",
        "--summary",
        "--with-gate",
        "--force",
        "--yes/-y",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
}
GATE_SURFACE = {
    "add": ["--profile/-p (ENVDOCTOR_PROFILE)", "--format (ENVDOCTOR_FORMAT)", "--json"],
    "write": ["PATH", "--force", "--format (ENVDOCTOR_FORMAT)", "--json"],
}
IMPACT_SURFACE = {
    "remove": ["DISTRIBUTIONS", "--venv", "--format (ENVDOCTOR_FORMAT)", "--json", "--output/-o"],
    "install": [
        "SPECS",
        "--venv",
        "--no-deps",
        "--upgrade/-U",
        "--offline",
        "--no-build-isolation",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
        "--output/-o",
    ],
}
CACHE_SURFACE = {
    "status": [
        "VENV",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--live",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
        "--output/-o",
    ],
    "save": [
        "NAME",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--live",
        "--include",
        "--sign",
        "--force",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "list": ["--format (ENVDOCTOR_FORMAT)", "--json"],
    "restore": [
        "NAME",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--sha256",
        "--signers (ENVDOCTOR_CACHE_SIGNERS)",
        "--live",
        "--include",
        "--force",
        "--dry-run",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "warm": [
        "VENV",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--trust-variables",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "gc": [
        "VENV",
        "--venv",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--keep-for",
        "--older-than",
        "--max-size",
        "--damaged",
        "--other-keys",
        "--purge",
        "--dry-run",
        "--yes/-y",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "undo": ["STAMP", "--profile/-p (ENVDOCTOR_PROFILE)", "--format (ENVDOCTOR_FORMAT)", "--json"],
    "import": [
        "FILE",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--sha256",
        "--signers (ENVDOCTOR_CACHE_SIGNERS)",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
    ],
    "export": ["FILE", "--profile/-p (ENVDOCTOR_PROFILE)", "--format (ENVDOCTOR_FORMAT)", "--json"],
}


CHANGED_NODES = [
    "--hosts",
    "--ssh-config",
    "--slurm",
    "--nodes",
    "--ray",
    "--ray-python",
    "--venv",
    "--python",
    "--scratch",
    "--dry-run",
    "--plan",
    "--resume",
    "--at-once",
    "--timeout",
    "--format (ENVDOCTOR_FORMAT)",
    "--json",
    "--output/-o",
]
FLEET_SURFACE = {
    "check": [
        "NAMES",
        "--hosts",
        "--ssh-config",
        "--slurm",
        "--nodes",
        "--ray",
        "--ray-python",
        "--kubernetes",
        "--node-count",
        "--image",
        "--files",
        "--venv",
        "--python",
        "--at-once",
        "--timeout",
        "--format (ENVDOCTOR_FORMAT)",
        "--json",
        "--output/-o",
    ],
    "restore": ["--profile/-p (ENVDOCTOR_PROFILE)", "--offline", "--wheelhouse", *CHANGED_NODES],
    "repair": ["--profile/-p (ENVDOCTOR_PROFILE)", "--offline", *CHANGED_NODES],
    "rollback": CHANGED_NODES,
    "cache": [],
}
FLEET_CACHE_SURFACE = {
    "push": [
        "NAME",
        "--profile/-p (ENVDOCTOR_PROFILE)",
        "--signers (ENVDOCTOR_CACHE_SIGNERS)",
        *CHANGED_NODES,
    ]
}


# What every command takes, behind its own.
PRESENTATION = ["--color (ENVDOCTOR_COLOR)", "--quiet/-q", "--verbose/-v", "--redact/--no-redact"]


def described(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    environ = f" ({parameter.envvar})" if parameter.envvar else ""
    return "/".join([*parameter.opts, *parameter.secondary_opts]) + environ


def test_commands_and_options() -> None:
    root = build()
    context = root.make_context("envdoctor", ["checks"])
    found = {name: [described(item) for item in root.get_command(context, name).params] for name in SURFACE}
    groups = {"impact", "cache", "gate", "profile", "fleet"}
    assert found == {name: options + PRESENTATION * (name not in groups) for name, options in SURFACE.items()}
    assert [described(item) for item in root.params] == ["--version/-V", "--install-completion", "--show-completion"]


def test_every_command_is_frozen_here() -> None:
    assert sorted(COMMANDS) == sorted(SURFACE)
    assert sorted(SUBCOMMANDS) == sorted(CACHE_SURFACE)
    assert sorted(impact.SUBCOMMANDS) == sorted(IMPACT_SURFACE)
    assert sorted(gate.SUBCOMMANDS) == sorted(GATE_SURFACE)
    assert sorted(profile.SUBCOMMANDS) == sorted(PROFILE_SURFACE)
    assert sorted(fleet.SUBCOMMANDS) == sorted(FLEET_SURFACE)


@pytest.mark.parametrize(
    ("name", "surface"),
    [
        ("cache", CACHE_SURFACE),
        ("impact", IMPACT_SURFACE),
        ("gate", GATE_SURFACE),
        ("profile", PROFILE_SURFACE),
        ("fleet", FLEET_SURFACE),
    ],
)
def test_subcommands_and_options(name: str, surface: dict[str, list[str]]) -> None:
    root = build()
    context = root.make_context("envdoctor", [name])
    group = root.get_command(context, name)
    found = {name: [described(item) for item in group.get_command(context, name).params] for name in surface}
    # A group within a group has no options of its own.
    assert found == {name: options + PRESENTATION if options else [] for name, options in surface.items()}


def test_options_of_fleet_cache() -> None:
    group = build()
    context = group.make_context("envdoctor", ["fleet"])
    for name in ("fleet", "cache"):
        group = group.get_command(context, name)
    found = {name: [described(item) for item in group.get_command(context, name).params] for name in ("push",)}
    assert list(group.modules) == ["push"]
    assert found == {name: options + PRESENTATION for name, options in FLEET_CACHE_SURFACE.items()}


def test_shell_completion(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "envdoctor che", "COMP_CWORD": "1", "_ENVDOCTOR_COMPLETE": "complete_bash"}
    assert run_envdoctor(folder=tmp_path, extra=words).out == "check\nchecks\n"
    words |= {"COMP_WORDS": "envdoctor check --fail", "COMP_CWORD": "2"}
    assert run_envdoctor(folder=tmp_path, extra=words).out == "--fail-on\n"
    for line, offered in (
        ("envdoctor check -p cpu", "cpu-smoke\n"),
        ("envdoctor explain ED201", "ED201\n"),
        ("envdoctor schema cache-s", "cache-save\ncache-status\n"),
    ):
        words |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        assert run_envdoctor(folder=tmp_path, extra=words).out == offered


def test_the_page_of_error_texts_is_up_to_date() -> None:
    assert (ROOT / "docs/symptoms.md").read_text() == symptom_pages.as_page(all_symptoms()), "run `make docs`"


def test_the_generated_pages_are_up_to_date() -> None:
    folder = ROOT / "docs/checks"
    found = {path.name: path.read_text() for path in folder.glob("*.md")}
    assert found == pages(all_rules()), "run `make docs`"
