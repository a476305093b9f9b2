"""Shapes of SVG as text. Everything that is drawn passes through `element`, which escapes."""

from collections.abc import Iterable

from envdoctor.report.formats.legal import escaped

CHARACTER = 7.3
"""Width of one character of the pictures' font, a monospaced one at 12 pixels."""
OWNERS = 16
"""How many colours there are for owners; see `.owner-0` and so on in `page_style.py`."""


def element(name: str, *content: str, **attributes: str | float) -> str:
    """Return an element; `content` is markup made here, attributes are escaped ("class_" is "class")."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_number(value))}"'
        for key, value in attributes.items()
        if value != ""
    )
    inner = "".join(content)
    return f"<{name}{named}>{inner}</{name}>" if inner else f"<{name}{named}/>"


def label(x: float, y: float, text: str, *, kind: str = "", anchor: str = "", room: float = 0) -> str:
    """Return a line of text; with `room` in pixels it is shortened in its middle, and whole in its title."""
    shown = shortened(text, int(room / CHARACTER)) if room else text
    title = titled(text) if shown != text else ""
    return element("text", title, escaped(shown), x=x, y=y, class_=kind, text_anchor=anchor)


def titled(text: str) -> str:
    """Return the title of a shape: what a pointer over it shows, and a screen reader reads."""
    return element("title", escaped(text))


def shortened(text: str, length: int) -> str:
    """Return the text with an ellipsis in place of its middle where it is longer."""
    if len(text) <= max(length, 3):
        return text
    ahead = length // 2
    return f"{text[:ahead]}…{text[len(text) - (length - 1 - ahead) :]}"


def picture(width: float, height: float, title: str, description: str, shapes: Iterable[str]) -> str:
    """Return a whole picture, as wide as its place allows and no wider than it is drawn."""
    return element(
        "svg",
        titled(title),
        element("desc", escaped(description)),
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=width,
        height=height,
        class_="picture",
        style=f"max-width: {_number(width)}px",
        role="group",
        aria_label=title,
    )


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
