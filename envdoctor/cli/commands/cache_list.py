"""`envdoctor cache list`: the snapshots there are."""

from envdoctor.app import caches as app
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.output import finish
from envdoctor.facts.host import Host


def list_(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """List the snapshots of the store with their key, size and profile."""
    return finish(app.snapshots(Host.current()), output_format, json=json)
