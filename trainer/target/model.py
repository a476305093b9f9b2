"""The frozen target: a Hugging Face causal LM, and the hidden states of its selected layers.

Only the layers up to the last selected one run, each selected layer's output is written by a forward hook
straight into its slice of the feature tensor, and nothing else is kept: no logits, no other hidden states.
Shapes: B rows, S positions, H hidden, F selected layers.
"""

import copy
import inspect
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig

from trainer.compile.private_code import private
from trainer.data.packing import Packed, causal_within
from trainer.drafter.mask import document_mask
from trainer.errors import ConfigError, TargetModelError
from trainer.fp8 import Split, replace_linears, require_fp8
from trainer.target.attention import attend_in_documents
from trainer.target.loading import load_model, require_finite
from trainer.target.tensor_parallel import TensorGroup, load_split

UNSUPPORTED = (
    "final_logit_softcapping", "logits_scaling", "logit_scale", "lm_head_multiplier", "embedding_multiplier",
    "scale_embedding", "scale_emb",
)  # fmt: skip
"""Config keys of models that scale embeddings or logits: the shared head would then compute other logits."""
SCALING_TYPES = frozenset({"gemma", "gemma2", "recurrent_gemma", "vaultgemma"})
"""Model types that scale embeddings in a forward, in some transformers releases, without a config key that says so."""
PREPARED_MASKS = frozenset({"qwen2", "qwen3"})
"""Model types whose forward takes an already prepared mask; the others look at a tensor's values to make one."""


LOCAL_MODEL = "give the folder of a local Hugging Face model"
UNSCALED = "choose a target without scaled embeddings or logits"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWeights:
    """What the drafter borrows from the target, frozen."""

    embedding: torch.Tensor
    """[V, H]."""
    head: torch.Tensor
    """[V, H]."""


