"""Speculative decoding with the drafter: the target's own greedy text, in fewer target passes.

A cycle drafts K - 1 tokens after the last one, the target scores all K in one pass, and the leading tokens that
equal its own choice are accepted together with the choice that follows them. So the text is the target's own whatever
the drafter says; the drafter decides only how many passes it takes.

At a temperature the target's choice is a sample whose noise depends on the prompt's seed, the position and the token
alone (trainer.decoding.passes). Plain decoding with the same seed draws the same text.

Prompts are decoded many at a time for the acceptance length; a few of them once more, one at a time, for what a pass
and a cycle take in wall-clock.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import torch
from torch.nn.functional import embedding

from trainer.decoding.passes import Passes
from trainer.drafter.mask import BlockShape, dense_mask
from trainer.drafter.model import Drafter, Masks
from trainer.target.model import Target

TIMED = 2
"""Prompts that are decoded one at a time, for the wall-clock: what a pass takes hardly depends on the text."""
FEWEST = 8
"""Prompts below which an interval is not believed."""
RESAMPLES = 1000
"""Bootstrap resamples behind an interval."""


class Stopped(Exception):  # noqa: N818 - it is no error
    """A stop was asked for while texts were decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One decoded prompt."""

    ids: tuple[int, ...]
    """New tokens."""
    accepted: tuple[int, ...] = ()
    """Drafted tokens accepted in each cycle, as far as they are in the text; the cycle's last token counts as the
    target's own. Empty for plain decoding."""
    pass_seconds: float = field(default=0.0, compare=False)
    """Wall-clock of a pass or a cycle of all texts decoded together, the median; the prompts' own pass left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Speculative against plain decoding over some prompts."""

    prompts: int
    identical: int
    """Prompts whose speculative text equals the target's own, decoded without a drafter in passes of the same width."""
    tokens: int
    cycles: int
    acceptance_length: float
    """Tokens of the texts a target pass yields: accepted ones plus the target's own. What a pass accepts behind a stop
    token or beyond the count is not text, and does not count."""
    interval: tuple[float, float]
    """95 % interval of the acceptance length, by bootstrap over the prompts."""
    by_position: tuple[float, ...]
    """Share of cycles in which position k = 1..K-1 was accepted."""
    by_prompt: tuple[tuple[int, int], ...]
    """Accepted tokens and cycles of each prompt: two drafters are compared prompt by prompt."""
    temperature: float = 0.0
    pass_seconds: float = 0.0
    """Wall-clock of a pass of plain decoding, one prompt at a time with transformers' eager forward and a KV cache."""
    cycle_seconds: float = 0.0
    """Wall-clock of a cycle, with the same forward and the drafter's eager one."""

    @property
    def vague(self) -> bool:
        """Whether the prompts are too few to tell what the drafter adds (see the function of this name)."""
        return vague(self.acceptance_length, self.interval, self.prompts)

    @property
    def speedup(self) -> float:
        """Plain over speculative wall-clock of one user's text, the prompt's own pass left out."""
        return self.acceptance_length * self.pass_seconds / self.cycle_seconds if self.cycle_seconds else 0.0


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
        self.asked: Callable[[], bool] = lambda: False
        """Asked before each pass: True ends the decoding with Stopped."""

    def plain(self, prompt: Sequence[int], count: int, *, temperature: float = 0.0, seed: int = 0) -> tuple[int, ...]:
        """Return the target's own continuation of at most `count` tokens, greedy at temperature 0."""
        return self.plain_texts([prompt], count, temperature=temperature, seeds=[seed])[0].ids

    def speculative(self, prompt: Sequence[int], count: int, *, temperature: float = 0.0, seed: int = 0) -> Decoded:
        """Return the continuation made with the drafter, and what each cycle accepted."""
        return self.speculative_texts([prompt], count, temperature=temperature, seeds=[seed])[0]

    @torch.no_grad()
    def plain_texts(
        self,
        prompts: Sequence[Sequence[int]],
        count: int,
        *,
        temperature: float = 0.0,
        seeds: Sequence[int],
        width: int = 1,
    ) -> list[Decoded]:
        """Return the continuation of each prompt, all decoded together in passes of `width`; raises Stopped."""
        return plain_texts(
            self.target, prompts, count, stop=self.stop, temperature=temperature, seeds=seeds, asked=self.asked,
            width=width,
        )  # fmt: skip

    @torch.no_grad()
    def speculative_texts(
        self, prompts: Sequence[Sequence[int]], count: int, *, temperature: float = 0.0, seeds: Sequence[int]
    ) -> list[Decoded]:
        """Return each prompt's continuation and what its cycles accepted, all decoded together; raises Stopped."""
        passes = Passes(self.target, prompts, count + self.block, temperature=temperature, seeds=seeds)
        last = passes.begin()
        texts = _Texts(last.tolist(), count, self.stop)
        accepted: list[list[int]] = [[] for _ in prompts]
        while open_ := texts.open():
            if self.asked():
                raise Stopped
            draft = self._draft(last, passes)
            own = passes.score(torch.cat([last[:, None], draft], dim=1))
            right = (draft == own[:, :-1]).cumprod(dim=1).sum(dim=1)
            last = own.gather(1, right[:, None])[:, 0]
            told, counts, kept = own.tolist(), right.tolist(), [0] * len(prompts)
            for text in open_:
                # The accepted tokens are the target's own choices, and one more follows them.
                kept[text] = texts.add(text, told[text][: counts[text] + 1])
                accepted[text].append(kept[text] - 1)
            passes.keep(kept)
        return texts.decoded(accepted)

    def _draft(self, last: torch.Tensor, passes: Passes) -> torch.Tensor:
        """Return K - 1 tokens after each text's last one [P] that the target has not scored yet."""
        assert passes.context is not None  # noqa: S101 - the prompts were scored with features
        longest = max(passes.lengths)
        context = passes.context[:, :longest]
        tokens = last[:, None].repeat(1, self.block)
        tokens[:, 1:] = self.mask_token
        # One block a text, which starts where its context ends.
        anchors = torch.tensor(passes.lengths, device=last.device)[:, None]
        offsets = torch.arange(max(longest, self.block), device=last.device)
        positions = torch.cat([offsets[:longest].expand(len(last), -1), anchors + offsets[: self.block]], dim=1)
        block, size = BlockShape(context=longest, blocks=1, width=self.block), self.drafter.shape
        masks = Masks(
            full=dense_mask(anchors, block),
            sliding=dense_mask(anchors, block, size.window) if size.sliding else None,
        )
        hidden = self.drafter.eager(context, embedding(tokens, self.target.shared.embedding), positions, masks)
        best = (hidden[:, 1:] @ self._head.t()).argmax(-1)
        return best if self._kept is None else self._kept[best]


