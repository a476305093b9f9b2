"""Every file's contents against its RECORD: what `--deep` adds to the sizes."""

import os

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.loading.comparison import Mismatch, comparison
from envdoctor.probes.venv.bytecode import BytecodeState
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.uv_cache import UvCache


@frozen
class AlteredFile:
    """A file of the recorded size whose bytes are not the recorded ones."""

    path: str
    """Relative to the prefix (or absolute in a leaked folder)."""
    owner: str
    recorded: str
    """RECORD's hash field."""
    found: str
    """The same field for the bytes on disk."""
    links: int
    """Names the file has on its filesystem: more than one where uv linked it from its cache."""
    cached_at: str
    """The same file in uv's cache, whose bytes are altered with it; empty when it shares none."""


@frozen
class Unverified:
    """A file with a recorded hash that could not be compared with it."""

    path: str
    owner: str
    reason: str


@frozen
class DeepFiles:
    """The contents of every RECORD row that states a hash. There is no such section unless it was asked for."""

    files: int
    """Rows whose file was compared, remembered ones included."""
    without_hash: int
    """Rows that state none (RECORD itself, signatures): there is nothing to compare them with."""
    bytecode: int
    """Rows of .pyc files in __pycache__, which every interpreter may rewrite; not compared with a hash."""
    altered: tuple[AlteredFile, ...]
    unverified: tuple[Unverified, ...]
    notes: tuple[str, ...]
    """What kept digests of earlier runs from being used, or these from being remembered."""
    bytecode_state: BytecodeState = BytecodeState()
    """What Python runs in place of a source."""


def probe(reading: Reading) -> DeepFiles:
    """Say how the comparison went. Missing files and files of another size are `InstalledFiles`' to tell."""
    from envdoctor.probes.venv.used_bytecode import bytecode_state  # noqa: PLC0415 - every check imports this module

    files = reading.fact(InstalledFiles)
    sourceless = [(fault.owner, f"{reading.target.prefix / fault.path}c") for fault in files.faults if fault.compiled]
    compared = comparison(reading)
    return DeepFiles(
        files=compared.files,
        without_hash=compared.without_hash,
        bytecode=compared.bytecode,
        altered=tuple(_Altered(reading).of(item) for item in compared.altered),
        unverified=tuple(_unverified(reading, item) for item in compared.unverified),
        notes=tuple(compared.digests.memo.notes),
        bytecode_state=bytecode_state(reading, sourceless),
    )


class _Altered:
    """Turns mismatches into facts."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.cache = UvCache(host=reading.host)

    def of(self, item: Mismatch) -> AlteredFile:
        owner = self.reading.fact(Distributions).items[item.owner]
        full = _full(self.reading, item)
        return AlteredFile(
            path=full.removeprefix(f"{self.reading.target.prefix}/"),
            owner=owner.name,
            recorded=item.row[1],
            found=item.found,
            links=os.stat(full).st_nlink,  # noqa: PTH116 - a string path
            cached_at=self.cache.twin(full, owner.site, owner.folder),
        )


def _unverified(reading: Reading, item: Mismatch) -> Unverified:
    return Unverified(
        path=_full(reading, item).removeprefix(f"{reading.target.prefix}/"),
        owner=reading.fact(Distributions).items[item.owner].name,
        reason=item.reason,
    )


def _full(reading: Reading, item: Mismatch) -> str:
    return os.path.normpath(f"{reading.fact(Distributions).items[item.owner].site}/{item.row[0]}")
