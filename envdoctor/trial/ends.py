"""Both ends of a bisection as venvs: one that is there is taken as it is, a profile or a fingerprint is built first."""

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path

from envdoctor.catalog.variables import known
from envdoctor.documents import fingerprint_file, profile_store
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import RestoreError, UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.model.events import Event, Listener
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import field, frozen
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.venv.distribution_digests import Contents
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.stack import interpreters, restore
from envdoctor.stack.build import build
from envdoctor.stack.named import NamedStack
from envdoctor.stack.restore_copy import why_not
from envdoctor.stack.verify import refuse
from envdoctor.stack.verify_copy import known_contents, verify_copy
from envdoctor.swap.store import remove_tree
from envdoctor.trial.side import Side, read_side
from envdoctor.wheels import index_config, pip_config, wheelhouse
from envdoctor.wheels import uv as uv_tool

_DONE = ".complete"


@frozen
class BisectEnd:
    """One end: its venv, and the variables that it brings."""

    side: Side
    variables: Mapping[str, str | None] = field(default_factory=dict)
    """Name -> value, None for one that must not be set."""
    built_from: str = ""
    """Digest of what it was built from; empty for a venv that was there."""
    commit: str = ""
    """Of the training code; empty where it says none."""


def open_end(named: NamedStack, host: Host, folder: Path, listen: Listener, *, offline: bool) -> BisectEnd:
    """Return an end; one that is not a venv is built in `folder`, once. Raises UsageError, RestoreError."""
    if named.kind == "profile":
        return _of_profile(named, profile_store.find(named.path, host.cwd), host, folder, listen, offline=offline)
    if named.kind == "fingerprint":
        return _of_fingerprint(named, fingerprint_file.read(named.path), host, folder, listen, offline=offline)
    prefix = resolve(named.path).prefix
    home = Path(named.venv) if named.venv else None
    return BisectEnd(side=read_side(prefix, named.label, host, home))


def _of_profile(
    named: NamedStack, file: ProfileRef, host: Host, folder: Path, listen: Listener, *, offline: bool
) -> BisectEnd:
    wanted = file.profile.environment
    venv = folder / f"profile-{file.digest[:16]}"
    if not (folder / f"{venv.name}{_DONE}").exists():
        remove_tree(venv)
        listen(Event(phase="plan", text=f"planning: looking for the wheels of {file.name}"))
        request = restore.RestoreRequest(
            target=venv,
            file=file,
            lock=file.lock,
            offline=offline,
            wheelhouses=wheelhouse.chosen((), file, host.cwd),
        )
        prepared = restore.prepare(request, host)
        if prepared.plan.unavailable:
            raise RestoreError(*why_not(prepared.plan))
        uv = uv_tool.locate(host.environ, host.cwd)
        build(prepared.plan, prepared.locked, prepared.sources, uv, venv, listen)
        verified, _ = verify_copy(venv, venv, prepared.locked, host, listen, known_contents(host, "changed"))
        refuse(verified, f"the venv of profile {file.name}")
        (folder / f"{venv.name}{_DONE}").touch()
    return BisectEnd(
        side=read_side(venv, named.label, host),
        variables={**dict.fromkeys(wanted.forbidden), **wanted.set},
        built_from=file.digest,
        commit=file.profile.git.commit,
    )


def _of_fingerprint(
    named: NamedStack, facts: Fingerprint, host: Host, folder: Path, listen: Listener, *, offline: bool
) -> BisectEnd:
    pins = _pins(named, facts)
    digest = hashlib.sha256("\n".join([facts.target, facts.taken_at, *pins]).encode()).hexdigest()
    venv = folder / f"fingerprint-{digest[:16]}"
    if not (folder / f"{venv.name}{_DONE}").exists():
        remove_tree(venv)
        listen(Event(phase="build", text=f"building what {named.label} describes: {len(pins)} distributions"))
        _install(facts, pins, host, venv, offline=offline)
        (folder / f"{venv.name}{_DONE}").touch()
    side = read_side(venv, named.label, host)
    _refuse_other(named, facts, side)
    variables = {
        item.name: item.value
        for item in facts[Environment].variables
        if (row := known(item.name)) is not None and row.scope == "stack"
    }
    return BisectEnd(side=side, variables=variables, built_from=digest)


def _pins(named: NamedStack, facts: Fingerprint) -> list[str]:
    own = [item for item in facts[Distributions].items if item.origin == "site-packages" and not item.shadowed]
    local = sorted(item.name for item in own if item.direct_url)
    if local:
        raise UsageError(
            f"{named.label} cannot be built: {', '.join(local)} did not come from an index",
            "name the venv itself, or a profile that was captured from it: `envdoctor capture NAME`",
        )
    return sorted(f"{item.name}=={item.version}" for item in own)


def _install(facts: Fingerprint, pins: list[str], host: Host, venv: Path, *, offline: bool) -> None:
    minor = facts[Interpreter].minor
    wanted = interpreters.InterpreterRequest(versions=(minor,), cwd=host.cwd)
    interpreter = interpreters.choose(wanted, host.environ, host.home)
    uv = uv_tool.locate(host.environ, host.cwd)
    reach = index_config.configured(uv, pip_config.read(host.environ, host.home), host.home, sys.executable).everywhere
    uv.run(("venv", "--quiet", "--relocatable", "--no-project", "--python", interpreter.path, venv))
    install = ["pip", "install", "--quiet", "--no-deps", "--no-build", "--python", str(venv / "bin/python")]
    install += ["--index-strategy", "unsafe-best-match", *(("--offline",) if offline else ()), *reach.arguments]
    uv.run([*install, "--requirements", "-"], extra=reach.variables, stdin="\n".join(pins))
    winners = {name for item in facts[InstalledFiles].contested for name in item.on_disk}
    last = [pin for pin in pins if pin.partition("==")[0] in winners]
    if last:
        # Where several write one path, those whose bytes were there are written last.
        again = [word for pin in last for word in ("--reinstall-package", pin.partition("==")[0])]
        uv.run([*install, *again, *last], extra=reach.variables)


def _refuse_other(named: NamedStack, facts: Fingerprint, side: Side) -> None:
    contents = facts.get(Contents)
    wanted = {item.name: item.sha256 for item in contents.items if item.sha256} if contents else {}
    other = sorted(
        name for name, digest in wanted.items() if name not in side.installed or side.installed[name].content != digest
    )
    if other or not wanted:
        raise UsageError(
            f"{named.label} cannot be built: what the sources have of {', '.join(other)} has other files"
            if other
            else f"{named.label} does not say what its distributions consist of",
            "name the venv itself, or a profile that was captured from it: `envdoctor capture NAME`",
        )