@torch.no_grad()
def plain_texts(  # noqa: PLR0913 - a decoding has no smaller description
    target: Target,
    prompts: Sequence[Sequence[int]],
    count: int,
    *,
    stop: frozenset[int],
    temperature: float,
    seeds: Sequence[int],
    asked: Callable[[], bool] = lambda: False,
    width: int = 1,
) -> list[Decoded]:
    """Return the target's continuation of each prompt, at most `count` tokens; raises Stopped once `asked` says so.

    With `width` a pass has as many tokens as one of speculative decoding, of which only the first counts: in bf16 a
    product rounds differently when it is of another size, and a near-tie between two tokens then falls the other way.
    """
    passes = Passes(target, prompts, count + width, temperature=temperature, seeds=seeds, features=False)
    last = passes.begin()
    texts = _Texts(last.tolist(), count, stop)
    while open_ := texts.open():
        if asked():
            raise Stopped
        last = passes.score(last[:, None].repeat(1, width))[:, 0]
        told = last.tolist()
        passes.keep([texts.add(text, [token]) if text in open_ else 0 for text, token in enumerate(told)])
    return texts.decoded()


class _Texts:
    """The new tokens of several texts, each up to a stop token or `count`."""

    def __init__(self, first: Sequence[int], count: int, stop: frozenset[int]) -> None:
        self.new, self._count, self._stop = [[token] for token in first], count, stop
        self._times: list[float] = []

    def open(self) -> set[int]:
        """Return the texts that go on; asked once before each pass, and once at the end."""
        # Each choice is read on the host, so the clock needs no further wait for the device.
        self._times.append(time.perf_counter())
        return {text for text, new in enumerate(self.new) if len(new) < self._count and new[-1] not in self._stop}

    def add(self, text: int, tokens: Sequence[int]) -> int:
        """Append tokens, up to a stop token or the count; return how many were appended."""
        end = next((place + 1 for place, token in enumerate(tokens) if token in self._stop), len(tokens))
        appended = tokens[: min(end, self._count - len(self.new[text]))]
        self.new[text] += appended
        return len(appended)

    def decoded(self, accepted: Sequence[Sequence[int]] = ()) -> list[Decoded]:
        """Return the texts, with what each one's cycles accepted."""
        seconds = median([after - before for before, after in pairwise(self._times)] or [0.0])
        each = accepted or [()] * len(self.new)
        return [
            Decoded(ids=tuple(new), accepted=tuple(right), pass_seconds=seconds)
            for new, right in zip(self.new, each, strict=True)
        ]


