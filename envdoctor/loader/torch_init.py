"""Reads out of a torch's own `__init__.py` what it preloads, without running it.

The list changes with the releases, so it is read and not remembered. Compared were torch 2.6.0 and 2.8.0 (a dict, used
after a failure only; otherwise NVRTC and nvJitLink), 2.10.0 to 2.13.0 (one list for both, see pytorch PR 163661 for
nvidia/cu13/lib) and 2.15.0 (nothing in it is required unless libtorch_global_deps.so has failed).
"""

import re

from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern

PAIR = pattern(r"""["'](\w+)["']\s*[:,]\s*["'](lib[\w+-]+\.so\S*?)["']""")
CALL = pattern(r"""_preload_cuda_(?:lib|deps)\(\s*["'](\w+)["'],\s*["'](lib[^"']+)["'](?:,\s*required=(\w+))?,?\s*\)""")
ADDED = pattern(r"""cuda_libs\[["'](\w+)["']\]\s*=\s*["'](lib[\w+-]+\.so\S*?)["']""")
MAPS_NEEDLE = pattern(r"""["']([^"'\s]*libcudart\.so[^"'\s]*)["']\s*(not\s+)?in\s+\w*maps""")
CUDA_GATE = pattern(r"""version\.cuda\s+in\s+[\[(]([^\])]*)[\])]""")


@frozen
class TorchPreload:
    """One library that torch's `__init__` opens by absolute path: the folder and the glob it looks for."""

    folder: str
    pattern: str
    required: bool = True


@frozen
class ImportPlan:
    """The order in which `import torch` opens shared objects, as far as its `__init__.py` decides it."""

    global_deps: bool
    """It opens libtorch_global_deps.so first. False: no torch of the usual form."""
    after_failure: tuple[TorchPreload, ...] = ()
    """What it preloads, strictly, when that fails for want of one of these."""
    after_success: tuple[TorchPreload, ...] = ()
    """What it preloads when that succeeds and `maps_needle` is in /proc/self/maps; the first miss ends it silently."""
    maps_needle: str = "libcudart.so"
    only_cuda: tuple[str, ...] = ()
    """The values of torch.version.cuda for which the second preload happens; () for all."""
    major_folder: bool = False
    """It also looks in nvidia/cu<major>/lib."""
    plain_folder: bool = False
    """It also looks in <folder>/lib beside nvidia/."""


def parse_init(text: str) -> ImportPlan:
    """Return the plan in the text of a `torch/__init__.py`. A text without torch's functions gives an empty plan."""
    start = text.find("def _load_global_deps")
    if start < 0:
        return ImportPlan(global_deps=False)
    begin = min(
        (at for name in ("def _get_cuda_dep_paths", "def _preload_cuda") if (at := text.find(name)) >= 0), default=start
    )
    end = text.find("\nclass ", start)
    region = "\n".join(line for line in text[begin : end if end > 0 else None].splitlines() if line.strip()[:1] != "#")
    success, _, failure = region[region.find("def _load_global_deps") :].partition("except OSError")
    full = _full_list(region)
    calls = tuple(_preload(match) for match in CALL.finditer(success))
    whole = re.search(r"_preload_cuda_deps\((required=False)?\)", success)
    if whole:
        calls = tuple(replace(item, required=item.required and not whole[1]) for item in full)
    needle = MAPS_NEEDLE.search(success)
    gate = CUDA_GATE.search(success)
    return ImportPlan(
        global_deps=True,
        after_failure=full if "_preload_cuda" in failure else (),
        after_success=calls,
        maps_needle=needle[1] if needle else "libcudart.so",
        only_cuda=tuple(re.findall(r"[\d.]+", gate[1])) if gate else (),
        major_folder='f"cu{' in region,
        plain_folder=bool(re.search(r"join\(path, lib_folder,", region)),
    )


def _full_list(region: str) -> tuple[TorchPreload, ...]:
    listed = re.search(r"cuda_libs[^=\n]*=\s*[\[{](.*?)\n\s*[\]}]\n", region, re.DOTALL)
    pairs = (PAIR.findall(listed[1]) if listed else []) + ADDED.findall(region)
    definition = region[region.find("def _preload_cuda_deps") : region.find("def _load_global_deps")]
    return tuple(TorchPreload(folder=folder, pattern=pattern) for folder, pattern in pairs) + tuple(
        _preload(match) for match in CALL.finditer(definition)
    )


def _preload(match: re.Match[str]) -> TorchPreload:
    return TorchPreload(folder=match[1], pattern=match[2], required=match[3] != "False")
