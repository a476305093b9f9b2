"""A RECORD row that leads out of the environment.

What it finds:
    RECORD rows whose path is absolute, climbs out with `..`, or goes through a folder that is a link out. Of files
    behind such a link it is told whether they are there and how large they are; nothing there is opened. Code that is
    missing there is an error.

Why it matters:
    An uninstall deletes what RECORD lists: such a row makes it delete files that are not the distribution's. envdoctor
    never reads, hashes or removes them.

Example:
    A RECORD row `../../../../../home/me/.bashrc,sha256=…,120`; `site-packages/flash_attn`, a link to another disk.

Fix:
    Do not uninstall it with pip or uv. Rebuild the venv without it; where code is missing behind a link and no other
    row leads out, take the link away and force-reinstall every distribution that has files behind it.
"""

from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import file_tokens, listed
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.analysis.taken_away import sharers
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.venv.behind_links import BehindLink
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles

CODE = "ED204"
NAME = "record-outside-environment"
AREA = "Installed files"
_SHOWN = 6


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each distribution with such rows, another for one whose code behind a link is missing."""
    files = case.facts[InstalledFiles]
    behind: dict[str, list[BehindLink]] = {}
    for item in files.behind:
        behind.setdefault(item.owner, []).append(item)
    rows: dict[str, list[str]] = {}
    for owner, path in files.outside:
        rows.setdefault(owner, []).append(path)
    for owner, paths in sorted(rows.items()):
        links = behind.get(owner, [])
        gone = [item for item in links if item.lacks_code]
        if gone:
            yield _gone(case, owner, gone, sorted(path for name, path in files.elsewhere if name == owner))
            continue
        yield Finding(
            code=CODE,
            name=NAME,
            severity="warning",
            confidence="high",
            title=f"RECORD of {owner} lists {counted(len(paths), 'path')} outside the environment",
            subject=owner,
            evidence=(
                *(repr(path) for path in sorted(paths)[:_SHOWN]),
                *(line for item in links for line in _seen(item)),
            ),
            remediation=restore_or(case, _no_uninstall(owner), []),
        )


def _no_uninstall(owner: str) -> str:
    return f"rebuild the venv without uninstalling {owner} from it: an older installer may delete those paths"


def _seen(item: BehindLink) -> Iterator[str]:
    yield f"{item.link} is a link to {item.leads_to}: nothing there was read, only looked for"
    if item.missing:
        yield f"missing there: {listed(item.missing)}"
    if item.resized:
        yield f"another size than RECORD says: {listed(item.resized)}"


def _gone(case: CheckContext, owner: str, links: Sequence[BehindLink], elsewhere: Sequence[str]) -> Finding:
    """Judge missing code; `elsewhere` are the rows that lead out behind no link, with which nothing is uninstalled."""
    found = case.facts[Distributions].active(owner)
    version = found.version if found else ""
    missing = [path for item in links for path in item.missing]
    total = sum(item.files for item in links)
    others = sharers(case, [owner])
    evidence = [line for item in links for line in _seen(item)]
    if others:
        evidence.append(f"files of {', '.join(others)} are behind the same link")
    if elsewhere:
        more = f" and {len(elsewhere) - _SHOWN} more" if len(elsewhere) > _SHOWN else ""
        evidence.append(f"RECORD lists other paths outside too: {', '.join(map(repr, elsewhere[:_SHOWN]))}{more}")
        remediation = restore_or(case, f"put back what is missing there, or {_no_uninstall(owner)}", [])
    else:
        back = f"the files of {', '.join((owner, *others))}" if others else "the files"
        remediation = restore_or(
            case,
            f"put back what is missing there; or take the link away, which leaves what it leads to as it is, and "
            f"install {back} in its place",
            [reinstall_command(case, [(owner, version)])] if version else [],
        )
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{owner} {version}: {len(missing)} of {counted(total, 'file')} missing behind a link out of the "
        "environment",
        subject=owner,
        evidence=tuple(evidence),
        remediation=remediation,
        causes=(*(token for path in missing for token in file_tokens(path)), f"dist:{owner}"),
    )
