"""`python -m trainer`: parse the configuration, pass the gate, build, run."""

# What else is imported is imported behind StopRequest: a signal in the middle of it is answered with a word.
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from trainer.runtime.shutdown import StopRequest

if TYPE_CHECKING:
    from trainer.settings.arguments import Arguments


def main(argv: Sequence[str]) -> int:
    """Run the trainer; returns the exit code."""
    found: list[Arguments] = []
    with StopRequest() as stop:
        try:
            stop.listen()
            return _main(argv, stop, found)
        except (Exception, KeyboardInterrupt) as error:
            from trainer.errors import as_trainer_error, hint_for  # noqa: PLC0415 - as above
            from trainer.writing import say  # noqa: PLC0415

            # Where a signal comes in the middle of an import, Python may wrap what it raises.
            if isinstance(error, KeyboardInterrupt) or (stop.signal is not None and not stop.saves):
                if _leads(found):
                    say(_interrupted(bool(found) and found[0].resume))
                return stop.exit_code
            told = as_trainer_error(error)
            if told is None:
                raise
            if not told.told:
                say(f"error: {told.message}")
                if told.hint:
                    say(f"hint: {hint_for(told, found[0].output if found else None)}")
            return told.exit_code


def _main(argv: Sequence[str], stop: StopRequest, found: "list[Arguments]") -> int:
    from trainer.runtime.launch import launch, require_one_process, under_launcher  # noqa: PLC0415
    from trainer.settings.arguments import make_output, parse, require_pair  # noqa: PLC0415 - as above
    from trainer.writing import say  # noqa: PLC0415

    arguments = parse(argv).admitted()
    found.append(arguments)
    require_pair(arguments.config)
    require_one_process(arguments.config)
    make_output(arguments.output, resume=arguments.resume)
    if arguments.config.launched and not under_launcher():
        return launch(arguments, stop)
    if not arguments.quiet and _leads(found):
        say("loading torch and the target, then compiling the first steps: progress follows")
    # Only now: a stack that the gate refuses may not even import.
    from trainer.train import train  # noqa: PLC0415

    return train(arguments, stop)


def _interrupted(resumed: bool) -> str:  # noqa: FBT001
    # From the first step on a stop request is answered by saving; before, there is nothing to save.
    return f"interrupted before the first step; {'the checkpoints before it stay' if resumed else 'nothing was saved'}"


def _leads(found: "list[Arguments]") -> bool:
    # A scheduler may leave a RANK in the environment of a run that is one process.
    return os.environ.get("RANK", "0") == "0" or bool(found and not found[0].config.launched)


def _end(code: int) -> int:
    """Return the exit code; a process whose threads are still at work inside torch would abort on its way out."""
    if code and any(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    from trainer.writing import leave

    leave(lambda argv: _end(main(argv)))
