"""What would be published, built from the files that git tracks as they are now."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.factories.run_envdoctor import ROOT

GIVEN = "ENVDOCTOR_TEST_WHEEL"
"""Names a wheel that was built already: `make release` tests what it is about to hand out."""


def tracked_copy(folder: Path) -> Path:
    """Copy every file that git tracks, as it is in the working tree, and return the new folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if not (ROOT / name).is_file():
            continue  # removed, and not committed yet
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def build(source: Path, out: Path) -> list[Path]:
    """Build the source archive and the wheel of `source` into `out`."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", out],
        cwd=source,
        env={"PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
    )
    return sorted(out.iterdir())


def published_wheel(folder: Path) -> Path:
    """Return the wheel to test: the given one, else one built below `folder`."""
    if given := os.environ.get(GIVEN):
        return Path(given)
    return next(path for path in build(tracked_copy(folder / "source"), folder / "out") if path.suffix == ".whl")
