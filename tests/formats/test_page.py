"""Pages and pictures as a reader has them: in a browser, by keyboard, in light and dark, without a network."""

import json
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from envdoctor.report.formats import html
from tests.factories import make_cache
from tests.factories.make_cuda_stack import SHARED_PATHS, make_cuda_wheels, make_foreign_majors
from tests.factories.make_venv import Venv, install, make_venv, uninstall
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import ROOT, run_envdoctor
from tests.formats.browser import SEEN_AT, Viewed, started
from tests.formats.make_outline import HOSTILE, make_outline
from trainer import curves

PAGES = {
    "lost": ("check", ".venv"),
    "contested": ("check", "contested"),
    "well": ("check", "well"),
    "incident": ("check", "incident"),
    "diff": ("diff", "well", "contested"),
    "impact": ("impact", "remove", "nvidia-nccl-cu12", "--venv", "contested"),
    "cache": ("cache", "status", "well"),
    "history": ("history", "well"),
    "fleet": ("fleet", "check", "--files", "n1.json", "n2.json", "n3.json"),
    "far": ("diff", "well", "other"),
}
TEXTS_OUTSIDE = """[...document.querySelectorAll("figure svg, svg[role=img]")].flatMap(picture => {
  const frame = picture.getBoundingClientRect();
  return [...picture.querySelectorAll("text")].filter(text => {
    const at = text.getBoundingClientRect();
    return at.left < frame.left - 1 || at.right > frame.right + 1 || at.bottom > frame.bottom + 1;
  }).map(text => text.textContent);
})"""
TEXTS_OVER_TEXTS = """[...document.querySelectorAll("figure svg, svg[role=img]")].flatMap(picture => {
  const texts = [...picture.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
  return texts.flatMap(([one, a], at) => texts.slice(at + 1).filter(([, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3
  ).map(([other]) => `${one} / ${other}`));
})"""
SVG = "{http://www.w3.org/2000/svg}"


