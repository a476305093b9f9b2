"""A distribution whose own records are incomplete.

What it finds:
    dist-info folders of the venv without METADATA or without RECORD, where no complete one of the same name stands
    beside them; a METADATA that is empty or names no distribution; a RECORD that is empty or holds no row; a dist-info
    folder that was renamed; METADATA and the rest as links to what is gone, all of them one finding.

Why it matters:
    Without RECORD nobody knows which files belong to it: they cannot be verified, and an upgrade leaves the old
    ones behind. Under another name pip and uv take the folder's version for the installed one. Without METADATA
    `importlib.metadata.version()` returns None. An install killed half-way leaves either.

Example:
    A killed `uv pip sync` left `torch-2.10.0.dist-info` without a RECORD.

Fix:
    Force-reinstall the distribution; give a renamed folder its name back; replace links by copies.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from posixpath import commonpath

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import named_by_metadata, renamed
from envdoctor.analysis.remedies import (
    reinstall_command,
    rename_command,
    restore_or,
    words_again,
)
from envdoctor.analysis.taken_away import unparsable_records
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter

CODE = "ED205"
NAME = "incomplete-metadata"
AREA = "Installed files"
_SHOWN = 4


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each incomplete distribution of a venv; system packages come without RECORD by design."""
    if not case.facts[Interpreter].is_venv:
        return
    items = case.facts[Distributions].items
    old_names = renamed(case)
    without_rows = set(_without_rows(case))
    linked = [item for item in items if item.link_gone and item.origin == "site-packages" and not item.shadowed]
    moved: dict[bool, list[Distribution]] = {}
    if linked:
        yield _links(case, linked)
    for item in items:
        own = item.origin == "site-packages" and item.folder.endswith(".dist-info")
        # What could not be looked at is told by the check of that; nothing is known to be missing.
        if not own or item.shadowed or item.unreadable or item in linked:
            continue
        if item.no_folder:
            # uv stops at what it finds there.
            path = shlex.quote(f"{item.site}/{item.folder}")
            yield _finding(case, item, "its dist-info is not a directory", f"rm {path}")
        elif item.name in old_names:
            moved.setdefault(named_by_metadata(item), []).append(item)
        elif not (item.has_metadata and item.has_record):
            yield _finding(case, item, _lacking(item))
        elif item.name in without_rows:
            record = shlex.quote(f"{item.site}/{item.folder}/RECORD")
            # An empty one, too, is more than uv can replace; the command takes away one that it cannot parse.
            before = () if unparsable_records(case, item.name) else (f"rm {record}",)
            yield _finding(case, item, "the RECORD of its dist-info lists no file", *before)
    yield from (_renamed(case, found, old_names) for found in moved.values())


def _links(case: CheckContext, linked: Sequence[Distribution]) -> Finding:
    # METADATA is in a dist-info folder of the folder that holds the files of one wheel.
    root = commonpath([item.link_gone.rsplit("/", 2)[0] for item in linked])
    words = words_again(case, [(item.name, item.version) for item in linked])
    sites = " ".join(dict.fromkeys(shlex.quote(item.site) for item in linked))
    example = linked[0]
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{counted(len(linked), 'distribution', 'is', 'are')} links to files that are gone",
        subject=", ".join(item.name for item in linked),
        evidence=(
            f"{example.site}/{example.folder}/METADATA leads to {example.link_gone}",
            "uv's link mode `symlink` makes such links into its cache, and `uv cache clean` deletes what they lead to",
        ),
        remediation=restore_or(
            case,
            "Take the links away, and install copies in their place",
            [
                f"find {sites} -xtype l -lname {shlex.quote(root + '/*')} -delete",
                # Nothing is in its way: the first has deleted it.
                f"uv pip install --python {case.python} --no-deps --link-mode copy {words}",
            ],
        ),
        causes=tuple(f"{kind}:{item.name}" for item in linked for kind in ("dist", "links-gone")),
    )


def _without_rows(case: CheckContext) -> Iterator[str]:
    files = case.facts[InstalledFiles]
    outside = {owner for owner, _ in files.outside}
    # A whole RECORD lists at least itself.
    yield from (owner.name for owner in files.owners if owner.files == 0 and owner.name not in outside)


def _lacking(item: Distribution) -> str:
    metadata, record = item.has_metadata or bool(item.nameless), item.has_record
    names = [name for name, there in (("METADATA", metadata), ("RECORD", record)) if not there]
    parts = [f"the METADATA of its dist-info {item.nameless}"] if item.nameless else []
    if names:
        parts.append(f"{'it' if parts else 'its dist-info'} has no {' and no '.join(names)}")
    return ", and ".join(parts)


def _renamed(case: CheckContext, items: Sequence[Distribution], old: Mapping[str, str]) -> Finding:
    """Return one finding of all that one copy renamed."""
    one, several = items[0], len(items) > 1
    harm = ("leave {} there when they install" if named_by_metadata(one) else "take {} for").format(
        "them" if several else "it"
    )
    whose = counted(len(items), "distribution") if several else f"{one.name} {one.version}"
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"the metadata {'folders' if several else 'folder'} of {whose} {'were' if several else 'was'} renamed: "
        f"pip and uv {harm} {'other versions' if several else 'another version'}",
        subject=", ".join(item.name for item in items),
        evidence=(
            *(
                line
                for item in items[:_SHOWN]
                for line in (f"{item.site}/{item.folder}", f"its RECORD says {old[item.name]}")
            ),
            *((f"and {len(items) - _SHOWN} more",) if len(items) > _SHOWN else ()),
        ),
        remediation=restore_or(
            case,
            f"give {'them their names' if several else 'it its name'} back; a reinstall by that version would leave "
            "the files of this one behind",
            [rename_command(case, item.name, old[item.name]) for item in items],
        ),
        causes=tuple(f"dist:{item.name}" for item in items),
    )


def _finding(case: CheckContext, item: Distribution, what: str, *before: str) -> Finding:
    shown = f"{item.name} {item.version}".strip()
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{shown} was installed incompletely: {what}",
        subject=item.name,
        evidence=(f"{item.site}/{item.folder}",),
        remediation=restore_or(
            case,
            f"force-reinstall {item.name}; what it should hold cannot be determined from here",
            [*before, reinstall_command(case, [(item.name, item.version)])],
        ),
        causes=(f"dist:{item.name}",),
    )
