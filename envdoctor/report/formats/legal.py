"""Text that an XML or HTML document may hold."""

import re
from html import escape as _escape

# What XML 1.0 cannot hold, not even as a reference, and no HTML parser keeps.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def legal(text: str) -> str:
    """Return the text with the replacement sign for each one that a document cannot hold."""
    return _FORBIDDEN.sub("\ufffd", text)


def escaped(text: str) -> str:
    """Return the text as the content of an element, or of an attribute in double quotes."""
    return _escape(legal(text), quote=True)
