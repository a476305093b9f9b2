"""What a reinstall takes away first, so that an installer follows no link and deletes nobody else's file."""

from collections.abc import Collection, Iterable

from envdoctor.analysis.context import CheckContext
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles


def in_the_way(case: CheckContext, names: Collection[str]) -> list[str]:
    """Return the files, and links to nowhere, that are where folders of these distributions should be."""
    files = case.facts.get(InstalledFiles)
    return _inside(case, {fault.in_the_way for fault in files.faults if fault.owner in names} if files else ())


def links_out(case: CheckContext, names: Collection[str]) -> list[str]:
    """Return the links through which rows of these distributions lead out of the environment."""
    files = case.facts.get(InstalledFiles)
    return _inside(case, {path for owner, path in files.links_out if owner in names} if files else ())


def sharers(case: CheckContext, names: Collection[str]) -> list[str]:
    """Return the other distributions with files behind the links out of the environment that these lead through."""
    files = case.facts.get(InstalledFiles)
    # An absolute link is outside the environment, as are those with files behind it: no reinstall takes it away.
    pairs = [(owner, link) for owner, link in files.links_out if owner and not link.startswith("/")] if files else []
    found, before = set(names), set[str]()
    while found != before:
        before = set(found)
        links = {link for owner, link in pairs if owner in found}
        found |= {owner for owner, link in pairs if link in links}
    return sorted(found - set(names))


def with_sharers(case: CheckContext, pins: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pins, and those of all that has files behind a link that a reinstall of them takes away."""
    chosen, installed = list(pins), case.facts.get(Distributions)
    others = sharers(case, [name for name, _ in chosen])
    active = {name: installed.active(name) for name in others} if installed else {}
    return chosen + [(name, item.version if (item := active.get(name)) else "") for name in others]


def unparsable_records(case: CheckContext, name: str) -> list[str]:
    """Return the paths of a distribution's RECORDs where some of the rows are none."""
    installed, files = case.facts.get(Distributions), case.facts.get(InstalledFiles)
    if installed is None or files is None:
        return []
    records = [f"{item.site}/{item.folder}/RECORD" for item in installed.items if item.name == name]
    starts = {record: f"{name}: {record}:" for record in records}
    return [
        record
        for record, start in starts.items()
        if any(line.startswith(start) and line[len(start)].isdecimal() for line in files.malformed)
    ]


def records_leading_out(case: CheckContext, name: str) -> list[str]:
    """Return the paths of a distribution's RECORDs where a row leads out of the environment behind no link."""
    installed, files = case.facts.get(Distributions), case.facts.get(InstalledFiles)
    if installed is None or files is None or all(owner != name for owner, _ in files.elsewhere):
        return []
    items = [item for item in installed.items if item.name == name and item.has_record]
    return [f"{item.site}/{item.folder}/RECORD" for item in items if item.origin == "site-packages"]


def not_to_uninstall(case: CheckContext, names: Iterable[str]) -> str:
    """Return what to do in place of an uninstall where a RECORD of those lists paths outside, behind no link."""
    files = case.facts.get(InstalledFiles)
    leading = {owner for owner, _ in files.elsewhere} if files else set()
    if not (found := ", ".join(sorted(leading.intersection(names)))):
        return ""
    return (
        f"rebuild the environment without uninstalling {found} from it: RECORD of {found} lists paths outside, which "
        "an older installer may delete"
    )


def _inside(case: CheckContext, paths: Collection[str]) -> list[str]:
    """Return those below the prefix as absolute paths; a leaked folder's are absolute, and no reinstall changes it."""
    return sorted(f"{case.facts.target}/{path}" for path in paths if path and not path.startswith("/"))
