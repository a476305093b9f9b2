"""Certificates that an operator added to a bundle of a distribution (certifi), kept when that is installed again."""

import base64
import binascii
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from envdoctor.analysis.damage import is_longer_bundle
from envdoctor.errors import RestoreError
from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.installed_files import FileFault
from envdoctor.stack.repair_plan import Changes

_MAXIMUM = 64 << 20
_BEGIN, _END = b"-----BEGIN ", b"-----END "
# What certifi writes above each certificate that it publishes (its own bundle is made by a program).
_PUBLISHED = b"# SHA256 Fingerprint: "


@frozen
class LongerBundle:
    """A bundle that is longer than published."""

    path: str
    """Relative to the venv."""
    same_version: bool
    """The version that is there is installed again."""

    @property
    def told(self) -> str:
        """Say which of its certificates are kept."""
        mark = _PUBLISHED.decode().strip()
        but = f", but for those marked `{mark}`, as published ones are, that the new one lacks"
        but = "" if self.same_version else but
        return f"{self.path}: certificates that were added are kept{but}; published ones that were deleted come back"


def longer_bundles(venv: Path, faults: Iterable[FileFault], changes: Changes) -> tuple[LongerBundle, ...]:
    """Return the bundles that are longer than published, of the distributions that change.

    Raises RestoreError for one that is no list of whole certificates: which are the operator's is not known then.
    """
    same = {item.name: False for item in changes.removals}
    same |= {item.name: item.before == item.version for item in changes.reinstalls}
    found: dict[str, bool] = {}
    for fault in faults:
        if fault.owner in same and not fault.path.startswith("/") and is_longer_bundle(fault):
            _certificates(venv / fault.path)
            # Of two owners, the one that is installed again writes it.
            found[fault.path] = found.get(fault.path, False) or same[fault.owner]
    return tuple(LongerBundle(path=path, same_version=version) for path, version in found.items())


def carry_added(venv: Path, copy: Path, bundles: Iterable[LongerBundle]) -> None:
    """Append to each bundle of the copy the certificates that only the venv's has. Raises RestoreError."""
    for bundle in bundles:
        at = copy / bundle.path
        if not at.is_file():
            continue
        old, new = _certificates(venv / bundle.path), _certificates(at)
        lacking = [text for key, text in old.items() if key not in new]
        if not bundle.same_version:
            # What the former version published and this one lacks was withdrawn.
            lacking = [text for text in lacking if _PUBLISHED not in text]
        if lacking:
            content = read_regular(at, _MAXIMUM).rstrip(b"\n") + b"\n\n" + b"\n".join(lacking)
            write_whole(at, content, stat.S_IMODE(at.stat().st_mode), exact=True)


def _certificates(path: Path) -> Mapping[bytes, bytes]:
    """Return the content of each certificate -> its lines, with the comment above it."""
    found: dict[bytes, bytes] = {}
    comment: list[bytes] = []
    block: list[bytes] = []
    number = 0
    for number, raw in enumerate(read_regular(path, _MAXIMUM).splitlines(), 1):
        line = raw.strip()
        if line.startswith(_BEGIN):
            if block:
                raise _refusal(path, number)
            block = [line]
        elif line.startswith(_END):
            if not block or block[0][len(_BEGIN) :] != line[len(_END) :]:
                raise _refusal(path, number)
            found[_decoded(block[1:], path, number)] = b"\n".join((*comment, *block, line, b""))
            comment, block = [], []
        elif block:
            block.append(line)
        else:
            comment = [*comment, line] if line.startswith(b"#") else []
    if block or not found:
        raise _refusal(path, number)
    return found


def _decoded(lines: Iterable[bytes], path: Path, number: int) -> bytes:
    try:
        content = base64.b64decode(b"".join(lines), validate=True)
    except binascii.Error:
        raise _refusal(path, number) from None
    if not content:
        raise _refusal(path, number)
    return content


def _refusal(path: Path, number: int) -> RestoreError:
    return RestoreError(
        f"{path} is longer than published, and line {number} ends no whole certificate: which of them were added "
        "could not be determined",
        f"keep what you added in a file of its own, and remove {path}; then run this again",
    )
