"""`envdoctor prune`: remove old generations, shown first; nothing else, and no compile cache."""

import json as json_module
from typing import Annotated

import typer

from envdoctor.cli.generation_options import (
    HEAD,
    agreed,
    launch_hosts,
    line,
)
from envdoctor.cli.options import (
    DryRunOption,
    FormatOption,
    JsonOption,
    VenvArgument,
    VenvOption,
    YesOption,
    one_venv,
)
from envdoctor.cli.signals import stoppable
from envdoctor.cli.terminal import say, write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted, size
from envdoctor.swap import generations
from envdoctor.swap.generations import PrunePlan
from envdoctor.swap.store import Store
from envdoctor.swap.transaction import recover_first


def prune(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    keep: Annotated[
        int,
        typer.Option(
            "--keep", metavar="K", help="How many of the newest generations stay; required.", show_default=False
        ),
    ] = -1,
    with_unrecorded: Annotated[
        bool,
        typer.Option(
            "--with-unrecorded",
            help="Also remove backups with files that no package installed, such as yours.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Remove all but the newest K kept venvs. The venv in place, uv's cache and compile caches are not touched.

    Exit codes: 0 done or nothing to do, 2 bad input, 4 failed, 130 declined or interrupted.
    """
    if keep < 0:
        raise UsageError(
            "--keep needs a number of backups to keep, 0 or more",
            "`envdoctor prune --keep 1`; `envdoctor history` lists them",
        )
    as_json = json or output_format == "json"
    workspace = Workspace.open(one_venv(venv, venv_option))
    store = Store.of(workspace.folder)
    if not dry_run:
        recover_first(store, lambda event: say(event.text))
    plan = generations.plan_prune(store, keep, launch_hosts(workspace.host), with_unrecorded=with_unrecorded)
    if dry_run:
        _write(as_json, _text(plan, keep), plan, "planned")
        return ExitCode.OK
    say(_text(plan, keep).rstrip("\n"))
    if plan.removed and not yes and not agreed(f"Remove {counted(len(plan.removed), 'generation')}?"):
        say("nothing was removed")
        return ExitCode.INTERRUPTED
    if plan.removed:
        with stoppable():
            told = lambda event: say(event.text)  # noqa: E731
            generations.prune(store, plan.removed, told, with_unrecorded=with_unrecorded)
    freed = f"{counted(len(plan.removed), 'generation')} removed, {size(plan.space.frees)} freed\n"
    _write(as_json, freed if plan.removed else "nothing to remove\n", plan, "pruned")
    return ExitCode.OK


def _text(plan: PrunePlan, keep: int) -> str:
    lines = [f"  - {item.number:<4} {line(item)}   kept {item.kept_at}" for item in plan.removed]
    lines += [f"    {item.number:<4} {line(item)}   stays" for item in reversed(plan.kept)]
    lines += [
        f"    {item.generation.number:<4} {line(item.generation)}   stays: it holds {item.holds}"
        for item in plan.spared
    ]
    if any(item.unrecorded for item in plan.spared):
        lines.append("move those files to where they belong, or add --with-unrecorded to remove them too")
    if not plan.removed:
        return "\n".join([*lines, "nothing to remove" + ("" if plan.spared else f": no more than {keep} kept")]) + "\n"
    lines.append(
        f"removing {counted(len(plan.removed), 'generation')} frees {size(plan.space.frees)}; "
        f"{size(plan.space.shared)} more is shared with the venv, uv's cache or other venvs and stays"
    )
    return "\n".join(lines) + "\n"


def _write(as_json: bool, text: str, plan: PrunePlan, status: str) -> None:
    if not as_json:
        write_result(text)
        return
    spared = [
        {
            **encode(item.generation),
            "holds": item.holds,
            "compile_cache": item.compile_cache or None,
            "unrecorded": list(item.unrecorded),
        }
        for item in plan.spared
    ]
    room = {"bytes": plan.space.bytes, "frees": plan.space.frees, "shared": plan.space.shared}
    document = {
        **HEAD,
        "status": status,
        "removed": encode(plan.removed),
        "kept": encode(plan.kept),
        "spared": spared,
        "space": room,
    }
    write_result(json_module.dumps(document, indent=2) + "\n")
