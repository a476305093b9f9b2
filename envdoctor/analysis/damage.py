"""Missing and changed files, gathered by owner, with the other wheels known to write the same paths."""

from collections.abc import Iterable

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.duplicates import duplicates
from envdoctor.catalog.shared_paths import other_writers
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import FileFault, InstalledFiles, Owner
from envdoctor.standards.names import normalized

_SEVERAL = 2


@frozen
class Damage:
    """One distribution that is not as its RECORD says."""

    owner: str
    version: str
    files: int
    missing: tuple[str, ...]
    changed: tuple[str, ...]
    """Paths with another size, or that are not regular files."""
    not_files: tuple[str, ...]
    """Those of them that are a folder, a FIFO or the like."""
    in_the_way: tuple[str, ...]
    """Files where the missing ones' folders should be."""
    locked: tuple[str, ...]
    """Programs that nobody may execute; absolute or relative to the prefix."""
    published: tuple[str, ...]
    """Paths with another size that have it since the wheel was unpacked: its own RECORD is wrong about them."""
    published_at: str
    """One of those in uv's cache."""
    cached_at: str
    """One of the changed files in uv's cache, changed with it; empty when none is linked from there."""
    other_writers: tuple[str, ...]
    """Distributions, not installed now, known to write one of the missing paths."""
    unshared_missing: bool
    """Some missing path is not known to be written by any other."""


_last: list[tuple[CheckContext, list[Damage]]] = []


def damage_by_owner(case: CheckContext) -> list[Damage]:
    """Return every damaged distribution, by name. Paths that another owner claims are the contested check's.

    Two rules ask this of one case, and a case can have 100,000 damaged files: the last answer is kept.
    """
    for asked, found in _last:
        if asked is case:
            return found
    found = _damage_by_owner(case)
    _last[:] = [(case, found)]
    return found


def _damage_by_owner(case: CheckContext) -> list[Damage]:
    files = case.facts[InstalledFiles]
    elsewhere = tuple(f"/{folder}/" for folder in renamed(case).values())
    present = {item.name for item in case.facts[Distributions].items}
    contested = {item.path for item in files.contested if item.told_by != "missing"}
    twice = duplicates(case)
    totals = {
        owner.name: owner
        for owner in files.owners
        if owner.name not in twice or owner.version == twice[owner.name].version
    }
    by_owner: dict[str, dict[str, list[str]]] = {}
    cached: dict[str, str] = {}
    published: dict[str, str] = {}
    for fault in files.faults:
        if fault.path in contested or fault.kind == "unreadable" or harmless(fault) or _of_another(fault, twice):
            continue
        if fault.kind == "missing" and any(folder in fault.path for folder in elsewhere):
            continue
        kind: str = "changed" if fault.kind in ("resized", "not a file") else fault.kind
        if fault.kind == "not a file":
            by_owner.setdefault(fault.owner, {}).setdefault("not a file", []).append(fault.path)
        if fault.kind == "not executable":
            kind = "locked"
        if fault.published_at:
            kind = "published"
            published.setdefault(fault.owner, fault.published_at)
        if fault.cached_at:
            cached.setdefault(fault.owner, fault.cached_at)
        by_owner.setdefault(fault.owner, {}).setdefault(kind, []).append(fault.path)
        if fault.in_the_way and fault.in_the_way not in by_owner[fault.owner].setdefault("in the way", []):
            by_owner[fault.owner]["in the way"].append(fault.in_the_way)
    # A fingerprint that was edited may name owners it does not list.
    known = _told_once({name: kinds for name, kinds in by_owner.items() if name in totals})
    return [
        _damage(totals[name], kinds, present, cached.get(name, ""), published.get(name, ""))
        for name, kinds in sorted(known.items())
    ]


def lost_to_others(case: CheckContext) -> list[Damage]:
    """Return what lost files at paths of other wheels alone, as the uninstall of one of those leaves it.

    Where several more distributions lost files that no other writes, one thing happened to all of them.
    """
    damages = damage_by_owner(case)
    lost = [damage for damage in damages if damage.other_writers and not damage.unshared_missing]
    others = [damage for damage in damages if damage not in lost and any(map(_is_code, damage.missing))]
    return lost if len(others) < _SEVERAL else []


def _is_code(path: str) -> bool:
    return not path.startswith("bin/") and ".dist-info/" not in path


def unfit(case: CheckContext) -> list[FileFault]:
    """Return every fault that is not harmless, without what only the RECORD of another version lists."""
    twice = duplicates(case)
    return [fault for fault in case.facts[InstalledFiles].faults if not (harmless(fault) or _of_another(fault, twice))]


def sourceless(case: CheckContext) -> list[FileFault]:
    """Return the modules that are imported from bytecode because their source is missing."""
    twice = duplicates(case)
    faults = case.facts[InstalledFiles].faults
    return [fault for fault in faults if fault.compiled and not _of_another(fault, twice)]


def _of_another(fault: FileFault, twice: dict[str, Distribution]) -> bool:
    """Tell a fault of another version's RECORD; `pip install --target` leaves it beside the installed one's."""
    meant = twice.get(fault.owner)
    return meant is not None and fault.of_version not in ("", meant.version)


def _told_once(by_owner: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, list[str]]]:
    """Leave a path that several own with equal bytes (nvidia/__init__.py) to the first of them: it puts it back."""
    told: set[str] = set()
    found: dict[str, dict[str, list[str]]] = {}
    for name in sorted(by_owner):
        kinds = {kind: [path for path in paths if path not in told] for kind, paths in by_owner[name].items()}
        told.update(path for paths in kinds.values() for path in paths)
        if kinds := {kind: paths for kind, paths in kinds.items() if paths}:
            found[name] = kinds
    return found


