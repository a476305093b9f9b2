"""Batches from lengths and a seed, anchors, the assistant's tokens, and rows that cannot be used."""

# ruff: noqa: E501 - tables of whole messages

import dataclasses
import json
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from trainer.assemble import Parts, assemble
from trainer.data.buckets import Plan, derive
from trainer.data.chat import Encoder, template_arguments
from trainer.data.conversation import PAIRS, Conversation, conversation_of
from trainer.data.corpus import TEMPLATE, VERSES, conversation, conversations
from trainer.data.dataset import FileRows
from trainer.data.dataset import read_rows as read_files
from trainer.data.loader import BatchMaker, Loader, choose_anchors
from trainer.data.rows import Row, RowList
from trainer.data.usable import require_learnable
from trainer.errors import ConfigError, DataError
from trainer.settings.config import DataConfig, DrafterConfig, build
from trainer.settings.presets import preset
from trainer.step.objectives import choose_vocabulary

MARKED = (
    "{% for message in messages %}{{ '<' + message.role + '> ' }}{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content + ' <end> ' }}{% endgeneration %}{% else %}{{ message.content + ' <end> ' }}"
    "{% endif %}{% endfor %}"
)
FORGETFUL = (
    "{% for message in messages %}{{ '<' + message.role + '> ' }}"
    "{{ message.content if loop.last else 'stone' }}{{ ' <end> ' }}{% endfor %}"
)
THINKING = (  # as Qwen3's: the reasoning of earlier turns is dropped, and a prompt without thinking has it closed already
    "{% for message in messages %}{{ '<' + message.role + '> ' }}"
    "{% if message.role == 'assistant' and loop.last %}{{ 'clock ' }}{% endif %}{{ message.content + ' <end> ' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<assistant> ' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ 'clock ' }}{% endif %}{% endif %}"
)
SHAPE_HINT = (
    'a row is {"conversations": [{"role": "user", "content": ".."}, ..]} or {"input_ids": [..], "loss_mask": [..]}'
)


FOREIGN = "tokenise the row with the target's own tokenizer"


def encode(tokenizer: Any, messages: list[Any], origin: str, **arguments: object) -> Row:
    """Return the only row of a conversation."""
    (row,) = Encoder(tokenizer, arguments).encode(Conversation(messages=messages), origin)
    return row


def encoding_digest(tokenizer: Any) -> str:
    return Encoder(tokenizer).digest


def read_rows(place: Path, tokenizer: Any, vocabulary: int, *, skip: bool = False) -> FileRows:
    return read_files([place], Encoder(tokenizer), vocabulary, skip=skip)


@pytest.fixture
def tokenizer(target_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(target_folder)


@pytest.mark.property
@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 70), min_size=1, max_size=40), st.integers(16, 90), st.integers(0, 5),
    st.sampled_from(["truncate", "drop"]),
)  # fmt: skip
def test_an_epoch_holds_every_row_once_in_buckets_that_fit(
    lengths: list[int], tokens: int, seed: int, overlong: Any
) -> None:
    config = DataConfig(buckets=(16, 32, 64), tokens=tokens, overlong=overlong)
    kept = [row for row, length in enumerate(lengths) if overlong == "truncate" or length <= 64]
    if not kept:
        with pytest.raises(ConfigError):
            Plan(lengths, config, seed)
        return
    plan, again = Plan(lengths, config, seed), Plan(lengths, config, seed)
    for epoch in (0, 1):
        numbers = range(epoch * plan.batches_per_epoch, (epoch + 1) * plan.batches_per_epoch)
        batches = [plan.batch(number) for number in numbers]
        assert sorted(row for batch in batches for row in batch.members) == kept
        assert [again.batch(number) for number in reversed(numbers)] == batches[::-1]
        for batch in batches:
            assert (batch.epoch, batch.size) == (epoch, max(1, tokens // batch.length))
            assert len(batch.members) <= batch.size
            smaller = [bucket for bucket in (0, 16, 32, 64) if bucket < batch.length]
            assert all(smaller[-1] < min(lengths[row], 64) <= batch.length for row in batch.members)


def test_threads_on_both_sides_of_an_epochs_end_compute_each_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(list(range(1, 65)) * 4, DataConfig(buckets=(16, 64), tokens=64), 0)
    border, computed = plan.batches_per_epoch, []
    order = Plan._order
    monkeypatch.setattr(Plan, "_order", lambda self, epoch: computed.append(epoch) or order(self, epoch))

    def both_sides(number: int) -> list[Any]:
        return [plan.batch(border + (number + step) % 8 - 4) for step in range(50)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(both_sides, range(8)))
    assert sorted(computed) == [0, 1]
    again = Plan(list(range(1, 65)) * 4, DataConfig(buckets=(16, 64), tokens=64), 0)
    assert found[0] == [again.batch(border + step % 8 - 4) for step in range(50)]
    # No more than what stands side by side is kept.
    plan.batch(3 * border)
    assert sorted(plan._orders) == [3]


@pytest.mark.parametrize(
    ("config", "lengths"),
    [
        (DataConfig(buckets=(16, 32, 64), tokens=64), (16, 64)),
        (DataConfig(buckets=(16, 32, 64), tokens=64, pack=True), (64,)),
    ],
)
def test_the_lengths_of_a_plan_are_those_of_its_batches(config: DataConfig, lengths: tuple[int, ...]) -> None:
    plan = Plan([4, 50, 9, 60, 70], config, 0)
    assert plan.lengths == lengths
    assert {plan.batch(number).length for number in range(plan.batches_per_epoch)} == {*lengths}


def test_overlong_rows_can_be_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        Plan([4, 70], DataConfig(buckets=(16, 64), overlong="error"), 0, named=["a.jsonl:1", "a.jsonl:2"].__getitem__)
    assert caught.value.message == "data.buckets: a.jsonl:2 has 70 tokens, the last bucket 64"
    with pytest.raises(ConfigError) as caught:
        Plan([4, 70], DataConfig(buckets=(16, 64), overlong="error"), 0)
    assert caught.value.message == "data.buckets: row 1 has 70 tokens, the last bucket 64"


@pytest.mark.parametrize(("overlong", "done"), [("truncate", "truncated"), ("drop", "dropped")])
def test_what_became_of_overlong_rows_is_said(overlong: Any, done: str) -> None:
    config = DataConfig(buckets=(16, 64), tokens=64, overlong=overlong)
    plan = Plan([4, 70, 20, 99], config, 0)
    assert plan.overlong == f"data.overlong: 2 of 4 rows are longer than the last bucket (64) and are {done}"
    assert sorted(plan.placed()) == [(0, 16), (1, 64), (2, 64), (3, 64)][:: 2 if overlong == "drop" else 1]
    assert Plan([4, 64], config, 0).overlong == ""


@pytest.mark.parametrize("overlong", ["truncate", "drop"])
def test_rows_that_leave_nothing_to_learn_stop_the_run(overlong: Any) -> None:
    config = DataConfig(buckets=(8,), tokens=8, overlong=overlong)

    def made(*wanted: list[int]) -> RowList:
        return RowList(rows=tuple(Row(ids=flags, wanted=flags, origin="") for flags in wanted), digest="")

    far, apart, near = [0] * 7 + [1, 1], [1, 0, 1, 0], [0] * 6 + [1, 1]
    kept = 3 if overlong == "truncate" else 2
    rows = made(far, apart, [0, 0])
    with pytest.raises(DataError) as caught:
        require_learnable(rows, Plan(rows.lengths, config, 0))
    assert (caught.value.message, caught.value.hint) == (
        f"data.buckets: none of {kept} rows, cut to 8 tokens, has two of the assistant's in a row to learn from",
        "add a longer bucket to data.buckets, or give rows whose loss_mask marks the assistant's tokens",
    )
    rows = made(far, apart, near)
    require_learnable(rows, Plan(rows.lengths, config, 0))


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=14), min_size=1, max_size=3))
def test_rows_are_learnable_when_some_batch_has_an_anchor(flags: list[list[int]]) -> None:
    rows = RowList(rows=tuple(Row(ids=wanted, wanted=wanted, origin="") for wanted in flags), digest="")
    plan = Plan(rows.lengths, DataConfig(buckets=(8, 10), tokens=8), 0)
    maker = BatchMaker(rows, plan, DrafterConfig(block=2, anchors=4), 0, pin=False)
    learnable = any(maker.make(plan.batch(number)).weight for number in range(plan.batches_per_epoch))
    try:
        require_learnable(rows, plan)
    except DataError:
        assert not learnable
    else:
        assert learnable


