"""One reading of one environment: probes ask it for other probes' facts, each is read once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from envdoctor.errors import ProbeError, internal_error, traceback_of
from envdoctor.facts.host import Host
from envdoctor.facts.target import Target
from envdoctor.model.frozen import field, frozen, mutable

Section = TypeVar("Section")
Probe = Callable[["Reading"], Any]


@frozen
class Options:
    """What a reading may spend."""

    ask_nvml: bool = True
    """Ask the driver through NVML in a child process; the gate does not."""
    source_root: Path | None = None
    """Project root of the training code."""
    source_files: tuple[str, ...] = ()
    """Files under `source_root` to hash."""
    variables: tuple[str, ...] = ()
    """Environment variables to keep beyond those that always are: what a profile sets or forbids."""
    contents: bool = False
    """Digest every RECORD, so that the stack as a whole has a digest, and sample NCCL's bytes."""
    deep: bool = False
    """Hash every file that a RECORD states a hash for."""
    fresh: bool = False
    """With `deep`: a venv that was just built from wheels, in which nothing has run, and whose facts are used only
    where every file turned out to be as its RECORD says. Bytecode that a RECORD states a hash for counts, too."""
    proven: Mapping[bytes, bytes] = field(default_factory=dict)
    """With `deep`: contents of files that need not be read, content key (digest_memo) -> sha256."""
    everything: bool = False
    """With `deep`: every file is read, whatever earlier runs know of it."""
    only_remembered: bool = False
    """Take what costs seconds from an earlier run, or leave it out: the gate does."""
    progress: Callable[[int, int], None] | None = None
    """Called with (bytes done, bytes in all) while that goes on."""


@mutable
class Reading:
    """Facts of one target on one host, read on demand."""

    target: Target
    host: Host
    options: Options
    probes: Mapping[type, Probe]
    read: dict[type, object] = field(default_factory=dict)
    failed: dict[type, str] = field(default_factory=dict)
    crashed: dict[type, str] = field(default_factory=dict)
    """The traceback of each failed probe that raised what no probe should."""
    shared: dict[type, object] = field(default_factory=dict)
    """In-memory material of several probes (the RECORD index) that is too large for a fingerprint."""

    def fact(self, kind: type[Section]) -> Section:
        """Return the section of that type, running its probe the first time; raise ProbeError when it failed."""
        if kind in self.failed:
            raise ProbeError(self.failed[kind])
        if kind not in self.read:
            try:
                self.read[kind] = self.probes[kind](self)
            except ProbeError as error:
                self.failed[kind] = error.message
                raise
            except OSError as error:
                reason = f"{error.filename or self.target.prefix}: {error.strerror or error}"
                self.failed[kind] = reason
                raise ProbeError(reason) from error
            except Exception as error:
                # A probe of ours that crashes costs its own facts: those of the others may hold the cause.
                self.failed[kind] = internal_error(error)
                self.crashed[kind] = traceback_of(error)
                raise ProbeError(self.failed[kind]) from error
        section = self.read[kind]
        assert isinstance(section, kind)  # noqa: S101 - the registry maps a type to the probe that returns it
        return section

    def material(self, kind: type[Section], make: Callable[["Reading"], Section]) -> Section:
        """Return in-memory material of that type, made once."""
        if kind not in self.shared:
            self.shared[kind] = make(self)
        made = self.shared[kind]
        assert isinstance(made, kind)  # noqa: S101 - `make` returns the type it is kept under
        return made
