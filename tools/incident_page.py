"""Takes docs/incident.png: the page of `check --format html` on the incident, as a window of 1280 x 800 shows it.

    .venv-test/bin/python tools/incident_page.py

The stack is made for it: a small torch and its CUDA libraries under their real names; the four paths that another CUDA
major's wheels write too were deleted when those were uninstalled. Chromium is the distribution's; nothing is fetched.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.factories.make_cuda_stack import make_cuda_wheels, make_foreign_majors  # noqa: E402 - of this checkout
from tests.factories.make_venv import install, make_venv, uninstall  # noqa: E402
from tests.factories.run_envdoctor import run_envdoctor  # noqa: E402
from tests.formats.browser import SEEN_AT, started  # noqa: E402


def main() -> None:
    """Make the incident, its page, and the picture of the page."""
    with tempfile.TemporaryDirectory() as temporary, started() as browser:
        folder = Path(temporary, "dflash")
        wheels = make_cuda_wheels(folder / "wheels")
        venv = make_venv(folder / ".venv", *wheels.all())
        foreign = make_foreign_majors(folder / "cu13", wheels)
        install(venv, *foreign)
        uninstall(venv, *(path.name.partition("-")[0].replace("_", "-") for path in foreign))
        run_envdoctor("check", "--format", "html", "-o", "page.html", folder=folder)
        page = browser.new_page(viewport=SEEN_AT)
        text = (folder / "page.html").read_text().replace(str(folder), "/srv/dflash")
        (folder / "page.html").write_text(text)
        page.goto((folder / "page.html").as_uri())
        page.screenshot(path=ROOT / "docs/incident.png")


if __name__ == "__main__":
    main()
