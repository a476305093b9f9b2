"""Sampling: the target's own distribution, and the same text with a drafter and without."""

from pathlib import Path

import pytest
import torch

from trainer.evaluate import SpeculativeDecoder, _Passes
from trainer.model.drafter import Drafter, DrafterShape
from trainer.target import Target

CPU = torch.device("cpu")
PROMPT = [3, 50, 53, 5, 4]


@pytest.fixture(scope="module")
def decoder(target_folder: Path) -> SpeculativeDecoder:
    """Return the toy target with an untrained drafter."""
    target = Target.load(target_folder, (0, 2), CPU, torch.float32)
    drafter = Drafter(
        DrafterShape(hidden=64, layers=1, heads=4, key_value_heads=2, head_dim=16, intermediate=32, features=2)
    )
    drafter.reset(0)
    return SpeculativeDecoder(target, drafter, block=5, mask_token=2, stop=())


def test_choices_follow_the_distribution(decoder: SpeculativeDecoder) -> None:
    wanted = torch.tensor([0.5, 0.3, 0.15, 0.05])
    seen = torch.zeros(4)
    for seed in range(2000):
        passes = _Passes(decoder, 2.0, seed)
        passes._text = [0]
        seen[passes._choice(2.0 * wanted.log()[None])[0]] += 1
    # Four standard deviations of the share.
    assert bool(((seen / 2000 - wanted).abs() < 4 * (wanted * (1 - wanted) / 2000).sqrt()).all())


def test_a_sampled_text_is_the_same_with_a_drafter_and_differs_by_seed(decoder: SpeculativeDecoder) -> None:
    texts = []
    for seed in range(3):
        plain = decoder.plain(PROMPT, 12, temperature=1.5, seed=seed)
        assert decoder.speculative(PROMPT, 12, temperature=1.5, seed=seed).ids == plain
        texts.append(plain)
    assert len(set(texts)) == 3
    assert decoder.plain(PROMPT, 12, temperature=1e-6) == decoder.plain(PROMPT, 12)
