"""`python -m trainer.curves RUN [RUN ..] -o FILE`: the curves of one or several runs, as a page or a picture.

RUN is the folder of a run, or its metrics.jsonl. FILE ends in .html or .svg; both need nothing beside themselves. No
torch is imported.
"""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from trainer.errors import ConfigError, TrainerError
from trainer.records.curve_drawing import STYLE, Curve, Panel, drawing, short
from trainer.writing import leave, say, say_error, write_whole

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as its journal tells it."""

    name: str
    lines: tuple[Mapping[str, Any], ...]
    """What it logged, by step; of a step that was done twice, after a resume, the later line."""
    evaluations: tuple[Mapping[str, Any], ...] = ()
    """Its evaluations while it trained, by step."""
    spoiled: int
    """Lines that could not be read: a run that was killed may leave half of one."""


def read(place: Path) -> Run:
    """Read a run. Raises ConfigError where there is no journal, or not one step in it."""
    file = place / "metrics.jsonl" if place.is_dir() else place
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        hint = "name the folder of a run (`--output` of the trainer), or its metrics.jsonl"
        raise ConfigError(f"{file}: {error.strerror}", hint) from error
    steps: dict[int, Mapping[str, Any]] = {}
    evaluations: dict[int, Mapping[str, Any]] = {}
    spoiled = 0
    for line in text.splitlines():
        try:
            told = json.loads(line)
            if told["event"] == "step":
                steps[int(told["step"])] = told
            elif told["event"] == "evaluation" and "step" in told:
                evaluations[int(told["step"])] = told
        except (ValueError, KeyError, TypeError):
            spoiled += 1
    if not steps:
        raise ConfigError(f"{file}: no step was logged", "wait for its first log line")
    return Run(
        name=str(place), spoiled=spoiled, lines=tuple(map(steps.__getitem__, sorted(steps))),
        evaluations=tuple(map(evaluations.__getitem__, sorted(evaluations))),
    )  # fmt: skip


def panels(runs: Sequence[Run]) -> tuple[Panel, ...]:
    """Return what is drawn: loss, accuracy, speed, memory, waits; acceptance where a run was evaluated on its way."""

    def panel(title: str, unit: str, value: Callable[[Mapping[str, Any]], Any]) -> Panel:
        curves = (Curve(run=at, name=run.name, points=_points(run.lines, value)) for at, run in enumerate(runs))
        return Panel(title=title, unit=unit, curves=tuple(curve for curve in curves if curve.points))

    def judged(title: str, value: Callable[[Mapping[str, Any]], Any]) -> Panel:
        curves = (Curve(run=at, name=run.name, points=_points(run.evaluations, value)) for at, run in enumerate(runs))
        made = tuple(curve for curve in curves if curve.points)
        return Panel(title=title, unit="tokens a target pass, held-out prompts", curves=made)

    acceptance = (
        judged("acceptance length", lambda found: found["acceptance_length"]),
        judged("acceptance length, sampled", lambda found: found["sampled"]["acceptance_length"]),
    )
    return (
        panel("loss", "", lambda line: line["loss"]),
        panel("accuracy", "share of the positions of a block", lambda line: line["accuracy"]),
        panel("speed", "tokens a second", lambda line: line["tokens_per_second"]),
        panel("memory, high-water", "GiB", lambda line: line["memory_peak"] / _GIB),
        panel("waits", "share of the time", lambda line: sum(line["waits"].values())),
        panel("utilisation", "share of the measured matmul rate", lambda line: line["utilisation"]),
        *(panel for panel in acceptance if panel.curves),
    )


def _points(
    lines: Sequence[Mapping[str, Any]], value: Callable[[Mapping[str, Any]], Any]
) -> tuple[tuple[float, float], ...]:
    found = []
    for line in lines:
        try:
            point = float(line["step"]), float(value(line))
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # an older trainer did not log it
        if math.isfinite(point[1]):
            found.append(point)
    return tuple(found)


def page(runs: Sequence[Run]) -> str:
    """Return the page: the picture, and the last line of each run as a table."""
    heads = ("run", "step", "loss", "accuracy", "tokens a second", "memory, GiB", "waits")
    shown = ("loss", "accuracy", "speed", "memory, high-water", "waits")
    last = [(run, {panel.title: panel for panel in panels([run])}) for run in runs]
    rows = "".join(
        f'<tr><th scope="row">{escape(run.name)}</th><td>{int(run.lines[-1]["step"])}</td>'
        + "".join(f"<td>{_last(told[title])}</td>" for title in shown)
        + "</tr>"
        for run, told in last
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n<title>Curves of {len(runs)} runs</title>\n'
        f"<style>{STYLE}body {{ margin: 1rem auto; max-width: 72rem; padding: 0 1rem; background: var(--paper); "
        "color: var(--ink); font: 15px/1.45 system-ui, sans-serif; } svg { width: 100%; height: auto; } "
        "table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .6rem; "
        "border-bottom: 1px solid var(--grid); overflow-wrap: anywhere; }</style>\n</head>\n<body>\n<main>\n"
        f"<h1>Curves of {len(runs)} runs</h1>\n{drawing(panels(runs), [run.name for run in runs])}\n"
        f"<table><caption>The last logged step</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>\n"
        "</main>\n</body>\n</html>\n"
    )


def _last(panel: Panel) -> str:
    return short(panel.curves[0].points[-1][1]) if panel.curves else "–"


def main(argv: Sequence[str]) -> int:
    """Write the curves; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.curves", description="Draw the curves of runs.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or its metrics.jsonl")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="FILE.html or FILE.svg")
    asked = parser.parse_args(argv)
    try:
        if asked.output.suffix not in (".html", ".svg"):
            raise ConfigError(f"{asked.output} is neither .html nor .svg", "name the file so")
        runs = [read(place) for place in asked.runs]
        text = page(runs) if asked.output.suffix == ".html" else drawing(panels(runs), [run.name for run in runs])
        write_whole(asked.output, text, "make room, or name another file")
    except TrainerError as error:
        say_error(error)
        return error.exit_code
    for run in runs:
        if run.spoiled:
            say(f"note: {run.name}: {run.spoiled} lines could not be read")
    return 0


if __name__ == "__main__":
    leave(main)
