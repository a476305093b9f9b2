"""`python -m tools.check_pages FOLDER` writes a page a check, and symptoms.md beside it: `make docs`."""

import sys
from pathlib import Path

from envdoctor.app.checks import all_rules
from envdoctor.app.explain import all_symptoms
from envdoctor.report import symptom_pages
from envdoctor.report.rule_pages import pages


def write(folder: Path) -> None:
    """Make `folder` hold exactly the pages of today's checks, and the page of error texts beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages(all_rules())
    for stale in folder.glob("*.md"):
        if stale.name not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder.parent / "symptoms.md").write_text(symptom_pages.as_page(all_symptoms()), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
