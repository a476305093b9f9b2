"""`envdoctor capture`: a working venv as a profile and a lock that rebuild it."""

import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from envdoctor.capture import capture as capturing
from envdoctor.capture.capture import Wanted
from envdoctor.capture.captured_files import Place
from envdoctor.cli.options import IgnoreOption, JsonOption, VenvOption, WithGateOption, waivers
from envdoctor.cli.progress import progress
from envdoctor.cli.signals import stoppable
from envdoctor.cli.terminal import write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import ProbeError, UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.report.capture_text import captured_json, captured_text
from envdoctor.stack.examination import deep_options
from envdoctor.wheels import index_config, pip_config
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.index_config import Sources
from envdoctor.wheels.pylock_text import Form

# A PEP 751 lock's name allows no dots.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def capture(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile that is made.")],
    venv: VenvOption = "",
    project: Annotated[
        str, typer.Option("--project", metavar="DIR", help="Gets profiles/ and lockfiles/. Default: this folder.")
    ] = "",
    lock_format: Annotated[
        Form, typer.Option("--format", help="The lock: hashed requirements that name no host, or PEP 751.")
    ] = "requirements",
    without: Annotated[
        list[str],
        typer.Option("--without", metavar="DIST", help="Leave a distribution out of the lock. Can be repeated."),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            metavar="PATTERN",
            help="Files of the training code to hash, below the project. Default: the Python files git tracks there.",
        ),
    ] = [],  # noqa: B006
    ignore: IgnoreOption = [],  # noqa: B006
    summary: Annotated[str, typer.Option("--summary", metavar="TEXT", help="One line about the stack.")] = "",
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no index: keep every distribution as a wheel.")
    ] = False,
    with_gate: WithGateOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a profile and a lock of that name.")] = False,
    json: JsonOption = False,
) -> int:
    """Write the profile and the hashed lock of a working venv, each hash proven to be that of the installed files.

    What no index has is kept as a wheel beside the lock. Exit codes: 0 captured, 1 it cannot be captured and nothing
    was written, 2 bad input.
    """
    workspace = Workspace.open(venv)
    host = workspace.host
    place = _place(name, project, lock_format, host, force=force)
    wanted = Wanted(
        name=name,
        summary=summary,
        day=datetime.now(UTC).date().isoformat(),
        without=frozenset(_normal(item) for item in without),
        sources=tuple(source),
        waivers=waivers(ignore),
        cache_key="",
        offline=offline,
        with_gate=with_gate,
    )
    with progress() as listen, stoppable():
        reading = workspace.reading(replace(deep_options(listen), contents=True, ask_nvml=True))
        wanted = replace(wanted, cache_key=_cache_key(reading))
        captured = capturing.capture(reading, _sources(host, offline=offline), wanted, place, listen)
    text = captured_json(captured, place) if json else captured_text(captured, place, host.cwd)
    write_result(text)
    return ExitCode.OK


def _place(name: str, project: str, form: Form, host: Host, *, force: bool) -> Place:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` cannot name a profile", "use letters, digits, `-` and `_`, with a letter or digit first"
        )
    folder = Path(host.cwd, project)
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", "name the project's folder: `--project DIR`")
    place = Place(project=folder, name=name, form=form)
    if not force and (taken := place.taken()):
        raise UsageError(f"{taken} exists already", "choose another name, or add `--force` to replace it")
    return place


def _normal(name: str) -> str:
    from envdoctor.standards.names import normalized

    return normalized(name)


def _sources(host: Host, *, offline: bool) -> Sources | None:
    if offline:
        return None
    uv = uv_tool.locate(host.environ, host.cwd)
    return index_config.configured(uv, pip_config.read(host.environ, host.home), host.home, sys.executable)


def _cache_key(reading: Reading) -> str:
    """Return the key of the compile caches this environment uses; empty when a fact it needs cannot be read."""
    from envdoctor.cache.key_parts import digest
    from envdoctor.cache.static_key import key_parts

    try:
        return digest(key_parts(reading))
    except ProbeError:
        return ""