def with_cache(root: Path) -> dict[str, str]:
    return {"TORCHINDUCTOR_CACHE_DIR": str(root / "cache")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the incident on a small CUDA stack: well, with two owners of one path, and with that path lost."""
    root = tmp_path_factory.mktemp("pages")
    wheels = make_cuda_wheels(root / "wheels")
    venv = make_venv(root / ".venv", *wheels.all())
    shutil.copytree(venv.prefix, root / "well", symlinks=True)
    incident = Venv(prefix=shutil.copytree(venv.prefix, root / "incident", symlinks=True))
    foreign = make_foreign_majors(root / "cu13", wheels)
    install(incident, *foreign)
    uninstall(incident, *(path.name.partition("-")[0].replace("_", "-") for path in foreign))
    install(venv, wheels.foreign)
    shutil.copytree(venv.prefix, root / "contested", symlinks=True)
    uninstall(venv, "nvidia-nccl-cu13")
    make_venv(root / "other", *(make_wheel(root / "few", f"few-{at}", "1", files={}) for at in range(30)))
    for name, venv in (("n1", "well"), ("n2", "well"), ("n3", "incident")):
        run_envdoctor("fingerprint", venv, "-o", f"{name}.json", folder=root)
    shutil.copytree(root / "well", root / ".envdoctor/well/generations/0001", symlinks=True)
    make_cache.filled(root / "cache")
    for name, words in PAGES.items():
        done = run_envdoctor(*words, "--format", "html", "-o", f"{name}.html", folder=root, extra=with_cache(root))
        assert done.err == ""
    for name in ("first", f"run <b>{HOSTILE[:8]}</b>"):
        (root / name.replace("/", "")).mkdir()
        lines = (json.dumps({"event": "step", "step": at, "loss": 1 / at}) for at in range(1, 9))
        (root / name.replace("/", "") / "metrics.jsonl").write_text("\n".join(lines))
    journals = [str(path.parent) for path in root.glob("*/metrics.jsonl")]
    assert curves.main([*journals, "-o", str(root / "curves.html")]) == 0
    hostile: dict[str, Any] = {"stack": {"libraries": [library(HOSTILE), library("second", asker=HOSTILE)]}}
    clean = HOSTILE.replace("\udce9", "\ufffd").replace("\x00", "\ufffd")
    (root / "hostile.html").write_text(html.render(make_outline(HOSTILE), hostile))
    assert clean != HOSTILE
    return root


def library(name: str, asker: str = "") -> dict[str, Any]:
    return {
        "soname": name,
        "state": "loaded",
        "path": name,
        "owner": name,
        "version": name,
        "cuda_major": None,
        "claimed_by": [name, name + "2"],
        "needed_by": asker or None,
        "asked_by": None,
        "stage": "import",
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started() as browser:
        yield browser


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *((name, "light") for name in (*PAGES, "hostile", "curves")),
        *((name, "dark") for name in ("contested", "hostile", "curves", "cache", "history", "fleet")),
    ],
)
def test_a_page_fetches_nothing_complains_of_nothing_and_passes_axe(
    browser: Any, folder: Path, name: str, scheme: str
) -> None:
    viewed = Viewed(browser, folder / f"{name}.html", scheme)
    assert viewed.requests == [(folder / f"{name}.html").as_uri()]
    assert viewed.axe() == []
    assert viewed.complaints == []
    paper = viewed.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}[scheme]
    viewed.page.close()


def test_axe_finds_what_it_is_there_for(browser: Any, folder: Path) -> None:
    page = html.render(make_outline(), {}).replace("--dim: #565c66", "--dim: #c0c0c0").replace('lang="en"', "")
    (folder / "bad.html").write_text(page)
    rules = {line.partition(":")[0] for line in Viewed(browser, folder / "bad.html").axe()}
    assert rules == {"color-contrast", "html-has-lang"}


def test_cause_owner_and_command_of_the_incident_are_there_without_scrolling(browser: Any, folder: Path) -> None:
    page = Viewed(browser, folder / "incident.html").page
    texts = {}
    for part in ("h2", ".about", "pre.command", "details li"):
        found = page.locator("article").first.locator(part).first
        box = found.bounding_box()
        assert box["x"] >= 0
        assert box["y"] >= 0
        assert box["x"] + box["width"] <= SEEN_AT["width"]
        assert box["y"] + box["height"] <= SEEN_AT["height"]
        texts[part] = found.inner_text()
    names = [f"nvidia-{name}-cu12" for name in SHARED_PATHS]
    title = "files of 4 distributions are missing, each at a path that another wheel writes too"
    assert texts["h2"] == f"error ED201: {title}"
    assert texts[".about"] == f"Owner {', '.join(names)}"
    again = " ".join(f"--reinstall-package {name}" for name in names)
    wanted = " ".join(f"{name}==12.8" for name in names)
    assert texts["pre.command"] == f"uv pip install --python {folder}/incident/bin/python --no-deps {again} {wanted}"
    assert texts["details li"] == (
        "ED301 unresolved-library: import torch fails: libcudnn.so.9: cannot open shared object file: No such file or "
        "directory"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= SEEN_AT["width"]
    page.close()


def test_the_picture_of_that_page_is_small_and_of_that_window() -> None:
    data = (ROOT / "docs/incident.png").read_bytes()
    assert len(data) < 300_000
    assert struct.unpack(">II", data[16:24]) == (SEEN_AT["width"], SEEN_AT["height"])


def test_a_keyboard_goes_from_the_causes_through_the_picture_to_the_owner(browser: Any, folder: Path) -> None:
    viewed = Viewed(browser, folder / "lost.html")
    page = viewed.page
    assert viewed.tabbed(4) == [
        "Skip to the causes",
        "Explains 1 more finding",
        "What `import torch` loads, and whose it is",
        "libtorch_global_deps.so: torch",
    ]
    node = page.get_by_label("libnccl.so.2: missing: nvidia-nccl-cu12")
    node.focus()
    page.keyboard.press("Enter")
    row = page.locator("tr:target")
    assert row.locator("th").inner_text() == "libnccl.so.2"
    assert row.locator("td").first.inner_text() == "nvidia-nccl-cu12"
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", [*PAGES, "curves"])
def test_no_page_is_wider_than_its_window_and_no_text_leaves_its_picture_or_covers_another(
    browser: Any, folder: Path, name: str, width: int
) -> None:
    viewed = Viewed(browser, folder / f"{name}.html", width=width)
    assert viewed.page.evaluate("document.documentElement.scrollWidth") <= width
    assert viewed.page.evaluate(TEXTS_OUTSIDE) == []
    assert viewed.page.evaluate(TEXTS_OVER_TEXTS) == []
    viewed.page.close()


def test_many_differences_are_one_list(browser: Any, folder: Path) -> None:
    page = Viewed(browser, folder / "far.html").page
    heads = [head.inner_text() for head in page.locator("article h2").all()]
    assert "warning diff/packages: 46 findings" in heads
    bundle = page.locator("article").filter(has_text="warning diff/packages")
    assert bundle.locator("details > summary").inner_text() == "21 more"
    assert (bundle.locator("li").count(), bundle.locator("li").first.is_visible()) == (46, True)
    page.close()


@pytest.mark.parametrize(("name", "words"), [("cache", ("cache", "status")), ("history", ("history",))])
def test_where_nothing_is_on_disk_no_empty_picture_is_drawn(folder: Path, name: str, words: tuple[str, ...]) -> None:
    page = run_envdoctor(*words, "other", "--format", "html", folder=folder)
    assert (page.out.count("<figure>"), page.err) == (0, "")
    assert "<figure>" in (folder / f"{name}.html").read_text()
    done = run_envdoctor(*words, "other", "--format", "svg", folder=folder)
    assert (done.code, done.out, done.err.partition(":")[0]) == (2, "", "error")


def test_without_scripts_it_reads_the_same(browser: Any, folder: Path) -> None:
    texts = []
    for scripts in (True, False):
        context = browser.new_context(java_script_enabled=scripts)
        page = context.new_page()
        page.goto((folder / "lost.html").as_uri())
        texts.append(page.locator("body").inner_text())
        context.close()
    assert texts[0] == texts[1]
    assert "libnccl.so.2" in texts[0]


def test_what_a_name_holds_is_shown_and_nothing_else(browser: Any, folder: Path) -> None:
    page = Viewed(browser, folder / "hostile.html").page
    shown = " ".join(HOSTILE.replace("\udce9", "\ufffd").replace("\x00", "\ufffd").split())
    title = shown.replace("`x`", "x")  # code, which has no quotes
    assert page.locator("h2").first.inner_text() == f"error ED201: files are missing: {title}"
    assert page.locator("script, iframe, img").count() == 0
    assert page.locator("[aria-label]").filter(has_text=shown[:12]).first.get_attribute("aria-label") is not None
    page.close()


def boxes(folder: Path, name: str) -> dict[str, tuple[str, int]]:
    """Return soname -> (class of its box, number of owners' colours), of the picture of `check` alone."""
    words = PAGES[name]
    done = run_envdoctor(*words, "--format", "svg", folder=folder)
    found = {}
    for group in ET.fromstring(done.out).iter(f"{SVG}g"):
        rects = [item.get("class", "") for item in group.findall(f"{SVG}rect")]
        label = next(group.iter(f"{SVG}text"))
        title = label.find(f"{SVG}title")
        text = label.text if title is None else title.text
        assert text is not None
        found[text] = (rects[0], len({item for item in rects[1:] if item.startswith("owner-")}))
    return found


@pytest.mark.parametrize(
    ("name", "nccl"), [("lost", ("box error", 1)), ("contested", ("box warning", 2)), ("well", ("box", 1))]
)
def test_the_picture_of_the_import(folder: Path, name: str, nccl: tuple[str, int]) -> None:
    found = boxes(folder, name)
    assert found.pop("libnccl.so.2") == nccl
    assert found.pop("libcuda.so.1") == ("box", 0)  # of a driver, which this machine may or may not have
    assert set(found.values()) == {("box", 1)}
    assert {"libtorch_cuda.so", "libcudnn.so.9", "libcublasLt.so.12", "libtorch_python.so"} <= set(found)


def test_no_box_covers_another_and_all_are_inside(browser: Any, folder: Path) -> None:
    page = Viewed(browser, folder / "lost.html").page
    rects = page.evaluate(
        "[...document.querySelectorAll('figure rect.box')].map(e => e.getBoundingClientRect()).map(r => "
        "[r.left, r.top, r.right, r.bottom])"
    )
    frame = page.evaluate(
        "(r => [r.left, r.top, r.right, r.bottom])(document.querySelector('figure svg').getBoundingClientRect())"
    )
    assert len(rects) > 25
    assert all(a[0] >= frame[0] and a[1] >= frame[1] and a[2] <= frame[2] and a[3] <= frame[3] for a in rects)
    overlapping = [
        (a, b)
        for at, a in enumerate(rects)
        for b in rects[at + 1 :]
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]
    assert overlapping == []
    page.close()


@pytest.mark.parametrize("name", ["lost", "diff", "impact", "cache", "history"])
def test_a_picture_alone_stands_in_any_viewer(browser: Any, folder: Path, name: str) -> None:
    done = run_envdoctor(*PAGES[name], "--format", "svg", "-o", f"{name}.svg", folder=folder, extra=with_cache(folder))
    assert done.err == ""
    root = ET.parse(folder / f"{name}.svg").getroot()
    assert root.tag == f"{SVG}svg"
    assert next(root.iter(f"{SVG}desc")).text
    assert list(root.iter(f"{SVG}a")) == []
    viewed = Viewed(browser, folder / f"{name}.svg", "dark")
    assert (viewed.requests, viewed.complaints) == ([(folder / f"{name}.svg").as_uri()], [])
    viewed.page.close()


def test_without_the_layout_the_page_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    page = html.render(make_outline(), {"stack": {"libraries": [library("libx.so")]}})
    assert (
        "Not drawn: the picture of `import torch` is laid out by igraph, which is not installed; "
        "install envdoctor with it, from its checkout: `uv tool install &#x27;.[html]&#x27;`"
    ) in page
    assert "<svg" not in page.partition('class="legend"')[0].partition("<body>")[2]
