"""Target passes over several texts at a time: what decoding with a drafter, without one, and in bulk is made of.

Each text has its own length. Its keys and values stand at their positions in one buffer, so that tokens which do not
count are simply written over, and no text waits for another one's rejected tokens.
Shapes: P texts, L tokens a pass, V vocabulary, H hidden, W = F*H feature channels.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from transformers import DynamicCache

from trainer.data.buckets import derive
from trainer.target.model import Target, attention_kinds, cache_keyword

CHOSEN_AT_A_TIME = 1024
"""Positions whose logits exist at a time."""
SAMPLED_AT_A_TIME = 128
"""Rows whose noise exists at a time: its int64 words take about 30 bytes a token of the vocabulary."""
_WORD = 0xFFFFFFFF


def rewritable(config: Any) -> bool:
    """Return whether all layers keep each position's keys: a sliding or recurrent one has none to write over."""
    return attention_kinds(config) == {"full_attention"}


class TextCache(DynamicCache):
    """Keys and values [P, heads, room, D] of each layer, every text's at its own positions."""

    def __init__(self, room: int) -> None:
        """Allocate nothing yet: each layer's sizes are known when it first writes. `room` bounds the positions."""
        super().__init__()
        self._room = room
        self._held: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._at = torch.empty(0, 0, dtype=torch.int64)
        self._used = 0

    def expect(self, at: torch.Tensor, used: int) -> None:
        """Say where the next pass's tokens go, `at` [P, L], and how many positions it looks at."""
        self._at, self._used = at, used

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """Write a layer's new keys and values; return all it looks at."""
        if layer_idx not in self._held:
            self._held[layer_idx] = (self._buffer(key_states), self._buffer(value_states))
        where = self._at[:, None, :, None]
        for buffer, states in zip(self._held[layer_idx], (key_states, value_states), strict=True):
            buffer.scatter_(2, where.expand_as(states), states)
        keys, values = self._held[layer_idx]
        return keys[:, :, : self._used], values[:, :, : self._used]

    def _buffer(self, states: torch.Tensor) -> torch.Tensor:
        texts, heads, _, size = states.shape
        return states.new_zeros(texts, heads, self._room, size)

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        """Return the positions before the pass, as far as they are one number."""
        return self._used - self._at.shape[1]


