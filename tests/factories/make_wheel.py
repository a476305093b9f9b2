"""Real wheels, written with zipfile: valid by default, wrong in exactly the way a test asks for."""

import base64
import csv
import hashlib
import io
import stat
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

EPOCH = (2026, 1, 1, 0, 0, 0)


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    files: Mapping[str, bytes | str] | None = None,
    requires: Iterable[str] = (),
    tag: str = "py3-none-any",
    build_tag: str = "",
    scripts: Mapping[str, str] | None = None,
    metadata_lines: Iterable[str] = (),
    record_says: Mapping[str, str | None] | None = None,
    record_sizes: Mapping[str, int] | None = None,
    symlinks: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel into `folder` and return its path.

    files: path inside the wheel -> content; default is one module `<name>/__init__.py` that states the version.
    scripts: console script name -> "module:function".
    record_says: path -> RECORD's hash field for it ("sha256=…"; None leaves the row out), for wheels that lie.
    record_sizes: path -> the size RECORD states for it.
    symlinks: path -> link target, stored as zip symlink members (uv refuses such wheels).
    """
    module = name.replace("-", "_").replace(".", "_")
    escaped = version.replace("-", "_")
    info = f"{module}-{escaped}.dist-info"
    members: dict[str, bytes] = {
        path: content.encode() if isinstance(content, str) else content
        for path, content in (files or {f"{module}/__init__.py": f"__version__ = {version!r}\n"}).items()
    }
    members[f"{info}/METADATA"] = _metadata(name, version, requires, metadata_lines)
    members[f"{info}/WHEEL"] = _wheel_file(tag)
    if scripts:
        lines = [f"{script} = {target}" for script, target in scripts.items()]
        members[f"{info}/entry_points.txt"] = ("[console_scripts]\n" + "\n".join(lines) + "\n").encode()
    members[f"{info}/RECORD"] = _record(members, f"{info}/RECORD", record_says or {}, record_sizes or {})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "-".join(part for part in (module, escaped, build_tag, tag) if part)
    path = path.with_name(path.name + ".whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(_entry(member, 0o644), content)
        for member, target in (symlinks or {}).items():
            archive.writestr(_entry(member, 0o777, stat.S_IFLNK), target)
    return path


def sha256(path: Path) -> str:
    """Return the hex sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lock_text(*wheels: Path, hashes: Mapping[str, str] | None = None) -> str:
    """Return a lock of these wheels; `hashes` overrides the digest of a distribution by its name."""
    rows: dict[tuple[str, str], list[str]] = {}
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        digest = (hashes or {}).get(name.replace("_", "-")) or sha256(wheel)
        rows.setdefault((name.replace("_", "-").lower(), version), []).append(digest)
    lines = [
        f"{name}=={version} \\\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in digests)
        for (name, version), digests in sorted(rows.items())
    ]
    return "\n".join(lines) + "\n"


def record_hash(content: bytes) -> str:
    """Return RECORD's hash field ("sha256=<urlsafe base64, no padding>")."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _metadata(name: str, version: str, requires: Iterable[str], lines: Iterable[str]) -> bytes:
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    return ("\n".join([*head, *lines, *(f"Requires-Dist: {item}" for item in requires)]) + "\n").encode()


def _wheel_file(tag: str) -> bytes:
    pythons, abis, platforms = tag.split("-")
    tags = [f"Tag: {p}-{a}-{s}" for p in pythons.split(".") for a in abis.split(".") for s in platforms.split(".")]
    pure = "true" if tag.endswith("-none-any") else "false"
    head = ["Wheel-Version: 1.0", "Generator: envdoctor-tests", f"Root-Is-Purelib: {pure}"]
    return ("\n".join([*head, *tags]) + "\n").encode()


def _record(
    members: Mapping[str, bytes], record: str, says: Mapping[str, str | None], sizes: Mapping[str, int]
) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path, content in members.items():
        field = says.get(path, record_hash(content))
        if field is not None:
            writer.writerow([path, field, sizes.get(path, len(content))])
    writer.writerow([record, "", ""])
    return text.getvalue().encode()


def _entry(path: str, mode: int, kind: int = stat.S_IFREG) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (kind | mode) << 16
    return entry
