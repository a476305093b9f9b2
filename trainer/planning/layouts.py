"""What the planner knows and what follows from it: the ways to use the devices, the fastest that fits first."""

from dataclasses import dataclass

EXCHANGE = 0.97
"""Share of N times one device that N data-parallel ones reach: 34.5 of 35.4 ktok/s on two H200s (docs/figures.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One micro-batch on one device."""

    tokens: int
    target_seconds: float
    drafter_seconds: float
    """Forward, backward and optimizer."""
    target_gb: float
    """High-water of the target alone."""
    both_gb: float
    """High-water with both on the device."""
    apart_gb: float
    """The most that a device of `processes` needs: a target, a drafter, or the lead that evaluates at the end."""
    device_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What one device holds before anything runs, in GB; activations come on top."""

    target_gb: float
    """The whole target."""
    shares: tuple[tuple[int, float], ...]
    """Devices that hold a target together, and what each of them has of it; none where it cannot be split."""
    unsplit: str
    """Why it cannot be split, where that is so."""
    drafter_gb: float
    """The drafter: weights, masters, moments, gradient sums, and a head of its own where it has one."""
    shared_gb: float
    """The target's embedding and head, which a drafter away from its target keeps."""
    end_gb: float
    """The lead of `processes` when training is over: the whole target, the masters, and the drafter that decodes."""
    device_gb: float

    @property
    def apart_gb(self) -> float:
        """The most that a device of `processes` holds."""
        return max(self.target_gb, self.drafter_gb + self.shared_gb, self.end_gb)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A way to use the devices."""

    flags: str
    tokens_per_second: float | None
    """None where nothing was measured."""
    fits: bool
    """Whether what was measured, or else the weights, fit on the devices."""
    weights_gb: float | None = None
    """Weights of target and drafter on each device, of a layout that was not measured."""


def layouts(found: Measured, devices: int) -> list[Layout]:
    """Return the layouts for so many devices, the fastest that fits first.

    T targets and D drafters on devices of their own make min(T / target, D / drafter) micro-batches a second.
    """
    target, drafter = found.target_seconds, found.drafter_seconds
    together = found.both_gb <= found.device_gb
    alone = found.tokens / (target + drafter)
    made = [Layout(flags="--runtime inline", tokens_per_second=alone, fits=together)]
    if devices > 1:
        made.append(
            Layout(
                flags=f"--runtime data-parallel --drafters {devices}",
                tokens_per_second=alone * devices * EXCHANGE,
                fits=together,
            )
        )
    made += [
        Layout(
            flags=f"--runtime processes --targets {targets} --drafters {devices - targets}",
            tokens_per_second=found.tokens * min(targets / target, (devices - targets) / drafter),
            fits=found.apart_gb <= found.device_gb,
        )
        for targets in range(1, devices)
    ]
    return sorted(made, key=lambda each: (not each.fits, -(each.tokens_per_second or 0.0)))


def split_layouts(found: Weights, devices: int) -> list[Layout]:
    """Return the layouts that do not put both whole models on a device, the first that fits first.

    Those that split the target come by the number of its devices: fewer ones mean fewer sums between them.
    """
    made = [
        Layout(
            flags=f"--runtime data-parallel --drafters {devices // size * size} --set target.tensor_parallel={size}",
            tokens_per_second=None,
            fits=share + found.drafter_gb <= found.device_gb,
            weights_gb=share + found.drafter_gb,
        )
        for size, share in found.shares
        if size <= devices
    ]
    if devices > 1:
        # How many of each kind keep each other busy is not known before both were measured.
        drafters = devices // 2
        flags = f"--runtime processes --targets {devices - drafters} --drafters {drafters}"
        fits, weights = found.apart_gb <= found.device_gb, found.apart_gb
        made.append(Layout(flags=flags, tokens_per_second=None, fits=fits, weights_gb=weights))
    return sorted(made, key=lambda each: not each.fits)
