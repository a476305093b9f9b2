"""Certificates that an operator appended to a bundle of a distribution (certifi), kept when that is installed again."""

from collections.abc import Collection, Iterable
from pathlib import Path

from envdoctor.analysis.damage import is_longer_bundle
from envdoctor.probes.venv.installed_files import FileFault


def longer_bundles(faults: Iterable[FileFault], names: Collection[str]) -> tuple[str, ...]:
    """Return the bundles of these distributions that are longer than published, relative to the venv."""
    return tuple(
        fault.path
        for fault in faults
        if fault.owner in names and not fault.path.startswith("/") and is_longer_bundle(fault)
    )


def carry_appended(venv: Path, copy: Path, paths: Collection[str]) -> None:
    """Append to each bundle of the copy what the venv's has beyond it; a link to uv's cache is replaced."""
    for path in paths:
        old, at = (venv / path).read_bytes(), copy / path
        if not at.is_file():
            continue
        new = at.read_bytes()
        mode = at.stat().st_mode
        at.unlink()
        at.write_bytes(old if old.startswith(new) else new + b"\n" + old[len(new) :])
        at.chmod(mode)
