"""What keeps an install from bringing another torch: PyPI's torch is a build for whatever CUDA is the newest.

And what brings another build on purpose.
"""

import shlex
from collections.abc import Iterable

from envdoctor.analysis.context import CheckContext
from envdoctor.catalog.companion_versions import fits_torch, series_for
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.need import parse_need

# Of what is not installed no metadata is here to tell; these require torch without an extra (their METADATA on PyPI).
_REQUIRE_TORCH = frozenset(
    """
    accelerate bitsandbytes compressed-tensors deepspeed fairscale flash-attn flashinfer-python kornia
    lightning liger-kernel optimum peft pytorch-lightning sentence-transformers sglang timm torch-geometric torchaudio
    torchmetrics torchvision trl unsloth vllm xformers
    """.split()  # noqa: SIM905
)


def keep_torch(case: CheckContext, names: Iterable[str]) -> tuple[str, str]:
    """Return (flags, specs) for a uv line that installs these with what they require; each ends or begins with a blank.

    Where torch is installed, it is asked for as it is, so that uv leaves it; where there is none, nothing that they
    require is installed: the check after it names the rest. Both are empty where nothing of it requires torch.
    """
    installed = case.facts.get(Distributions)
    if (
        installed is None
        or "torch" in (chosen := list(names))
        or not any(_requires(installed, name) for name in chosen)
    ):
        return "", ""
    torch = installed.active("torch")
    if torch is None or not torch.version:
        return "--no-deps ", ""
    return "", f" {shlex.quote(f'torch==={torch.version}')}"


def _requires(installed: Distributions, name: str) -> bool:
    item = installed.active(name)
    if item is None:
        return name in _REQUIRE_TORCH
    needs = (parse_need(line) for line in item.requires)
    return any(need is not None and need.name == "torch" for need in needs)


def another_build(case: CheckContext, public: str, backend: str) -> tuple[list[str], str]:
    """Return (names, words of a uv line) that bring that torch for another CUDA, and its installed companions with it.

    torchvision and torchaudio are of one CUDA major with their torch, and their metadata does not say so.
    """
    installed, series = case.facts.get(Distributions), ".".join(public.split(".")[:2])
    specs = {"torch": public}
    for name in ("torchvision", "torchaudio"):
        if item := installed.active(name) if installed else None:
            own = item.version.partition("+")[0]
            of_torch = series_for(name, public)
            specs |= {name: own} if fits_torch(name, own, series) else {name: f"{of_torch}.*"} if of_torch else {}
    flags = " ".join(f"--reinstall-package {name}" for name in specs)
    asked = " ".join(shlex.quote(f"{name}=={version}") for name, version in specs.items())
    return list(specs), f"--torch-backend {backend} {flags} {asked}"