def test_streams_of_one_seed_differ_by_purpose() -> None:
    drawn = {
        derive(seed, purpose) for seed in range(20) for purpose in ("epoch 0", "epoch 1", "anchors 0", "anchors 1")
    }
    assert len(drawn) == 80
    assert all(0 <= value < 2**63 for value in drawn)


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=30), st.integers(1, 12), st.integers(0, 99))
def test_anchors_are_ascending_and_have_something_to_predict(spoken: list[bool], count: int, seed: int) -> None:
    able = [place for place in range(len(spoken) - 1) if spoken[place] and spoken[place + 1]]
    row = choose_anchors(torch.tensor([spoken]), count, torch.Generator().manual_seed(seed))[0].tolist()
    present = [place for place in row if place >= 0]
    assert len(row) == count
    assert row == present + [-1] * (count - len(present))
    assert present == sorted(set(present))
    assert set(present) <= set(able)
    assert len(present) == min(count, len(able))


def test_a_batch_is_the_same_in_every_worker_and_pads_on_the_right() -> None:
    rows = RowList(
        rows=tuple(Row(ids=range(1, 6 + i), wanted=[0, 0] + [1] * (3 + i), origin=f"r{i}") for i in range(4)), digest=""
    )
    plan = Plan(rows.lengths, DataConfig(buckets=(8,), tokens=24), 3)
    makers = [BatchMaker(rows, plan, DrafterConfig(block=4, anchors=3), 0, pin=False) for _ in range(2)]
    # Four rows in batches of three: one batch holds a single row, and two empty ones.
    single = next(batch for batch in map(plan.batch, range(2)) if len(batch.members) == 1)
    first, second = (maker.make(single) for maker in makers)
    assert torch.equal(first.ids, second.ids)
    assert torch.equal(first.anchors, second.anchors)
    assert first.ids.shape == (3, 8)
    member = single.members[0]
    length = rows.lengths[member]
    assert first.ids[0].tolist() == [*range(1, length + 1), *[0] * (8 - length)]
    assert first.loss_mask[0].tolist() == [False, False, *[True] * (length - 2), *[False] * (8 - length)]
    assert (first.tokens, first.origins) == (length, (f"r{member}",))
    assert first.anchors[1:].tolist() == [[-1] * 3] * 2


def test_an_error_of_the_loader_thread_reaches_the_step() -> None:
    class Broken:
        plan = Plan([4], DataConfig(buckets=(8,), tokens=8), 0)

        def make(self, _planned: object) -> None:
            raise DataError("row 3 is gone")

    with Loader(Broken(), iter([0]), 1) as loader, pytest.raises(DataError, match="row 3 is gone"):  # type: ignore[arg-type]
        next(loader)


def spoken(tokenizer: Any, row: Row) -> str:
    return str(tokenizer.decode([token for token, flag in zip(row.ids, row.wanted, strict=True) if flag]))


@pytest.mark.parametrize("template", [TEMPLATE, MARKED], ids=["by prefixes", "by generation marks"])
def test_only_the_assistant_is_learnt_from(tokenizer: Any, template: str) -> None:
    tokenizer.chat_template = template
    talk = [*conversation(["river"]), *conversation(["stone", "clock"])]
    row = encode(tokenizer, talk, "x:1")
    assert spoken(tokenizer, row) == f"{VERSES['river']} <end> {VERSES['stone']} {VERSES['clock']} <end>"
    assert tokenizer.decode(row.ids).startswith("<user> recite river <end> <assistant> cold water")


def test_a_template_that_renders_a_turn_unlike_its_prompt_is_refused(tokenizer: Any) -> None:
    tokenizer.chat_template = FORGETFUL
    with pytest.raises(DataError) as caught:
        encode(tokenizer, [*conversation(["river"]), *conversation(["stone"])], "chats.jsonl:4")
    assert (caught.value.message, caught.value.hint) == (
        "chats.jsonl:4: the chat template renders turn 2 differently from the prompt before it, so the assistant's tokens"
        " cannot be distinguished",
        "give a template with {% generation %} marks: --set target.chat_template=FILE",
    )


