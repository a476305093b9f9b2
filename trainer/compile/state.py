"""What torch's compiler has done in this process, and whether its process-global state is sound.

Everything here reads torch's own counters and attributes; which of them exist decides, not a version number.
"""

import sys
import threading
from dataclasses import dataclass

import torch
from torch import nn

from trainer.errors import CompileStateError

RECOMPILE_LIMIT = 256
"""Graphs one function may have: buckets x dtypes x grad modes x devices. torch's default of 8 is passed by
running the rest uncompiled, without an error."""

_original_call = nn.Module.__call__


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCounts:
    """Totals since the process started."""

    graphs: int
    """Graphs that dynamo captured."""
    events: int
    """Compilations that began, lazily compiled backwards included."""
    breaks: int
    """Graph breaks: places where a compiled function falls back to Python."""

    def since(self, earlier: "CompileCounts") -> "CompileCounts":
        """Return the growth from `earlier` to here."""
        return CompileCounts(
            graphs=self.graphs - earlier.graphs,
            events=self.events - earlier.events,
            breaks=self.breaks - earlier.breaks,
        )


class _Events:
    """Counts compilations through dynamo's start callback, which runs for lazy backwards too."""

    def __init__(self) -> None:
        self.count = 0
        self._installed = False
        self._lock = threading.Lock()

    def install(self) -> None:
        with self._lock:
            if self._installed:
                return
            from torch._dynamo.callback import callback_handler  # noqa: PLC0415 - dynamo only when compiling

            callback_handler.register_start_callback(self._began)
            self._installed = True

    def _began(self, _arguments: object) -> None:
        self.count += 1


_events = _Events()


def traces_beside_eager_code() -> bool:
    """Return whether one thread may trace while another computes, on this build of torch and this machine.

    A CUDA build that sees no CUDA device replaces the process's device guard whenever a trace begins (FakeTensorMode's
    _ensureCUDADeviceGuardSet), under the feet of every other thread, inside a gate or not: two of twenty trials
    behind the gate ended in a segmentation fault there (torch 2.11.0+cu130, no GPU; 2.14.1 had none in forty).
    """
    return torch.version.cuda is None or torch.cuda.is_available()


def prepare_thread() -> None:
    """Set dynamo's limits in the calling thread and start counting.

    Since torch 2.12 the configuration is thread-local (pytorch PR 173568), so every thread that calls compiled
    code needs this; a limit set in the main thread does not reach it.
    """
    from torch._dynamo import config  # noqa: PLC0415

    config.recompile_limit = RECOMPILE_LIMIT
    config.accumulated_recompile_limit = RECOMPILE_LIMIT * 8
    _events.install()


def compile_counts() -> CompileCounts:
    """Return the totals; reading them costs a few dictionary look-ups."""
    from torch._dynamo.utils import counters  # noqa: PLC0415

    return CompileCounts(
        graphs=counters["stats"]["unique_graphs"], events=_events.count, breaks=sum(counters["graph_break"].values())
    )


def flag_is_thread_local() -> bool:
    """Return whether this torch keeps its FX tracing flag per thread (since 2.14, pytorch PR 168999)."""
    import torch.fx._symbolic_trace as symbolic  # noqa: PLC0415

    return hasattr(symbolic, "_is_fx_tracing_tls") or not hasattr(symbolic, "_is_fx_tracing_flag")


def damage() -> list[str]:
    """Return what is wrong with torch's global compile state; call it while nothing compiles.

    Overlapping traces can leave any of these behind, and then every compiled call fails or runs uncompiled.
    """
    import torch.fx._symbolic_trace as symbolic  # noqa: PLC0415

    found = []
    if getattr(symbolic, "_is_fx_tracing_flag", False):
        found.append("the FX tracing flag is stuck on")
    if nn.Module.__call__ is not _original_call:
        found.append("nn.Module.__call__ is still a tracer's wrapper")
    if getattr(symbolic, "CURRENT_PATCHER", None) is not None:
        found.append("a tracer's patches were never taken back")
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    if flex is not None and "flex_attention_performance" in getattr(flex, "_WARNINGS_SHOWN", ()):
        found.append("flex_attention ran uncompiled, over the full score table")
    return found


def require_sound() -> None:
    """Raise CompileStateError when the compile state is damaged."""
    found = damage()
    if found:
        raise CompileStateError(
            f"torch's compile state is damaged: {'; '.join(found)}",
            "start again with --runtime processes, or send every compiled call of this process through the gate",
        )
