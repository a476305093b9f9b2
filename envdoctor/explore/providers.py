"""Who provides which soname, before and after."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from envdoctor.elf.reader import ElfObject
from envdoctor.explore.environment import ExploredEnvironment
from envdoctor.loader.torch_import import TorchImport
from envdoctor.model.impact import ProviderChange


class ShownProvider(NamedTuple):
    """One provider: a path as shown, whose it is, and whether `import torch` or a first use takes it."""

    path: str
    owner: str
    used: bool


@dataclass(slots=True)
class Providers:
    """Soname -> its provider: what `import torch` takes, else the first file of the environment that bears it."""

    environment: ExploredEnvironment
    found: dict[str, ShownProvider] = field(default_factory=dict)

    def add_import(self, played: TorchImport | None, *, used: bool) -> None:
        """Enter what an import (and what is opened after it) takes."""
        if played is None:
            return
        opened = (*played.objects[1:], *(item for lazy in played.lazy for item in lazy.result.opened))
        for item in opened:
            owner = self.environment.owner(os.path.normpath(item.path), item.real)
            name = item.soname or os.path.basename(item.path)
            self.found.setdefault(name, ShownProvider(self.environment.shown(item.path), owner, used))

    def add_files(self, objects: Iterable[ElfObject]) -> None:
        """Enter the environment's other shared objects, by their sonames."""
        for elf in objects:
            if elf.soname:
                owner = self.environment.owner(elf.path)
                self.found.setdefault(elf.soname, ShownProvider(self.environment.shown(elf.path), owner, used=False))


def changes(before: Providers, after: Providers) -> Iterator[ProviderChange]:
    """Yield the sonames whose provider differs, those of the import first."""
    names = {*before.found, *after.found}
    ordered = sorted(names, key=lambda name: (not before.found.get(name, ShownProvider("", "", used=False)).used, name))
    nothing = ShownProvider("", "", used=False)
    for name in ordered:
        old, new = before.found.get(name, nothing), after.found.get(name, nothing)
        if (old.path, old.owner) != (new.path, new.owner):
            yield ProviderChange(
                soname=name,
                before=old.path,
                before_owner=old.owner,
                after=new.path,
                after_owner=new.owner,
                used=old.used or new.used,
            )
