"""`envdoctor gate write`: the file, and how it is imported."""

from typing import Any

from envdoctor.app.gate import GateWritten
from envdoctor.model.codec import encode
from envdoctor.report.style import Style


def text(data: GateWritten, style: Style) -> str:
    """Return what was written, and the line for the train script."""
    del style
    module = data.module
    return f'wrote {data.path}; at the top of the train script: `import {module}; {module}.require("PROFILE")`\n'


def document(data: GateWritten) -> dict[str, Any]:
    """Return the same as plain values."""
    return dict(encode(data))
