"""`python -m envdoctor.cli.check_pages FOLDER` writes one page a check: what `make docs` runs."""

import sys
from pathlib import Path

from envdoctor.app.checks import all_rules
from envdoctor.report.rule_pages import pages


def write(folder: Path) -> None:
    """Make `folder` hold exactly the pages of today's checks."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages(all_rules())
    for stale in folder.glob("*.md"):
        if stale.name not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
