"""What lies in a copy of a venv where folders of a distribution should be, and must go before uv touches it."""

import csv
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from envdoctor.swap.installed import site_packages


def clear_folders(venv: Path, names: Collection[str]) -> None:
    """Unlink each file or link that is where the RECORDs of these distributions have a folder.

    uv stops at a file and at a link to nowhere; through a link out of the venv it would delete files that are
    somebody's own. Only the link goes, and a link to another folder of the venv stays.
    """
    site = site_packages(venv)
    if site is None:
        return
    root = os.path.realpath(venv) + os.sep
    for folder in sorted(set(_folders(site, names))):
        inside = folder.is_dir() and os.path.realpath(folder).startswith(root)
        if not inside and (folder.is_symlink() or folder.is_file()):
            folder.unlink()


def _folders(site: Path, names: Collection[str]) -> Iterator[Path]:
    """Yield every folder below `site` that the RECORDs name."""
    for info in site.glob("*.dist-info"):
        if canonicalize_name(info.name.removesuffix(".dist-info").rpartition("-")[0]) not in names:
            continue
        try:
            rows = list(
                csv.reader((info / "RECORD").read_text(encoding="utf-8", errors="surrogateescape").splitlines())
            )
        except (OSError, csv.Error):
            continue  # without a RECORD that can be read uv removes nothing
        for row in rows:
            path = Path(os.path.normpath(site / row[0])) if row else site
            yield from (folder for folder in path.parents if site in folder.parents)
