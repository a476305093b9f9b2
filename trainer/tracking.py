"""Weights & Biases, when a run asks for it; the package is needed only then."""

import dataclasses
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trainer.config import TrainConfig
from trainer.errors import ConfigError
from trainer.metrics import Progress


class Tracker:
    """Sends each log line to a project, or does nothing."""

    def __init__(self, config: TrainConfig, output: Path | None) -> None:
        """Open the project of `run.wandb`; without `output` (a worker that does not lead) nothing is sent."""
        self._run: Any = None
        if not config.run.wandb or output is None:
            return
        try:
            import wandb  # noqa: PLC0415 - optional
        except ImportError as error:
            raise ConfigError(
                f"run.wandb: {config.run.wandb}, but wandb is not installed", "install wandb, or leave run.wandb empty"
            ) from error
        self._run = wandb.init(project=config.run.wandb, dir=str(output), config=dataclasses.asdict(config))

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the project's run."""
        if self._run is not None:
            self._run.finish(exit_code=0 if error is None else 1)

    def log(self, progress: Progress) -> None:
        """Send one line."""
        if self._run is not None:
            self._run.log(progress.line(), step=progress.step)
