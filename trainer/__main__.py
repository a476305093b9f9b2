"""`python -m trainer`: parse the configuration, pass the gate, build, run."""

import os
import sys
from collections.abc import Sequence

from trainer.arguments import Arguments, make_output, parse
from trainer.errors import TrainerError
from trainer.launch import launch, require_one_process, under_launcher
from trainer.runtime.shutdown import StopRequest


def main(argv: Sequence[str]) -> int:
    """Run the trainer; returns the exit code."""
    with StopRequest() as stop:
        arguments: Arguments | None = None
        try:
            arguments = parse(argv).admitted()
            require_one_process(arguments.config)
            make_output(arguments.output)
            if arguments.config.launched and not under_launcher():
                return launch(arguments, stop)
            if not arguments.quiet and _leads():
                _say("loading torch and the target, then compiling the first steps: progress follows")
            # Only now: a stack that the gate refuses may not even import.
            from trainer.train import train  # noqa: PLC0415

            return train(arguments, stop)
        except TrainerError as error:
            _say(f"error: {error.message}")
            if error.hint:
                _say(f"hint: {error.hint}")
            return error.exit_code
        except KeyboardInterrupt:
            if _leads():
                _say(_interrupted(arguments))
            return stop.exit_code


def _interrupted(arguments: Arguments | None) -> str:
    # From the first step on a stop request is answered by saving; before, there is nothing to save.
    kept = "the checkpoints before it stay" if arguments is not None and arguments.resume else "nothing was saved"
    return f"interrupted before the first step; {kept}"


def _leads() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - before there is a display, and the process's last words


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
