"""What one command line means: this machine, the target venv, the profile and its lock. Each is found and read once."""

import os
import shlex
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.documents.project_config import load
from envdoctor.errors import ProfileError, TargetError, UsageError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.locate import NAME_ONE, Located, foreign_root, locate, without_conda
from envdoctor.facts.target import Target, is_interpreter, looked_up
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import replace
from envdoctor.model.header import Header
from envdoctor.model.verdict import Verdict

if TYPE_CHECKING:  # a check without a profile does not pay for its types
    from collections.abc import Iterable

    from envdoctor.documents.profile_store import ProfileRef
    from envdoctor.model.profile import Waiver
    from envdoctor.standards.lock import Lock


class Workspace:
    """One environment, seen from one machine, compared with at most one profile."""

    def __init__(
        self, host: Host, named: str = "", profile: "ProfileRef | None" = None, target: Target | None = None
    ) -> None:
        """Keep what was named; `target` is given where it is known without a name, as the gate knows it."""
        self.host = host
        self.named = named
        """The venv as the command line or the project's file has it: a folder, an interpreter or a link to one; empty
        for the default."""
        self.typed = named
        """The same, of the command line alone: only what was typed can contradict another option."""
        self.profile = profile
        if target is not None:
            self.target = target

    @classmethod
    def open(
        cls, venv: str = "", profile: str = "", host: Host | None = None, target: Target | None = None
    ) -> "Workspace":
        """Return the workspace of a command line. Raises ProfileError; the venv is looked for when it is asked for."""
        host = host or Host.current()
        typed = venv
        if not venv and target is None and not host.environ.get("VIRTUAL_ENV"):
            venv = load(host.cwd).venv
        workspace = cls(host, venv, _found(profile, host) if profile else None, target)
        workspace.typed = typed
        return workspace

    def needs_profile(self, purpose: str, command: str) -> "ProfileRef":
        """Return the profile; raise UsageError without one, with the purpose and the command that names it."""
        if self.profile is None:
            raise UsageError(f"no profile to {purpose}", f"`envdoctor profiles` lists them: `{command}`")
        return self.profile

    @cached_property
    def located(self) -> Located:
        """The environment and why it was taken. Raises TargetError when there is none."""
        given = self.__dict__.get("target")
        if given is not None:
            return Located(target=given)
        try:
            return locate(self.named, self.host)
        except TargetError as error:
            if self.profile and error.hint == NAME_ONE and not self.named:
                command = f"envdoctor restore --profile {shlex.quote(self.profile.asked)}"
                raise TargetError(error.message, f"`{command}` makes .venv here, or name one: `--venv PATH`") from error
            if self.named == self.typed:
                raise
            raise TargetError(f"{error.message} ({load(self.host.cwd).path} names it)", error.hint) from error

    def seen_as(self, located: Located) -> "Workspace":
        """Return the workspace of an environment that was found in another way, as inside a root folder."""
        workspace = Workspace(self.host, self.named, self.profile, located.target)
        workspace.located = located
        return workspace

    @cached_property
    def target(self) -> Target:
        """The environment: the named one, else the active one, else the nearest `.venv`. Raises as `located` does."""
        return self.located.target

    @cached_property
    def folder(self) -> Path:
        """The target venv's folder, which need not exist yet: a restore makes it, and a rollback brings it back.

        An interpreter means the venv that it belongs to, a project its venv. Without a name it is never a conda
        environment. Raises TargetError for an interpreter of no environment.
        """
        named = self.named or self.host.environ.get("VIRTUAL_ENV", "")
        try:
            return self.target.prefix if named else locate("", without_conda(self.host)).target.prefix
        except TargetError:
            path = looked_up(named, self.host.environ.get("PATH"), self.host.cwd) if named else None
            if path is not None and (is_interpreter(path) or foreign_root(path) is not None):
                raise
        return Path(self.host.cwd, named or ".venv")

    @property
    def found_above(self) -> bool:
        """Tell whether the venv was neither named nor active, and is in a folder above the current one."""
        named = self.named or self.host.environ.get("VIRTUAL_ENV", "")
        return not named and self.folder.parent != self.host.cwd

    def reading(self, options: Options | None = None) -> Reading:
        """Return a reading of the target; what it may spend is `options`, the profile's source files included."""
        from envdoctor.probes.registry import chosen  # noqa: PLC0415 - every probe comes with it

        options = self._as_profiled(options or Options())
        return Reading(target=self.target, host=self.host, options=options, probes=chosen(options))

    def facts(self, options: Options | None = None) -> Fingerprint:
        """Return every fact of the target, the training code and the variables that the profile names included.

        Raises TargetError; ProbeError when the venv is exchanged while it is read.
        """
        from envdoctor.doctor import examine  # noqa: PLC0415 - every check comes with it; a restore has uv meanwhile

        return examine.take_fingerprint(self.target, self.host, self._as_profiled(options or Options()))

    def verdict(
        self,
        facts: Fingerprint,
        waivers: "Iterable[Waiver]" = (),
        required: tuple[str, ...] = (),
        *,
        launching: bool = False,
        lock: "Lock | None" = None,
    ) -> Verdict:
        """Return what the checks find in the facts, compared with the profile where there is one.

        required: requirements that must be installed, whatever the profile says. launching: the variables are those
        of the process that is about to train. lock: compared where there is no profile.
        """
        from envdoctor.doctor import examine  # noqa: PLC0415 - as above

        waivers = (*waivers, *self._configured_waivers())
        if self.profile is None:
            return examine.judge(facts, lock=lock, ignore=waivers, required=required, launching=launching)
        return examine.judge(
            facts,
            self.profile.profile,
            self.profile.lock,
            ignore=waivers,
            profile_asked=self.profile.asked,
            required=required,
            launching=launching,
        )

    def _configured_waivers(self) -> "tuple[Waiver, ...]":
        configured = load(self.host.cwd)
        if configured.waivers:
            from envdoctor.checks.registry import refuse_unknown  # noqa: PLC0415 - loaded by now

            refuse_unknown(f"{configured.path}: tool.envdoctor.", configured.waivers)
        return configured.waivers

    def header(self, facts: Fingerprint) -> Header:
        """Return the heading of a report on the facts."""
        located: Located | None = self.__dict__.get("located")  # not looked for where a fingerprint was given
        own = "envdoctor runs from it" if located and located.target.prefix == Path(sys.prefix) else ""
        found_by = "; ".join(filter(None, (located.why if located else "", own)))
        from envdoctor.doctor.heading import heading  # noqa: PLC0415 - the modules of the probes come with it

        if self.profile is None:
            return heading(facts, "", found_by)
        return heading(facts, self.profile.name, found_by, self.profile.found_above(self.host.cwd))

    def refuse_code_variables(self) -> None:
        """Raise ProfileError where the profile sets a variable that loads code into what is started."""
        if self.profile is None:
            return
        from envdoctor.catalog.variables import loads_code  # noqa: PLC0415 - nothing is started by most commands

        if found := sorted(filter(loads_code, self.profile.profile.environment.set)):
            raise ProfileError(
                f"{self.profile.path}: environment.set: {', '.join(found)} would load code into all that is started",
                "take it out, or add `--trust-variables` to `run` or `cache warm` if that profile is yours",
            )

    def with_variables(self) -> "Workspace":
        """Return the workspace with the variables that the profile's launch sets: they decide where caches lie."""
        variables = self.profile.profile.environment.set if self.profile else {}
        host = replace(self.host, environ={**self.host.environ, **variables})
        named = self.named or self.host.environ.get("VIRTUAL_ENV", "")
        return Workspace(host, named, self.profile, self.__dict__.get("target"))

    def launched(self) -> "Workspace":
        """Return the workspace as a command sees it that is started in it: the venv is active, its variables are set.

        Raises TargetError when there is no venv.
        """
        prefix = str(self.target.prefix)
        environ = {name: value for name, value in self.host.environ.items() if name != "PYTHONHOME"}
        environ |= self.profile.profile.environment.set if self.profile else {}
        environ["VIRTUAL_ENV"] = prefix
        environ["PATH"] = os.pathsep.join((f"{prefix}/bin", self.host.environ.get("PATH", os.defpath)))
        return Workspace(replace(self.host, environ=environ), prefix, self.profile, self.target)

    def _as_profiled(self, options: Options) -> Options:
        if self.profile is None:
            return options
        wanted = self.profile.profile
        return replace(
            options,
            source_root=self.profile.project,
            source_files=tuple(wanted.sources),
            variables=wanted.environment.names,
        )


def _found(profile: str, host: Host) -> "ProfileRef":
    from envdoctor.documents import profile_store  # noqa: PLC0415 - as its types

    try:
        return profile_store.find(profile, host.cwd)
    except ProfileError as error:
        file = load(host.cwd)
        named_by = {host.environ.get("ENVDOCTOR_PROFILE"): "$ENVDOCTOR_PROFILE", file.profile: file.path}.get(profile)
        if named_by is None or named_by in error.message:
            raise
        raise ProfileError(f"{error.message} ({named_by} names it)", error.hint) from error
