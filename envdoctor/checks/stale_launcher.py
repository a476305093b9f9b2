"""A command or script that starts another Python than this environment's.

What it finds:
    Scripts in the environment's bin folder whose shebang names another interpreter, or what does not exist, and an
    activate script that names another folder (the venv was moved or copied); python, torchrun, accelerate or deepspeed
    found on PATH in front of the environment that is activated.

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
from envdoctor.analysis.remedies import reinstall_command, renew_command, restore_or
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.pattern import pattern
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
# Paths that mean themselves to a shell, in a shebang and in a pattern of sed, but for the dot, which means itself too.
_PLAIN = pattern(r"/[\w./+@,-]+")
_MODULES = {
    "torchrun": "torch.distributed.run",
    "accelerate": "accelerate.commands.accelerate_cli",
    "deepspeed": "deepspeed.launcher.runner",
}


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for the environment's own scripts, one for the commands on PATH."""
    launchers = case.facts[Launchers]
    if launchers.stray:
        yield _scripts(case, launchers.stray, launchers.scripts)
    elif launchers.activates:
        yield _activate(case, launchers.activates)
    torch = case.facts.get(TorchBuild)
    elsewhere = [
        command
        for command in launchers.commands
        if not command.inside and (command.command not in _MODULES or (torch is not None and torch.present))
    ]
    if elsewhere:
        yield _commands(case, elsewhere)


def _scripts(case: CheckContext, stray: Sequence[StrayScript], total: int) -> Finding:
    gone = [script for script in stray if not script.exists]
    first = (gone or list(stray))[0]
    state = "does not exist" if gone else "is another environment's"
    moved = case.facts[Launchers].activates or (len(stray) > 1 and len(stray) * 2 > total)
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{counted(len(stray), 'script', 'starts', 'start')} {first.interpreter}, which {state}"
        f"{': this venv was moved or copied' if moved else ''}",
        subject="bin",
        evidence=(
            *(f"bin/{script.name}: #!{script.interpreter}" for script in stray[:_SHOWN]),
            *((f"and {len(stray) - _SHOWN} more of {counted(total, 'script')}",) if len(stray) > _SHOWN else ()),
        ),
        remediation=restore_or(
            case,
            "write the activate scripts and the owners' scripts again; or move the folder back"
            if moved
            else "write the owners' scripts again",
            (*_rewrite(case, stray), *_led_back(case, stray)),
        ),
        causes=("launcher", *(f"file:bin/{script.name}" for script in stray)),
        # Whose a script is stands in a RECORD: where one is gone, its owner's reinstall comes first.
        symptom_of=() if all(script.owner for script in stray) else tuple(_without_record(case)),
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
        remediation=restore_or(case, "write the activate scripts again; or move the folder back", _rewrite(case, ())),
        causes=("launcher",),
    )


def _rewrite(case: CheckContext, stray: Sequence[StrayScript]) -> Iterator[str]:
    python = case.facts[Interpreter]
    # Without a stale activate script `uv venv` changes nothing that matters: the owners' reinstall writes scripts.
    if case.facts[Launchers].activates and (python.is_venv or python.lost_config):
        yield renew_command(case, python.resolved or python.minor)
    installed = case.facts[Distributions]
    owners = sorted({script.owner for script in stray if script.owner})
    pins = [(name, item.version) for name in owners if (item := installed.active(name))]
    if pins:
        yield reinstall_command(case, pins)


def _led_back(case: CheckContext, stray: Sequence[StrayScript]) -> Iterator[str]:
    """Yield a line for each interpreter that is gone and that scripts of no RECORD start.

    No reinstall writes such a script again: the metadata is gone, or site-packages is a link and their place by RECORD
    is beside its end. One whose interpreter exists may be meant so.
    """
    right = f"{case.prefix}/bin/python"
    gone: dict[str, list[str]] = {}
    for script in stray:
        if not script.owner and not script.exists:
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
