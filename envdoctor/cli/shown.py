"""How this command line wants its result shown; kept for whatever prints, which is one process and one command."""

from envdoctor.model.frozen import frozen


@frozen
class Shown:
    """What `--color`, `-q`, `-v` and `--redact` or `--no-redact` say."""

    color: str = "auto"
    quiet: bool = False
    verbose: bool = False
    redact: bool | None = None
    """None where the command line does not say: what is written for others is redacted then."""


_CHOSEN = [Shown()]


def show_as(shown: Shown) -> None:
    """Keep what was asked for, until the process ends."""
    _CHOSEN[0] = shown


def shown() -> Shown:
    """Return what was asked for."""
    return _CHOSEN[0]
