"""`envdoctor restore`: the known-good stack, built beside, verified, swapped in."""

import json as json_module
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from envdoctor import __version__
from envdoctor.cli.generation_options import agreed
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption, VenvArgument, VenvOption, one_venv
from envdoctor.cli.signals import stoppable
from envdoctor.cli.terminal import say, write_result
from envdoctor.cli.waiting import waiting
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import RestoreError
from envdoctor.exitcodes import ExitCode
from envdoctor.model.codec import encode
from envdoctor.model.frozen import frozen
from envdoctor.model.wording import counted, size
from envdoctor.report.plan_text import outcome_text, plan_text, source_lines
from envdoctor.stack import restore as restoring
from envdoctor.stack.restore import Prepared, Restored
from envdoctor.stack.verify import Verified
from envdoctor.swap.durable import inode
from envdoctor.swap.store import Store
from envdoctor.swap.transaction import recover_first
from envdoctor.wheels import wheelhouse as wheelhouses
from envdoctor.wheels.urls import shown

RehearseOption = Annotated[
    bool,
    typer.Option("--rehearse", help="Build and verify the copy, as far as its wheels are to be had, and discard it."),
]
SourcesOption = Annotated[
    bool, typer.Option("--sources", help="Put the profile's source files back too, from git, never over other work.")
]
UnlessInUseOption = Annotated[
    bool, typer.Option("--unless-in-use", help="Refuse to swap while a process runs from the venv.")
]


@frozen
class Wishes:
    """How a restore is to be done."""

    python: str = ""
    dry_run: bool = False
    rehearse: bool = False
    offline: bool = False
    wheelhouses: tuple[str, ...] = ()
    yes: bool = False
    sources: bool = False
    unless_in_use: bool = False
    force: bool = False
    as_json: bool = False


