"""One headless browser for all tests of a run: Debian's, driven by playwright; none is downloaded."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
SEEN_AT = {"width": 1280, "height": 800}
# A busy machine is slow, which says nothing about a page.
_PATIENCE_MS = 120_000


@contextmanager
def started() -> Iterator[Any]:
    """Start the browser; skip, with the reason, where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (dependency group `test`)"
    )
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not there (Debian package chromium, .ci/packages)")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"], timeout=_PATIENCE_MS
        )
        yield browser
        browser.close()


class Viewed:
    """A page as it was opened: what it asked for, and what it complained of."""

    def __init__(self, browser: Any, file: Path, scheme: str = "light", width: int = SEEN_AT["width"]) -> None:
        """Open the file in a window of the size that people have."""
        self.page = browser.new_page(viewport={**SEEN_AT, "width": width}, color_scheme=scheme)
        self.page.set_default_timeout(_PATIENCE_MS)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.as_uri())

    def axe(self) -> list[str]:
        """Return what axe-core finds in it, each as "rule: where"."""
        spec = importlib.util.find_spec("axe_playwright_python")
        assert spec is not None
        assert spec.origin is not None
        self.page.evaluate((Path(spec.origin).parent / "axe.min.js").read_text())
        found = self.page.evaluate("axe.run().then(result => result.violations)")
        return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]

    def tabbed(self, times: int) -> list[str]:
        """Press Tab so often; return the name of what each press led to."""
        names = []
        for _ in range(times):
            self.page.keyboard.press("Tab")
            names.append(
                self.page.evaluate(
                    "(at => at.getAttribute('aria-label') || at.textContent.trim())(document.activeElement)"
                )
            )
        return names
