"""Packed rows: what fits together, and that a document learns in company what it learns alone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask
from transformers import AutoModelForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, Qwen3Config

from trainer.assemble import Parts, assemble
from trainer.compile.state import compile_counts, prepare_thread
from trainer.data.buckets import Plan
from trainer.data.loader import BatchMaker
from trainer.data.packing import Packed, layout, pack, packed
from trainer.data.rows import Row, RowList
from trainer.drafter.mask import document_mask
from trainer.errors import CompileStateError, ConfigError, TargetModelError
from trainer.runtime.session import Session
from trainer.runtime.steps import DrafterStep, OpenDoor, TargetStep
from trainer.runtime.threads import ThreadedRun
from trainer.settings.config import DataConfig, DrafterConfig, build
from trainer.settings.presets import preset
from trainer.target.attention import attend_in_documents, attend_to_documents
from trainer.target.model import Target

CPU = torch.device("cpu")


@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=60), st.integers(40, 64), st.randoms(use_true_random=False))
def test_rows_hold_everything_once_and_as_many_in_any_order(lengths: list[int], room: int, chance: object) -> None:
    rows = pack(lengths, room)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    assert all(0 < sum(lengths[index] for index in row) <= room for row in rows)
    # Best fit: no two rows could be one.
    sums = sorted(sum(lengths[index] for index in row) for row in rows)
    assert len(sums) < 2 or sums[0] + sums[1] > room
    other = list(lengths)
    chance.shuffle(other)  # type: ignore[attr-defined]
    assert len(pack(other, room)) == len(rows)


@pytest.mark.property
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 80), min_size=1, max_size=40), st.integers(0, 5))
def test_an_epoch_of_packed_rows_holds_every_row_once(lengths: list[int], seed: int) -> None:
    plan = Plan(lengths, DataConfig(buckets=(16, 64), tokens=128, pack=True), seed)
    epochs = []
    for epoch in range(3):
        numbers = range(epoch * plan.batches_per_epoch, (epoch + 1) * plan.batches_per_epoch)
        batches = [plan.batch(number) for number in numbers]
        assert sorted(row for batch in batches for row in batch.members) == list(range(len(lengths)))
        assert all((batch.length, batch.size) == (64, 2) and len(batch.layout) <= 2 for batch in batches)
        rows = [row for batch in batches for row in batch.layout]
        assert all(sum(min(lengths[member], 64) for member in row) <= 64 for row in rows)
        epochs.append(rows)
    assert epochs[0] == [row for number in range(plan.batches_per_epoch) for row in plan.batch(number).layout]


def test_what_a_row_says_of_its_documents() -> None:
    documents, places = layout([[3, 2], [6], []], 6)
    assert documents.tolist() == [[0, 0, 0, 1, 1, 2], [0] * 6, [0] * 6]
    assert places.tolist() == [[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    held = packed(documents, places, torch.tensor([[1, 3, -1], [0, 4, 5], [-1] * 3]))
    assert held.starts.tolist() == [[0, 3, 0], [0, 0, 0], [0, 0, 0]]
    assert held.ends.tolist() == [[3, 5, 0], [6, 6, 6], [0, 0, 0]]


def test_an_anchor_and_what_it_predicts_are_of_one_document() -> None:
    rows = RowList(rows=tuple(Row(ids=[9, 7, 8], wanted=[0, 1, 1], origin=f"r{i}") for i in range(6)), digest="")
    plan = Plan(rows.lengths, DataConfig(buckets=(9,), tokens=18, pack=True), 0)
    maker = BatchMaker(rows, plan, DrafterConfig(block=4, anchors=8), 0, pin=False)
    batch = maker.make(plan.batch(0))
    assert isinstance(batch.packed, Packed)
    # Position 1 of each document alone has a token after it that is the assistant's and the document's.
    assert batch.anchors.tolist() == [[1, 4, 7, *[-1] * 5]] * 2
    # One prediction an anchor: the second is past the document's end.
    assert batch.weight == pytest.approx(6.0)
    assert (batch.tokens, batch.work.lengths, batch.work.blocks) == (18, (3,) * 6, 6)
    assert batch.to(CPU).packed is not None


def _settings(target_folder: Path, **data: object) -> Parts:
    return assemble(
        build("cpu-smoke", [
            preset("cpu-smoke"),
            {"target": {"path": str(target_folder)}, "run": {"evaluate": 0, "compile": "off"},
             "drafter": {"sliding_layers": [1], "sliding_window": 20}, "data": {"buckets": [64, 128], **data}},
        ])
    )  # fmt: skip


def test_a_teacher_says_of_a_position_what_the_target_says_there_of_the_document_alone(
    cache: Path, target_folder: Path
) -> None:
    assert cache.is_dir()
    parts = assemble(
        build("cpu-smoke", [
            preset("cpu-smoke"),
            {"target": {"path": str(target_folder)}, "run": {"evaluate": 0, "compile": "off"},
             "loss": {"kind": "kl"}, "data": {"buckets": [64, 128], "pack": True, "tokens": 256}},
        ])
    )  # fmt: skip
    target = parts.load_target(CPU)
    batch = parts.maker(pin=False).make(parts.plan.batch(0))
    assert batch.packed is not None
    features = TargetStep(target, parts.config.run, OpenDoor()).run(batch)
    step = DrafterStep(
        parts.drafter(CPU), target.shared, parts.config.drafter, parts.mask_token, parts.config.run, OpenDoor(),
        parts.objective,
    )  # fmt: skip
    given: list[torch.Tensor] = []
    teacher = step._teacher
    step._teacher = lambda *those: given.append(teacher(*those)) or given[0]  # type: ignore[method-assign]
    assert step.run(batch, features).loss_sum > 0
    predicted = batch.shape.width - 1
    (told,) = given
    logits = (told @ target.shared.head.t()).view(*batch.anchors.shape, predicted, -1)
    # The reference: the whole target over one document, as transformers computes it.
    alone = AutoModelForCausalLM.from_pretrained(target_folder, dtype=torch.float32).eval()
    compared = 0
    for line, members in enumerate(parts.plan.batch(0).layout):
        at = 0
        for member in members:
            ids = torch.tensor([list(parts.rows[member].ids)])
            with torch.no_grad():
                own = alone(ids).logits[0]
            for block, anchor in enumerate(batch.anchors[line].tolist()):
                if at <= anchor < at + ids.shape[1]:
                    # Position k of the block is the token at anchor + k, which the one before it predicts.
                    there = own[anchor - at : ids.shape[1] - 1][:predicted]
                    torch.testing.assert_close(logits[line, block, : len(there)], there, rtol=1e-3, atol=1e-3)
                    compared += len(there)
            at += ids.shape[1]
    assert compared > 100


def test_documents_in_company_learn_what_they_learn_alone(cache: Path, target_folder: Path) -> None:
    assert cache.is_dir()
    together = _settings(target_folder, pack=True, tokens=256)
    alone = _settings(target_folder, tokens=64)
    target = together.load_target(CPU)
    feature_step = TargetStep(target, together.config.run, OpenDoor())
    batch = together.maker(pin=False).make(together.plan.batch(0))
    assert batch.packed is not None
    assert len(batch.work.lengths) > 2
    features = feature_step.run(batch)
    grouped = DrafterStep(
        together.drafter(CPU),
        target.shared,
        together.config.drafter,
        together.mask_token,
        together.config.run,
        OpenDoor(),
    )
    found = grouped.run(batch, features)
    single = DrafterStep(
        alone.drafter(CPU), target.shared, alone.config.drafter, alone.mask_token, alone.config.run, OpenDoor()
    )
    maker = alone.maker(pin=False)
    losses = 0.0
    for line, members in enumerate(together.plan.batch(0).layout):
        at = 0
        for member in members:
            length = together.rows.lengths[member]
            # The same document by itself, with the anchors it has in the packed row.
            mine = [anchor - at for anchor in batch.anchors[line].tolist() if at <= anchor < at + length]
            one = maker.make(replace(alone.plan.batch(0), length=64, size=1, layout=((member,),)))
            chosen = torch.tensor([[*mine, *[-1] * (batch.shape.blocks - len(mine))]])
            one = replace(one, anchors=chosen)
            own = feature_step.run(one)
            torch.testing.assert_close(features[line, at : at + length], own[0, :length], rtol=1e-4, atol=1e-4)
            losses += float(single.run(one, own).loss_sum)
            at += length
    assert float(found.loss_sum) == pytest.approx(losses, rel=1e-4)
    for mine, wanted in zip(grouped.parameters.gradients(), single.parameters.gradients(), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-3, atol=1e-4)


def test_a_target_that_sees_past_a_document_is_refused() -> None:
    config = Gemma3TextConfig(
        vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    model = Gemma3ForCausalLM(config)
    model.set_input_embeddings(torch.nn.Embedding(40, 16))
    with pytest.raises(ConfigError) as caught:
        Target(model, (0,)).pack_rows()
    assert (caught.value.message, caught.value.hint) == (
        "data.pack: the target has sliding_attention layers, which see past the end of a document in a packed row",
        "set data.pack=false",
    )


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 70), max_size=8), min_size=1, max_size=3), st.integers(1, 200))
def test_tiles_of_documents_are_those_that_torch_finds(lengths: list[list[int]], more: int) -> None:
    _, places = layout(lengths, max(sum(row) for row in lengths) + more)
    found = document_mask(places, tile=16)
    rows, length = places.shape
    wanted = create_block_mask(found.mask_mod, rows, None, length, length, device="cpu", BLOCK_SIZE=16)
    assert torch.equal(_tiles(found.kv_num_blocks, found.kv_indices), _tiles(wanted.kv_num_blocks, wanted.kv_indices))
    assert torch.equal(
        _tiles(found.full_kv_num_blocks, found.full_kv_indices),
        _tiles(wanted.full_kv_num_blocks, wanted.full_kv_indices),
    )


def _tiles(count: torch.Tensor | None, places: torch.Tensor | None) -> torch.Tensor:
    """Return the table of a mask's tiles from its lists."""
    assert count is not None
    assert places is not None
    table = torch.zeros(places.shape, dtype=torch.bool)
    listed = torch.arange(places.shape[-1]) < count[..., None]
    return table.scatter(-1, places.long(), listed)


