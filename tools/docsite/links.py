"""Every link of the built pages that leads into the site leads to a page, a file or a heading that is there."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_REFERENCES = {"href", "src", "action", "poster", "data"}
# What a page loads by itself; a link is followed by who reads it.
_LOADING = {"script", "img", "link", "iframe", "video", "audio", "source", "object", "embed", "form"}


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in _REFERENCES and value:
                self.links.append((tag, value))


def broken_links(site: Path) -> Iterator[str]:
    """Yield a sentence for each link that leads nowhere within the site, and for all that is loaded from outside."""
    read = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in read.items():
        at = path.relative_to(site)
        for tag, target in page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if tag in _LOADING and parts.scheme != "data":
                    yield f"{at} loads {target}"
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not place.exists():
                yield f"{at} links {target}, which is not there"
            elif parts.fragment and place in read and unquote(parts.fragment) not in read[place].ids:
                yield f"{at} links {target}: {place.name} has no such heading"
