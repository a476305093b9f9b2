"""The documentation as a site: built strictly, and read from its files in a browser that has no network."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envdoctor.cli.app import COMMANDS
from envdoctor.report import schemas
from tests.factories.run_envdoctor import ROOT
from tests.formats.browser import Viewed, started
from tools.docsite.__main__ import main
from tools.docsite.links import broken_links


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("furo", reason="the dependency group `site` is not installed")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "tools.docsite", out], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started() as browser:
        yield browser


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("two years")
    assert main([str(tmp_path)]) == 2
    told = f"error: {tmp_path} is neither empty nor a site that this wrote: it is not replaced\n"
    assert capsys.readouterr().err == told
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_every_page_command_and_document_is_there(site: Path) -> None:
    wanted = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    wanted |= {Path("commands", f"{name}.html") for name in COMMANDS}
    wanted |= {Path("documents", f"{name}.html") for name in schemas.names()}
    assert wanted - {path.relative_to(site) for path in site.rglob("*.html")} == set()


@pytest.mark.parametrize("name", ["index", "docs/symptoms", "commands/check", "documents/check"])
def test_a_page_loads_nothing_from_outside_and_complains_of_nothing(browser: Any, site: Path, name: str) -> None:
    viewed = Viewed(browser, site / f"{name}.html")
    assert {url.partition(":")[0] for url in viewed.requests} == {"file"}
    assert viewed.complaints == []
    assert viewed.axe() == []  # last: it loads the style sheets again, which a browser refuses for files
    viewed.page.close()


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("libcudnn.so.9", "Symptoms"),
        ("no kernel image is available", "Symptoms"),
        ("ED201", "ED201 files-removed-by-uninstall"),
    ],
)
def test_the_search_needs_no_server(browser: Any, site: Path, asked: str, first: str) -> None:
    viewed = Viewed(browser, site / "index.html")
    viewed.page.fill("input[name=q]", asked)
    viewed.page.keyboard.press("Enter")
    viewed.page.wait_for_selector("ul.search li")
    assert viewed.page.locator("ul.search li").first.inner_text() == first
    assert viewed.complaints == []
    viewed.page.close()


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text('<h1 id="top">x</h1>')
    (tmp_path / "page.html").write_text(
        '<a href="there.html#top">1</a><a href="there.html#no">2</a><a href="gone.html">3</a><a href="#no">4</a>'
        '<a href="https://example.org">5</a>'
        '<img src="https://example.org/x.png"><script src="//example.org/x.js"></script>'
    )
    assert list(broken_links(tmp_path)) == [
        "page.html links there.html#no: there.html has no such heading",
        "page.html links gone.html, which is not there",
        "page.html links #no: page.html has no such heading",
        "page.html loads https://example.org/x.png",
        "page.html loads //example.org/x.js",
    ]
