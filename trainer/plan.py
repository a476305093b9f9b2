"""`python -m trainer.plan --profile NAME ..`: measure a target's and a drafter's step, name the layout to use.

Takes the trainer's own flags. Both halves run a few times at the longest bucket on one device; what each layout would
reach with the devices of this host follows by arithmetic: a layout is as fast as its slower half. A target that one
device cannot hold is not measured: the layouts that split it are listed with what its weights take.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict

from trainer.errors import ROOM_TO_LOAD, OutputError, as_trainer_error
from trainer.planning.layouts import Layout, Measured, Weights, layouts, split_layouts
from trainer.runtime.shutdown import StopRequest
from trainer.settings.arguments import parse, require_pair
from trainer.writing import leave, say, say_error, write_result


def main(argv: Sequence[str]) -> int:
    """Measure and print; returns the exit code."""
    with StopRequest() as stop:
        return _main(argv, stop)


def _main(argv: Sequence[str], stop: StopRequest) -> int:
    as_json = "--json" in argv
    try:
        arguments = parse([word for word in argv if word != "--json"]).admitted()
        require_pair(arguments.config, rows=False)
        say("loading the target, then a few steps of each half")
        from trainer.planning.measure import device_count, measure  # noqa: PLC0415 - torch is imported behind the gate

        devices = device_count(arguments.config)
        found = measure(arguments.config, devices)
    except (Exception, KeyboardInterrupt) as error:
        # Where a signal comes in the middle of an import, Python may wrap what it raises.
        if stop.signal is not None:
            say("interrupted; nothing was written")
            return stop.exit_code
        told = as_trainer_error(error, ROOM_TO_LOAD)
        if told is None:
            raise
        say_error(told)
        return told.exit_code
    measured = isinstance(found, Measured)
    ranked = layouts(found, devices) if isinstance(found, Measured) else split_layouts(found, devices)
    if as_json:
        table = {
            "measured": asdict(found) if measured else None, "weights": None if measured else asdict(found),
            "devices": devices, "layouts": [asdict(each) for each in ranked],
        }  # fmt: skip
        text = json.dumps(table, indent=1)
    else:
        lines = _told(found, devices, ranked) if isinstance(found, Measured) else _split(found, devices, ranked)
        text = "\n".join(lines)
    try:
        write_result(text + "\n")
    except OutputError as error:
        say_error(error)
        return error.exit_code
    return 0 if ranked and ranked[0].fits else 2


def _split(found: Weights, devices: int, ranked: Sequence[Layout]) -> list[str]:
    lines = [
        f"target: {found.target_gb:,.1f} GB of weights; drafter: {found.drafter_gb:,.1f} GB with its optimizer",
        f"processes: beside each drafter {found.shared_gb:,.1f} GB of embedding and head",
        f"processes: {found.end_gb:,.1f} GB on rank 0 at the end, with the whole target",
        f"free on a device: {found.device_gb:,.1f} GB, so nothing was measured; activations come on top",
        f"{devices} device{'s' if devices > 1 else ''}:",
    ]
    for place, each in enumerate(ranked):
        mark = "->" if place == 0 and each.fits else "  "
        note = "" if each.fits else "  (does not fit)"
        lines.append(f"{mark} {each.weights_gb:>8,.1f} GB a device  {each.flags}{note}")
    if not ranked or not ranked[0].fits:
        lines.append(f"no layout fits{': ' + found.unsplit if found.unsplit else ''}")
    return lines


def _told(found: Measured, devices: int, ranked: Sequence[Layout]) -> list[str]:
    cached = found.tokens / found.drafter_seconds
    lines = [
        f"micro-batch: {found.tokens:,} positions",
        f"target: {found.target_seconds * 1e3:,.1f} ms, {found.target_gb:,.1f} GB",
        f"drafter: {found.drafter_seconds * 1e3:,.1f} ms; with the target {found.both_gb:,.1f} GB",
        f"free on a device: {found.device_gb:,.1f} GB",
        f"{devices} device{'s' if devices > 1 else ''}:",
    ]
    for place, each in enumerate(ranked):
        note = "" if each.fits else "  (does not fit)"
        mark = "->" if place == 0 and each.fits else "  "
        lines.append(f"{mark} {each.tokens_per_second or 0.0:>10,.0f} tok/s  {each.flags}{note}")
    lines.append(f"from cached features (cache.path), epochs 2 and later: {cached:,.0f} tok/s a device")
    if not ranked[0].fits:
        lines.append("no layout fits: see target.tensor_parallel in trainer/README.md")
    return lines


if __name__ == "__main__":
    leave(main)