def restore(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    python: Annotated[
        str, typer.Option("--python", metavar="PYTHON", help="Base interpreter: a path, or a version such as 3.12.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    rehearse: RehearseOption = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use uv's cache and local sources only.")] = False,
    wheelhouse: Annotated[
        list[str],
        typer.Option("--wheelhouse", metavar="DIR", help="Folder of wheels, asked first (see `fetch`). Repeatable."),
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    sources: SourcesOption = False,
    unless_in_use: UnlessInUseOption = False,
    force: Annotated[bool, typer.Option("--force", help="Rebuild even when the stack is already in place.")] = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Rebuild a profile's stack beside the venv, verify every file, and swap it in; the old venv is kept.

    Exit codes: 0 restored or already in place, 2 bad input, 4 failed with the old venv as it was, 130 declined or
    interrupted.
    """
    wishes = Wishes(
        python=python,
        dry_run=dry_run,
        rehearse=rehearse,
        offline=offline,
        wheelhouses=tuple(wheelhouse),
        yes=yes,
        sources=sources,
        unless_in_use=unless_in_use,
        force=force,
        as_json=json or output_format == "json",
    )
    return restore_in(Workspace.open(one_venv(venv, venv_option), profile), wishes)


def restore_in(workspace: Workspace, wishes: Wishes) -> int:
    """Restore the workspace's profile and return the exit code."""
    file = workspace.needs_profile("restore", "envdoctor restore --profile P")
    host, as_json = workspace.host, wishes.as_json
    request = restoring.Request(
        target=workspace.folder,
        file=file,
        lock=file.lock,
        python=wishes.python,
        offline=wishes.offline or host.environ.get("UV_OFFLINE", "").lower() in {"1", "true", "yes", "on"},
        wheelhouses=wheelhouses.chosen(wishes.wheelhouses, file, host.cwd),
        sources=wishes.sources,
        while_in_use=not wishes.unless_in_use,
    )
    recovered = () if wishes.dry_run else _recover(workspace.folder)
    with waiting(f"planning: looking for the wheels of {file.profile.name}"):
        prepared = restoring.prepare(request, host)
    if wishes.dry_run:
        return _show_plan(prepared, as_json=as_json)
    if wishes.rehearse:
        return _rehearse(prepared, as_json=as_json)
    if not wishes.force and (verified := _in_place(prepared)):
        return _say_in_place(prepared, verified, yes=wishes.yes, as_json=as_json)
    say(plan_text(prepared.plan))
    if not prepared.plan.unavailable and not wishes.yes and not agreed(f"Restore {prepared.plan.target}?"):
        say(_state(prepared))
        return ExitCode.INTERRUPTED
    done = _carry_out(prepared)
    done = replace(done, recovered=(*recovered, *done.recovered))
    _write(as_json, outcome_text(done) + _put_back(prepared), prepared, {"status": "restored", "result": _result(done)})
    return ExitCode.OK


def _recover(target: Path) -> tuple[str, ...]:
    from envdoctor.cli.progress import progress

    with progress() as listen, stoppable():
        return recover_first(Store.of(target), listen)


def _show_plan(prepared: Prepared, *, as_json: bool) -> int:
    _write(as_json, plan_text(prepared.plan), prepared, {"status": "planned"})
    return ExitCode.RESTORE_FAILED if prepared.plan.unavailable else ExitCode.OK


def _rehearse(prepared: Prepared, *, as_json: bool) -> int:
    from envdoctor.cli.progress import progress
    from envdoctor.report.rehearsal_text import rehearsed_text
    from envdoctor.stack.rehearse import rehearse

    say(plan_text(prepared.plan))
    with progress() as listen, stoppable():
        done = rehearse(prepared, listen)
    _write(as_json, rehearsed_text(prepared.plan, done), prepared, {"status": "rehearsed", "result": encode(done)})
    return ExitCode.RESTORE_FAILED if prepared.plan.unavailable else ExitCode.OK


def _in_place(prepared: Prepared) -> Verified | None:
    from envdoctor.cli.progress import progress

    with progress() as listen:
        return restoring.already_in_place(prepared, listen)


def _say_in_place(prepared: Prepared, verified: Verified, *, yes: bool, as_json: bool) -> int:
    changes = prepared.plan.sources
    if changes:
        say("\n".join(source_lines(changes)))
        if not yes and not agreed(f"Put back {counted(len(changes), 'source file')}?"):
            return ExitCode.INTERRUPTED
    text = (
        f"{prepared.plan.target} already holds {prepared.plan.profile}: {counted(verified.distributions, 'package')}, "
        f"{counted(verified.files, 'file')} ({size(verified.bytes)}) verified by sha256"
        + ("" if changes else "; nothing to do")
        + "\n"
    )
    _write(as_json, text + _put_back(prepared), prepared, {"status": "already in place"})
    return ExitCode.OK


def _put_back(prepared: Prepared) -> str:
    if not prepared.plan.sources:
        return ""
    from envdoctor.stack.restore_sources import put_back

    put_back(prepared.request.file, prepared.plan.sources, prepared.host.environ)
    return f"{counted(len(prepared.plan.sources), 'source file')} put back from git\n"


def _carry_out(prepared: Prepared) -> Restored:
    from envdoctor.cli.progress import progress

    try:
        with progress() as listen, stoppable():
            return restoring.carry_out(prepared, listen)
    except RestoreError as error:
        raise RestoreError(f"{error.message}\n{_state(prepared)}", error.hint) from error
    except KeyboardInterrupt:
        say(f"\n{_state(prepared)}")
        raise


def _state(prepared: Prepared) -> str:
    """Say what became of the venv, from the disk and not from where the command thinks it was."""
    target = prepared.store.target
    if inode(prepared.store.witness) == prepared.identity:
        return f"{target} is as it was" if prepared.identity else f"{target} was not created"
    return f"{target} holds the restored stack"


def _write(as_json: bool, text: str, prepared: Prepared, rest: dict[str, Any]) -> None:
    if not as_json:
        write_result(text)
        return
    plan = encode(prepared.plan)
    for package in plan["packages"]:
        package["source"]["location"] = shown(package["source"]["location"])
    head = {"schema_version": 1, "tool": {"name": "envdoctor", "version": __version__}}
    write_result(json_module.dumps({**head, **rest, "plan": plan}, indent=2) + "\n")


def _result(done: Restored) -> dict[str, Any]:
    return {
        "target": str(done.target),
        "kept": str(done.kept) if done.kept else None,
        "users": encode(done.users),
        "distributions": done.verified.distributions,
        "files": done.verified.files,
        "bytes": done.verified.bytes,
        "recovered": list(done.recovered),
        "seconds": dict(done.seconds),
    }
