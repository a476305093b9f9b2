"""The parts of a compile cache's key, and which kinds of entry stop hitting when one of them differs.

torch hashes all of them into one opaque name. Kept apart, they can be compared one by one, and the part that differs
can be named. Sources: FxGraphHashDetails, CacheBase.get_system and torch_key of torch/_inductor/codecache.py,
AOTAutogradCacheDetails of torch/_functorch/_aot_autograd/autograd_cache.py, get_cache_key of triton/runtime/cache.py.
"""

import hashlib
import json
from collections.abc import Iterable

from envdoctor.catalog.cache_kinds import GRAPHS, INVALIDATES, TRITON
from envdoctor.model.frozen import frozen

GUESSED = frozenset({"cpu.threads"})
"""Parts that the training code can set itself (torch.set_num_threads): a difference seen from outside is not proof."""
COMPILER = "cpp.compiler"
"""The C++ compiler that inductor takes, by its content; a part of C++ kernels' names through what it says of itself."""
_FOLDERS = frozenset({"venv.prefix", "python.base", "cache.folder", "triton.folder", COMPILER})
"""What is of one machine and not of a stack."""


@frozen
class KeyPart:
    """One part of the key."""

    name: str
    value: str
    """Empty for "not set" and "not there"."""
    known: bool = True
    """False when it could not be read; `value` is then the reason."""
    means: tuple[str, ...] = ()
    """Names in torch's configuration that a variable sets ("max_autotune")."""


@frozen
class KeyDifference:
    """One part in which a cache and the present environment differ."""

    name: str
    saved: str
    present: str
    reaches: tuple[str, ...]
    """Kinds of entry that miss because of it."""
    means: tuple[str, ...] = ()


@frozen
class KeyComparison:
    """What two keys have to say about each other."""

    differences: tuple[KeyDifference, ...]
    unknown: tuple[KeyPart, ...]
    """Parts that one of the two sides could not read."""

    @property
    def missing(self) -> frozenset[str]:
        """Return the kinds of entry that will not hit."""
        return frozenset(kind for difference in self.differences for kind in difference.reaches)


def reaches(name: str) -> tuple[str, ...]:
    """Return the kinds of entry that miss when this part differs."""
    if name.startswith("env.") and name not in INVALIDATES:
        return TRITON if name.removeprefix("env.") in TRITON_VARIABLES else GRAPHS
    return INVALIDATES.get(name, GRAPHS)


def compare(saved: Iterable[KeyPart], present: Iterable[KeyPart]) -> KeyComparison:
    """Compare two keys part by part. A variable that only one side has counts as not set on the other.

    A configuration value that only one side asked torch for says nothing about the other side: it is left out.
    """
    before, now = ({part.name: part for part in parts} for parts in (saved, present))
    asked_both = all(any(name.startswith("config.") for name in side) for side in (before, now))
    differences, unknown = [], []
    for name in sorted(before.keys() | now.keys()):
        if name.startswith("config.") and not asked_both:
            continue
        if name == COMPILER and name not in before:
            continue  # a manifest of before 0.3.0
        old, new = (side.get(name, KeyPart(name=name, value="")) for side in (before, now))
        if not (old.known and new.known):
            unknown.append(new if old.known else old)
        elif old.value != new.value:
            differences.append(
                KeyDifference(
                    name=name,
                    saved=old.value,
                    present=new.value,
                    reaches=reaches(name),
                    means=new.means or old.means,
                )
            )
    return KeyComparison(differences=tuple(differences), unknown=tuple(unknown))


def digest(parts: Iterable[KeyPart]) -> str:
    """Return 16 hex digits that two keys share exactly when they are equal; folders and guesses are left out.

    Configuration that only `--live` sees is left out too, so that both ways of reading a key give one digest.
    """
    kept = sorted(
        [part.name, part.value]
        for part in parts
        if part.known and not part.name.startswith("config.") and part.name not in _FOLDERS | GUESSED
    )
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:16]


# Variables that Triton hashes into a kernel's key: CACHE_INVALIDATING_ENV_VARS of include/triton/Tools/Sys/GetEnv.hpp.
TRITON_VARIABLES = frozenset(
    {
        "ALLOW_LHS_TMEM_LAYOUT_CONVERSION",
        "AMDGCN_ENABLE_DUMP",
        "AMDGCN_USE_BUFFER_ATOMICS",
        "AMDGCN_USE_BUFFER_OPS",
        "DISABLE_FAST_REDUCTION",
        "DISABLE_LLVM_OPT",
        "DISABLE_MMA_V3",
        "DISABLE_MMA_V5",
        "DISABLE_PTXAS_OPT",
        "LLVM_ENABLE_TIMING",
        "LLVM_IR_ENABLE_DUMP",
        "LLVM_PASS_PLUGIN_PATH",
        "MLIR_DISABLE_MULTITHREADING",
        "MLIR_DUMP_PATH",
        "MLIR_ENABLE_DIAGNOSTICS",
        "MLIR_ENABLE_DUMP",
        "MLIR_ENABLE_TIMING",
        "NVPTX_ENABLE_DUMP",
        "PTXAS_OPTIONS",
        "TRITON_DEFAULT_FP_FUSION",
        "TRITON_DISABLE_LINE_INFO",
        "TRITON_ENABLE_ASAN",
        "TRITON_ENABLE_LLVM_DEBUG",
        "TRITON_F32_DEFAULT",
        "TRITON_LLVM_DEBUG_ONLY",
        "TRITON_OVERRIDE_ARCH",
        "USE_IR_LOC",
    }
)