def test_turns_that_later_ones_change_are_rows_of_their_own(tokenizer: Any) -> None:
    tokenizer.chat_template = THINKING
    talk = [*conversation(["river"]), *conversation(["stone"])]
    rows = Encoder(tokenizer).encode(Conversation(messages=talk), "chats.jsonl:4")
    assert [(row.origin, row.turn) for row in rows] == [("chats.jsonl:4", 2), ("chats.jsonl:4", 4)]
    assert [tokenizer.decode(row.ids) for row in rows] == [
        f"<user> recite river <end> <assistant> clock {VERSES['river']} <end>",
        f"<user> recite river <end> <assistant> {VERSES['river']} <end> <user> recite stone <end>"
        f" <assistant> clock {VERSES['stone']} <end>",
    ]
    # With thinking the target generates the mark itself, without it the prompt already has it.
    assert [spoken(tokenizer, row) for row in rows] == [f"clock {VERSES[name]} <end>" for name in ("river", "stone")]
    silent = Encoder(tokenizer, {"enable_thinking": False}).encode(Conversation(messages=talk), "chats.jsonl:4")
    assert [row.ids for row in silent] == [row.ids for row in rows]
    assert [spoken(tokenizer, row) for row in silent] == [f"{VERSES[name]} <end>" for name in ("river", "stone")]


def test_tools_and_reasoning_reach_the_template(tokenizer: Any) -> None:
    tokenizer.chat_template = (
        "{% for tool in tools or [] %}{{ '<user> ' + tool.name + ' <end> ' }}{% endfor %}"
        "{% for message in messages %}{{ '<' + message.role + '> ' + message.get('reasoning_content', '') + ' ' }}"
        "{% for call in message.tool_calls or [] %}{{ call.function.name + ' ' }}{% endfor %}"
        "{{ message.content + ' <end> ' }}{% endfor %}{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
    )
    call = {"type": "function", "function": {"name": "clock", "arguments": None}}
    talk = conversation_of(
        {
            "tools": [{"name": "lantern"}],
            "messages": [
                {"from": "human", "value": "recite"},
                {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "stone"},
            ],
        },
        "x:1",
    )
    assert talk.messages[1]["tool_calls"] == [{"type": "function", "function": {"name": "clock"}}]
    (row,) = Encoder(tokenizer).encode(talk, "x:1")
    assert tokenizer.decode(row.ids) == "<user> lantern <end> <user> recite <end> <assistant> stone clock <end>"
    assert spoken(tokenizer, row) == "stone clock <end>"


@pytest.mark.parametrize(
    "turns",
    [
        [{"from": "human", "value": "recite river"}, {"from": "gpt", "value": VERSES["river"]}],
        [
            {"role": "user", "content": [{"type": "text", "text": "recite "}, {"text": "river"}]},
            {"role": "assistant", "content": [{"type": "text", "text": VERSES["river"]}]},
        ],
        [
            {"role": "user", "content": "recite river", "tool_calls": None, "weight": 3},
            {"role": "assistant", "content": VERSES["river"], "reasoning_content": ""},
        ],
    ],
    ids=["sharegpt", "parts", "nulls"],
)
def test_shapes_of_a_conversation(turns: list[object]) -> None:
    assert conversation_of({"conversations": turns}, "x:1").messages == conversation(["river"])


ASKED = [{"role": "user", "content": "recite river"}]
ANSWERED = [{"role": "assistant", "content": VERSES["river"]}]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "recite river", "completion": VERSES["river"]},
        {"prompt": "recite river", "response": VERSES["river"], "completion": None},
        {"prompt": ASKED, "completion": ANSWERED},
        {"instruction": "recite river", "input": "", "output": VERSES["river"]},
        {"messages": json.dumps([*ASKED, *ANSWERED])},
    ],
    ids=["completion", "response", "trl", "alpaca", "json text"],
)
def test_rows_that_are_a_question_and_its_answer(row: dict[str, object]) -> None:
    assert conversation_of(row, "x:1").messages == conversation(["river"])


@pytest.mark.parametrize(
    "text", ["[]", "[1, 2]", '[{"role": "user", "content": "x"}]', '[{"name": "clock"}]', "{}", "null"]
)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_prompt_and_an_answer_are_never_read_as_json(pair: tuple[str, str], text: str) -> None:
    assert conversation_of({pair[0]: text, pair[1]: text}, "x:1").messages == [
        {"role": "user", "content": text}, {"role": "assistant", "content": text},
    ]  # fmt: skip


SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(
    ("row", "messages"),
    [
        ({"system": "Be brief.", "conversations": [*ASKED, *ANSWERED]}, [SYSTEM, *ASKED, *ANSWERED]),
        ({"system": "Be brief.", "messages": [SYSTEM, *ASKED, *ANSWERED]}, [SYSTEM, *ASKED, *ANSWERED]),
        ({"system": "", "messages": [*ASKED, *ANSWERED]}, [*ASKED, *ANSWERED]),
        ({"system": "Be brief.", "prompt": ASKED, "completion": ANSWERED}, [SYSTEM, *ASKED, *ANSWERED]),
        (
            {"instruction": "recite", "context": "river", "response": VERSES["river"], "category": "closed_qa"},
            [{"role": "user", "content": "recite\n\nriver"}, *ANSWERED],
        ),
        (
            {"instruction": "recite river", "output": VERSES["river"], "history": [["hello", "good day"]], "system": "Be brief."},
            [SYSTEM, {"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}, *ASKED, *ANSWERED],
        ),
    ],
    ids=["system", "twice", "empty", "trl", "dolly", "history"],
)  # fmt: skip
def test_what_stands_beside_the_turns_is_read(row: dict[str, object], messages: list[object]) -> None:
    assert conversation_of(row, "x:1").messages == messages


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"system": "Be long.", "messages": [SYSTEM, *ASKED]}, "system and turn 1 are two texts of the system"),
        ({"system": ["Be brief."], "messages": ASKED}, "system is list, not text"),
        ({"instruction": "a", "output": "b", "history": "[]"}, "history is not a list of a question and its answer each"),
        ({"instruction": "a", "output": "b", "history": [["a"]]}, "history is not a list of a question and its answer each"),
        ({"instruction": "a", "output": "b", "input": ["c"]}, "input or context is not text"),
        ({"messages": [*ASKED, {**ANSWERED[0], "tool_calls": "clock(1)"}]}, "turn 2: tool_calls is str, not a list"),
        ({"conversations": [*ASKED, {"from": "function_call", "value": "[]"}]}, "turn 2 is a function_call without a name: '[]'"),
    ],
)  # fmt: skip
def test_what_stands_beside_the_turns_and_cannot_be_read_is_told(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as caught:
        conversation_of(row, "x:1")
    assert caught.value.message == f"x:1: {message}"


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": "", "tool_calls": json.dumps([{"type": "function", "function": {"name": "clock", "arguments": {"at": 1}}}])},
        {"role": "assistant", "content": None, "function_call": {"name": "clock", "arguments": {"at": 1}}},
        {"from": "function_call", "value": '{"name": "clock", "arguments": {"at": 1}}'},
    ],
    ids=["json text", "openai's older", "sharegpt"],
)  # fmt: skip
def test_a_turn_keeps_its_calls_and_its_reasoning(turn: dict[str, object]) -> None:
    assert conversation_of({"messages": [*ASKED, {**turn, "thinking": "stone"}]}, "x:1").messages[1] == {
        "role": "assistant", "content": "", "reasoning_content": "stone",
        "tool_calls": [{"type": "function", "function": {"name": "clock", "arguments": {"at": 1}}}],
    }  # fmt: skip


