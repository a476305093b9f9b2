"""What a watch says of series of readings: a fallback within a minute, and nothing of what a healthy training does."""

from collections.abc import Iterable

import pytest

from envdoctor.watch.judgement import Limits, Notice, Sample, Swing, Throughput, Watch, swings
from envdoctor.watch.told import ToldOf, notice_text, summary_text

GB = 1_000_000_000
EXPECTED = 20_000.0
TOLD = ToldOf(
    profile="good",
    flat_within=0.01,
    environ={},
    source="the output",
    pattern="",
    lines=90,
    passed=0,
    compiled=0,
    memory_problem="",
    lowest=50 * GB,
    highest=50 * GB,
)


def watch(expected: float = EXPECTED) -> Watch:
    return Watch(expected=expected, flat=True)


def fed(watching: Watch, series: Iterable[tuple[float, float, int, int]]) -> list[tuple[float, Notice]]:
    """Feed (seconds, tokens a second or 0, bytes of the GPU, per cent busy); return when what is said."""
    found = []
    for at, rate, used, busy in series:
        notices = [watching.sample(Sample(at=at, used=(used,), busy=(busy,)))]
        notices += [watching.reading(Throughput(at=at, tokens_per_second=rate))] if rate else []
        found += [(at, notice) for notice in notices if notice is not None]
    return found


def saw(at: int) -> int:
    return (60 + 12 * (at % 5)) * GB


def test_a_healthy_run_leaves_no_word() -> None:
    watching = watch()
    # Warming up and compiling is slow, and takes memory in steps.
    series = [(at, 900.0 if at == 40 else 19_500.0 if at > 40 else 0.0, min(at, 50) * GB, 97) for at in range(600)]
    assert fed(watching, series) == []
    assert summary_text(TOLD, watching, 600) == ""


def test_a_fallback_is_said_within_a_minute_and_once() -> None:
    watching = watch()
    said = fed(watching, [(at, 5_000.0, saw(at), 98) for at in range(10, 300)])
    assert [(at, notice.kind) for at, notice in said] == [(59, "slow")]
    assert notice_text(said[0][1], TOLD) == (
        "warning: envdoctor watch: throughput is 25% of what profile good expects (5,000 of 20,000 tok/s) for 30 s, "
        "GPU memory swings: GPU 0 between 60.0 GB and 108.0 GB, 5 falls in the last half minute, "
        "the GPUs are 98% busy: running in an uncompiled fallback?\n\n"
        "hint: start again with `TORCH_LOGS=graph_breaks,recompiles` to see which function runs uncompiled, and why"
    )
    assert summary_text(TOLD, watching, 290) == (
        "warning: envdoctor watch: throughput was low for 270 of 290 s; at the end throughput is 25% of what profile "
        "good expects (5,000 of 20,000 tok/s); GPU 0 between 60.0 GB and 108.0 GB, 6 falls in the last half minute"
    )


def test_the_variable_that_turns_compiling_off_is_named() -> None:
    said = fed(watch(), [(at, 5_000.0, 50 * GB, 98) for at in range(100)])
    text = notice_text(said[0][1], ToldOf(**{**vars(TOLD), "environ": {"TORCHDYNAMO_DISABLE": "1"}}))
    assert text == (
        "warning: envdoctor watch: throughput is 25% of what profile good expects (5,000 of 20,000 tok/s) for 30 s, "
        "GPU memory is flat at 50.0 GB, the GPUs are 98% busy: running in an uncompiled fallback?\n\n"
        "hint: TORCHDYNAMO_DISABLE=1 turns torch.compile off: unset it and start again"
    )


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param([19_000.0 if at % 30 < 5 else 8_000.0 for at in range(600)], id="long rows among short ones"),
        pytest.param([3_000.0 if at % 60 < 25 else 20_000.0 for at in range(600)], id="an evaluation a minute"),
        pytest.param([11_000.0] * 600, id="slower, but more than half"),
    ],
)
def test_buckets_and_evaluations_are_no_fallback(rates: list[float]) -> None:
    assert fed(watch(), [(at, rate, 50 * GB, 95) for at, rate in enumerate(rates)]) == []


