"""What a reinstall takes away first, so that an installer follows no link and deletes nobody else's file."""

import shlex
from collections.abc import Collection, Iterable

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import is_longer_bundle
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


def cleared(case: CheckContext, names: Collection[str]) -> str:
    """Return what takes away what no RECORD tells of; a folder with something in it is moved aside, never deleted."""
    files = case.facts.get(InstalledFiles)
    found = [item for item in files.obstacles if item.owner in names] if files else []
    known = {*in_the_way(case, names), *links_out(case, names)}
    paths = {
        item.path if item.path.startswith("/") else f"{case.facts.target}/{item.path}": item.filled for item in found
    }
    paths = {path: filled for path, filled in paths.items() if path not in known}
    empty = sorted(path for path, filled in paths.items() if not filled)
    parts = [f"rm -d {' '.join(map(shlex.quote, empty))}"] if empty else []
    parts += [
        f"mv -T {shlex.quote(path)} {shlex.quote(f'{path}.aside')}" for path, filled in sorted(paths.items()) if filled
    ]
    return "".join(f"{part} && " for part in parts)


def saved(case: CheckContext, names: Collection[str], first: str) -> tuple[str, str]:
    """Return what saves the certificates that an operator appended to a bundle before, and puts them back after."""
    files = case.facts.get(InstalledFiles)
    found = [fault.path for fault in files.faults if fault.owner in names and is_longer_bundle(fault)] if files else []
    paths = [path if path.startswith("/") else f"{case.facts.target}/{path}" for path in found]
    before = (f"cp -p {shlex.quote(path)} {shlex.quote(f'{path}.own')} && " for path in paths)
    after = (f" && mv -f {shlex.quote(f'{path}.own')} {shlex.quote(path)}" for path in paths)
    return "".join((*before, first)), "".join(after)


def removed_first(paths: Collection[str]) -> str:
    """Return what takes these away, ending in ` && `; or nothing."""
    return f"rm {' '.join(map(shlex.quote, paths))} && " if paths else ""
