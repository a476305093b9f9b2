"""The verdict over what a run did, beside what its profile expects."""

from dataclasses import dataclass

from envdoctor.gate import Expected
from trainer.runtime.loop import Outcome

ENOUGH = 0.9
"""Share of the expected throughput that still counts as reached: two runs of one stack differ by a few percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One line of the verdict."""

    name: str
    met: bool
    text: str


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
