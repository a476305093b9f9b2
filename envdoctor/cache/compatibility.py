"""Whether a snapshot belongs to this machine and stack."""

from collections.abc import Iterable, Mapping

from envdoctor.cache.key_parts import KeyComparison, KeyPart
from envdoctor.cache.will_hit import plain, shown

# A snapshot that differs in one of these can never hit here. A variable of this shell is not a reason to refuse: it can
# be unset, and the next launch may not have it.
_FOREIGN = (
    "torch.version",
    "torch.sources",
    "triton.version",
    "triton.sources",
    "cuda.version",
    "gpu.name",
    "gpu.arch",
)
# Read from files of the venv; without them nothing was saved.
_SAID = ("torch.version", "torch.sources")


def blockers(comparison: KeyComparison, entries: Mapping[str, int]) -> tuple[str, ...]:
    """Return why a snapshot with these entries must not be merged here, one sentence a part; empty when it belongs."""
    foreign = set(_FOREIGN)
    if entries.get("c++ kernel"):
        # The graph's key does not hold the instruction set, but the C++ it carries was written for its vector width;
        # and -march=native may have used what only that CPU has.
        foreign |= {"cpu.isa", "cpu.model", "python.version"}
    return tuple(
        f"{difference.name}: the snapshot has {shown(difference.saved)}, this is {shown(difference.present)}"
        for difference in comparison.differences
        if difference.name in foreign
    )


def unsaid(saved: Iterable[KeyPart]) -> tuple[str, ...]:
    """Return what a snapshot does not say of its stack, a sentence a part: it was known when that was saved."""
    return tuple(f"{part.name}: the snapshot does not say" for part in saved if part.name in _SAID and not part.known)


def warnings(comparison: KeyComparison) -> tuple[str, ...]:
    """Return what else differs or could not be determined, for the person to know."""
    ours = {"venv.prefix", "python.base", "cache.folder", "triton.folder", "driver.version", "cpu.isa", "cpu.model"}
    ours |= {"python.version", *_FOREIGN}
    differing = [
        f"{difference.name}: the snapshot was made with {shown(difference.saved)}, this has {shown(difference.present)}"
        for difference in comparison.differences
        if difference.name not in ours
    ]
    return (*differing, *(f"{part.name} could not be determined: {plain(part.value)}" for part in comparison.unknown))
