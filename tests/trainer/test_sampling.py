"""Decoding: the target's own distribution, and the same text with a drafter and without, alone and with others."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import (
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
    Starcoder2Config,
    Starcoder2ForCausalLM,
)

from trainer.decoding import passes as decoding
from trainer.decoding.evaluate import SpeculativeDecoder, evaluate, interval, plain_texts, together, vague
from trainer.decoding.passes import Passes, choose, gumbel
from trainer.drafter.model import Drafter, DrafterShape
from trainer.errors import ConfigError, DeviceMemoryError
from trainer.records.display import judged_line
from trainer.runtime.finalize import Finalizer
from trainer.settings.config import TrainConfig
from trainer.target.model import Target, attention_kinds

CPU = torch.device("cpu")
PROMPT = [3, 50, 53, 5, 4]
PROMPTS = [PROMPT, [3, 50], [3, 51, 52, 53, 54, 55] * 4, [*PROMPT, 7, 8, 9]]
SLIDING = {
    "layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window": 6, "use_sliding_window": True,
}  # fmt: skip


def decoder_of(folder: Path, stop: tuple[int, ...] = (), **config: object) -> SpeculativeDecoder:
    """Return the toy target, with these keys of its config, and an untrained drafter."""
    model = Qwen3ForCausalLM.from_pretrained(folder, attn_implementation="sdpa", **config)
    drafter = Drafter(
        DrafterShape(hidden=64, layers=1, heads=4, key_value_heads=2, head_dim=16, intermediate=32, features=2)
    )
    drafter.reset(0)
    return SpeculativeDecoder(Target(model, (0, 2)), drafter, block=5, mask_token=2, stop=stop)


def up_to(ids: tuple[int, ...], stop: frozenset[int]) -> tuple[int, ...]:
    """Return the tokens up to the first that is one of `stop`."""
    return ids[: next((place + 1 for place, token in enumerate(ids) if token in stop), len(ids))]


@pytest.fixture(scope="module")
def decoder(target_folder: Path) -> SpeculativeDecoder:
    """Return a decoder whose texts end nowhere."""
    return decoder_of(target_folder)


def test_choices_follow_the_distribution() -> None:
    wanted = torch.tensor([0.5, 0.3, 0.15, 0.05])
    seeds = torch.arange(20_000)
    chosen = choose(2.0 * wanted.log().expand(len(seeds), -1), torch.zeros_like(seeds), seeds, 2.0)
    seen = torch.bincount(chosen, minlength=4) / len(seeds)
    # Four standard deviations of the share.
    assert bool(((seen - wanted).abs() < 4 * (wanted * (1 - wanted) / len(seeds)).sqrt()).all())


def test_noise_exists_for_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds, places = torch.arange(300), torch.arange(300) * 7
    logits = torch.randn(300, 50)
    wanted = (logits / 0.7 + gumbel(seeds, places, 50)).argmax(-1)
    rows: list[int] = []
    monkeypatch.setattr(decoding, "gumbel", lambda some, *more: rows.append(len(some)) or gumbel(some, *more))
    assert torch.equal(choose(logits, places, seeds, 0.7), wanted)
    assert rows == [128, 128, 44]


def test_an_evaluation_without_room_is_an_error_that_names_what_to_lower(
    decoder: SpeculativeDecoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The text of torch 2.11; there is no way to fill a device that is not there.
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.50 GiB. Including non-PyTorch memory, ..")

    monkeypatch.setattr("trainer.runtime.finalize.evaluate", full)
    parts = SimpleNamespace(config=TrainConfig(profile="x"), mask_token=2, stop=(), kept=None, prompts=list)
    finalizer = Finalizer(parts=parts, output=tmp_path, stop=lambda: False)  # type: ignore[arg-type]
    with pytest.raises(DeviceMemoryError) as caught:
        finalizer.during(300, decoder.drafter, decoder.target)
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (
        "the evaluation after step 300: CUDA out of memory. Tried to allocate 4.50 GiB.",
        "lower run.evaluate_positions (now 32768), then go on with --resume", 2,
    )  # fmt: skip


def test_the_noise_is_gumbels_in_every_direction() -> None:
    by_seed = gumbel(torch.arange(400), torch.full((400,), 7), 1000)
    by_place = gumbel(torch.full((400,), 7), torch.arange(400), 1000)
    for noise in (by_seed, by_place):
        assert bool(noise.isfinite().all())
        for point in (-1.0, 0.0, 1.0, 3.0, 8.0):
            share, wanted = (noise < point).double().mean(), torch.exp(-torch.exp(torch.tensor(-point)).double())
            assert abs(share - wanted) < 5 * (wanted * (1 - wanted) / noise.numel()).sqrt()
        # Neighbours in a row and in a column have nothing to do with each other.
        for first, second in ((noise[:-1], noise[1:]), (noise[:, :-1], noise[:, 1:])):
            correlation = torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]
            assert abs(correlation) < 5 / first.numel() ** 0.5
    assert not torch.equal(by_seed, by_place)


def test_a_sampled_text_is_the_same_with_a_drafter_and_differs_by_seed(decoder: SpeculativeDecoder) -> None:
    texts = []
    for seed in range(3):
        plain = decoder.plain(PROMPT, 12, temperature=1.5, seed=seed)
        assert decoder.speculative(PROMPT, 12, temperature=1.5, seed=seed).ids == plain
        texts.append(plain)
    assert len(set(texts)) == 3
    assert decoder.plain(PROMPT, 12, temperature=1e-6) == decoder.plain(PROMPT, 12)


@pytest.mark.parametrize("config", [{}, SLIDING], ids=["cache", "no cache"])
@pytest.mark.parametrize("stop", [(), (15, 55)], ids=["to the end", "stopped"])
def test_prompts_decoded_together_say_what_each_says_alone(
    target_folder: Path, config: dict[str, object], stop: tuple[int, ...]
) -> None:
    decoder = decoder_of(target_folder, stop, **config)
    for temperature in (0.0, 1.5):
        own = decoder.plain_texts(PROMPTS, 21, temperature=temperature, seeds=range(4))
        made = decoder.speculative_texts(PROMPTS, 21, temperature=temperature, seeds=range(4))
        wide = decoder.plain_texts(PROMPTS, 21, temperature=temperature, seeds=range(4), width=5)
        assert [text.ids for text in made] == [text.ids for text in own] == [text.ids for text in wide]
        for number, prompt in enumerate(PROMPTS):
            assert own[number].ids == decoder.plain(prompt, 21, temperature=temperature, seed=number)
            assert made[number] == decoder.speculative(prompt, 21, temperature=temperature, seed=number)
    oracle = [
        decoder.target.model.generate(
            torch.tensor([each]), attention_mask=torch.ones(1, len(each)), max_new_tokens=21, do_sample=False,
            eos_token_id=list(stop) or None, pad_token_id=0,
        )[0, len(each) :].tolist()
        for each in PROMPTS
    ]  # fmt: skip
    assert [list(each.ids) for each in decoder.plain_texts(PROMPTS, 21, seeds=range(4))] == oracle
    assert (min(map(len, oracle)) < 21) == bool(stop)


@pytest.mark.parametrize("config", [{}, SLIDING], ids=["cache", "no cache"])
@pytest.mark.parametrize("seed", range(6))
def test_a_finished_text_takes_no_room_while_others_go_on(
    target_folder: Path, config: dict[str, object], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drafter knows the text and is wrong at places drawn, seldom in the longest prompt, which so ends first."""
    generator, count = random.Random(seed), 10  # noqa: S311 - no secret
    prompts = [PROMPT, [3, 51, 52, 53, 54, 55] * 4, [3, 50]]
    width = generator.choice((2, 5, 16))
    decoder = decoder_of(target_folder, **config)
    decoder.block = width
    own = [text.ids for text in decoder.plain_texts(prompts, count + 2 * width, seeds=range(3))]
    decoder.stop = frozenset({own[1][count // 2]} if seed % 2 else ())
    rates = (generator.choice((0.2, 1.0)), 0.0 if seed < 4 else 0.1, 1.0)

    def draft(_last: torch.Tensor, passes: Passes) -> torch.Tensor:
        rows = []
        for text, prompt in enumerate(prompts):
            assert len(prompt) <= passes.lengths[text] < len(prompt) + count
            at = passes.lengths[text] - len(prompt) + 1
            rows.append([
                (token + (generator.random() < rates[text])) % 60 for token in own[text][at : at + width - 1]
            ])  # fmt: skip
        return torch.tensor(rows)

    monkeypatch.setattr(decoder, "_draft", draft)
    made = decoder.speculative_texts(prompts, count, seeds=range(3))
    assert len(made[1].accepted) < len(made[2].accepted)
    assert [text.ids for text in made] == [up_to(ids[:count], decoder.stop) for ids in own]


@pytest.mark.parametrize(
    ("config", "model"),
    [(MistralConfig, MistralForCausalLM), (MixtralConfig, MixtralForCausalLM), (Phi3Config, Phi3ForCausalLM),
     (Starcoder2Config, Starcoder2ForCausalLM)],
)  # fmt: skip
def test_a_window_without_layer_types_slides(config: type[PreTrainedConfig], model: type[PreTrainedModel]) -> None:
    """Texts longer than the window are transformers' own, and rows of several documents are refused."""
    torch.manual_seed(0)
    made = config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=8, initializer_range=0.5, tie_word_embeddings=False,
        pad_token_id=0, eos_token_id=None, bos_token_id=None,
    )  # fmt: skip
    target = Target(model._from_config(made, attn_implementation="sdpa").eval(), (0, 2))
    prompt = [5, 9, 33, 2, 7, 8, 12, 40, 41, 42]
    (text,) = plain_texts(target, [prompt], 24, stop=frozenset(), temperature=0.0, seeds=[0])
    wanted = target.model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)
    assert list(text.ids) == wanted[0, len(prompt) :].tolist()
    with pytest.raises(ConfigError) as caught:
        target.pack_rows()
    assert (caught.value.message, caught.value.hint) == (
        "data.pack: the target has sliding_attention layers, which see past the end of a document in a packed row",
        "set data.pack=false",
    )


def test_the_kinds_of_layers_are_read_from_layer_types_or_from_the_window() -> None:
    full, slides = {"full_attention"}, {"sliding_attention"}
    assert attention_kinds(MistralConfig(sliding_window=None)) == full
    assert attention_kinds(MistralConfig(sliding_window=4096, max_position_embeddings=32768)) == slides
    # Phi-3.5-mini-instruct: no text is as long as its window.
    assert attention_kinds(Phi3Config(sliding_window=262144, max_position_embeddings=131072)) == full
    assert attention_kinds(Qwen3Config(sliding_window=4096, use_sliding_window=False)) == full
    layers = {"num_hidden_layers": 4, "max_window_layers": 2}
    assert attention_kinds(Qwen3Config(sliding_window=64, use_sliding_window=True, **layers)) == full | slides


def test_an_evaluation_tells_each_prompt_and_stops_between_passes(decoder: SpeculativeDecoder) -> None:
    found = evaluate(decoder, PROMPTS, 21, lambda: False)
    assert found is not None
    assert (found.prompts, found.identical, found.tokens) == (4, 4, 84)
    alone = [decoder.speculative(each, 21, seed=n).accepted for n, each in enumerate(PROMPTS)]
    assert found.by_prompt == tuple((sum(each), len(each)) for each in alone)
    cycles = sum(map(len, alone))
    assert found.acceptance_length == sum(map(sum, alone)) / cycles + 1
    assert found.by_position == tuple(sum(right >= k for each in alone for right in each) / cycles for k in range(1, 5))
    assert found.speedup == found.acceptance_length * found.pass_seconds / found.cycle_seconds > 0
    assert found.interval[0] <= found.acceptance_length <= found.interval[1]
    asked: list[bool] = []
    assert evaluate(decoder, PROMPTS, 21, lambda: asked.append(True) or len(asked) > 30) is None
    assert len(asked) == 31


@pytest.mark.parametrize("stop", [(), (6, 7, 30)], ids=["cut at the count", "ended by a token"])
def test_only_what_is_in_the_text_counts_as_accepted(target_folder: Path, stop: tuple[int, ...]) -> None:
    decoder = decoder_of(target_folder, stop)
    own = {tuple(each): list(decoder.plain(each, 64)) for each in PROMPTS}

    def oracle(last: torch.Tensor, passes: Passes) -> torch.Tensor:
        # A drafter that is always right, behind a stop token too.
        drafts = []
        for prompt, length in zip(PROMPTS[: len(last)], passes.lengths, strict=True):
            text = whole[tuple(prompt)][length - len(prompt) + 1 :]
            drafts.append((text + [0] * 4)[:4])
        return torch.tensor(drafts)

    endless = decoder_of(target_folder)
    whole = {tuple(each): list(endless.plain(each, 64)) for each in PROMPTS}
    decoder._draft = oracle  # type: ignore[method-assign]
    for count in (12, 21):
        texts = decoder.speculative_texts(PROMPTS, count, seeds=range(4))
        assert [list(text.ids) for text in texts] == [own[tuple(each)][:count] for each in PROMPTS]
        for text in texts:
            # The first token is of the prompt's own pass; each cycle adds what it accepts and one.
            assert sum(text.accepted) + len(text.accepted) == len(text.ids) - 1
    found = evaluate(decoder, PROMPTS[:1], 12, lambda: False)
    assert found is not None
    assert found.acceptance_length == (found.tokens - 1) / found.cycles
    if not stop:
        # 11 tokens in cycles of 5, 5 and 1.
        assert (found.acceptance_length, found.by_position) == (11 / 3, (2 / 3,) * 4)


def test_the_interval_holds_the_true_acceptance_length_as_often_as_it_says() -> None:
    generator, held = random.Random(3), 0  # noqa: S311 - no secret
    for _ in range(100):
        # A prompt has a rate of its own: cycles of one prompt are alike, so that they say less than as many prompts.
        prompts = []
        for _ in range(40):
            rate = generator.choice((0.2, 1.0, 1.8))
            prompts.append((sum(generator.random() < rate / 2 for _ in range(40)), 20))
        low, high = interval(prompts)
        held += low <= 2.0 <= high
    assert 88 <= held <= 100


def test_prompts_are_decoded_together_as_far_as_they_fit() -> None:
    lengths = [10, 30, 5, 70, 8]
    batches = list(together([[0] * length for length in lengths], 10, 60))
    assert batches == [[2, 4, 0], [1], [3]]


@pytest.mark.parametrize(
    ("by_prompt", "told"),
    [
        ([(29, 12)], "about 3.42 (1 prompt: too few or too alike for an interval)"),
        ([(29, 12), (29, 12)], "about 3.42 (2 prompts: too few or too alike for an interval)"),
        ([(29, 12)] * 7 + [(20, 12)], "3.32 (3.14 to 3.42, 1.50 x)"),
        ([(29, 12)] * 6 + [(20, 12)], "about 3.31 (7 prompts: too few or too alike for an interval)"),
        ([(29, 12)] * 9, "about 3.42 (9 prompts: too few or too alike for an interval)"),
        ([(0, 12)] * 8 + [(12, 12)], "between 1.00 and 1.33 (95 %; 9 prompts tell no more)"),
    ],
)
def test_what_few_or_equal_prompts_say_is_no_interval(by_prompt: list[tuple[int, int]], told: str) -> None:
    length = sum(accepted for accepted, _ in by_prompt) / sum(cycles for _, cycles in by_prompt) + 1.0
    values = {
        "acceptance_length": length, "interval": interval(by_prompt), "prompts": len(by_prompt), "speedup": 1.5,
    }  # fmt: skip
    assert vague(length, interval(by_prompt), len(by_prompt)) == (" x)" not in told)
    line = judged_line({"step": 30, **values, "sampled": values})
    assert line == f"step     30  acceptance length {told}, at temperature 1 {told}"
