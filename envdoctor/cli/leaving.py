"""What every text passes before it leaves the program: no secret, and no sign that moves a terminal."""

import os

from envdoctor.cli.shown import shown
from envdoctor.report.style import on_terminal
from envdoctor.standards.redaction import anonymous, redacted, secrets_of


def leaving(text: str) -> str:
    """Return a text as it may be shown or written: see `envdoctor/standards/redaction.py` for what is hidden."""
    clean = redacted(on_terminal(text), secrets_of(os.environ))
    return _anonymous(clean) if shown().redact else clean


def _anonymous(text: str) -> str:
    import socket
    from pathlib import Path

    from envdoctor.facts.host import Host

    host = Host.current()
    homes = {str(host.home), str(Path(host.home).resolve())}
    for home in sorted(homes, key=len, reverse=True):
        text = anonymous(text, home, host.user, (socket.gethostname(),))
    return text
