"""`envdoctor rollback`: put a kept venv back in one step; the one it replaces is kept in turn."""

import json as json_module
from typing import Annotated

import typer

from envdoctor.cli.generation_options import HEAD, agreed, line
from envdoctor.cli.options import DryRunOption, FormatOption, JsonOption, VenvOption, YesOption
from envdoctor.cli.signals import stoppable
from envdoctor.cli.terminal import say, write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.exitcodes import ExitCode
from envdoctor.model.codec import encode
from envdoctor.report.plan_text import kept_lines
from envdoctor.stack.restore import refuse_no_venv
from envdoctor.swap import generations
from envdoctor.swap.in_use import users
from envdoctor.swap.store import Store
from envdoctor.swap.transaction import recover_first


def rollback(
    number: Annotated[
        int, typer.Argument(metavar="[N]", help="Which one, as `envdoctor history` lists them. Default: the newest.")
    ] = 0,
    venv: VenvOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Exchange the venv with a kept one, in one step; the venv before it becomes the newest generation.

    Exit codes: 0 done, 2 bad input, 4 failed with the venv as it was, 130 declined or interrupted.
    """
    as_json = json or output_format == "json"
    workspace = Workspace.open(venv)
    store = Store.of(workspace.folder)
    refuse_no_venv(store.target)
    if not dry_run:
        recover_first(store, lambda event: say(event.text))
    wanted = generations.chosen(store, number or None)
    back = generations.describe(wanted, int(wanted.name))
    running = users(store.target, workspace.host.proc)
    lines = [f"generation {back.number} comes back to {store.target}: {line(back)}"]
    if store.target.is_dir():
        now = generations.describe(store.target, 0)
        lines.append(f"what is there now is kept at {store.next_generation()}: {line(now)}")
    lines += [f"it is in use by {user}" for user in running]
    if dry_run:
        plan = {**HEAD, "status": "planned", "generation": encode(back), "users": encode(running)}
        write_result(json_module.dumps(plan, indent=2) + "\n" if as_json else "\n".join(lines) + "\n")
        return ExitCode.OK
    say("\n".join(lines))
    if not yes and not agreed(f"Go back to generation {back.number}?"):
        say(f"{store.target} is as it was")
        return ExitCode.INTERRUPTED
    with stoppable():
        done = generations.roll_back(store, back.number, lambda event: say(event.text))
    result = {"target": str(done.target), "kept": str(done.kept) if done.kept else None, "seconds": done.seconds}
    document = {**HEAD, "status": "rolled back", "generation": encode(back), "result": result}
    text = [f"generation {done.number} is back at {done.target}"]
    text += kept_lines(done.target, done.kept, running) if done.kept else []
    write_result(json_module.dumps(document, indent=2) + "\n" if as_json else "\n".join(text) + "\n")
    return ExitCode.OK
