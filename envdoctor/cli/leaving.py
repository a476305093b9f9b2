"""What every text passes before it leaves the program: no secret, no sign that moves a terminal, no line of others."""

import os
import sys
from collections.abc import Iterable

from envdoctor.cli.shown import shown
from envdoctor.report.style import on_terminal, printable
from envdoctor.standards.redaction import anonymous, redacted, secrets_of


def leaving(text: str) -> str:
    """Return a text as it may be shown or written: see `envdoctor/standards/redaction.py` for what is hidden."""
    clean = redacted(on_terminal(in_line(text, _told())), secrets_of(os.environ))
    return _anonymous(clean) if shown().redact else clean


def in_line(text: str, words: Iterable[str]) -> str:
    """Return a text in which none of the words, nor a part of one as messages cut them, begins a line.

    What somebody typed, or another program passed on, is quoted in messages, and may hold line breaks.
    """
    broken = {part for word in words if not word.isprintable() for part in _parts(word)}
    for part in sorted(broken, key=len, reverse=True):
        text = text.replace(part, printable(part))
    return text


def _parts(word: str) -> Iterable[str]:
    value = word.partition("=")[2]
    for part in (word, word.strip(), value, value.strip(), *word.split("/"), *word.split(",")):
        if part.strip() and len(part.splitlines()) + part.endswith("\n") > 1:
            yield part


def _told() -> Iterable[str]:
    yield from sys.argv[1:]
    yield from (value for name, value in os.environ.items() if name.startswith("ENVDOCTOR_"))


def _anonymous(text: str) -> str:
    import socket

    from envdoctor.facts.host import Host

    host = Host.current()
    homes = {str(host.home), os.path.realpath(host.home)}
    for home in sorted(homes, key=len, reverse=True):
        text = anonymous(text, home, host.user, (socket.gethostname(),))
    return text
