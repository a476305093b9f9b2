"""A command or script that starts another Python than this environment's.

What it finds:
    Scripts in the environment's bin folder whose shebang names another interpreter, or what does not exist, and an
    activate script that names another folder (the venv was moved or copied); python, torchrun, accelerate or deepspeed
    found on PATH in front of the environment that is activated. A script for a program that the machine lacks (perl)
    is worth a warning.

Why it matters:
    Workers inherit the interpreter of the launcher, so every rank runs in the other environment while each check run
    with the venv's own python passes.

Example:
    `~/.local/bin/torchrun`, left by `pip install --user torch`, stands on PATH before `.venv/bin`: ModuleNotFoundError
    on every rank.

Fix:
    Put the environment first on PATH, or launch with `.venv/bin/python -m torch.distributed.run`. A reinstall of the
    distributions that own them writes the scripts of a moved venv again; those that no RECORD lists get a line for sed.
"""

import shlex
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.python_again import renew_command
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.pattern import pattern
from envdoctor.model.verdict import STOPS_PYTHON
from envdoctor.model.wording import counted
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.launchers import Launcher, Launchers, StrayScript

CODE = "ED103"
NAME = "stale-launcher"
AREA = "Interpreter"
_SHOWN = 6
_GONE = "does not exist"
# Paths that mean themselves to a shell, in a shebang and in a pattern of sed, but for the dot, which means itself too.
_PLAIN = pattern(r"/[\w./+@,-]+")
_MODULES = {
    "torchrun": "torch.distributed.run",
    "accelerate": "accelerate.commands.accelerate_cli",
    "deepspeed": "deepspeed.launcher.runner",
}


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for the environment's own scripts of each interpreter, one for the commands on PATH."""
    launchers = case.facts[Launchers]
    # A script that starts the Python of the same folder tells of it too.
    if launchers.activates and not any(_agrees(launchers, script) for script in launchers.stray):
        yield _activate(case, launchers.activates)
    yield from _scripts(case, launchers.stray, launchers.scripts)
    torch = case.facts.get(TorchBuild)
    elsewhere = [
        command
        for command in launchers.commands
        if not command.inside and (command.command not in _MODULES or (torch is not None and torch.present))
    ]
    if elsewhere:
        yield _commands(case, elsewhere)


def _agrees(launchers: Launchers, script: StrayScript) -> bool:
    """Tell whether a script starts the Python of the other folder that bin/activate names: the venv was there once."""
    return not script.foreign and bool(launchers.activates) and script.interpreter.startswith(f"{launchers.activates}/")


def _scripts(case: CheckContext, stray: Sequence[StrayScript], total: int) -> Iterator[Finding]:
    """Yield one finding for the scripts of each interpreter; the first that agrees with bin/activate renews that."""
    groups: dict[tuple[bool, bool, str], list[StrayScript]] = {}
    for script in stray:
        groups.setdefault((script.foreign, script.exists, script.interpreter), []).append(script)
    # Python that is gone first, then the most scripts.
    order = sorted(groups, key=lambda key: (key[0], key[1], -len(groups[key]), key[2]))
    launchers = case.facts[Launchers]
    moved = [key for key in order if _agrees(launchers, groups[key][0])]
    for key in order:
        if key[0]:
            yield _of_programs(groups[key], total)
        else:
            yield _of_python(case, groups[key], total, moved=key in moved, activate=key in moved[:1])


def _title(scripts: Sequence[StrayScript], state: str) -> str:
    return f"{counted(len(scripts), 'script', 'starts', 'start')} {scripts[0].interpreter}, which {state}"


def _shown(scripts: Sequence[StrayScript], total: int) -> Iterator[str]:
    yield from (f"bin/{script.name}: #!{script.interpreter}" for script in scripts[:_SHOWN])
    if len(scripts) > _SHOWN:
        yield f"and {len(scripts) - _SHOWN} more of {counted(total, 'script')}"


def _of_programs(scripts: Sequence[StrayScript], total: int) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=_title(scripts, _GONE),
        subject=f"bin: {scripts[0].interpreter}",
        evidence=tuple(_shown(scripts, total)),
        remediation=Remediation(
            text=f"Install {scripts[0].interpreter.rpartition('/')[2]} on this machine if you use "
            f"{'it' if len(scripts) == 1 else 'them'}: a reinstall writes the same line again",
            safe=True,
        ),
        # Where the script was changed, its owner's reinstall writes the line that it came with.
        symptom_of=tuple(f"file:bin/{script.name}" for script in scripts),
    )


