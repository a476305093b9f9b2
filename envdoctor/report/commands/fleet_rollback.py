"""`envdoctor fleet rollback`: see `fleet_change.py`."""

from envdoctor.report.commands.fleet_change import document, text

__all__ = ["document", "text"]
