"""`python -m envdoctor` and the `envdoctor` command."""

import gc
import os
import sys

# ExitCode.INTERRUPTED and UNKNOWN, before anything of ours is imported.
_INTERRUPTED, _UNKNOWN = 130, 3


def main() -> None:
    """Run the command line of this process and exit with its code."""
    # A check makes 100,000 small objects that live to its end; looking for cycles among them finds none.
    gc.set_threshold(100_000, 50, 50)
    try:
        # Imported here, since most of a short command's time is its imports: Ctrl-C may come while they go on.
        from envdoctor.cli.app import main as run_command_line  # noqa: PLC0415

        code = run_command_line()
        # Nothing is left to do, and taking those objects apart one by one is a tenth of a check's time.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _say("error: interrupted")
    except Exception:
        # The command line handles its own; here an import of ours failed.
        stranger = _in_front_of_python()
        if not stranger:
            raise
        code = _UNKNOWN
        _say(
            f"error: envdoctor cannot start: {stranger} stands in front of Python's own module\n\n"
            "hint: unset PYTHONPATH, or start from another folder: no program of this Python works there"
        )
    os._exit(code)


def _in_front_of_python() -> str:
    """Return a file that was imported under a standard module's name from elsewhere; empty when there is none."""
    own = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - pathlib may be what is shadowed
    for name in sorted(sys.stdlib_module_names & sys.modules.keys()):
        file = getattr(sys.modules[name], "__file__", None)
        if file and not os.path.realpath(file).startswith((own, os.path.realpath(own) + os.sep)):
            return str(file)
    return ""


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - as cli.app says it


if __name__ == "__main__":
    main()
