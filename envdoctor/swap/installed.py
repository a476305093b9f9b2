"""What a venv holds now, from its dist-info folders; nothing of it is imported or run."""

import json
from pathlib import Path

from packaging.utils import canonicalize_name

from envdoctor.model.frozen import frozen


@frozen
class Installed:
    """One installed distribution."""

    name: str
    """Normalized."""
    version: str
    note: str = ""
    """"editable from file:///…" or "from <url>" when it did not come from an index."""


def site_packages(venv: Path) -> Path | None:
    """Return the venv's site-packages; of several (left behind by another Python) the one that pyvenv.cfg names."""
    found = sorted((venv / "lib").glob("python3.*/site-packages"))
    if len(found) < 2:
        return found[0] if found else None
    stated = version_of(venv)
    minor = ".".join(stated.split(".")[:2])
    return next((path for path in found if path.parent.name == f"python{minor}"), found[-1])


def version_of(venv: Path) -> str:
    """Return the Python version that pyvenv.cfg states; empty when there is none."""
    try:
        lines = (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    values = {key.strip().lower(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    return values.get("version_info") or values.get("version") or ""


def installed(venv: Path) -> dict[str, Installed]:
    """Return normalized name -> what is installed in the venv's own site-packages."""
    site = site_packages(venv)
    if site is None:
        return {}
    found: dict[str, Installed] = {}
    for info in site.iterdir() if site.is_dir() else ():
        if info.suffix in (".dist-info", ".egg-info"):
            headers = _headers(info)
            if name := headers.get("name"):
                normal = canonicalize_name(name)
                found[normal] = Installed(name=normal, version=headers.get("version", ""), note=_origin(info))
    return dict(sorted(found.items()))


def _headers(info: Path) -> dict[str, str]:
    """Return the metadata's first value of each header, by its name in small letters; none when it cannot be read."""
    egg = info.suffix == ".egg-info"
    found: dict[str, str] = {}
    try:
        with (info if egg and info.is_file() else info / ("PKG-INFO" if egg else "METADATA")).open("rb") as file:
            # What follows the first blank line is the project's README, often a hundred times as long.
            for line in file:
                if not line.strip():
                    break
                key, _, value = line.decode("utf-8", "replace").partition(":")
                found.setdefault(key.lower(), value.strip())
    except OSError:
        return {}
    return found


def _origin(info: Path) -> str:
    try:
        text = (info / "direct_url.json").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    try:
        told = json.loads(text)
        url = str(told["url"])
        editable = bool(told.get("dir_info", {}).get("editable", False))
    except (ValueError, KeyError, TypeError, AttributeError):
        return "from an unreadable direct_url.json"
    return f"editable from {url}" if editable else f"from {url}"
