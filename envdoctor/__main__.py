"""`python -m envdoctor` and the `envdoctor` command."""

# What `signal` wraps: that one imports enum first, and Ctrl-C meanwhile ends in a traceback.
import _signal as signal  # type: ignore[import-not-found]
import gc
import os
import sys

# Until `main` can answer Ctrl-C, it ends this process as it ends any program: silently, and as 130 for the shell.
_HANDLER = signal.getsignal(signal.SIGINT)
if _HANDLER is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from envdoctor.cli.isolation import isolate  # noqa: E402 - Ctrl-C may come while they are imported
from envdoctor.cli.shadowed import in_front_of_python, message  # noqa: E402 - as above

# ExitCode.INTERRUPTED and UNKNOWN, before anything of ours is imported.
_INTERRUPTED, _UNKNOWN, _USAGE = 130, 3, 2
_ELSEWHERE = "run it where the environment is: in WSL, in a Linux container, or on the Linux machine that trains"


def main() -> None:
    """Run the command line of this process and exit with its code."""
    # A check makes 100,000 small objects that live to its end; looking for cycles among them finds none.
    gc.set_threshold(100_000, 50, 50)
    if sys.platform != "linux":
        _say(f"error: envdoctor runs on Linux only, and this is {sys.platform}\n\nhint: {_ELSEWHERE}")
        os._exit(_USAGE)
    _hold_closed_streams()
    isolate()
    try:
        # Only then: what it imports of Python's own may be on PYTHONPATH too.
        from envdoctor.facts.own_modules import quickly  # noqa: PLC0415 - as above

        quickly()
        from envdoctor.facts.stops import answer_stops, raise_again, raise_lost  # noqa: PLC0415 - as below

        raise_again()
        signal.signal(signal.SIGINT, _HANDLER)
        answer_stops()  # what is under way is cleaned up, and what was started does not live on
        # Imported here, since most of a short command's time is its imports: Ctrl-C may come while they go on.
        from envdoctor.cli import direct  # noqa: PLC0415

        code = direct.run(sys.argv[1:])
        if code is None:
            from envdoctor.cli.app import main as run_command_line  # noqa: PLC0415

            code = run_command_line()
        # Nothing is left to do, and taking those objects apart one by one is a tenth of a check's time.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        raise_lost()  # one that came in the last moment
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _say("error: interrupted")
    except Exception as error:
        # The command line handles its own; here an import of ours failed.
        stranger = in_front_of_python()
        if not stranger:
            raise
        code = _UNKNOWN
        text, hint = message(stranger, error)
        _say(f"error: {text}\n\nhint: {hint}")
    os._exit(code)


def _hold_closed_streams() -> None:
    """Put a file of no content where stdin, stdout or stderr is closed (`2>&-`).

    The next file that is opened would get that number, and what a child process says would be written into it. Nobody
    reads stderr then, and writing a result to stdout fails as before.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process


def _say(text: str) -> None:
    # Where it goes may be gone: what reads the pipe ends with the same Ctrl-C. The exit code tells.
    try:
        if sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - as cli.app says it
    except (OSError, ValueError):
        pass


if __name__ == "__main__":
    main()