def _of_python(case: CheckContext, stray: Sequence[StrayScript], total: int, *, moved: bool, activate: bool) -> Finding:
    own, interpreter = stray[0].own, stray[0].interpreter
    state = "is another environment's" if stray[0].exists else _GONE
    commands = (*_rewrite(case, stray, activate=activate), *_led_back(case, stray))
    named = (f"bin/activate: VIRTUAL_ENV={case.facts[Launchers].activates}",) if moved else ()
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{_title(stray, state)}{': this venv was moved or copied' if moved else ''}",
        # Each interpreter's own: what is fixed of the others does not change it.
        subject=f"bin: {interpreter}",
        evidence=(*_shown(stray, total), *named),
        remediation=restore_or(
            case,
            "write the activate scripts and the owners' scripts again; or move the folder back"
            if moved
            else f"bring back {interpreter}, or delete the scripts that start it"
            if own and not commands
            else "write the owners' scripts again",
            commands,
        ),
        causes=("launcher", *(f"file:bin/{script.name}" for script in stray)),
        symptom_of=(
            # The venv's own interpreter is gone: the scripts start again with it.
            *((STOPS_PYTHON,) if own else ()),
            # Whose a script is stands in a RECORD: where one is gone, its owner's reinstall comes first.
            *(() if all(script.owner for script in stray) else _without_record(case)),
        ),
    )


def _without_record(case: CheckContext) -> Iterator[str]:
    files = case.facts.get(InstalledFiles)
    empty = {owner.name for owner in files.owners if not owner.files} if files else set()
    for item in case.facts[Distributions].items:
        lacking = not item.has_record or item.name in empty
        if item.origin == "site-packages" and lacking and not item.shadowed:
            yield f"dist:{item.name}"


def _activate(case: CheckContext, named: str) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"bin/activate puts {named}/bin first on PATH, not this venv's: this venv was moved or copied",
        subject="bin/activate",
        evidence=(f"bin/activate: VIRTUAL_ENV={named}", "after `source bin/activate` another Python starts"),
        remediation=restore_or(
            case, "write the activate scripts again; or move the folder back", _rewrite(case, (), activate=True)
        ),
        causes=("launcher",),
    )


def _rewrite(case: CheckContext, stray: Sequence[StrayScript], *, activate: bool) -> Iterator[str]:
    python = case.facts[Interpreter]
    # Without a stale activate script `uv venv` changes nothing that matters: the owners' reinstall writes scripts.
    if activate and case.facts[Launchers].activates and (python.is_venv or python.lost_config):
        yield renew_command(case, python.resolved or python.minor)
    installed = case.facts[Distributions]
    owners = sorted({script.owner for script in stray if script.owner})
    pins = [(name, item.version) for name in owners if (item := installed.active(name))]
    if pins:
        yield reinstall_command(case, pins)


def _led_back(case: CheckContext, stray: Sequence[StrayScript]) -> Iterator[str]:
    """Yield a line for each interpreter that is gone and that scripts of no RECORD start.

    No reinstall writes such a script again: the metadata is gone, or site-packages is a link and their place by RECORD
    is beside its end. One whose interpreter exists may be meant so; one that starts what this venv's own bin folder
    lacks starts again with that.
    """
    right = f"{case.prefix}/bin/python"
    gone: dict[str, list[str]] = {}
    for script in stray:
        if not script.owner and not script.exists and not script.own:
            gone.setdefault(script.interpreter, []).append(f"{case.facts.target}/bin/{script.name}")
    for wrong, scripts in sorted(gone.items()):
        if _PLAIN.fullmatch(wrong) and _PLAIN.fullmatch(right):
            # The first line, or the third where a shell starts Python (see the probe); sed writes a new file.
            yield f"sed -i {shlex.quote(f'1,3s|{wrong}|{right}|')} {' '.join(map(shlex.quote, sorted(scripts)))}"


def _commands(case: CheckContext, elsewhere: Sequence[Launcher]) -> Finding:
    # torchrun and its like name the fault better than the python that stands beside them.
    first = next((command for command in elsewhere if command.command in _MODULES), elsewhere[0])
    runs = f", which starts {first.interpreter}" if first.interpreter else ""
    module = _MODULES.get(first.command)
    names = ", ".join(dict.fromkeys(command.command for command in elsewhere))
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if module else "warning",
        confidence="high",
        title=f"{first.command} on PATH is {first.path}{runs}, not this environment's",
        subject=names,
        evidence=(
            *(
                f"{command.command}: {command.path}" + (f" (#!{command.interpreter})" if command.interpreter else "")
                for command in elsewhere
            ),
            "the environment's bin folder stands behind it on PATH",
        ),
        remediation=Remediation(
            text="Put the environment first on PATH"
            + (f", or launch by its own interpreter: `{case.python} -m {module} …`" if module else ""),
            commands=(f'export PATH={case.prefix}/bin:"$PATH"',),
            safe=True,
        ),
        causes=("launcher",),
    )
