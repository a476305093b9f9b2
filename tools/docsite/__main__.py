"""`python -m tools.docsite [FOLDER]` builds the site into build/site-docs: what `make site` runs.

The pages are docs/*.md and the others of the repository as they are, laid out as in the repository, so that each link
between them leads where it does there; commands and documents are made from the program. A warning of Sphinx is an
error, and so is a link within the site that leads nowhere. Nothing is fetched, neither here nor by who reads it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.docsite import pages
from tools.docsite.links import broken_links

ROOT = Path(__file__).resolve().parents[2]
ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="This page">',
    '<aside class="toc-drawer no-toc">': '<aside class="toc-drawer no-toc" aria-label="This page">',
}
"""What a page of the theme has -> what axe-core asks for in its place."""
OUT = ROOT / "build/site-docs"
# Caption -> pages in their order; a page of docs/ that is nowhere here comes at the end of the guide.
GUIDE = (
    "Start <README>",
    "docs/formats",
    "docs/ci",
    "docs/gate",
    "docs/locks",
    "docs/capture",
    "docs/restore",
)
SYMPTOMS = ("docs/symptoms", "docs/cases")
REFERENCE = ("docs/checks/README", "commands/index", "docs/profiles", "docs/json", "documents/index", "docs/api")
MORE_REFERENCE = ("docs/exit-codes", "docs/config", "docs/glossary")
PROJECT = ("docs/scope", "docs/security", "SECURITY", "docs/figures", "docs/architecture", "CONTRIBUTING", "CHANGELOG")


def main(arguments: list[str]) -> int:
    """Build the site; return the exit code of Sphinx, 1 for dead links, 2 for a folder of something else."""
    out = Path(arguments[0]).resolve() if arguments else OUT
    if out != OUT and out.exists() and not _is_replaceable(out):
        print(f"error: {out} is neither empty nor a site that this wrote: it is not replaced", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary, "source")
        assemble(source)
        shutil.rmtree(out, ignore_errors=True)
        words = ["-q", "-W", "--keep-going", "-E", "-j", "1", "-b", "html", "-c", str(ROOT / "tools/docsite")]
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", *words, "-d", str(Path(temporary, "doctrees")), str(source), str(out)],
            check=False,
        )
    if done.returncode:
        return done.returncode
    for path in out.rglob("*.html"):
        path.write_text(accessible(path.read_text(encoding="utf-8")), encoding="utf-8")
    for broken in broken_links(out):
        print(f"error: {broken}", file=sys.stderr)
        done.returncode = 1
    if not done.returncode:
        print(f"{len(list(out.rglob('*.html')))} pages: {out / 'index.html'}")
    return done.returncode


def _is_replaceable(folder: Path) -> bool:
    """Tell whether a folder holds nothing that is lost: it is empty, or what Sphinx wrote."""
    return folder.is_dir() and ((folder / ".buildinfo").is_file() or not any(folder.iterdir()))


def accessible(page: str) -> str:
    """Return a page with what Sphinx and its theme leave to be added for a screen reader (axe-core's rules)."""
    for lacking, whole in ACCESSIBLE.items():
        page = page.replace(lacking, whole)
    return page


def assemble(source: Path) -> None:
    """Lay out what Sphinx reads: the pages of the repository, what they link, and those made from the program."""
    named = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "trainer/README.md"]
    listed = [ROOT / name for name in named] + sorted((ROOT / "docs").rglob("*"))
    linked = {target for page in listed if page.suffix == ".md" for target in _linked_files(page)}
    for path in filter(Path.is_file, {*listed, *linked}):
        place = source / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    made = {"commands": pages.commands(), "documents": pages.documents()}
    for folder, texts in made.items():
        (source / folder).mkdir()
        for name, text in texts.items():
            (source / name).write_text(text, encoding="utf-8")
        rows = [f"- [{_title(text)}]({Path(name).name})" for name, text in texts.items()]
        (source / folder / "index.md").write_text("\n".join([f"# {folder.capitalize()}\n", *rows]) + "\n")
    placed = {*GUIDE, *SYMPTOMS, *REFERENCE, *MORE_REFERENCE, *PROJECT}
    others = sorted({f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")} - placed)
    (source / "index.md").write_text(
        "# envdoctor\n\n"
        "envdoctor finds out why a PyTorch environment is broken, without importing torch, and rebuilds the stack that "
        "worked.\n\n"
        "- You have an **error text**: [symptoms](docs/symptoms.md), or the search at the left.\n"
        "- You have a **code** (ED201): [checks](docs/checks/README.md).\n"
        "- You start: [the guide](README.md).\n\n"
        "![The page of an incident: its cause, the owner of the files, and the fix](docs/incident.png)\n\n"
        + _tree("Guide", [*GUIDE, *others])
        + _tree("How-to by symptom", SYMPTOMS)
        + _tree("Reference", [*REFERENCE, *MORE_REFERENCE])
        + _tree("Project", [*PROJECT, "trainer/README"]),
        encoding="utf-8",
    )


def _linked_files(page: Path) -> Iterator[Path]:
    for target in re.findall(r"\]\(([^)#:\s]+)\)", page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve()
        if path.is_file() and path.is_relative_to(ROOT) and path.suffix != ".md":
            yield path


def _title(text: str) -> str:
    return next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))


def _tree(caption: str, names: Iterable[str]) -> str:
    return "```{toctree}\n" + "\n".join([f":caption: {caption}", ":hidden:", ":maxdepth: 1", "", *names]) + "\n```\n\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