def test_a_question_has_its_input_and_its_system_and_may_stand_alone() -> None:
    row = {"system": "Be brief.", "instruction": "recite", "input": "river"}
    assert conversation_of(row, "x:1").messages == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "recite\n\nriver"},
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_has_several_names(key: str) -> None:
    talk = conversation_of({"messages": [*ASKED, {**ANSWERED[0], key: "clock"}]}, "x:1")
    assert talk.messages[1] == {**ANSWERED[0], "reasoning_content": "clock"}


CALLING = [
    {"from": "human", "value": "recite river"},
    {"from": "function_call", "value": '{"name": "clock", "arguments": {"at": 1}}'},
    {"from": "observation", "value": "stone"},
    {"from": "gpt", "value": VERSES["river"]},
]


def test_sharegpts_calls_are_tool_calls() -> None:
    talk = conversation_of({"conversations": CALLING, "tools": '[{"name": "clock"}]'}, "x:1")
    assert talk.tools == [{"name": "clock"}]
    assert [message["role"] for message in talk.messages] == ["user", "assistant", "tool", "assistant"]
    assert talk.messages[1] == {
        "role": "assistant", "content": "",
        "tool_calls": [{"type": "function", "function": {"name": "clock", "arguments": {"at": 1}}}],
    }  # fmt: skip
    with pytest.raises(DataError) as caught:
        conversation_of({"conversations": [CALLING[0], {"from": "function_call", "value": "clock(1)"}]}, "x:1")
    assert (caught.value.message, caught.value.hint) == (
        "x:1: turn 2 is a function_call without a name: 'clock(1)'",
        'its value is JSON: {"name": "..", "arguments": {..}}, or a list of these',
    )


def test_a_call_that_the_template_leaves_out_is_not_learnt_as_an_empty_turn(tokenizer: Any) -> None:
    talk = conversation_of({"conversations": CALLING}, "x:1")
    with pytest.raises(DataError) as caught:
        Encoder(tokenizer).encode(talk, "x:1")
    assert (caught.value.message, caught.value.hint) == (
        "x:1: turn 2 calls 'clock', and the chat template does not render the call",
        "give a template that renders tool calls (--set target.chat_template=FILE), or set data.bad_rows=skip",
    )


CALLS = (  # renders the first of a turn's calls, or none
    "{% for message in messages %}{{ '<' + message.role + '> ' }}"
    "{% if message.tool_calls and keep %}{{ message.tool_calls[0].function.name + ' ' }}{% endif %}"
    "{{ message.content + ' <end> ' }}{% endfor %}{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
)
CALLS_MARKED = (
    "{% for message in messages %}{{ '<' + message.role + '> ' }}{% if message.role == 'assistant' %}"
    "{% if message.tool_calls and keep %}{% generation %}{{ message.tool_calls[0].function.name + ' ' }}{% endgeneration %}{% endif %}"
    "{% generation %}{{ message.content + ' <end> ' }}{% endgeneration %}"
    "{% else %}{{ message.content + ' <end> ' }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("template", [CALLS, CALLS_MARKED], ids=["by prefixes", "by generation marks"])
@pytest.mark.parametrize(
    ("calls", "content", "keep", "wrong"),
    [
        (["clock"], "", True, None),
        (["clock"], "the clock", True, None),
        (["clock"], "c", True, None),
        (["clock"], "", False, "clock"),
        # The turn's own words, and another turn's, name it too.
        (["clock"], "the clock", False, "clock"),
        (["clock", "clock"], "", True, "clock"),
        (["clock", "stone"], "", True, "stone"),
    ],
)  # fmt: skip
def test_each_call_is_looked_for_in_its_own_turn(
    tokenizer: Any, template: str, calls: list[str], content: str, keep: Any, wrong: str | None
) -> None:
    tokenizer.chat_template = template
    made = [{"type": "function", "function": {"name": name, "arguments": {}}} for name in calls]
    turns = [*ASKED, {"role": "assistant", "content": content, "tool_calls": made}, *ASKED]
    talk = conversation_of({"messages": [*turns, {"role": "assistant", "content": "clock stone clock"}]}, "x:1")
    encoder = Encoder(tokenizer, {"keep": keep})
    if wrong is None:
        assert len(encoder.encode(talk, "x:1")) == 1
        return
    with pytest.raises(DataError) as caught:
        encoder.encode(talk, "x:1")
    assert caught.value.message == f"x:1: turn 2 calls {wrong!r}, and the chat template does not render the call"


def test_rows_of_the_same_tokens_are_the_same_to_a_checkpoint(
    tokenizer: Any, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.is_dir()
    place = write(tmp_path / "chats.jsonl", [GOOD])
    first = read_rows(place, tokenizer, len(tokenizer)).digest
    monkeypatch.setattr("trainer.data.chat.ENCODING", 0)
    write(place, [{**GOOD, "id": 7}])
    assert read_rows(place, tokenizer, len(tokenizer)).digest == first
    write(place, [GOOD, GOOD])
    assert read_rows(place, tokenizer, len(tokenizer)).digest != first


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ((), {}),
        (
            ("enable_thinking=false", "style = plain", "depth=2"),
            {"enable_thinking": False, "style": "plain", "depth": 2},
        ),
    ],
)
def test_template_arguments(settings: tuple[str, ...], found: dict[str, object]) -> None:
    assert template_arguments(settings) == found


