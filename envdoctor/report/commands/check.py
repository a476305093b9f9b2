"""`envdoctor check`: the report."""

from typing import Any

from envdoctor.app.check import Checked
from envdoctor.report import as_json, as_text
from envdoctor.report.style import Style


def text(data: Checked, style: Style) -> str:
    """Return the report that a person reads."""
    return as_text.render(data.header, data.verdict, style, fail_on=data.fail_on)


def document(data: Checked) -> dict[str, Any]:
    """Return the report that a program reads."""
    stack = None
    if data.facts is not None:
        from envdoctor.report.stack_document import stack_document  # noqa: PLC0415 - a text needs no type of a probe

        stack = stack_document(data.facts)
    return as_json.document(data.header, data.verdict, fail_on=data.fail_on, places=data.places, stack=stack)