def test_what_an_idle_gpu_waits_for_is_not_called_a_fallback() -> None:
    # A compilation of a minute and a half in the middle: the readings are low, and nothing is computed.
    busy = [(at, 20_000.0, 50 * GB, 95) for at in range(100)]
    compiling = [(at, 500.0, 50 * GB, 3) for at in range(100, 190, 10)]
    assert fed(watch(), [*busy, *compiling, *((at, 20_000.0, 50 * GB, 95) for at in range(190, 300))]) == []
    said = fed(watch(), [*busy, *((at, 500.0, 50 * GB, 3) for at in range(100, 400, 10))])
    assert [(at, notice.kind) for at, notice in said] == [(220, "slow")]
    assert (
        notice_text(said[0][1], TOLD)
        .splitlines()[0]
        .endswith("for 121 s, GPU memory is flat at 50.0 GB, the GPUs are 3% busy: waiting for data, or compiling?")
    )


def test_readings_in_which_something_compiled_are_left_out() -> None:
    watching = watch()
    for at in range(0, 300, 5):
        assert watching.reading(Throughput(at=at, tokens_per_second=2_000.0, compiled=True)) is None
    assert summary_text(ToldOf(**{**vars(TOLD), "compiled": 60, "memory_problem": "no driver"}), watching, 300) == (
        "note: envdoctor watch: could not tell whether throughput is as expected: something was compiled in "
        "60 readings after the warm-up\n"
        "note: envdoctor watch: could not tell whether GPU memory is flat: no driver"
    )


def test_lines_that_were_not_read_are_said() -> None:
    told = ToldOf(**{**vars(TOLD), "passed": 1, "pattern": "(a+)+$", "memory_problem": "no driver"})
    assert summary_text(told, watch(), 300).splitlines()[:2] == [
        "note: envdoctor watch: could not tell whether throughput is as expected: none of 89 lines that were read has "
        "`(a+)+$`",
        "note: envdoctor watch: 1 of 90 lines of the output were not read, or not whole: looking for `(a+)+$` took too "
        "long; name the number by the word in front of it: `--measure 'tok/s=([0-9.]+)'`",
    ]


def test_a_reading_that_is_slow_for_a_minute_is_enough() -> None:
    watching = watch()
    assert watching.reading(Throughput(at=0, tokens_per_second=5_000.0)) is None
    said = [watching.reading(Throughput(at=at, tokens_per_second=5_000.0)) for at in (40, 80)]
    assert [notice and notice.kind for notice in said] == [None, "slow"]


def test_throughput_that_is_back_is_said() -> None:
    series = [(at, 5_000.0 if 100 <= at < 200 else 20_000.0, 50 * GB, 95) for at in range(400)]
    said = fed(watch(), series)
    assert [(at, notice.kind) for at, notice in said] == [(129, "slow"), (229, "back")]
    assert notice_text(said[1][1], TOLD) == (
        "envdoctor watch: throughput is back: throughput is 100% of what profile good expects (20,000 of 20,000 tok/s)"
    )


@pytest.mark.parametrize(
    ("used", "falls"),
    [
        pytest.param([50] * 30, 0, id="flat"),
        pytest.param([50] * 10 + [60] * 10 + [80] * 10, 0, id="new buckets"),
        pytest.param([80] * 10 + [50] * 5 + [80] * 15, 0, id="one evaluation"),
        pytest.param([50, 52, 51, 50] * 8, 0, id="a little"),
        pytest.param([50, 90, 70, 90] * 8, 15, id="sawtooth"),
        pytest.param([0] * 30, 0, id="nothing in use"),
    ],
)
def test_swings_are_several_falls_and_rises(used: list[int], falls: int) -> None:
    series = [Sample(at=at, used=(7 * GB, value * GB)) for at, value in enumerate(used)]
    wanted = [Swing(gpu=1, falls=falls, lowest=min(used) * GB, highest=max(used) * GB)] if falls else []
    assert swings(series, Limits()) == wanted


def test_what_was_not_looked_at_is_said() -> None:
    assert summary_text(TOLD, watch(expected=0.0), 5) == (
        "note: envdoctor watch: could not tell whether throughput is as expected: profile good has no "
        "expected.tokens_per_second; add it from a good run\n"
        "note: envdoctor watch: could not tell whether GPU memory is flat: NVML had not answered when the command ended"
    )
    watching = watch()
    fed(watching, [(at, 20_000.0, 50 * GB, 95) for at in range(10)])
    assert summary_text(TOLD, watching, 10) == (
        "note: envdoctor watch: could not tell whether throughput is as expected: 10 readings, all within the warm-up\n"
        "note: envdoctor watch: could not tell whether GPU memory is flat: the command ended within the warm-up"
    )
