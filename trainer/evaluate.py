"""Speculative decoding with the drafter: the target's own greedy text, in fewer target passes.

A cycle drafts K - 1 tokens after the last one, the target scores all K in one pass, and the leading tokens that
equal its own choice are accepted together with the choice that follows them. So the text is the target's own whatever
the drafter says; the drafter decides only how many passes it takes.

At a temperature the target's choice is a sample: argmax(logits / temperature + g) with Gumbel noise g that depends on
the prompt's seed and the position alone. Plain decoding with the same seed draws the same text.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import embedding
from transformers import DynamicCache

from trainer.data.buckets import derive
from trainer.model.drafter import Drafter, Masks
from trainer.model.mask import BlockShape, dense_mask
from trainer.target import Target, cache_keyword


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One decoded prompt."""

    ids: tuple[int, ...]
    """New tokens."""
    accepted: tuple[int, ...]
    """Drafted tokens accepted in each cycle; the target adds one more to each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Speculative against plain greedy decoding over some prompts."""

    prompts: int
    identical: int
    """Prompts whose speculative text equals the target's own greedy text."""
    tokens: int
    cycles: int
    acceptance_length: float
    """Tokens a target pass yields: accepted ones plus the target's own."""
    by_position: tuple[float, ...]
    """Share of cycles in which position k = 1..K-1 was accepted."""
    temperature: float = 0.0
    plain_seconds: float = 0.0
    """Wall-clock of plain decoding of all prompts, with transformers' eager forward and a KV cache."""
    speculative_seconds: float = 0.0
    """Wall-clock of speculative decoding, with the same forward."""

    @property
    def speedup(self) -> float:
        """Plain over speculative wall-clock."""
        return self.plain_seconds / self.speculative_seconds if self.speculative_seconds else 0.0


class SpeculativeDecoder:
    """Decoding of one target with one drafter."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        *,
        block: int,
        mask_token: int,
        stop: Sequence[int],
        kept: torch.Tensor | None = None,
    ) -> None:
        """Bind the two; `stop` are the tokens that end a text, `kept` those that the drafter can say (None for all)."""
        self._kept = None if kept is None else kept.to(target.device)
        self._head = target.shared.head if self._kept is None else target.shared.head[self._kept]
        self.target, self.drafter = target, drafter
        self.block, self.mask_token, self.stop = block, mask_token, frozenset(stop)
        self._keyword = cache_keyword(target.model)
        kinds = set(getattr(target.config, "layer_types", None) or ["full_attention"])
        # A sliding or recurrent layer's cache cannot be cut back to the accepted tokens.
        self._cached = kinds == {"full_attention"}

    @torch.no_grad()
    def plain(self, prompt: Sequence[int], count: int, *, temperature: float = 0.0, seed: int = 0) -> tuple[int, ...]:
        """Return the target's own continuation of at most `count` tokens, greedy at temperature 0."""
        passes = _Passes(self, temperature, seed)
        new = [int(passes.score(list(prompt))[0][-1])]
        while len(new) < count and new[-1] not in self.stop:
            new.append(int(passes.score([new[-1]])[0][-1]))
        return tuple(new)

    @torch.no_grad()
    def speculative(self, prompt: Sequence[int], count: int, *, temperature: float = 0.0, seed: int = 0) -> Decoded:
        """Return the continuation made with the drafter, and what each cycle accepted."""
        passes = _Passes(self, temperature, seed)
        chosen, context = passes.score(list(prompt))
        new, accepted = [int(chosen[-1])], []
        while len(new) < count and new[-1] not in self.stop:
            draft = self._draft(new[-1], context)
            chosen, features = passes.score([new[-1], *draft])
            own = chosen.tolist()
            right = next((k for k, token in enumerate(draft) if token != own[k]), len(draft))
            accepted.append(right)
            passes.forget(len(draft) - right)
            context = torch.cat([context, features[:, : right + 1]], dim=1)
            new += self._until_stop([*draft[:right], own[right]])
        return Decoded(ids=tuple(new[:count]), accepted=tuple(accepted))

    def _until_stop(self, tokens: list[int]) -> list[int]:
        end = next((place for place, token in enumerate(tokens) if token in self.stop), len(tokens) - 1)
        return tokens[: end + 1]

    def _draft(self, last: int, context: torch.Tensor) -> list[int]:
        device, length = context.device, context.shape[1]
        tokens = torch.tensor([[last, *[self.mask_token] * (self.block - 1)]], device=device)
        shared = self.target.shared
        positions = torch.arange(length + self.block, device=device)[None]
        # One block that starts where the context ends.
        anchors, block = torch.tensor([[length]], device=device), BlockShape(context=length, blocks=1, width=self.block)
        size = self.drafter.shape
        masks = Masks(
            full=dense_mask(anchors, block),
            sliding=dense_mask(anchors, block, size.window) if size.sliding else None,
        )
        hidden = self.drafter.eager(context, embedding(tokens, shared.embedding), positions, masks)
        best = (hidden[0, 1:] @ self._head.t()).argmax(-1)
        return list((best if self._kept is None else self._kept[best]).tolist())


