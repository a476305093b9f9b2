"""A file whose bytes are not the recorded ones, although its size is.

What it finds:
    With `--deep`: files of the size their RECORD states whose hash is another. Where the file is one that uv linked
    from its cache, it says so: the cache holds the altered bytes too.

Why it matters:
    A hot fix edited into site-packages, a failing disk, a torn write: the import goes on and does something else. uv
    links files from its cache, so an edit in place changes the cache and every venv linked from it, before or after,
    and `--reinstall`, offline or from local wheels, links the altered bytes again without a word.

Example:
    `torch/fx/_symbolic_trace.py` was patched in place; a fresh venv from the same hashed lock has the patch too.

Fix:
    Clean the distribution out of uv's cache first (`uv cache clean NAME`), then force-reinstall it.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.damage import file_tokens, listed
from envdoctor.analysis.remedies import reinstall_command, restore_or, through_cache
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.deep_files import AlteredFile, DeepFiles
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED207"
NAME = "altered-contents"
AREA = "Installed files"


def deep_files(case: CheckContext) -> DeepFiles:
    """Return what `--deep` found; raise DoesNotApplyError where it was not asked for."""
    asked = any(gap.section == DeepFiles.__name__ for gap in case.facts.unread)
    if case.facts.get(DeepFiles) is None and not asked:
        raise DoesNotApplyError("contents were not hashed; `--deep` does it")
    return case.facts[DeepFiles]


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution with altered files."""
    by_owner: dict[str, list[AlteredFile]] = {}
    for item in deep_files(case).altered:
        by_owner.setdefault(item.owner, []).append(item)
    for owner, items in sorted(by_owner.items()):
        yield _finding(case, owner, items)


def _finding(case: CheckContext, owner: str, items: list[AlteredFile]) -> Finding:
    installed = case.facts[Distributions].active(owner)
    version = installed.version if installed else ""
    cached = [item for item in items if item.cached_at]
    paths = [item.path for item in items]
    # A launcher is rewritten by tools that move a venv; no import reads it.
    only_scripts = all(path.startswith("bin/") for path in paths)
    also = ", and so do those in uv's cache" if cached else ""
    verb = counted(len(items), "file", "holds", "hold")
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning" if only_scripts else "error",
        confidence="high",
        title=f"{owner} {version}: {verb} other bytes than RECORD says, at the recorded size{also}",
        subject=owner,
        evidence=tuple(_evidence(items)),
        remediation=_remedy(case, (owner, version), cached=bool(cached)),
        causes=(*(token for path in paths for token in (*file_tokens(path), f"bytes:{path}")), f"dist:{owner}"),
    )


def _evidence(items: list[AlteredFile]) -> Iterator[str]:
    first = items[0]
    yield f"altered: {listed(item.path for item in items)}"
    yield f"{first.path}: RECORD says {first.recorded}, the file has {first.found}"
    cached = [item for item in items if item.cached_at]
    if cached:
        yield f"the same file as {cached[0].cached_at} ({counted(cached[0].links, 'link')}): edited in place"
    elif first.links > 1:
        yield f"the file has {counted(first.links, 'link')}: whatever shares it holds the altered bytes too"


def _remedy(case: CheckContext, pin: tuple[str, str], *, cached: bool) -> Remediation:
    reinstall = reinstall_command(case, [pin])
    if cached:
        return through_cache(case, [pin], [reinstall])
    return restore_or(case, f"force-reinstall {pin[0]}; a plain install changes nothing", [reinstall])
