"""Decoding: the target's own distribution, and the same text with a drafter and without, alone and with others."""

import random
from pathlib import Path

import pytest
import torch
from transformers import Qwen3ForCausalLM

from trainer import evaluate as evaluation
from trainer.decoding import choose, gumbel
from trainer.evaluate import SpeculativeDecoder, evaluate, interval, together
from trainer.model.drafter import Drafter, DrafterShape
from trainer.target import Target

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


def test_prompts_are_decoded_together_as_far_as_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "TOKENS_AT_A_TIME", 60)
    lengths = [10, 30, 5, 70, 8]
    batches = list(together([[0] * length for length in lengths], 10))
    assert batches == [[2, 4, 0], [1], [3]]
