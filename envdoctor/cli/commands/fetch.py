"""`envdoctor fetch`: every wheel of a profile's lock in one folder, for a machine without an index."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from envdoctor import __version__
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption
from envdoctor.cli.progress import progress
from envdoctor.cli.signals import stoppable
from envdoctor.cli.terminal import write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import FetchError, UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted, size
from envdoctor.wheels import fetched_wheels, index_config, pip_config, wheel_tags
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.fetched_wheels import Fetched
from envdoctor.wheels.locked_wheels import Fit, search
from envdoctor.wheels.locking import Platform

_SHOWN = 5


def fetch(
    profile: ProfileOption = "",
    wheelhouse: Annotated[
        str, typer.Option("--wheelhouse", metavar="DIR", help="Folder that gets the wheels; made when it is not there.")
    ] = "",
    python: Annotated[
        str,
        typer.Option("--python", metavar="VERSION", help="Python the wheels are for. Default: the profile's first."),
    ] = "",
    machine: Annotated[
        str, typer.Option("--machine", metavar="NAME", help="Machine they are for. Default: this one's (x86_64).")
    ] = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Fetch every wheel of a profile's lock into a folder, each verified by its sha256.

    What is there already is verified and not fetched again; an interrupted fetch goes on where it stopped. Then, where
    no index is: `envdoctor restore --profile P --offline --wheelhouse DIR`. Exit codes: 0 all there, 2 bad input,
    4 some could not be fetched, 130 interrupted.
    """
    workspace = Workspace.open(profile=profile)
    host, file = workspace.host, workspace.needs_profile("fetch", "envdoctor fetch --profile P --wheelhouse DIR")
    if not wheelhouse:
        command = f"envdoctor fetch --profile {shlex.quote(profile)} --wheelhouse DIR"
        raise UsageError("no folder to fetch into", f"name one: `{command}`")
    folder = Path(host.cwd, wheelhouse)
    fit, markers = _fit(file, python, machine or host.machine)
    packages = list(file.lock.select(markers).values())
    uv = uv_tool.locate(host.environ, host.cwd)
    sources = index_config.configured(
        uv, pip_config.read(host.environ, host.home, command="download"), host.home, sys.executable
    )
    with progress() as listen, stoppable():
        found = search(packages, folder, fit, sources, uv)
        done = fetched_wheels.fetch(found, folder, sources.access, listen)
    write_result(_json(done, profile) if json or output_format == "json" else _text(done))
    if done.missing:
        raise FetchError(*_missing(done))
    return ExitCode.OK


def _fit(file: ProfileRef, python: str, machine: str) -> tuple[Fit, dict[str, str]]:
    versions = file.profile.python.versions
    version = python or versions[0]
    if version not in versions:
        raise UsageError(
            f"--python {version}: the profile's lock is for {' or '.join(versions)}", "name one of these, or none"
        )
    major, minor = (int(part) for part in version.split("."))
    fit = Fit(
        python=version,
        machine=machine,
        # The wheels that this machine would take itself; one for an older glibc runs on a newer one, not the reverse.
        tags=wheel_tags.supported((major, minor), machine, _glibc_minor()),
        torch_backend=file.profile.lock.torch_backend,
    )
    return fit, Platform(python=version, machine=machine).markers()


def _glibc_minor() -> int:
    told = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.0").rpartition(".")[2]
    return int(told) if told.isdecimal() else 0


def _text(done: Fetched) -> str:
    there = len(done.fetched) + len(done.present)
    return (
        f"{done.folder} holds {there} of {there + len(done.missing)} wheels ({size(done.bytes)}), verified by sha256: "
        f"{len(done.fetched)} fetched now, {len(done.present)} there before\n"
    )


def _missing(done: Fetched) -> tuple[str, str]:
    lines = "".join(f"\n  {one.name} {one.version}: {one.reason}" for one in done.missing[:_SHOWN])
    more = f"\n  … and {len(done.missing) - _SHOWN} more (--json lists all)" if len(done.missing) > _SHOWN else ""
    hints = list(dict.fromkeys(one.hint for one in done.missing[:_SHOWN]))
    return f"{counted(len(done.missing), 'wheel', 'is', 'are')} missing:{lines}{more}", "\nhint: ".join(hints)


def _json(done: Fetched, profile: str) -> str:
    from envdoctor.report.as_json import dump

    return dump(
        {
            "schema_version": 1,
            "tool": {"name": "envdoctor", "version": __version__},
            "status": "incomplete" if done.missing else "complete",
            "profile": profile,
            "wheelhouse": str(done.folder),
            "bytes": done.bytes,
            "fetched": sorted(path.name for path in done.fetched),
            "present": sorted(path.name for path in done.present),
            "missing": encode(done.missing),
        }
    )
