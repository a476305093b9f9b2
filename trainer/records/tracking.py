"""Weights & Biases and TensorBoard, when a run asks for them; their packages are needed only then."""

import dataclasses
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trainer.errors import ConfigError
from trainer.records.metrics import Progress
from trainer.settings.config import TrainConfig
from trainer.writing import writing


def require_packages(config: TrainConfig) -> None:
    """Raise ConfigError for what a run asks for and is not installed: before the target is loaded."""
    if config.run.wandb and find_spec("wandb") is None:
        raise _no_wandb(config)
    if config.run.tensorboard and find_spec("tensorboard") is None:
        raise _no_tensorboard()


def _no_wandb(config: TrainConfig) -> ConfigError:
    return ConfigError(
        f"run.wandb: {config.run.wandb}, but wandb is not installed", "install wandb, or leave run.wandb empty"
    )


def _no_tensorboard() -> ConfigError:
    return ConfigError(
        "run.tensorboard: tensorboard is not installed", "install tensorboard, or set run.tensorboard=false"
    )


class Tracker:
    """Sends each log line to a project, to event files, to both, or nowhere."""

    def __init__(self, config: TrainConfig, output: Path | None) -> None:
        """Open what is asked for; without `output` (a worker that does not lead) nothing is sent."""
        self._place = output / "tensorboard" if output is not None else Path()
        self._hook = threading.excepthook
        self._run = _project(config, output) if config.run.wandb and output is not None else None
        self._board = None
        if config.run.tensorboard and output is not None:
            with self._writing():
                self._board = _board(self._place)
            # Its writing thread dies of a full disk with a traceback; `send` raises the same error with its cure.
            threading.excepthook = self._died

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the project's run and the event files."""
        if self._run is not None:
            self._run.finish(exit_code=0 if error is None else 1)
        if self._board is not None:
            # What was not written has been told by `send`.
            with suppress(OSError) if error is not None else self._writing():
                self._board.close()
        threading.excepthook = self._hook

    def log(self, progress: Progress) -> None:
        """Send one line."""
        self.send("train", progress.step, progress.line())

    def evaluation(self, values: Mapping[str, object]) -> None:
        """Send an evaluation that was made while it trains."""
        self.send("evaluation", int(str(values["step"])), values)

    def send(self, group: str, step: int, values: Mapping[str, object]) -> None:
        """Send the values of a step: to the project as they are, to the event files each number under its name."""
        if self._run is not None:
            self._run.log(dict(values) if group == "train" else {group: dict(values)}, step=step)
        if self._board is not None:
            with self._writing():
                for name, value in _numbers(group, values):
                    self._board.add_scalar(name, value, step)
                self._board.flush()

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self._place, "make room or set run.tensorboard=false, then go on with --resume")

    def _died(self, told: threading.ExceptHookArgs) -> None:
        if not (told.exc_type is not None and issubclass(told.exc_type, OSError) and _of_tensorboard(told.thread)):
            self._hook(told)


def _numbers(name: str, value: object) -> list[tuple[str, float]]:
    """Return the numbers in nested values, named by their path; positions of a block count from 1."""
    if isinstance(value, int | float):
        return [(name, float(value))]
    if isinstance(value, Mapping):
        items = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(place), each) for place, each in enumerate(value, start=1)]
    else:
        return []
    return [found for key, each in items for found in _numbers(f"{name}/{key}", each)]


def _project(config: TrainConfig, output: Path) -> Any:
    try:
        import wandb  # noqa: PLC0415 - optional
    except ImportError as error:
        raise _no_wandb(config) from error
    return wandb.init(project=config.run.wandb, dir=str(output), config=dataclasses.asdict(config))


def _of_tensorboard(thread: threading.Thread | None) -> bool:
    return type(thread).__module__.startswith("tensorboard.")


def _board(place: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - needs an optional package
    except ImportError as error:
        raise _no_tensorboard() from error
    return SummaryWriter(str(place))
