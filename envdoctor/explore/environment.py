"""One environment as `why` and `impact` look at it: a reading, who holds which path, and `import torch` played."""

import os
from collections.abc import Iterator

from envdoctor.elf.reader import ElfObject
from envdoctor.errors import ElfError, ProbeError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.target import Target
from envdoctor.loader.disk import Disk
from envdoctor.loader.torch_import import TorchImport, simulate_import
from envdoctor.model.frozen import field, mutable
from envdoctor.model.why import RecordHolder
from envdoctor.probes.loading.loader import loader_roots, torch_target
from envdoctor.probes.registry import PROBES
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.records import RecordIndex, index


@mutable
class ExploredEnvironment:
    """A reading with what several answers need of it. Nothing of the environment is run."""

    reading: Reading
    disk: Disk = field(default_factory=Disk)
    played: TorchImport | None = None
    """`import torch`; None where there is no torch to import, or its files do not allow to play it."""

    @property
    def items(self) -> tuple[Distribution, ...]:
        """Return the distributions, in the order that `records` counts them in."""
        return self.reading.fact(Distributions).items

    @property
    def records(self) -> RecordIndex:
        """Return every RECORD row."""
        return index(self.reading)

    def shown(self, path: str) -> str:
        """Return a path relative to the prefix where it is inside."""
        return os.path.normpath(path).removeprefix(f"{self.reading.target.prefix}{os.sep}")

    def holders(self, *paths: str) -> tuple[RecordHolder, ...]:
        """Return who has one of these absolute paths in its RECORD; the first path that anybody has decides."""
        for path in paths:
            if path in self.records.contested:
                at = [owner for owner, _ in self.records.contested[path]]
                return tuple(self._holder(self.items[owner], path) for owner in dict.fromkeys(at))
            if path in self.records.owners:
                return (self._holder(self.items[self.records.owners[path]], path),)
        return ()

    def outside(self, path: str) -> tuple[RecordHolder, ...]:
        """Return who has an absolute path in its RECORD that a link leads out of the environment."""
        found = (
            self.items[at]
            for at, row in self.records.outside
            if os.path.normpath(f"{self.items[at].site}/{row}") == path
        )
        return tuple(RecordHolder(name=item.name, version=item.version, holds=True) for item in dict.fromkeys(found))

    def recorded_as(self, soname: str) -> tuple[str, ...]:
        """Return the absolute paths of RECORD rows, whole or not, whose file is called so."""
        end = f"{os.sep}{soname}"
        return tuple(path for path in self.records.owners if path.endswith(end))

    def _holder(self, item: Distribution, path: str) -> RecordHolder:
        shown = self.shown(path)
        contested = next((one for one in self.reading.fact(InstalledFiles).contested if one.path == shown), None)
        told = contested is not None and contested.told_by in ("size", "hash")
        holds = not told or item.name in (contested.on_disk if contested else ())
        return RecordHolder(name=item.name, version=item.version, holds=holds)

    def on_disk(self, at: int) -> dict[str, int]:
        """Return path -> bytes of what a distribution's RECORD lists and is there, bytecode included."""
        site, found = self.items[at].site, {}
        for row in self.records.rows.get(at, ()):
            path = os.path.normpath(f"{site}/{row[0]}")
            try:
                found[path] = os.lstat(path).st_size
            except (OSError, ValueError):
                continue
        return found

    def owner(self, *paths: str) -> str:
        """Return the name of the distribution whose bytes are at a path; empty when none has it."""
        return next((holder.name for holder in self.holders(*paths) if holder.holds), "")

    def objects(self) -> Iterator[ElfObject]:
        """Yield every shared object that a RECORD lists and that can be read."""
        for at, rows in self.records.rows.items():
            site = self.items[at].site
            for path, _, _ in rows:
                if ".so" in path.rpartition("/")[2]:
                    try:
                        yield self.disk.elf(os.path.normpath(f"{site}/{path}"))
                    except ElfError:
                        continue  # a text file named like a library, or one that is gone: both are told elsewhere


def explore(target: Target, host: Host) -> ExploredEnvironment:
    """Read an environment as far as questions about it need."""
    reading = Reading(target=target, host=host, options=Options(ask_nvml=False), probes=PROBES)
    environment = ExploredEnvironment(reading=reading)
    environment.played = play(reading, environment.disk)
    return environment


def play(reading: Reading, disk: Disk) -> TorchImport | None:
    """Play `import torch` over what `disk` shows; None where it cannot be played."""
    try:
        target = torch_target(reading)
        return simulate_import(target, loader_roots(reading, disk), disk) if target is not None else None
    except (ElfError, ProbeError):
        return None
