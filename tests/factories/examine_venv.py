"""Examining an environment in a test, and running the commands a finding gives exactly as they stand."""

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import uv

from envdoctor.doctor.examine import judge, take_fingerprint
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.model.finding import Finding
from envdoctor.model.profile import Profile
from envdoctor.model.verdict import Verdict
from envdoctor.standards.lock import Lock
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import uv_environment
from tests.factories.run_envdoctor import COMMAND

if TYPE_CHECKING:
    from collections.abc import Mapping


def verdict_of(
    prefix: Path, host: Host | None = None, *, profile: Profile | None = None, lock: Lock | None = None
) -> Verdict:
    """Examine the environment; by default on a host that has nothing of this user or of a GPU."""
    host = host or bare_host(prefix.parent / "home")
    options = Options(
        ask_nvml=True,
        source_files=tuple(profile.sources) if profile else (),
        variables=profile.environment.names if profile else (),
    )
    facts = take_fingerprint(resolve(prefix, host.environ.get("PATH")), host, options)
    return judge(facts, profile, lock)


def first(verdict: Verdict, root: Path) -> tuple[str, str]:
    """Return code and whole title of the finding that is shown first, the test's folder written as [TMP]."""
    finding = verdict.findings[0]
    return finding.code, finding.title.replace(str(root), "[TMP]")


def outline(verdict: Verdict, root: Path) -> list[str]:
    """Return "severity CODE title" of every finding, consequences indented."""
    lines = []
    for at, finding in enumerate(verdict.findings):
        indent = "  " if at in verdict.consequences else ""
        lines.append(f"{indent}{finding.severity} {finding.code} {finding.title}".replace(str(root), "[TMP]"))
    return lines


def commands_of(finding: Finding, root: Path) -> list[str]:
    """Return its commands, the test's folder written as [TMP]."""
    return [command.replace(str(root), "[TMP]") for command in finding.remediation.commands]


def by_hand(finding: Finding, root: Path) -> list[str]:
    """Return the lines that do the same by hand, the test's folder written as [TMP]."""
    return [command.replace(str(root), "[TMP]") for command in finding.remediation.by_hand]


def mend(finding: Finding, *, wheels: Path, cache: Path, hands: bool = False) -> None:
    """Run the finding's commands in a shell, one after the other, with `wheels` as uv's only source.

    `hands` takes the lines that do it by hand. A command of ours gets the `--yes` that a person would say.
    """
    environment = uv_environment(cache) | {
        "UV_FIND_LINKS": str(wheels),
        "UV_NO_INDEX": "1",
        "PATH": f"{Path(uv.find_uv_bin()).parent}:{os.environ['PATH']}",
    }
    commands = finding.remediation.by_hand if hands else finding.remediation.commands
    assert commands, "the finding gives no command"
    for command in commands:
        if command.startswith("envdoctor repair "):
            command = f"{shlex.join(COMMAND)} {command.removeprefix('envdoctor ')} --yes"  # noqa: PLW2901
        done = subprocess.run(
            ["bash", "-ec", command], env=environment, capture_output=True, text=True, check=False, cwd=wheels.parent
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


def environment_after(host: Host, *commands: str) -> Host:
    """Run shell commands (export, unset) in a shell with the host's environment and return the host it leaves."""
    done = subprocess.run(
        ["/bin/bash", "-ec", "\n".join([*commands, "/usr/bin/env -0"])],
        env=dict(host.environ) | {"HOME": str(host.home), "USER": host.user},
        capture_output=True,
        check=True,
    )
    pairs = (entry.partition("=") for entry in done.stdout.decode().split("\0") if entry)
    shell: Mapping[str, str] = {name: value for name, _, value in pairs}
    ours = {name: value for name, value in shell.items() if name not in ("_", "SHLVL", "PWD", "OLDPWD", "HOME", "USER")}
    return replace(host, environ=ours)