@pytest.mark.parametrize("setting", ["enable_thinking", "=false", "a b=1"])
def test_template_arguments_of_another_form(setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        template_arguments([setting])
    assert (caught.value.message, caught.value.hint) == (
        f"target.template_arguments: `{setting}` is not of the form NAME=VALUE",
        "write for example target.template_arguments=['enable_thinking=false']",
    )


def write(place: Path, rows: list[object]) -> Path:
    place.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return place


def test_jsonl_and_parquet_files_are_read_alike(tokenizer: Any, tmp_path: Path, cache: Path) -> None:
    datasets = pytest.importorskip("datasets")
    assert cache.is_dir()
    talks = conversations(3, 5)
    plain = write(
        tmp_path / "a.jsonl", [{"id": 1, "conversations": talks[0]}, "", {"id": 2, "conversations": talks[1]}]
    )
    datasets.Dataset.from_list([{"messages": talk} for talk in talks]).to_parquet(str(tmp_path / "b.parquet"))
    alone, both = read_rows(plain, tokenizer, len(tokenizer)), read_rows(tmp_path, tokenizer, len(tokenizer))
    wanted = [encode(tokenizer, talk, "") for talk in (talks[0], talks[1], *talks)]
    assert [(both[i].ids, both[i].wanted) for i in range(5)] == [(row.ids, row.wanted) for row in wanted]
    assert [both[i].origin for i in range(5)] == ["a.jsonl:1", "a.jsonl:3", "b.parquet:1", "b.parquet:2", "b.parquet:3"]
    assert list(both.lengths) == [len(row.ids) for row in wanted]
    assert list(alone.lengths) == [len(row.ids) for row in wanted[:2]]
    assert alone.digest != both.digest


def test_another_tokenizer_is_not_served_the_first_ones_tokens(
    tokenizer: Any, target_folder: Path, tmp_path: Path, cache: Path
) -> None:
    assert cache.is_dir()
    place = write(tmp_path / "chats.jsonl", [GOOD])
    twin = tmp_path / "twin"
    shutil.copytree(target_folder, twin)
    told = json.loads((twin / "tokenizer.json").read_text())
    words = sorted(set(told["model"]["vocab"]) - {mark["content"] for mark in told["added_tokens"]})
    numbers = [told["model"]["vocab"][word] for word in words]
    told["model"]["vocab"].update(zip(words, reversed(numbers), strict=True))
    (twin / "tokenizer.json").write_text(json.dumps(told))
    other = AutoTokenizer.from_pretrained(twin)
    first, second = read_rows(place, tokenizer, len(tokenizer)), read_rows(place, other, len(other))
    assert first[0].ids != second[0].ids
    assert tokenizer.decode(first[0].ids) == other.decode(second[0].ids)
    assert first.digest != second.digest
    # What a call sets in a tokenizer is not part of its identity, its special tokens and its template are.
    before = encoding_digest(other)
    other("river", truncation=True, max_length=3, padding="max_length")
    assert encoding_digest(other) == before
    other.add_special_tokens({"bos_token": "<user>"})
    marked = encoding_digest(other)
    other.chat_template = MARKED
    assert len({before, marked, encoding_digest(other)}) == 3


@pytest.mark.parametrize("mark", ["{%generation%}", "{%- generation -%}", "{%-generation+%}", "{%  generation %}"])
def test_generation_marks_are_seen_however_they_are_written(tokenizer: Any, mark: str) -> None:
    tokenizer.chat_template = MARKED.replace("{% generation %}", mark)
    row = encode(tokenizer, conversation(["river"]), "x:1")
    assert spoken(tokenizer, row) == f"{VERSES['river']} <end>"
    # Only marks let a conversation start with the assistant: by prefixes there is none to compare with.
    assert spoken(tokenizer, encode(tokenizer, conversation(["stone"])[1:], "x:2")) == f"{VERSES['stone']} <end>"


@pytest.mark.parametrize(
    ("template", "kind", "message", "hint"),
    [
        (None, ConfigError, "target.chat_template: the target's tokenizer has no chat template", "give one: --set target.chat_template=FILE"),
        ("x\n{{ messages }", ConfigError, "target.chat_template: line 2: unexpected '}'", "fix the Jinja template, or give another one: --set target.chat_template=FILE"),
        ("{{ raise_exception('roles must alternate') }}", DataError, "chats.jsonl:1: the chat template fails on this conversation: roles must alternate", "fix or remove the row, or give another template: --set target.chat_template=FILE"),
        ("{{ messages[0].content + 1 }}", DataError, 'chats.jsonl:1: the chat template fails on this conversation: can only concatenate str (not "int") to str', "fix or remove the row, or give another template: --set target.chat_template=FILE"),
    ],
    ids=["none", "syntax", "refuses", "type"],
)  # fmt: skip
def test_a_template_that_cannot_be_used(
    tokenizer: Any, tmp_path: Path, cache: Path, template: str | None, kind: type, message: str, hint: str
) -> None:
    assert cache.is_dir()
    tokenizer.chat_template = template
    with pytest.raises(kind) as caught:
        read_rows(write(tmp_path / "chats.jsonl", [GOOD]), tokenizer, len(tokenizer))
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize("content", ["", "\n  \n"])
def test_a_file_without_a_row_is_named(tokenizer: Any, tmp_path: Path, cache: Path, content: str) -> None:
    assert cache.is_dir()
    place = tmp_path / "chats.jsonl"
    place.write_text(content)
    with pytest.raises(DataError) as caught:
        read_rows(place, tokenizer, len(tokenizer))
    assert (caught.value.message, caught.value.hint) == (
        f"{place}: holds no row", "give a file with conversations, or remove this one",
    )  # fmt: skip


def test_a_byte_that_is_not_utf8_is_named_by_line_and_column(tokenizer: Any, tmp_path: Path, cache: Path) -> None:
    assert cache.is_dir()
    place = write(tmp_path / "chats.jsonl", [GOOD, GOOD])
    place.write_bytes(place.read_bytes() + b'{"conversations": "\xfc"}\n')
    with pytest.raises(DataError) as caught:
        read_rows(place, tokenizer, len(tokenizer))
    assert (caught.value.message, caught.value.hint) == (
        "chats.jsonl:3: byte 0xfc at column 20 is not UTF-8", "save the file as UTF-8",
    )  # fmt: skip


def test_a_tokenizer_of_another_target_is_refused(tokenizer: Any, tmp_path: Path, cache: Path) -> None:
    assert cache.is_dir()
    with pytest.raises(DataError) as caught:
        read_rows(write(tmp_path / "chats.jsonl", [GOOD]), tokenizer, 6)
    most = max(encode(tokenizer, GOOD["conversations"], "").ids)
    assert (caught.value.message, caught.value.hint) == (
        f"chats.jsonl:1: the tokenizer makes token {most}, and the target's tokens are 0 to 5",
        "give the target the tokenizer it was trained with",
    )


def test_rows_that_are_tokens_already(tokenizer: Any, tmp_path: Path, cache: Path) -> None:
    assert cache.is_dir()
    place = write(tmp_path / "tokens.jsonl", [{"input_ids": [3, 4, 5], "loss_mask": [0, 1, 1]}])
    row = read_rows(place, tokenizer, len(tokenizer))[0]
    assert (row.ids, row.wanted, row.origin, row.turn) == ([3, 4, 5], [0, 1, 1], "tokens.jsonl:1", 0)


def test_every_kind_of_file_gives_the_same_rows(tokenizer: Any, tmp_path: Path, cache: Path) -> None:
    datasets = pytest.importorskip("datasets")
    assert cache.is_dir()
    talks = [{"conversations": talk} for talk in conversations(700, 5)]
    table = datasets.Dataset.from_list(talks)
    for name in ("lines.jsonl", "list.json", "stream.arrow", "columns.parquet"):
        (tmp_path / name).mkdir()
    write(tmp_path / "lines.jsonl/a.jsonl", list(talks))
    (tmp_path / "list.json/a.json").write_text(json.dumps(talks, indent=1))
    table.save_to_disk(str(tmp_path / "saved"))
    shutil.copy(next((tmp_path / "saved").glob("*.arrow")), tmp_path / "stream.arrow/a.arrow")
    table.to_parquet(str(tmp_path / "columns.parquet/a.parquet"))
    read = {
        name: read_rows(tmp_path / name, tokenizer, len(tokenizer))
        for name in ("lines.jsonl", "list.json", "stream.arrow", "columns.parquet")
    }
    # The folder of a data set has JSON files that are no rows.
    saved = read_rows(tmp_path / "saved", tokenizer, len(tokenizer))
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(str(tmp_path / "splits"))
    with pytest.raises(DataError) as caught:
        read_rows(tmp_path / "splits", tokenizer, len(tokenizer))
    assert (caught.value.message, caught.value.hint) == (
        f"data.path {tmp_path}/splits: a data set of several splits",
        f"name the folder of a split: {tmp_path}/splits/test, {tmp_path}/splits/train",
    )
    first = read["lines.jsonl"]
    assert len(first.lengths) == 700
    assert saved.table.column("input_ids").to_pylist() == first.table.column("input_ids").to_pylist()
    assert [first[at].ids for at in (0, 511, 512, 699)] == [
        encode(tokenizer, talks[at]["conversations"], "").ids for at in (0, 511, 512, 699)
    ]
    for name, rows in read.items():
        assert rows.table.column("input_ids").to_pylist() == first.table.column("input_ids").to_pylist(), name
        assert rows[512].origin == f"a.{name.partition('.')[2]}:513"


def test_bad_rows_can_be_skipped_and_are_counted(tokenizer: Any, tmp_path: Path, cache: Path) -> None:
    assert cache.is_dir()
    place = write(tmp_path / "chats.jsonl", [GOOD, "{", {"text": "x"}, GOOD, [1]])
    rows = read_rows(place, tokenizer, len(tokenizer), skip=True)
    assert [rows[at].origin for at in range(len(rows.lengths))] == ["chats.jsonl:1", "chats.jsonl:4"]
    told = (
        "data.bad_rows: 3 of 5 rows cannot be used and are skipped, among them chats.jsonl:2: not JSON: Expecting property"
        " name enclosed in double quotes at column 2; chats.jsonl:3: no conversation in the keys ['text'];"
        " chats.jsonl:5: list, not an object"
    )
    assert rows.skipped == told
    # What was kept says so again.
    assert read_rows(place, tokenizer, len(tokenizer), skip=True).skipped == told
    with pytest.raises(DataError) as caught:
        read_rows(write(tmp_path / "worse.jsonl", ["{"]), tokenizer, len(tokenizer), skip=True)
    assert caught.value.message == (
        f"{tmp_path / 'worse.jsonl'}: no usable row: worse.jsonl:1: not JSON: Expecting property name enclosed in double"
        " quotes at column 2"
    )


def test_weights_decide_how_often_an_epoch_sees_a_source() -> None:
    lengths = [10] * 40 + [30] * 20
    config = DataConfig(path=("a", "b"), weights=(0.25, 2.0), buckets=(16, 32), tokens=64)
    plan = Plan(lengths, config, 7, groups=(40, 20))
    seen: list[list[int]] = []
    for epoch in (0, 1):
        numbers = range(epoch * plan.batches_per_epoch, (epoch + 1) * plan.batches_per_epoch)
        seen.append(sorted(row for number in numbers for row in plan.batch(number).members))
    for rows in seen:
        assert [row for row in rows if row >= 40] == sorted([*range(40, 60)] * 2)
        few = [row for row in rows if row < 40]
        assert len(few) == len(set(few)) == 10
    assert seen[0] != seen[1]
    with pytest.raises(ConfigError) as caught:
        DataConfig(path=("a", "b"), weights=(1.0,))
    assert caught.value.message == "data.weights: 1 weights for 2 paths"


@pytest.mark.property
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(1, 4), st.integers(0, 5))
def test_drafters_that_meet_have_batches_of_one_bucket(lengths: list[int], together: int, seed: int) -> None:
    config = DataConfig(buckets=(16, 32, 64), tokens=64)
    plan = Plan(lengths, config, seed, together=together)
    each = [plan.batch(number) for number in range(3 * plan.batches_per_epoch)]
    for epoch in range(3):
        rows = [row for batch in each if batch.epoch == epoch for row in batch.members]
        assert sorted(rows) == list(range(len(lengths)))
    rounds = [each[start : start + together] for start in range(0, len(each) - together + 1, together)]
    mixed = sum(len({batch.length for batch in batches}) > 1 for batches in rounds)
    # In each epoch at most the remainders of the three buckets, and a round that was taken apart, are in mixed company.
    assert mixed <= 3 * (3 + 1)
    if all(len(lengths_of) % together == 0 for lengths_of in _batches_by_bucket(plan)):
        assert mixed == 0