class Passes:
    """Texts that grow by passes of the target, with a KV cache where it can be written over."""

    def __init__(
        self,
        target: Target,
        prompts: Sequence[Sequence[int]],
        count: int,
        *,
        temperature: float = 0.0,
        seeds: Sequence[int] = (),
        features: bool = True,
    ) -> None:
        """Prepare for `count` tokens after each prompt; without `features` none are kept."""
        self.target, self._temperature = target, temperature
        self.lengths = [0] * len(prompts)
        """Tokens of each text that count."""
        self._prompts = prompts
        self._seeds = [derive(seed, "sampling") & _WORD for seed in seeds or range(len(prompts))]
        self._room = max(map(len, prompts)) + count
        self._cache = TextCache(self._room) if rewritable(target.config) else None
        self._keyword = cache_keyword(target.model)
        self._ids = torch.zeros(len(prompts), self._room, dtype=torch.int64, device=target.device)
        self._features = features
        self.context: torch.Tensor | None = None
        """Features [P, room, W] of the texts; beyond a text's length they mean nothing."""

    def begin(self) -> torch.Tensor:
        """Score the prompts; return the target's choice after each [P]."""
        longest, ends = max(map(len, self._prompts)), [len(prompt) - 1 for prompt in self._prompts]
        rows = [[*prompt, *[0] * (longest - len(prompt))] for prompt in self._prompts]
        chosen = self.score(self._tensor(rows), self._tensor(ends)[:, None])
        self.lengths = [end + 1 for end in ends]
        return chosen[:, 0]

    def score(self, tokens: torch.Tensor, within: torch.Tensor | None = None) -> torch.Tensor:
        """Score tokens [P, L] after those that count; return the target's choice after each of them [P, L].

        `within` [P, n] names the tokens whose choice is wanted instead. None of them counts until `keep` says so.
        """
        at = self._tensor(self.lengths)[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        used = max(self.lengths) + tokens.shape[1]
        self._ids.scatter_(1, at, tokens)
        fed = tokens if self._cache is not None else self._ids[:, :used]
        with self.target.recording(fed.shape) if self._features else nullcontext() as sink:
            hidden = self.target.decoder(input_ids=fed, **self._arguments(at, used))[0]
        if sink is not None:
            self._record(sink, at)
        asked = at if within is None else at.gather(1, within)
        if self._cache is None or within is not None:
            where = asked if self._cache is None else asked - at[:, :1]
            hidden = hidden.gather(1, where[..., None].expand(-1, -1, hidden.shape[-1]))
        return self._choice(hidden, asked)

    def keep(self, counts: Sequence[int]) -> None:
        """Count the first `counts` of the tokens that were scored last."""
        self.lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]

    def _tensor(self, values: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(values, device=self.target.device)

    def _arguments(self, at: torch.Tensor, used: int) -> dict[str, Any]:
        if self._cache is None:
            # Padding stands on the right, where causal layers never let it reach a real token.
            return {"use_cache": False}
        self._cache.expect(at, used)
        weight = self.target.shared.embedding
        seen = torch.arange(used, device=at.device) <= at[:, None, :, None]
        mask = torch.zeros(seen.shape, dtype=weight.dtype, device=at.device)
        mask.masked_fill_(~seen, torch.finfo(weight.dtype).min)
        return {"attention_mask": mask, "position_ids": at, "use_cache": True, self._keyword: self._cache}

    def _record(self, features: torch.Tensor, at: torch.Tensor) -> None:
        texts, _, width = features.shape
        if self.context is None:
            self.context = features.new_zeros(texts, self._room, width)
        if self._cache is None:
            self.context[:, : features.shape[1]] = features
        else:
            self.context.scatter_(1, at[..., None].expand_as(features), features)

    def _choice(self, hidden: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Return the choices [P, n] of hidden states [P, n, H] of the tokens at these positions [P, n]."""
        flat, places = hidden.flatten(0, 1), at.flatten()
        seeds = self._tensor(self._seeds).repeat_interleave(at.shape[1])
        chosen = [
            choose(self.target.head(flat[part]), places[part] + 1, seeds[part], self._temperature)
            for part in (slice(start, start + CHOSEN_AT_A_TIME) for start in range(0, len(flat), CHOSEN_AT_A_TIME))
        ]
        return torch.cat(chosen).view(at.shape)


def choose(logits: torch.Tensor, places: torch.Tensor, seeds: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return a token for each row of logits [R, V]: the greatest at temperature 0, else a sample.

    The sample is argmax(logits / temperature + g) with Gumbel noise g that depends on the text's seed, the position and
    the token alone: places int64 [R], seeds int64 [R] of 32 bits.
    """
    if not temperature:
        return logits.argmax(-1)
    rows = zip(*(each.split(SAMPLED_AT_A_TIME) for each in (logits, places, seeds)), strict=True)
    return torch.cat([
        (some.float() / temperature + gumbel(seed, place, some.shape[-1])).argmax(-1) for some, place, seed in rows
    ])  # fmt: skip


def gumbel(seeds: torch.Tensor, places: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Return standard Gumbel noise [R, V], the same on every device.

    Two rounds of MurmurHash3's 32-bit finalizer over (seed, position, token), computed in int64.
    """
    rows = _mixed(seeds ^ _mixed(places))[:, None]
    words = _mixed(rows ^ _mixed(torch.arange(vocabulary, device=seeds.device) * 0x9E3779B1 & _WORD))
    share = (words.to(torch.float32) + 0.5) * 2.0**-32
    # -log(-log(u)) by way of 1 - u: large values come from the small shares, which float32 resolves.
    return -torch.log(-torch.log1p(-share.clamp(max=1.0 - 2.0**-24)))


def _mixed(words: torch.Tensor) -> torch.Tensor:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        words = (words ^ words >> shift) * factor & _WORD
    return words ^ words >> 16
