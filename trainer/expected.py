"""What a profile expects of a run, read from profiles/NAME.toml, and the verdict over what the run did."""

import importlib.util
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainer.runtime.loop import Outcome

ENOUGH = 0.9
"""Share of the expected throughput that still counts as reached: two runs of one stack differ by a few percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The [expected] table of a profile; 0 where it expects nothing."""

    tokens_per_second: float = 0.0
    memory_flat_within: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One line of the verdict."""

    name: str
    met: bool
    text: str


def expected_of(profile: str) -> Expected:
    """Return what the profile expects; nothing when there is no such file or table."""
    for place in _folders():
        file = place / f"{profile}.toml"
        if file.is_file():
            table = tomllib.loads(file.read_text(encoding="utf-8")).get("expected", {})
            return Expected(
                tokens_per_second=float(table.get("tokens_per_second", 0.0)),
                memory_flat_within=float(table.get("memory_flat_within", 0.0)),
            )
    return Expected()


def _folders() -> Iterator[Path]:
    found = importlib.util.find_spec("envdoctor")
    for place in (found.submodule_search_locations or []) if found else []:
        yield Path(place) / "_data" / "profiles"
        yield Path(place).parent / "profiles"


def judge(outcome: Outcome, expected: Expected) -> list[Judgement]:
    """Return a line for everything the profile expects, and for compiling after the warm-up and graph breaks."""
    count = outcome.compilations
    lines = [Judgement(name="steady compiles", met=count == 0, text=f"{count} compilations after the warm-up")]
    if outcome.breaks:
        text = f"{outcome.breaks}: parts of a compiled layer run uncompiled"
        lines.append(Judgement(name="graph breaks", met=False, text=text))
    wanted = expected.tokens_per_second
    if wanted:
        share = outcome.tokens_per_second / wanted
        text = f"{outcome.tokens_per_second:,.0f} of {wanted:,.0f} tok/s expected ({share:.0%})"
        lines.append(Judgement(name="throughput", met=share >= ENOUGH, text=text))
    if expected.memory_flat_within:
        text = f"high-water grew {outcome.growth:.2%}, {expected.memory_flat_within:.2%} allowed"
        lines.append(Judgement(name="memory", met=outcome.growth <= expected.memory_flat_within, text=text))
    return lines