def _batches_by_bucket(plan: Plan) -> list[list[int]]:
    first = [plan.batch(number) for number in range(plan.batches_per_epoch)]
    return [[batch.index for batch in first if batch.length == length] for length in plan.config.buckets]


def asked_by(parts: Parts) -> dict[int, list[str]]:
    """Return for each question of the held-out rows where they come from."""
    found: dict[int, list[str]] = {}
    talks = list(parts.rows.talks)
    for at in parts.held_out:
        found.setdefault(talks[at][0], []).append(parts.rows[at].origin)
    return found


def epoch(parts: Parts) -> list[tuple[int, ...]]:
    return [parts.plan.batch(number).members for number in range(parts.plan.batches_per_epoch)]


def numbered(sizes: list[int], mark: int = 6) -> list[dict[str, object]]:
    """Return conversations of as many turns as `sizes` says, each with a question of its own, as rows of tokens."""
    return [
        {"input_ids": [6 + at, mark, *range(6, 6 + turn), 10, 10], "loss_mask": [0, 0, *[0] * turn, 1, 1],
         "origin": f"{mark}/{at}"}
        for at, turns in enumerate(sizes)
        for turn in range(turns)
    ]  # fmt: skip


def test_every_source_gives_up_rows_in_proportion_and_none_whole(
    tmp_path: Path, cache: Path, target_folder: Path
) -> None:
    assert cache.is_dir()
    files = [
        write(tmp_path / "code.jsonl", list(numbered([1] * 60))),
        write(tmp_path / "chat.jsonl", list(numbered([3] * 10, 7))),
        write(tmp_path / "few.jsonl", list(numbered([3], 8))),
    ]

    def parts(evaluate: int, seed: int = 0, paths: list[Path] = files, words: int = 0) -> Parts:
        told = {
            "data": {"path": [str(path) for path in paths]}, "run": {"evaluate": evaluate, "seed": seed},
            "target": {"path": str(target_folder)}, "drafter": {"vocabulary": words},
        }  # fmt: skip
        return assemble(build("cpu-smoke", [preset("cpu-smoke"), told]))

    found = parts(4)
    held = [found.rows[at].origin.partition(":")[0] for at in found.held_out]
    # Three and one of 93 rows; the one has two others of its conversation beside it.
    assert held == ["code.jsonl"] * 3 + ["chat.jsonl"] * 3
    assert len(asked_by(found)) == 4
    # Drawn from the 60 rows of code, neither its head nor its tail.
    assert found.held_out[:3] not in {(0, 1, 2), (57, 58, 59)}
    # The three files are numbered as one: no conversation shares its number with another file's.
    assert [talk for _, talk in found.rows.talks] == [*range(60), *(60 + at // 3 for at in range(30)), 70, 70, 70]
    assert sorted(at for batch in epoch(found) for at in batch) == sorted({*range(93)} - {*found.held_out})
    assert found.evaluated_on == "6 of 93 rows, held out of training"
    # Of a later stage it is said where an earlier one may have trained on them.
    stage = {"run": "one", "rows": found.rows.digest, "held_out": found.identity()["held_out"]}
    assert dataclasses.replace(found, ancestry=(stage,)).evaluated_on == found.evaluated_on
    assert dataclasses.replace(found, ancestry=(stage, {**stage, "run": "two", "rows": "x"})).evaluated_on == (
        f"{found.evaluated_on}; stage two had other rows, and may have trained on these"
    )
    # What is held out has no say in which tokens are frequent.
    said = Counter(
        token
        for at in set(range(93)) - {*found.held_out}
        for token, wanted in zip(found.rows[at].ids, found.rows[at].wanted, strict=True)
        if wanted
    )
    assert list(found.rows.counts(64, found.held_out)) == [said[token] for token in range(64)]
    reduced = parts(4, words=20)
    assert reduced.kept is not None
    assert (
        reduced.kept.tolist()
        == choose_vocabulary(
            [said[token] for token in range(reduced.target_config.vocab_size)], 20, reduced.stop
        ).tolist()
    )
    # The same rows for every seed: runs and stages are compared on the same prompts.
    assert parts(4, seed=5).held_out == found.held_out
    assert parts(2).held_out == tuple(at for at in parts(3).held_out if at in parts(2).held_out)
    more = parts(64)
    assert more.held_out == found.held_out
    assert more.evaluated_on == (
        "6 of 93 rows, held out of training; run.evaluate=64, and one row in 20 at most is held out"
    )
    few = parts(8, paths=files[2:])
    assert (few.held_out, few.evaluated_on) == ((), "rows that are trained on: of 3 none can be held out")
    assert parts(0).evaluated_on == ""
    # Listed twice, or answered more than once: no copy of what is held out is trained on.
    twice = parts(4, paths=[files[0], files[0]])
    assert len(twice.held_out) == 4
    assert {len(origins) for origins in asked_by(twice).values()} == {2}
    assert len(twice.prompts()) == 2
    assert found.identity()["held_out"] != parts(1).identity()["held_out"] != parts(0).identity()["held_out"] == 0


def test_a_conversation_is_held_out_whole(tmp_path: Path, cache: Path, target_folder: Path) -> None:
    assert cache.is_dir()
    template = tmp_path / "thinking.jinja"
    template.write_text(THINKING)
    names = sorted(VERSES)
    talks = [
        {"messages": [*conversation([names[at % 6], names[at // 6 % 2]]), *conversation(["stone"])]} for at in range(24)
    ]
    settings = [
        preset("cpu-smoke"),
        {
            "data": {"path": str(write(tmp_path / "chats.jsonl", list(talks)))},
            "target": {"path": str(target_folder), "chat_template": str(template)},
            "run": {"evaluate": 1},
        },
    ]
    parts = assemble(build("cpu-smoke", settings))
    # Both turns of one conversation, and both of the other that asks the same.
    assert {len(talks) for talks in asked_by(parts).values()} == {4}
    assert sorted(at for batch in epoch(parts) for at in batch) == sorted({*range(48)} - {*parts.held_out})
    assert len(parts.prompts()) == 2


GOOD = {"conversations": conversation(["river"])}


@pytest.mark.parametrize(
    ("bad", "message", "hint"),
    [
        ('{"conversations": [', "not JSON: Expecting value at column 20", SHAPE_HINT),
        ("[1, 2]", "list, not an object", SHAPE_HINT),
        ({"text": "x"}, "no conversation in the keys ['text']", SHAPE_HINT),
        ({"conversations": [{"role": "boss", "content": "x"}]}, "turn 1 has the role 'boss'", "roles are assistant, developer, system, tool, user"),
        ({"conversations": [{"role": "user", "content": "recite"}]}, "no turn of the assistant, so nothing to learn", "remove the row"),
        ({"conversations": [{"role": "user", "content": None}]}, "turn 1 has no text but NoneType", SHAPE_HINT),
        ({"conversations": "hello"}, "no conversation in the keys ['conversations']", SHAPE_HINT),
        ({"input_ids": [1, 2], "loss_mask": [1]}, "2 input_ids and 1 loss_mask", SHAPE_HINT),
        ({"input_ids": [1, 79], "loss_mask": [0, 1]}, "input_ids[1] is 79, and the target's tokens are 0 to 78", FOREIGN),
        ({"input_ids": [-1], "loss_mask": [1]}, "input_ids[0] is -1, and the target's tokens are 0 to 78", FOREIGN),
        ({"input_ids": ["a"], "loss_mask": [1]}, "input_ids[0] is 'a', and the target's tokens are 0 to 78", FOREIGN),
        ({"input_ids": [1.5], "loss_mask": [1]}, "input_ids[0] is 1.5, and the target's tokens are 0 to 78", FOREIGN),
        ({"input_ids": [1], "loss_mask": ["0"]}, "loss_mask[0] is '0'", "use 1 for the assistant's tokens, else 0"),
        ({"conversations": [*conversation(["river"]), {"role": "user", "content": "\ud83d"}]}, "not Unicode: half of a character, \\ud83d, stands alone in the text", "fix or remove the row"),
        (f'{{"input_ids": [{"9" * 4301}], "loss_mask": [1]}}', "not JSON that can be read: Exceeds the limit (4300 digits) for integer string conversion: value has 4301 digits", SHAPE_HINT),
        ('{"conversations": ' + "[" * 99999, "not JSON that can be read: nested too deeply", SHAPE_HINT),
        ({"input_ids": [float("nan")], "loss_mask": [1]}, "input_ids[0] is nan, and the target's tokens are 0 to 78", FOREIGN),
        ({"input_ids": [1], "loss_mask": [float("nan")]}, "loss_mask[0] is nan", "use 1 for the assistant's tokens, else 0"),
        ({"conversations": [{"role": "assistant", "content": "a"}]}, "turn 1 is the assistant's, so no prompt comes before it", "start the conversation with a turn of the system or the user"),
    ],
    ids=["json", "list", "keys", "role", "silent", "text", "string", "tokens", "vocabulary", "negative", "word", "float", "flag", "half", "digits", "nested", "nan", "nan flag", "first"],
)  # fmt: skip
def test_a_bad_row_is_named_by_file_and_line(
    tokenizer: Any, tmp_path: Path, cache: Path, bad: object, message: str, hint: str
) -> None:
    assert cache.is_dir()
    place = write(tmp_path / "chats.jsonl", [GOOD, "", GOOD, bad, GOOD])
    with pytest.raises(DataError) as caught:
        read_rows(place, tokenizer, len(tokenizer))
    assert (caught.value.message, caught.value.hint) == (f"chats.jsonl:4: {message}", hint)


def test_a_conversation_that_is_nested_too_deeply() -> None:
    calls: list[object] = []
    for _ in range(5000):
        calls = [calls]
    turn = {"role": "assistant", "content": "a", "tool_calls": calls}
    with pytest.raises(DataError) as caught:
        conversation_of({"messages": [turn]}, "chats.jsonl:4")
    assert (caught.value.message, caught.value.hint) == ("chats.jsonl:4: nested too deeply", "fix or remove the row")


def test_a_text_of_a_columnar_file_that_is_not_utf8(tokenizer: Any, tmp_path: Path, cache: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    assert cache.is_dir()
    place = tmp_path / "a.parquet"
    asked = [talk[0]["content"].encode() for talk in conversations(3, 5)]
    # As other writers leave it: nothing checks what a column of text holds.
    texts = pa.array([asked[0], b"\xff", asked[2]]).cast(pa.string(), safe=False)
    parquet.write_table(pa.table({"prompt": texts, "response": pa.array(["brass"] * 3)}), place)
    rows = read_rows(place, tokenizer, len(tokenizer), skip=True)
    assert [rows[at].origin for at in range(len(rows.lengths))] == ["a.parquet:1", "a.parquet:3"]
    with pytest.raises(DataError) as caught:
        read_rows(place, tokenizer, len(tokenizer))
    assert (caught.value.message, caught.value.hint) == (
        "a.parquet:2: cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "fix or remove the row",
    )


def test_rows_without_a_prompt_are_found_before_training(tmp_path: Path, cache: Path) -> None:
    assert cache.is_dir()
    silent = {"input_ids": [6, 7, 8], "loss_mask": [1, 1, 1]}
    place = write(tmp_path / "tokens.jsonl", [silent] * 3)

    def parts(evaluate: int) -> Parts:
        return assemble(
            build("cpu-smoke", [preset("cpu-smoke"), {"data": {"path": str(place)}, "run": {"evaluate": evaluate}}])
        )

    with pytest.raises(DataError) as caught:
        parts(2)
    assert (caught.value.message, caught.value.hint) == (
        "run.evaluate: in none of the rows for the closing evaluation does a prompt come before the assistant",
        "set run.evaluate=0, or give rows whose loss_mask starts with 0",
    )
    assert parts(0).prompts() == []
    write(place, [silent, {"input_ids": [9, 7, 8], "loss_mask": [0, 1, 1]}, {"input_ids": [9], "loss_mask": [0]}])
    assert parts(3).prompts() == [[9]]


@pytest.mark.parametrize("name", ["gone.jsonl", "empty"])
def test_no_file_to_read(tokenizer: Any, tmp_path: Path, cache: Path, name: str) -> None:
    assert cache.is_dir()
    (tmp_path / "empty").mkdir()
    told = "no .jsonl, .json, .parquet or .arrow file" if name == "empty" else "no such file or folder"
    with pytest.raises(DataError) as caught:
        read_rows(tmp_path / name, tokenizer, len(tokenizer))
    assert caught.value.message == f"data.path {tmp_path / name}: {told}"
