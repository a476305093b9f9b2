"""conda-lock.yml: the part that pip installs, as a PEP 751 document. What conda installs is not a wheel.

Fields as conda-lock's own model of its file format (version 1) names them: `package` is a list of entries with `name`,
`version`, `manager` ("conda" or "pip"), `platform`, `dependencies`, `url`, `hash.sha256`, `category`.
"""

import platform
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from envdoctor.errors import LockError
from envdoctor.model.wording import counted
from envdoctor.standards.names import normalized

_PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le"}
# Of conda's own Python: no lock of wheels has them, and no training code imports them.
_SEEDS = frozenset({"pip", "setuptools", "wheel"})
_SHOWN = 5


def document(text: str, name: str, subdir: str = "") -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the pip part for `subdir` ("linux-64"; empty for this machine's), and notes on the rest.

    Raises LockError where conda installs Python packages: a conda package has no wheel that could be verified or
    restored. Libraries and the interpreter that conda brings are named in a note.
    """
    wanted = subdir or _PLATFORMS.get(platform.machine(), "")
    entries = [entry for entry in _entries(_yaml(text, name), name) if entry.get("platform") == wanted]
    if not entries:
        raise LockError(f"{name}: nothing is locked for {wanted or platform.machine()}", "lock for that platform too")
    by_conda = [entry for entry in entries if entry.get("manager") == "conda"]
    packages = sorted(entry["name"] for entry in by_conda if _is_python_package(entry))
    if packages:
        more = f" and {len(packages) - _SHOWN} more" if len(packages) > _SHOWN else ""
        raise LockError(
            f"{name}: conda installs {counted(len(packages), 'Python package')} of it, which are not wheels: "
            f"{', '.join(packages[:_SHOWN])}{more}",
            "let pip install them (the `pip:` part of environment.yml, and only python from conda), and lock again; "
            "or capture the environment with what it is made of: `conda list --explicit --md5`",
        )
    rest = sorted(entry["name"] for entry in by_conda)
    more = f" and {len(rest) - _SHOWN} more" if len(rest) > _SHOWN else ""
    notes = (f"conda's own packages are not compared: {', '.join(rest[:_SHOWN])}{more}",) if rest else ()
    pip = [_package(entry, name) for entry in entries if entry.get("manager") == "pip"]
    return {"lock-version": "1.0", "created-by": "conda-lock", "packages": pip}, notes


def _is_python_package(entry: Mapping[str, Any]) -> bool:
    needed = entry.get("dependencies") or {}
    return entry["name"] not in _SEEDS and any(name in needed for name in ("python", "python_abi"))


def _package(entry: Mapping[str, Any], lock: str) -> dict[str, Any]:
    digest, url = (entry.get("hash") or {}).get("sha256"), str(entry.get("url", ""))
    if not digest:
        raise LockError(f"{lock}: {entry['name']} has no sha256", "lock again")
    file = {"url": url.partition("#")[0], "hashes": {"sha256": digest}}
    kind = {"wheels": [file]} if urlsplit(url).path.endswith(".whl") else {"sdist": file}
    return {"name": normalized(entry["name"]), "version": str(entry.get("version", "")), **kind}


def _entries(data: Any, lock: str) -> Iterator[Mapping[str, Any]]:
    rows = data.get("package") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not isinstance(data, dict) or data.get("version") != 1:
        raise LockError(f"{lock}: not a conda-lock file of version 1", "lock again: `conda-lock`")
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise LockError(f"{lock}: package[{at}] has no name", "lock again: `conda-lock`")
        if row.get("category", "main") == "main":
            yield row


def _yaml(text: str, name: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 - an extra: nothing else here is YAML
    except ImportError:
        raise LockError(
            f"{name}: reading it needs PyYAML",
            "install envdoctor with it, from its checkout: `uv tool install '.[conda-lock]'`",
        ) from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise LockError(f"{name}: not YAML: {error}", "lock again: `conda-lock`") from error