def published_layer_ids(layers: int, count: int) -> tuple[int, ...]:
    """Return the published choice: evenly from layer 1 to layer Lt-3 (z-lab/dflash, SpecForge)."""
    if count == 1:
        return (layers // 2,)
    return tuple(round(1 + i * (layers - 4) / (count - 1)) for i in range(count))


def choose_layer_ids(configured: tuple[int, ...], count: int, layers: int) -> tuple[int, ...]:
    """Return the selected layers of a target with `layers` layers; raises ConfigError when they do not fit."""
    chosen = configured or published_layer_ids(layers, count)
    if len(set(chosen)) != len(chosen) or max(chosen) >= layers:
        raise ConfigError(
            f"target.layer_ids: {list(chosen)} of a target with {layers} layers",
            f"set target.layer_ids to distinct layers below {layers}",
        )
    return tuple(sorted(chosen))


def read_config(path: Path) -> Any:
    """Return the text model's config of a local folder; that of a composite model (text and vision) is inside its own.

    Raises TargetModelError when there is none, when this transformers release cannot read it, or when its maths is
    not reproduced here.
    """
    config = _text_config(path)
    scaled = [key for key in UNSUPPORTED if _scales(getattr(config, key, None))]
    if scaled:
        raise TargetModelError(
            f"{path} is a {config.model_type} with {', '.join(scaled)}: its logits are not hidden @ head", UNSCALED
        )
    if config.model_type in SCALING_TYPES:
        raise TargetModelError(f"{path} is a {config.model_type}, which scales its embeddings", UNSCALED)
    return config


def _text_config(path: Path) -> Any:
    place = path / "config.json"
    if not place.is_file():
        raise TargetModelError(f"{path} holds no config.json", LOCAL_MODEL)
    try:
        told = json.loads(place.read_text(encoding="utf-8"))
        if isinstance(told, dict) and told.get("model_type"):
            return AutoConfig.from_pretrained(path, local_files_only=True).get_text_config()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TargetModelError(
            f"{place}: transformers {transformers.__version__} cannot read it: {str(error).splitlines()[0]}",
            LOCAL_MODEL,
        ) from error
    raise TargetModelError(f"{place} names no model_type", LOCAL_MODEL)


def _scales(value: object) -> bool:
    return value if isinstance(value, bool) else value not in (None, 1, 1.0)


def attention_kinds(config: Any) -> set[str]:
    """Return the kinds of a text config's layers, such as "full_attention" and "sliding_attention".

    A config without `layer_types` (Mistral, Mixtral, Phi-3, Starcoder2) says by its window alone that all layers slide,
    as transformers' DynamicCache reads it. A window that the model's longest text fits into (Phi-3.5) never slides.
    """
    if kinds := getattr(config, "layer_types", None):
        return set(kinds)
    for name, kind in (("sliding_window", "sliding_attention"), ("attention_chunk_size", "chunked_attention")):
        window, longest = getattr(config, name, None), getattr(config, "max_position_embeddings", None)
        if window is not None and not (longest and window >= longest):
            return {kind}
    return {"full_attention"}


def require_plain_embedding(model: nn.Module) -> None:
    """Raise TargetModelError when the model's embedding does more than look a row up: the drafter would not."""
    found = type(model.get_input_embeddings())
    if found is not nn.Embedding:
        raise TargetModelError(
            f"{type(model).__name__}: its embedding is a {found.__name__}, not a plain table", UNSCALED
        )


class Target:
    """A frozen causal LM on one device, with a trunk that stops at the last selected layer."""

    def __init__(self, model: nn.Module, layer_ids: tuple[int, ...], *, fp8: bool = False, last: bool = False) -> None:
        """Wrap a loaded model; its own modules stay untouched and eager, for evaluation. `fp8` is the trunk's.

        With `last` the features end with the state that the head takes: the last layer's output, normed.
        """
        require_plain_embedding(model)
        self.group: TensorGroup | None = None
        """Who holds this target together, where that is more than one process."""
        self.model = model.eval().requires_grad_(requires_grad=False)
        self.layer_ids = layer_ids
        self.config = model.config.get_text_config()
        self._sink: torch.Tensor | None = None
        depth = self.config.num_hidden_layers if last else max(layer_ids) + 1
        self.trunk, self.layers = _trunk(_decoder(model), depth)
        self.last = last
        self._packs = self._tiled = False
        self.fp8 = fp8
        if fp8:
            require_fp8(self.device, "target.fp8")
            Split.of(self.layers).told("target.fp8")
            for layer in self.layers:
                replace_linears(layer)
        for place, layer in enumerate(layer_ids):
            for holder in (self.layers, decoder_layers(_decoder(model))):
                holder[layer].register_forward_hook(self._recorder(place))
        # Preparing the mask ourselves spares a look at the device's values before the first layer.
        plain = attention_kinds(self.config) == {"full_attention"}
        self._mask = {"full_attention": None} if plain and self.config.model_type in PREPARED_MASKS else None

    @classmethod
    def load(
        cls,
        path: Path,
        layer_ids: tuple[int, ...],
        device: torch.device,
        dtype: torch.dtype,
        *,
        fp8: bool = False,
        last: bool = False,
        group: TensorGroup | None = None,
    ) -> "Target":
        """Load a local folder (safetensors) onto `device`; of one that a group holds together, this process's share."""
        model = load_model(path, dtype) if group is None else load_split(path, dtype, group, device)
        require_finite(path, model.to(device))
        target = cls(model, layer_ids, fp8=fp8, last=last)
        target.group = group
        return target

    @property
    def shared(self) -> SharedWeights:
        """The embedding and the head, not copied."""
        return SharedWeights(
            embedding=self.model.get_input_embeddings().weight, head=self.model.get_output_embeddings().weight
        )

    @property
    def decoder(self) -> nn.Module:
        """The model without its head, eager."""
        return _decoder(self.model)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [.., V] of the decoder's output [.., H]."""
        logits: torch.Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.shared.embedding.device

    def compile(self, backend: str) -> None:
        """Compile the trunk's layers, one by one: all reuse the first one's code, which is this target's own.

        On CUDA the layers of a target that packs attend to tiles of each document, elsewhere to a dense table.
        """
        if self._packs and self.device.type == "cuda":
            attend_in_documents(self.model, self.layers, self.device)
            self._tiled = True
        for layer, forward in zip(self.layers, private(layer.forward for layer in self.layers), strict=True):
            layer.__dict__["forward"] = torch.compile(forward, dynamic=False, backend=backend)

    def features(self, ids: torch.Tensor, packed: Packed | None = None) -> torch.Tensor:
        """Return the features [B, S, F*H] of ids [B, S].

        Padding stands on the right, where causal attention never lets it reach a real token: no mask is needed. In
        packed rows each document attends to itself alone, and its positions count from 0.
        """
        mask: Any = self._mask
        more: dict[str, torch.Tensor] = {}
        if packed is not None:
            visible = document_mask(packed.places) if self._tiled else causal_within(packed.documents)
            mask = visible if self._mask is None else {"full_attention": visible}
            more = {"position_ids": packed.places}
        with torch.no_grad(), self.recording(ids.shape, last=self.last) as sink:
            output = self.trunk(input_ids=ids, attention_mask=mask, use_cache=False, **more)
            if self.last:
                hidden = output[0]
                sink[..., -hidden.shape[-1] :].copy_(hidden)
        return sink

    def pack_rows(self) -> None:
        """Take packed rows from now on; call it before `compile`.

        Raises ConfigError when rows of several documents cannot be distinguished in this target's layers.
        """
        kinds = attention_kinds(self.config)
        if kinds != {"full_attention"}:
            raise ConfigError(
                f"data.pack: the target has {', '.join(sorted(kinds - {'full_attention'}))} layers, which see past the"
                " end of a document in a packed row",
                "set data.pack=false",
            )
        self._packs = True

    def recording(self, shape: torch.Size | tuple[int, int], *, last: bool = False) -> "_Recording":
        """Return a context that collects the features of one forward over [B, S] tokens; `last` leaves room for it."""
        weight = self.shared.embedding
        wide = (len(self.layer_ids) + int(last)) * weight.shape[1]
        return _Recording(self, torch.empty(*shape, wide, dtype=weight.dtype, device=weight.device))

    def _recorder(self, place: int) -> Callable[..., None]:
        def record(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if self._sink is None:
                return
            hidden = output[0] if isinstance(output, tuple) else output
            size = hidden.shape[-1]
            self._sink[..., place * size : (place + 1) * size].copy_(hidden)

        return record


class _Recording:
    """Points a target's hooks at one feature tensor while it is entered."""

    def __init__(self, target: Target, sink: torch.Tensor) -> None:
        self.target, self.sink = target, sink

    def __enter__(self) -> torch.Tensor:
        self.target._sink = self.sink  # noqa: SLF001 - the two classes are one mechanism
        return self.sink

    def __exit__(self, *_error: object) -> None:
        self.target._sink = None  # noqa: SLF001


def cache_keyword(model: nn.Module) -> str:
    """Return the name this transformers release gives the KV cache argument (renamed after 5.17)."""
    names = inspect.signature(_decoder(model).forward).parameters
    return "past_key_values" if "past_key_values" in names else "cache"


def _decoder(model: nn.Module) -> nn.Module:
    return model.get_decoder() if hasattr(model, "get_decoder") else model.base_model


def decoder_layers(decoder: nn.Module) -> nn.ModuleList:
    """Return the decoder's list of layers; raises TargetModelError when there is none to be found."""
    wanted = decoder.config.num_hidden_layers
    for module in decoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == wanted:
            return module
    raise TargetModelError(
        f"{type(decoder).__name__} has no list of {wanted} layers", "choose a decoder-only causal LM as target"
    )


def _trunk(decoder: nn.Module, depth: int) -> tuple[nn.Module, nn.ModuleList]:
    """Return the decoder cut after `depth` layers, and those layers, as shallow copies over the same parameters.

    Copies, because hooks and compiled forwards set on them must not reach the model that evaluation runs.
    """
    layers = decoder_layers(decoder)
    cut = nn.ModuleList(_shallow(layer) for layer in list(layers)[:depth])
    trunk = _shallow(decoder)
    name = next(name for name, module in decoder.named_children() if module is layers)
    trunk._modules[name] = cut  # noqa: SLF001 - __setattr__ would reach for state that a shallow copy shares
    return trunk, cut


def _shallow(module: nn.Module) -> nn.Module:
    twin = copy.copy(module)
    twin.__dict__["_modules"] = dict(module._modules)  # noqa: SLF001
    for kind in ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"):
        twin.__dict__[kind] = OrderedDict()
    return twin