def renamed(case: CheckContext) -> dict[str, str]:
    """Return distribution -> name its metadata folder had when it was installed, where it has another one now.

    RECORD tells: it lists METADATA in the folder of the old name, and no such file is there. Where the folder has the
    name and version of its own METADATA it is the RECORD that is another one's, and the folder stays as it is.
    """
    suspects = [fault for fault in case.facts[InstalledFiles].faults if fault.path.endswith(".dist-info/METADATA")]
    if not suspects:
        return {}
    items = case.facts[Distributions].items
    folders = {(item.site, item.folder) for item in items}
    active = {item.name: item for item in items if not item.shadowed}
    found: dict[str, str] = {}
    for fault in suspects:
        folder, _, name = site_relative(fault.path).partition("/")
        item = active.get(fault.owner)
        if item is None or (fault.kind, name) != ("missing", "METADATA") or not folder.endswith(".dist-info"):
            continue
        # NumPy-2.4.6.dist-info of a copy through another file system names the same, and an installer would not see it.
        theirs = not named_by_metadata(item) or _same_name(folder, item.folder)
        if folder != item.folder and (item.site, folder) not in folders and theirs:
            found[item.name] = folder
    return found


def _same_name(one: str, other: str) -> bool:
    first, second = (folder.removesuffix(".dist-info").partition("-") for folder in (one, other))
    return (normalized(first[0]), first[2]) == (normalized(second[0]), second[2])


def renamed_folders(case: CheckContext) -> tuple[str, ...]:
    """Return the absolute paths of the metadata folders that were renamed, as they are called now."""
    installed = case.facts[Distributions]
    return tuple(f"{item.site}/{item.folder}" for name in renamed(case) if (item := installed.active(name)))


def named_by_metadata(item: Distribution) -> bool:
    """Tell whether the metadata folder has the name and version of its own METADATA; no METADATA, no such name."""
    if not item.has_metadata:
        return False
    name, _, version = item.folder.removesuffix(".dist-info").partition("-")
    return (normalized(name), version) == (item.name, item.version)


def _damage(owner: Owner, kinds: dict[str, list[str]], present: set[str], cached_at: str, published_at: str) -> Damage:
    missing = sorted(kinds.get("missing", []), key=_libraries_first)
    writers = {path: other_writers(site_relative(path), owner.name) - present for path in missing}
    return Damage(
        owner=owner.name,
        version=owner.version,
        files=owner.files,
        missing=tuple(missing),
        changed=tuple(sorted(kinds.get("changed", []), key=_libraries_first)),
        not_files=tuple(sorted(kinds.get("not a file", []))),
        in_the_way=tuple(sorted(kinds.get("in the way", []))),
        locked=tuple(sorted(kinds.get("locked", []))),
        published=tuple(sorted(kinds.get("published", []), key=_libraries_first)),
        published_at=published_at,
        cached_at=cached_at,
        other_writers=tuple(sorted(set().union(*writers.values()))),
        unshared_missing=any(not found for found in writers.values()),
    )


def harmless(fault: FileFault) -> bool:
    """Tell a file that is not as recorded for a good reason, or that nothing needs.

    A source with bytecode in its place counts here as well: the module can be imported, and `sourceless` has it.
    """
    return (fault.kind == "missing" and (fault.compiled or _expendable(fault.path))) or kept_by_others(fault)


def _expendable(path: str) -> bool:
    # Console scripts and man pages are often removed by hand; no import needs them.
    return path.startswith(("bin/", "share/", "etc/")) or (path.startswith("/") and "-packages/" not in path)


def kept_by_others(fault: FileFault) -> bool:
    """Tell a file that somebody changed on purpose, and that is to stay as it is."""
    # dpkg keeps Debian's own packages, whose RECORDs are upstream's; operators append their authority to a CA bundle.
    # Who installed it, whether it was asked for, and (decord's, edited after RECORD was written) the names of its
    # modules are noted there; no import reads them.
    if fault.path.endswith((".dist-info/INSTALLER", ".dist-info/REQUESTED", ".dist-info/top_level.txt")):
        return True
    return "lib/python3/" in fault.path or is_longer_bundle(fault)


def is_longer_bundle(fault: FileFault) -> bool:
    """Tell a bundle of certificates to which an operator appended an authority."""
    return fault.path.endswith("/cacert.pem") and fault.kind == "resized" and fault.size > fault.recorded_size


def site_relative(path: str) -> str:
    """Return a path below site-packages ("nvidia/nccl/lib/libnccl.so.2") from one relative to the prefix."""
    for marker in ("/site-packages/", "/dist-packages/"):
        _, found, rest = path.partition(marker)
        if found:
            return rest
    return path


def file_tokens(path: str) -> tuple[str, ...]:
    """Return the cause tokens of a file: its path, and its soname when it is a shared library."""
    name = path.rpartition("/")[2]
    return (f"file:{path}", f"soname:{name}") if ".so" in name else (f"file:{path}",)


def listed(paths: Iterable[str], limit: int = 4) -> str:
    """Return paths below site-packages, the first `limit` of them and how many more there are."""
    names = [site_relative(path) for path in paths]
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def _libraries_first(path: str) -> tuple[bool, bool, str]:
    return (".so" not in path.rpartition("/")[2], "/lib/" not in path, path)
