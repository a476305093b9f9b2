"""What a change would do to an environment, told before anything is touched."""

from typing import Literal

from envdoctor.model.frozen import frozen

Action = Literal["remove", "install", "try"]


@frozen
class VersionChange:
    """One distribution before and after; empty where it is not there."""

    name: str
    before: str
    after: str


@frozen
class Gone:
    """The files of one distribution that would go."""

    owner: str
    version: str
    files: int
    bytes: int


@frozen
class Loss:
    """Files that would go or change although a distribution that stays owns them too; empty ones not counted."""

    owner: str
    version: str
    paths: tuple[str, ...]
    taken_by: str
    """Whose removal takes them."""


@frozen
class ProviderChange:
    """A soname that would come from elsewhere, or from nowhere."""

    soname: str
    before: str
    """Path, relative to the prefix where inside; empty when nothing provided it."""
    before_owner: str
    after: str
    after_owner: str
    used: bool
    """Part of `import torch` or of a first use after it."""


@frozen
class Stopped:
    """A module that could be imported and could not any more."""

    module: str
    owner: str
    reason: str


@frozen
class FindingLine:
    """A finding of the check, in short."""

    code: str
    severity: str
    title: str


@frozen
class Impact:
    """The whole answer."""

    target: str
    action: Action
    asked: tuple[str, ...]
    distributions: tuple[VersionChange, ...]
    gone: tuple[Gone, ...]
    losses: tuple[Loss, ...]
    providers: tuple[ProviderChange, ...]
    import_before: str
    """What `import torch` raises now; empty when it loads or there is no torch."""
    import_after: str
    """What it would raise."""
    unmet: tuple[str, ...]
    """Requirements that would no longer be met, "torch 2.10.0 requires nvidia-nccl-cu12==2.27.5"."""
    stops: tuple[Stopped, ...]
    appear: tuple[FindingLine, ...] = ()
    """Findings of a check that would be new."""
    disappear: tuple[FindingLine, ...] = ()
    commands: tuple[str, ...] = ()
    """How to make the change: of a removal, so that others get back what it takes from them."""
    notes: tuple[str, ...] = ()

    @property
    def harmful(self) -> bool:
        """Tell whether anything but what was asked to go would suffer."""
        others = any(stopped.owner not in self._leaving for stopped in self.stops)
        broken = self.import_after not in ("", self.import_before) and "torch" not in self._leaving
        worse = any(line.severity == "error" for line in self.appear)
        return bool(self.losses or self.unmet or others or broken or worse)

    @property
    def _leaving(self) -> set[str]:
        return {change.name for change in self.distributions if not change.after}