@pytest.mark.parametrize("kind", [LlamaConfig, Qwen3Config])
def test_tiles_and_the_dense_table_give_the_same_features(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    config = kind(
        vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, tie_word_embeddings=False, initializer_range=0.3,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    dense, tiled = Target(model, (0, 2)), Target(model, (0, 2))
    dense.pack_rows()
    tiled.pack_rows()
    attend_in_documents(model, tiled.layers, CPU)
    tiled._tiled = True
    masks = []
    monkeypatch.setattr("trainer.target.model.document_mask", lambda places: masks.append(1) or document_mask(places))
    tiled.compile("eager")
    ids = torch.randint(0, 128, (2, 150), generator=torch.Generator().manual_seed(1))
    prepare_thread()
    for place, lengths in enumerate(([[70, 41, 19], [150]], [[3, 147], [20, 20]])):
        held = packed(*layout(lengths, 150), torch.tensor([[1], [1]]))
        wanted = dense.features(ids, held)
        torch.testing.assert_close(tiled.features(ids, held), wanted, rtol=1e-4, atol=1e-3)
        # Beside what one document of all of them would be.
        assert float((dense.features(ids) - wanted).abs().max()) > 1.0
        # The mask is made once a batch, and other documents compile nothing.
        assert len(masks) == place + 1
        if place == 0:
            before = compile_counts()
    assert compile_counts() == before
    # The model that evaluation decodes with keeps its own attention.
    assert model.config._attn_implementation == "sdpa"


def test_tiles_outside_a_compiled_region_are_an_error() -> None:
    mask = document_mask(layout([[5, 3]], 8)[1])
    states = torch.zeros(1, 2, 8, 16)
    with pytest.raises(CompileStateError):
        attend_to_documents(torch.nn.Module(), states, states, states, mask, scaling=0.25)


def test_attention_of_other_maths_is_refused() -> None:
    mask = document_mask(layout([[5, 3]], 8)[1])
    states = torch.zeros(1, 2, 8, 16)
    with pytest.raises(TargetModelError) as caught:
        attend_to_documents(torch.nn.Linear(1, 1), states, states, states, mask, scaling=0.25, softcap=30.0)
    assert (caught.value.message, caught.value.hint) == (
        "Linear asks its attention for softcap, which packed rows do not have",
        "set data.pack=false",
    )


def test_a_model_with_attention_of_its_own_is_refused_on_tiles() -> None:
    class Own(torch.nn.Module):
        pass

    with pytest.raises(ConfigError) as caught:
        attend_in_documents(Own(), torch.nn.ModuleList(), CPU)
    assert caught.value.message == "data.pack: the attention of Own cannot be replaced"


def test_the_targets_of_threads_take_packed_rows(cache: Path, tmp_path: Path) -> None:
    assert cache.is_dir()
    config = build("cpu-smoke", [
        preset("cpu-smoke"),
        {"run": {"evaluate": 0}, "data": {"pack": True, "buckets": [64], "tokens": 64},
         "topology": {"runtime": "threads", "targets": 2}},
    ])  # fmt: skip
    parts = assemble(config)
    session = Session(
        parts=parts, output=tmp_path, saved=None, stop=lambda: False, report=lambda _: None,
        after=lambda _masters, _target: None, journal=lambda _event, _values: None,
    )  # fmt: skip
    alone = parts.load_target(CPU)
    assert [target._packs for target in (alone, *ThreadedRun(parts, session).targets)] == [True] * 3
