"""Writing a PEP 751 lock. Read back by packaging before it is handed on, so that what is written is valid."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import tomli_w
from packaging.pylock import Pylock
from packaging.utils import canonicalize_name

from envdoctor.model.frozen import frozen
from envdoctor.standards.lock import Lock, LockedPackage

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
Form = Literal["requirements", "pylock"]
"""How a lock is written."""


@frozen
class LockedWheel:
    """A distribution and the one wheel that it is."""

    name: str
    version: str
    filename: str
    sha256: str
    size: int | None = None
    url: str = ""
    """Without user and password."""
    path: str = ""
    """Relative to the lock, for a wheel that is beside it."""
    index: str = ""
    """The simple index that has it; empty for a folder of wheels."""


def document(wheels: Iterable[LockedWheel], python: str, machine: str) -> dict[str, Any]:
    """Return the lock of captured wheels, for the one Python and machine they were captured on."""
    return {
        "lock-version": "1.0",
        "environments": [
            f"sys_platform == 'linux' and platform_machine == '{machine}' and implementation_name == 'cpython'"
        ],
        "requires-python": f"=={python}.*",
        "created-by": "envdoctor",
        "packages": [package_of(wheel) for wheel in sorted(wheels, key=lambda wheel: wheel.name)],
    }


def text_of(made: Mapping[str, Any], comment: str = "") -> str:
    """Return the document as TOML. packaging refuses one that is malformed: that would be a defect of ours."""
    Pylock.from_dict(made).validate()
    # TOML allows no control character in a comment but the tab.
    head = "".join(f"# {_CONTROL.sub('', line)}".rstrip() + "\n" for line in comment.splitlines())
    return head + tomli_w.dumps(made)


def narrowed(resolved: Mapping[str, Any], lock: Lock) -> dict[str, Any]:
    """Return a resolver's document with the packages, wheels and markers of the lock that was made of it."""
    packages: list[dict[str, Any]] = []
    for locked in lock.packages:
        for entry in resolved["packages"]:
            if (canonicalize_name(entry["name"]), str(entry["version"])) != (locked.name, locked.version):
                continue
            wheels = [wheel for wheel in entry.get("wheels", ()) if wheel["hashes"].get("sha256") in locked.hashes]
            kept = {key: entry[key] for key in ("name", "version", "requires-python", "index") if key in entry}
            packages.append({**kept, **({"marker": locked.marker} if locked.marker else {}), "wheels": wheels})
            break
    return {"lock-version": "1.0", "created-by": "envdoctor", "packages": packages}


def preferences(packages: Iterable[LockedPackage]) -> str:
    """Return pins as a document for a resolver to start from; its wheels are named, but lie nowhere."""
    entries = []
    for package in packages:
        filename = f"{package.name.replace('-', '_')}-{package.version}-py3-none-any.whl"
        wheel = {"name": filename, "path": filename, "hashes": {"sha256": package.hashes[0]}}
        entries.append({"name": package.name, "version": package.version, "wheels": [wheel]})
    return tomli_w.dumps({"lock-version": "1.0", "created-by": "envdoctor", "packages": entries})


def package_of(wheel: LockedWheel) -> dict[str, Any]:
    """Return the entry of one wheel."""
    entry: dict[str, Any] = {"name": wheel.filename}
    entry |= {"path": wheel.path} if wheel.path else {"url": wheel.url}
    entry |= {"size": wheel.size} if wheel.size else {}
    index = {"index": wheel.index} if wheel.index else {}
    return {
        "name": wheel.name,
        "version": wheel.version,
        **index,
        "wheels": [{**entry, "hashes": {"sha256": wheel.sha256}}],
    }
