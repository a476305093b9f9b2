"""`envdoctor watch-stack`: an entry of a venv's journal, or the timer that makes one."""

import re
from collections.abc import Iterator
from typing import Any

from envdoctor.app.watch_stack import StackSeen, WatchUnits
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted
from envdoctor.report.style import Style, printable

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def text(data: StackSeen | WatchUnits, style: Style) -> str:
    """Return what changed, or the units to save."""
    del style
    return "\n".join(_seen(data) if isinstance(data, StackSeen) else _units(data)) + "\n"


def document(data: StackSeen | WatchUnits) -> dict[str, Any]:
    """Return the same as plain values; what the other form has is null."""
    if isinstance(data, StackSeen):
        return {
            "venv": data.venv,
            "journal": data.journal,
            "entry": {**encode(data.entry), "profile": data.entry.profile or None},
            "before": data.before or None,
            "units": None,
        }
    units = {"name": data.name, "command": list(data.command), "every": data.every, "cron": data.cron or None}
    return {"venv": data.venv, "journal": None, "entry": None, "before": None, "units": units}


def _seen(data: StackSeen) -> Iterator[str]:
    entry = data.entry
    stack = entry.digest or "of which a part could not be read"
    if not data.before:
        yield f"{printable(data.venv)}: its journal begins with stack {stack}"
    elif not entry.changed:
        yield f"{printable(data.venv)}: nothing changed since {data.before}, stack {stack}"
    else:
        yield f"{printable(data.venv)}: {counted(len(entry.changed), 'change')} since {data.before}, now stack {stack}"
        yield from (f"  {printable(line)}" for line in entry.changed)
    if entry.kind == "good":
        yield "noted as good: `envdoctor diff --last-good` compares with it"
    yield f"journal: {printable(data.journal)}"


def _units(data: WatchUnits) -> Iterator[str]:
    if data.cron:
        yield "# a line for `crontab -e`"
        yield printable(data.cron)
        return
    folder = "~/.config/systemd/user"
    yield f"# {folder}/{data.name}.service"
    yield "[Unit]"
    yield f"Description=envdoctor: what changed in {_escaped(data.venv)}"
    yield "[Service]"
    yield "Type=oneshot"
    yield f"ExecStart={' '.join(_word(word) for word in data.command)}"
    yield ""
    yield f"# {folder}/{data.name}.timer"
    yield "[Unit]"
    yield f"Description=envdoctor: {data.every}, what changed in {_escaped(data.venv)}"
    yield "[Timer]"
    yield f"OnCalendar={data.every}"
    yield "Persistent=true"
    yield "[Install]"
    yield "WantedBy=timers.target"
    yield ""
    yield "# when both are saved:"
    yield f"# systemctl --user daemon-reload && systemctl --user enable --now {data.name}.timer"


def _escaped(value: str) -> str:
    return printable(value).replace("%", "%%")


def _word(word: str) -> str:
    """Return a word of a command line of systemd (systemd.service(5), Command lines)."""
    escaped = _escaped(word).replace("$", "$$")
    if _PLAIN.fullmatch(escaped):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'
