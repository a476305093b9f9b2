"""A RECORD row that leads out of the environment.

What it finds:
    RECORD rows whose path is absolute, climbs out with `..`, or goes through a folder that is a link out. A link that
    leads nowhere is an error: nothing of what RECORD lists below it is there.

Why it matters:
    An uninstall deletes what RECORD lists: such a row makes it delete files that are not the distribution's. envdoctor
    never reads, hashes or removes them.

Example:
    A RECORD row `../../../../../home/me/.bashrc,sha256=…,120`; `site-packages/plain`, a link to a folder that is gone.

Fix:
    Do not uninstall it with pip or uv: rebuild the venv without it. Remove a link that leads nowhere, then reinstall:
    uv stops at such a link.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import Case
from envdoctor.analysis.damage import file_tokens, listed, site_relative
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles, LinkOut

CODE = "ED204"
NAME = "record-leads-outside"
AREA = "Installed files"
_SHOWN = 6


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for each distribution with such rows, or with a link that leads nowhere."""
    rows: dict[str, list[str]] = {}
    for owner, path in case.facts[InstalledFiles].outside:
        rows.setdefault(owner, []).append(path)
    links: dict[str, list[LinkOut]] = {}
    for link in case.facts[InstalledFiles].links_out:
        links.setdefault(link.owner, []).append(link)
    for owner, paths in sorted(rows.items()):
        found = links.get(owner, [])
        dead = [link for link in found if not link.reaches]
        yield _dead_link(case, owner, paths, dead) if dead else _outside(case, owner, paths, found)


def _outside(case: Case, owner: str, paths: list[str], links: list[LinkOut]) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"RECORD of {owner} lists {counted(len(paths), 'path')} outside the environment",
        subject=owner,
        evidence=(*map(_shown, links), *(repr(path) for path in sorted(paths)[:_SHOWN])),
        remediation=restore_or(
            case,
            f"rebuild the venv without uninstalling {owner} from it: an older installer may delete those paths",
            [],
        ),
    )


def _dead_link(case: Case, owner: str, paths: list[str], links: list[LinkOut]) -> Finding:
    item = case.facts[Distributions].active(owner)
    version = item.version if item else ""
    files = counted(len(paths), "file")
    full = [link.path if link.path.startswith("/") else f"{case.facts.target}/{link.path}" for link in links]
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{owner} {version}: {files} missing behind {_shown(links[0])}",
        subject=owner,
        evidence=(*map(_shown, links[1:]), f"missing: {listed(sorted(paths))}"),
        remediation=restore_or(
            case,
            "remove the link, which uv stops at, then reinstall by force",
            [f"rm {' '.join(map(shlex.quote, full))}", reinstall_command(case, [(owner, version)])],
        ),
        causes=(
            *(token for path in paths for token in file_tokens(path)),
            f"dist:{owner}",
            *((BREAKS_IMPORT,) if owner == "torch" else ()),
        ),
    )


def _shown(link: LinkOut) -> str:
    gone = "" if link.reaches else ", which does not exist"
    return f"{site_relative(link.path)}, a link to {link.target}{gone}"
