"""`python -m trainer`: parse the configuration, pass the gate, build, run."""

import os
import sys
from collections.abc import Sequence

from trainer.arguments import make_output, parse
from trainer.errors import TrainerError
from trainer.launch import launch, require_one_process, under_launcher

_INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Run the trainer; returns the exit code."""
    try:
        arguments = parse(argv).admitted()
        require_one_process(arguments.config)
        make_output(arguments.output)
        if arguments.config.launched and not under_launcher():
            return launch(arguments)
        if not arguments.quiet and os.environ.get("RANK", "0") == "0":
            _say("loading torch and the target, then compiling the first steps: progress follows")
        # Only now: a stack that the gate refuses may not even import.
        from trainer.train import train  # noqa: PLC0415

        return train(arguments)
    except TrainerError as error:
        print(f"error: {error.message}", file=sys.stderr)  # noqa: T201 - the process's last words
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        # From the first step on a stop request is answered by saving; before, there is nothing to save.
        _say("interrupted before the first step; nothing was saved")
        return _INTERRUPTED


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - before there is a display


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
