"""The `cache` commands' results as text."""

import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from envdoctor.cache.manifest import Manifest
from envdoctor.cache.restore import Merged
from envdoctor.cache.status import RootStatus, Status
from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.model.wording import counted
from envdoctor.report.style import printable

_HEADLINES = {
    "hit": "will hit",
    "partial": "will hit in part",
    "miss": "will miss",
    "cold": "is cold",
    "unknown": "may hit or miss: could not tell",
}
_MOST_DAMAGED = 10


def status_text(status: Status, target: str, profile: str = "", asked: str = "") -> str:
    """Return what `cache status` prints; `asked` is the profile as the user named it."""
    return "\n".join(_status_lines(status, target, profile, asked)) + "\n"


def _status_lines(status: Status, target: str, profile: str, asked: str) -> Iterator[str]:
    named = f" (profile {profile})" if profile else ""
    # A second reason of a hit is what was not proven.
    condition = ", if this environment filled it" if status.state == "hit" and status.reasons[1:] else ""
    yield f"The compile cache of {target}{named} {_HEADLINES[status.state]}{condition}"
    for reason in status.reasons:
        yield printable(f"  - {reason}")
    yield ""
    for root in status.roots:
        if root.files or root.kind in PORTABLE:
            yield from _root_lines(root)
    if status.damaged:
        yield ""
        yield f"Damaged entries ({len(status.damaged)}), removed one by one with `envdoctor cache gc --damaged`:"
        for entry in status.damaged[:_MOST_DAMAGED]:
            yield printable(f"  {entry.root}/{entry.entry}: {entry.reason}")
        if len(status.damaged) > _MOST_DAMAGED:
            yield f"  and {len(status.damaged) - _MOST_DAMAGED} more"
    if status.warnings:
        yield ""
        yield from (f"Against the profile: {warning}" for warning in status.warnings)
    yield ""
    how = "read from files and asked of torch" if status.live else "read from files, nothing was run"
    yield f"Key {status.key_digest} ({how})"
    if status.match:
        manifest = status.match.manifest
        yield f"Compared with {manifest.name}, {manifest.made_at}, key {manifest.key_digest}"
    if hint := _hint(status, asked):
        yield ""
        yield f"hint: {hint}"


def _root_lines(root: RootStatus) -> Iterator[str]:
    if not root.present:
        yield printable(f"{root.kind}: {root.path} ({root.found_via}) is absent")
    else:
        where = f" on {root.filesystem}" if root.filesystem else ""
        newest = f", newest {when(root.newest)}" if root.newest else ""
        size = f"{megabytes(root.bytes)} in {counted(root.files, 'file')}"
        yield printable(f"{root.kind}: {root.path} ({root.found_via}){where}: {size}{newest}")
        if root.entries:
            yield f"  {entries(root.entries)}"
    yield from (printable(f"  warning: {warning}") for warning in root.warnings)


def _hint(status: Status, asked: str) -> str:
    named = f" --profile {shlex.quote(asked)}" if asked else ""
    if status.state in ("cold", "miss"):
        how = "" if named else ", for a profile (`envdoctor profiles` lists them)"
        return f"`envdoctor cache restore NAME{named}` fills it, or `envdoctor cache warm{named}`{how}"
    if status.state == "unknown" and not status.live:
        return f"`envdoctor cache status{named} --live` asks the venv's torch; a warm-up or a restore leaves a manifest"
    return ""


def merged_text(manifest: Manifest, merged: Merged) -> str:
    """Return what `cache restore` prints."""
    kept = merged.count("present") + merged.count("newer kept")
    done = (
        f"Restored {manifest.name}: {merged.count('added')} files added, {merged.count('replaced')} replaced, "
        f"{kept} left as they were ({merged.count('newer kept')} of them newer), {megabytes(manifest.bytes)}\n"
    )
    moved = f"{merged.relocated} Triton group files name the folder of this machine now\n" if merged.relocated else ""
    roots = sorted({file.root for file in manifest.files})
    where = "".join(f"  {root}: {merged.manifest.folders[root]}\n" for root in roots if root in merged.manifest.folders)
    return done + where + moved


def entries(kinds: Mapping[str, int]) -> str:
    """Return "12 fx graph, 3 c++ kernel"."""
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


def megabytes(size: int) -> str:
    """Return a size in MB, with one decimal below ten, and in GB from there on."""
    if size >= 1_000_000_000:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.1f} MB" if size < 10_000_000 else f"{size / 1e6:.0f} MB"


def when(seconds: int) -> str:
    """Return a time as UTC to the minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
