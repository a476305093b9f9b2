"""Every error the trainer raises on purpose.

TrainerError                  message + hint + exit code
├── ConfigError               a key, a flag or the topology cannot be used: exit 2
├── DataError                 a row of the data cannot be used: exit 2
├── TargetModelError          the target model cannot be loaded or fed: exit 2
├── CheckpointError           a checkpoint is missing, damaged or of another run: exit 2
├── OutputError               a file of the run cannot be written: exit 2
├── DenseAttentionError       the dense path would not fit: exit 2
├── DeviceMemoryError         the device has no room for what the run needs: exit 2
├── NonFiniteError            a loss or gradient is NaN or infinite: exit 1
├── CompileStateError         torch's compile state is damaged, or a fallback was taken: exit 1
└── WorkerFailedError         another worker of the run died: exit 1
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RESUMING = (
    ("go on with --resume from the checkpoint before it", "run the same command again"),
    ("go on with --resume", "run the same command again"),
    ("run the same command with --resume: it exports from the last checkpoint", "run the same command again"),
    ("resume from the last checkpoint", "start again"),
)
"""How a hint goes on from a checkpoint, and what it says where there is none."""


class TrainerError(Exception):
    """Root of the hierarchy. `message` says what is wrong with its evidence, `hint` what to change or run next."""

    exit_code = 1
    told = False
    """Whether another process of the run says it."""

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep the message and the hint apart, so that the caller places them."""
        super().__init__(message)
        self.message = message
        self.hint = hint


def hint_for(error: TrainerError, output: Path | None) -> str:
    """Return the hint of an error of the run in `output`: to go on from a checkpoint only where one is."""
    hint = error.hint
    if output is None or not any((output / "checkpoints").glob("step-*")):
        for resumed, started in _RESUMING:
            hint = hint.replace(resumed, started)
    return hint


class ConfigError(TrainerError):
    """A key, a flag or the topology cannot be used; the message names the key, the hint the cure."""

    exit_code = 2


class DataError(TrainerError):
    """A row of the data cannot be used; the message names the file and the line."""

    exit_code = 2


class TargetModelError(TrainerError):
    """The target model cannot be loaded, or is of a kind whose maths this trainer does not reproduce."""

    exit_code = 2


class CheckpointError(TrainerError):
    """A checkpoint is missing, damaged, or belongs to another run."""

    exit_code = 2


class OutputError(TrainerError):
    """A file of the run cannot be written; the message names it and says why, the hint how to go on."""

    exit_code = 2


class DenseAttentionError(TrainerError):
    """Dense attention over these shapes would not fit in memory."""

    exit_code = 2


class DeviceMemoryError(TrainerError):
    """The device has no room for what the run needs."""

    exit_code = 2


class NonFiniteError(TrainerError):
    """A loss or a gradient is NaN or infinite; the message names the batch."""


class CompileStateError(TrainerError):
    """torch's process-global compile state is damaged, or compiled code ran as something else."""


class WorkerFailedError(TrainerError):
    """Another worker of this run died, so this one cannot go on."""


ROOM_TO_TRAIN = (
    "set drafter.recompute=true, or lower data.tokens, drafter.anchors or run.loss_rows;"
    " `python -m trainer.plan` with the same flags lists what fits where"
)


ROOM_TO_LOAD = "free the device, or give it less: `python -m trainer.plan` with the same flags lists what fits where"


def memory_is_full(error: BaseException) -> bool:
    """Return whether an error says so: torch has a type for a GPU, and words for a CPU."""
    if isinstance(error, TrainerError):
        return False
    named = type(error).__name__ in {"OutOfMemoryError", "MemoryError"}
    return named or getattr(error, "errno", None) == errno.ENOMEM or "annot allocate memory" in str(error)


def out_of_memory(error: BaseException, hint: str = ROOM_TO_TRAIN, doing: str = "") -> DeviceMemoryError:
    """Return what `memory_is_full` holds for as an error of this trainer; `doing` says what took the memory."""
    first = (str(error).splitlines() or ["out of memory"])[0].partition(" Including ")[0].partition(" Process ")[0]
    # On a CPU torch begins with the line of its source that has failed.
    first = first.rpartition("DefaultCPUAllocator: ")[2]
    return DeviceMemoryError(f"{doing}: {first}" if doing else first, hint)


@contextmanager
def memory_for(doing: str, hint: str) -> Iterator[None]:
    """Raise DeviceMemoryError, which names what was done, where the body finds no memory."""
    try:
        yield
    except (RuntimeError, MemoryError, OSError) as error:
        if not memory_is_full(error):
            raise
        raise out_of_memory(error, hint, doing) from None


def as_trainer_error(error: BaseException, hint: str = ROOM_TO_TRAIN) -> TrainerError | None:
    """Return the error, or where memory is full a DeviceMemoryError; None for one that nobody has foreseen."""
    if memory_is_full(error):
        return out_of_memory(error, hint)
    return error if isinstance(error, TrainerError) else None


def not_utf8(error: UnicodeDecodeError) -> tuple[int, str]:
    """Return the line of the first byte that is not UTF-8, and what to say of it."""
    before = error.object[: error.start]
    column = len(before.rpartition(b"\n")[2]) + 1
    return before.count(b"\n") + 1, f"byte 0x{error.object[error.start]:02x} at column {column} is not UTF-8"


def too_much(error: ValueError | RecursionError) -> str:
    """Return what to say of TOML or JSON that Python does not take, such as a number with thousands of digits."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).partition("; use sys.")[0]