class _Passes:
    """Target passes over a growing text, with a KV cache where it can be cut back."""

    def __init__(self, decoder: SpeculativeDecoder, temperature: float = 0.0, seed: int = 0) -> None:
        self.decoder, self._temperature, self._seed = decoder, temperature, seed
        self._cache: Any = DynamicCache(config=decoder.target.config) if decoder._cached else None  # noqa: SLF001
        self._text: list[int] = []

    def score(self, tokens: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; return the target's choice after each of them [L] and their features [1, L, F*H]."""
        target = self.decoder.target
        self._text += tokens
        fed = tokens if self._cache is not None else self._text
        ids = torch.tensor([fed], device=target.device)
        cache = {self.decoder._keyword: self._cache} if self._cache is not None else {}  # noqa: SLF001
        with target.recording(ids.shape) as features:
            output = target.model(input_ids=ids, use_cache=self._cache is not None, **cache)
        return self._choice(output.logits[0, -len(tokens) :]), features[:, -len(tokens) :]

    def _choice(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the target's choice after each of the last positions, from logits [L, V]."""
        if not self._temperature:
            return logits.argmax(-1)
        first = len(self._text) - len(logits)
        noise = torch.stack([self._gumbel(first + place, logits) for place in range(len(logits))])
        return (logits.float() / self._temperature + noise).argmax(-1)

    def _gumbel(self, position: int, like: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator(like.device).manual_seed(derive(self._seed, f"position {position}"))
        drawn = torch.rand(like.shape[-1], generator=generator, device=like.device).clamp(min=1e-20)
        return -torch.log((-torch.log(drawn)).clamp(min=1e-20))

    def forget(self, count: int) -> None:
        """Take back the last `count` tokens."""
        if not count:
            return
        del self._text[-count:]
        if self._cache is not None:
            self._cache.crop(-count)


def evaluate(
    decoder: SpeculativeDecoder,
    prompts: Sequence[Sequence[int]],
    count: int,
    stop: Callable[[], bool],
    *,
    temperature: float = 0.0,
) -> Evaluation | None:
    """Return how the drafter does on these prompts, `count` new tokens each; None once `stop` says so."""
    identical = tokens = 0
    plain_seconds = speculative_seconds = 0.0
    accepted: list[int] = []
    for seed, prompt in enumerate(prompts):
        if stop():
            return None
        # Each choice is read on the host, so the clock needs no further wait for the device.
        started = time.perf_counter()
        decoded = decoder.speculative(prompt, count, temperature=temperature, seed=seed)
        between = time.perf_counter()
        identical += decoded.ids == decoder.plain(prompt, count, temperature=temperature, seed=seed)
        speculative_seconds += between - started
        plain_seconds += time.perf_counter() - between
        tokens += len(decoded.ids)
        accepted += decoded.accepted
    cycles = max(len(accepted), 1)
    return Evaluation(
        prompts=len(prompts),
        identical=identical,
        tokens=tokens,
        cycles=len(accepted),
        acceptance_length=sum(accepted) / cycles + 1.0,
        by_position=tuple(sum(right >= k for right in accepted) / cycles for k in range(1, decoder.block)),
        temperature=temperature,
        plain_seconds=plain_seconds,
        speculative_seconds=speculative_seconds,
    )
