"""What a watched launch is told, in words: pure."""

from collections.abc import Iterator, Mapping, Sequence

from envdoctor.model.frozen import frozen
from envdoctor.model.wording import counted, size
from envdoctor.watch.judgement import LaunchState, Limits, Notice, Swing, Watch

_OFF = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
"""torch/_dynamo/eval_frame.py and torch/_dynamo/config.py: "1" lets every compiled function run uncompiled."""
_HEAD = "envdoctor watch:"
_QUICKER = "name the number by the word in front of it: `--measure 'tok/s=([0-9.]+)'`"
_FLAT = 0.01
"""Memory that moves by less of its most is flat."""


@frozen
class ToldOf:
    """What the words need beside the readings."""

    profile: str
    flat_within: float
    """Of the profile."""
    environ: Mapping[str, str]
    """Of the command."""
    source: str
    """What throughput was read from."""
    pattern: str
    """`--measure`, as it was given."""
    lines: int
    """Lines that were there."""
    passed: int
    """Lines that were not read, since that took too long."""
    compiled: int
    """Readings that were left out since something was compiled."""
    memory_problem: str
    """Why memory was not read, or is no more; empty while it is."""
    lowest: int
    highest: int
    """Bytes of all GPUs of the launch after the warm-up."""


def notice_text(notice: Notice, told: ToldOf) -> str:
    """Return what is said while the command runs: one line, and what to do."""
    state = notice.state
    if notice.kind == "back":
        return f"{_HEAD} throughput is back: {_throughput(state, told)}"
    if notice.kind == "swings":
        allowed = f"{told.flat_within:.1%}".replace(".0%", "%")
        return f"warning: {_HEAD} {_swings(state.swings)}; profile {told.profile} expects it flat within {allowed}"
    parts = [f"{_throughput(state, told)} for {state.low_for:.0f} s", _memory(state, told)]
    if state.busy is not None:
        parts.append(f"the GPUs are {state.busy:.0%} busy")
    return f"warning: {_HEAD} {', '.join(filter(None, parts))}: {_question(state)}\n\nhint: {_hint(state, told)}"


def summary_text(told: ToldOf, watch: Watch, seconds: float) -> str:
    """Return what is said at the end; empty where all that was to be looked at was looked at, and was well."""
    lines = [*_unknown(told, watch)]
    if watch.said:
        state = watch.state()
        parts = []
        if watch.expected:
            parts.append(f"throughput was low for {watch.low_seconds:.0f} of {seconds:.0f} s")
            parts.append(f"at the end {_throughput(state, told)}")
        parts.append(f"{'; '.join(map(_swing, state.swings))}" if state.swings else _memory(state, told))
        lines.insert(0, f"warning: {_HEAD} {'; '.join(filter(None, parts))}")
    return "\n".join(lines)


def _unknown(told: ToldOf, watch: Watch) -> Iterator[str]:
    head = f"note: {_HEAD} could not tell whether"
    if not watch.expected:
        yield (
            f"{head} throughput is as expected: profile {told.profile} has no expected.tokens_per_second; "
            "add it from a good run"
        )
    elif not watch.judged:
        yield f"{head} throughput is as expected: {_no_reading(told, watch)}"
    if told.passed:
        yield (
            f"note: {_HEAD} {told.passed} of {counted(told.lines, 'line')} of {told.source} were not read, or not "
            f"whole: looking for {_looked_for(told)} took too long; {_QUICKER}"
        )
    if told.memory_problem:
        yield f"{head} GPU memory is flat: {told.memory_problem}"
    elif not watch.seen:
        yield f"{head} GPU memory is flat: NVML had not answered when the command ended"
    elif not watch.sampled:
        yield f"{head} GPU memory is flat: the command ended within the warm-up"


def _no_reading(told: ToldOf, watch: Watch) -> str:
    if watch.read:
        return (
            f"something was compiled in {counted(told.compiled, 'reading')} after the warm-up"
            if told.compiled and watch.read > 1
            else f"{counted(watch.read, 'reading')}, all within the warm-up"
        )
    if not told.lines:
        return f"{told.source} had no line"
    read = counted(told.lines - told.passed, "line")
    if told.passed:
        return f"none of {read} that were read has {_looked_for(told)}"
    return f"none of {read} of {told.source} has {_looked_for(told)}; name it: `--measure 'tok/s=([0-9.]+)'`"


def _looked_for(told: ToldOf) -> str:
    return f"`{told.pattern}`" if told.pattern else "tokens a second"


def _throughput(state: LaunchState, told: ToldOf) -> str:
    share, rate = state.share, state.tokens_per_second
    if share is None or rate is None:
        return "throughput is not known"
    return (
        f"throughput is {share:.0%} of what profile {told.profile} expects ({rate:,.0f} of {state.expected:,.0f} tok/s)"
    )


def _memory(state: LaunchState, told: ToldOf) -> str:
    if told.memory_problem:
        return "GPU memory is not known"
    if state.swings:
        return _swings(state.swings)
    if not told.highest:
        return ""
    if told.highest - told.lowest <= _FLAT * told.highest:
        return f"GPU memory is flat at {size(told.highest)}"
    return f"GPU memory is between {size(told.lowest)} and {size(told.highest)}, without swings"


def _swings(found: Sequence[Swing]) -> str:
    widest = max(found, key=lambda one: one.highest - one.lowest)
    others = f" (and {counted(len(found) - 1, 'other')})" if len(found) > 1 else ""
    return f"GPU memory swings: {_swing(widest)}{others}"


def _swing(one: Swing) -> str:
    falls = f"{counted(one.falls, 'fall')} in the last half minute"
    return f"GPU {one.gpu} between {size(one.lowest)} and {size(one.highest)}, {falls}"


def _question(state: LaunchState) -> str:
    if _idle(state):
        return "waiting for data, or compiling?"
    return "running in an uncompiled fallback?"


def _idle(state: LaunchState) -> bool:
    return state.busy is not None and state.busy < Limits().idle


def _hint(state: LaunchState, told: ToldOf) -> str:
    off = [f"{name}={told.environ[name]}" for name in _OFF if told.environ.get(name) == "1"]
    if off:
        return f"{' and '.join(off)} turns torch.compile off: unset it and start again"
    if _idle(state):
        return "see what the processes wait for: `py-spy dump --pid PID` of a worker"
    return "start again with `TORCH_LOGS=graph_breaks,recompiles` to see which function runs uncompiled, and why"
