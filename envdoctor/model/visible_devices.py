"""CUDA_VISIBLE_DEVICES as the driver reads it.

CUDA's programming guide says that an invalid entry ends the list; the rest was observed with driver 580.159.04 and two
H200: an ordinal is what strtol reads from an entry ("1gpu0" is 1, "cuda:0" is none), blanks may stand before an ordinal
and not before a UUID, a UUID may be cut short, ordinals and UUIDs do not mix, and an entry named twice leaves no device
at all (cuInit returns 101). torch.cuda's _parse_visible_devices agrees.
"""

from collections.abc import Sequence

from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern

_ORDINAL = pattern(r"\s*([+-]?\d+)")


@frozen
class Visible:
    """What the variable leaves visible."""

    devices: tuple[str, ...]
    """Ordinals ("0") or full UUIDs, in the order the process numbers them."""
    stopped_at: str | None
    """The entry that ended the list, or None."""
    dropped: tuple[str, ...]
    """Entries behind it."""
    named_twice: bool
    """Some entry stands twice: no device is visible at all."""
    mig: int
    """MIG instances named; a process uses the first one only."""


def parse_visible(value: str, count: int | None, uuids: Sequence[str]) -> Visible:
    """Return what a value leaves visible of `count` GPUs (None: not known, every ordinal is taken as valid).

    `uuids` are those of the GPUs and of their MIG instances; where there are none, every UUID is taken as valid.
    """
    entries = value.split(",")
    by_uuid = entries[0].startswith(("GPU-", "MIG-"))
    kind = entries[0][:4]
    found: list[str] = []
    for at, entry in enumerate(entries):
        device = _by_uuid(entry, kind, uuids) if by_uuid else _by_ordinal(entry, count)
        if device is None:
            return _visible(found, stopped_at=entry, dropped=entries[at + 1 :])
        if device in found:
            return Visible(devices=(), stopped_at=entry, dropped=(), named_twice=True, mig=0)
        found.append(device)
    return _visible(found, stopped_at=None, dropped=[])


def _visible(found: list[str], *, stopped_at: str | None, dropped: list[str]) -> Visible:
    mig = sum(device.startswith("MIG-") for device in found)
    return Visible(
        devices=tuple(found[:1] if mig else found),
        stopped_at=stopped_at,
        dropped=tuple(dropped),
        named_twice=False,
        mig=mig,
    )


def _by_ordinal(entry: str, count: int | None) -> str | None:
    match = _ORDINAL.match(entry)
    if match is None or int(match[1]) < 0 or (count is not None and int(match[1]) >= count):
        return None
    return str(int(match[1]))


def _by_uuid(entry: str, kind: str, uuids: Sequence[str]) -> str | None:
    if not entry.startswith(kind):
        return None
    if not uuids:
        return entry
    prefix = entry[4:].lower()
    # The driver takes "MIG-" before the UUID of a GPU without MIG instances for that GPU.
    fitting = uuids if kind == "MIG-" else [uuid for uuid in uuids if uuid.startswith(kind)]
    matching = [uuid for uuid in fitting if uuid[4:].lower().startswith(prefix)]
    return matching[0] if len(matching) == 1 else None