def together(prompts: Sequence[Sequence[int]], count: int, most: int) -> Iterator[list[int]]:
    """Yield the numbers of prompts that are decoded together: those of like length, `most` positions with padding."""
    batch: list[int] = []
    for number in sorted(range(len(prompts)), key=lambda number: len(prompts[number])):
        if batch and (len(batch) + 1) * (len(prompts[number]) + count) > most:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def evaluate(
    decoder: SpeculativeDecoder,
    prompts: Sequence[Sequence[int]],
    count: int,
    stop: Callable[[], bool],
    *,
    temperature: float = 0.0,
    most: int = 32_768,
) -> Evaluation | None:
    """Return how the drafter does on these prompts, `count` new tokens each; None once `stop` says so.

    At most `most` positions are decoded together, padding included, and at least one prompt.
    """
    if stop():
        return None
    try:
        return _evaluate(decoder, prompts, count, temperature, stop, most)
    except Stopped:
        return None


def _evaluate(
    decoder: SpeculativeDecoder,
    prompts: Sequence[Sequence[int]],
    count: int,
    temperature: float,
    stop: Callable[[], bool],
    most: int,
) -> Evaluation:
    decoder.asked = stop
    decoded: dict[int, Decoded] = {}
    identical = 0
    for batch in together(prompts, count + decoder.block, most):
        asked = [prompts[number] for number in batch]
        made = decoder.speculative_texts(asked, count, temperature=temperature, seeds=batch)
        own = decoder.plain_texts(asked, count, temperature=temperature, seeds=batch, width=decoder.block)
        decoded.update(zip(batch, made, strict=True))
        identical += sum(text.ids == wanted.ids for text, wanted in zip(made, own, strict=True))
    # After the others, so that nothing is done for the first time.
    # What is asked would count in the time.
    decoder.asked = lambda: False
    alone: list[tuple[Decoded, Decoded]] = []
    for seed, prompt in enumerate(prompts[:TIMED]):
        if stop():
            raise Stopped
        (own,) = decoder.plain_texts([prompt], count, temperature=temperature, seeds=[seed])
        alone.append((own, decoder.speculative(prompt, count, temperature=temperature, seed=seed)))
    by_prompt = tuple((sum(decoded[number].accepted), len(decoded[number].accepted)) for number in sorted(decoded))
    accepted = [right for text in decoded.values() for right in text.accepted]
    cycles = max(len(accepted), 1)
    return Evaluation(
        prompts=len(prompts),
        identical=identical,
        tokens=sum(len(text.ids) for text in decoded.values()),
        cycles=len(accepted),
        acceptance_length=sum(accepted) / cycles + 1.0,
        interval=interval(by_prompt),
        by_position=tuple(sum(right >= k for right in accepted) / cycles for k in range(1, decoder.block)),
        by_prompt=by_prompt,
        temperature=temperature,
        pass_seconds=_typical(own.pass_seconds for own, _ in alone),
        cycle_seconds=_typical(made.pass_seconds for _, made in alone),
    )


def _typical(seconds: Iterable[float]) -> float:
    """Return the median, without the texts that ended with the prompt's own pass; 0 where all did."""
    return median([each for each in seconds if each] or [0.0])


def vague(length: float, bounds: Sequence[float], prompts: int) -> bool:
    """Return whether an acceptance length says little.

    Its interval is wider than what it has beyond a token a pass, or says nothing itself: resamples of a few prompts
    are hardly unlike each other, and those of one prompt, or of prompts alike, are all the same.
    """
    width = bounds[1] - bounds[0]
    return prompts < FEWEST or width <= 0.0 or width > length - 1.0


def interval(by_prompt: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the 95 % percentile interval of the acceptance length over resampled (accepted, cycles) of prompts."""
    generator = random.Random(0)  # noqa: S311 - no secret
    lengths = []
    for _ in range(RESAMPLES):
        drawn = generator.choices(by_prompt, k=len(by_prompt))
        lengths.append(sum(accepted for accepted, _ in drawn) / max(sum(cycles for _, cycles in drawn), 1) + 1.0)
    lengths.sort()
    return lengths[round(0.025 * (RESAMPLES - 1))], lengths[round(0.975 * (RESAMPLES - 1))]
