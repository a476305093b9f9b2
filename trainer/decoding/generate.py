"""Responses of the target to many conversations at a time.

By plain decoding as an evaluation does it (trainer.decoding.evaluate), whose cache is written in place; a target with
sliding or recurrent layers by transformers' own generate.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from trainer.data.buckets import derive
from trainer.data.chat import Encoder, load_tokenizer, template_arguments
from trainer.data.conversation import Conversation, Message
from trainer.decoding.evaluate import plain_texts
from trainer.decoding.passes import rewritable
from trainer.device import choose, working_dtype
from trainer.errors import memory_for
from trainer.settings.config import TrainConfig
from trainer.target.files import stop_tokens
from trainer.target.model import Target

Asked = tuple[str, str, list[Message], list[Any] | None]
"""Where a conversation is from, for errors; what it is known by, which its samples depend on; its turns; its tools."""
Response = tuple[list[int], list[int], str, bool]
"""The prompt's tokens, the response's, its text, and whether it ended by itself."""


class Generator:
    """A target on one device."""

    def __init__(self, config: TrainConfig, temperature: float, most: int) -> None:
        """Load the target; `most` is the largest number of new tokens."""
        transformers_logging.disable_progress_bar()
        path = Path(config.target.path)
        self.device = choose(config.run.device)
        self.tokenizer = load_tokenizer(path, config.target.chat_template)
        self.encoder = Encoder(self.tokenizer, template_arguments(config.target.template_arguments))
        with memory_for(f"loading {path}", "free the device, or choose another with --device"):
            self.target = Target.load(path, (0,), self.device, working_dtype(self.device))
        self.temperature, self.most = temperature, most
        self.seed = config.run.seed
        self.stop = stop_tokens(path, self.target.config)
        self.pad = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else (self.stop or (0,))[0]
        torch.manual_seed(config.run.seed)

    def respond(self, asked: Sequence[Asked]) -> list[Response]:
        """Return a response to each, in order.

        Raises DataError naming one that fails, DeviceMemoryError where they do not fit on the device together.
        """
        room = "lower --batch or --max-tokens; what is written stays, and the command goes on from there"
        with memory_for(f"{len(asked)} responses side by side", room):
            return self._respond(asked)

    @torch.no_grad()
    def _respond(self, asked: Sequence[Asked]) -> list[Response]:
        prompts = [
            self.encoder.prompt(Conversation(messages=messages, tools=tools), origin)
            for origin, _, messages, tools in asked
        ]
        if not rewritable(self.target.config):
            made = self._by_transformers(prompts)
            return [self._response(prompt, new) for prompt, new in zip(prompts, made, strict=True)]
        # A sample belongs to its conversation and turn: a run that was stopped goes on to the same texts.
        seeds = [derive(self.seed, f"{row}, {len(messages)} messages") for _, row, messages, _ in asked]
        texts = plain_texts(
            self.target, prompts, self.most, stop=frozenset(self.stop), temperature=self.temperature, seeds=seeds
        )
        return [self._response(prompt, list(made.ids)) for prompt, made in zip(prompts, texts, strict=True)]

    def _by_transformers(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        longest = max(len(prompt) for prompt in prompts)
        ids = torch.full((len(prompts), longest), self.pad)
        there = torch.zeros_like(ids)
        for line, prompt in enumerate(prompts):
            # Padding on the left, so that all responses begin at the same place.
            ids[line, longest - len(prompt) :] = torch.tensor(prompt)
            there[line, longest - len(prompt) :] = 1
        sampling = {"do_sample": True, "temperature": self.temperature, "top_k": 0, "top_p": 1.0}
        model: Any = self.target.model
        made = model.generate(
            input_ids=ids.to(self.device), attention_mask=there.to(self.device), max_new_tokens=self.most,
            pad_token_id=self.pad, eos_token_id=list(self.stop) or None,
            **(sampling if self.temperature else {"do_sample": False}),
        )  # fmt: skip
        new: list[list[int]] = made[:, longest:].tolist()
        return new

    def _response(self, prompt: list[int], new: list[int]) -> Response:
        end = next((place for place, token in enumerate(new) if token in self.stop), None)
        said = new if end is None else new[: end + 1]
        text = self.tokenizer.decode(said if end is None else said[:-1], skip_special_tokens=True)
        return prompt, said, text.strip(), end is not None
