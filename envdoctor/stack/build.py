"""Building the new venv beside the old one with uv."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.plan import Plan, PlannedPackage, Source
from envdoctor.model.wording import counted
from envdoctor.stack.room import apart
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.index_config import IndexAccess, IndexConfig
from envdoctor.wheels.preview import requirements
from envdoctor.wheels.urls import is_local, shown
from envdoctor.wheels.uv import Uv
from envdoctor.wheels.uv_cache import refuse_special

_PLAIN = (
    "+ ",
    "error:",
    "cause:",
    "hint:",
    "Using Python",
    "Resolved ",
    "Prepared ",
    "Installed ",
    "Downloading ",
    "Downloaded ",
)


@frozen
class InstallGroup:
    """Packages that uv installs in one run, from one source."""

    source: Source
    packages: tuple[LockedPackage, ...]


def groups(packages: Sequence[PlannedPackage], locked: Mapping[str, LockedPackage]) -> tuple[InstallGroup, ...]:
    """Split packages by source; the torch backend's index comes last, for what no other source has.

    uv takes the first index that has the version, whatever its hash: with triton's two builds of one file name it would
    take the wrong one and stop. One source a run makes it take the wheel that was found.
    """
    order = {"find-links": 1, "index": 2, "configured": 3, "backend": 4}
    made: dict[tuple[bool, int, str], tuple[Source, list[LockedPackage]]] = {}
    for package in packages:
        source = package.source
        key = (not source.cached, order[source.kind], source.location)
        made.setdefault(key, (source, []))[1].append(locked[package.name])
    return tuple(InstallGroup(source=made[key][0], packages=tuple(made[key][1])) for key in sorted(made))


def build(
    plan: Plan, locked: Mapping[str, LockedPackage], sources: IndexConfig, uv: Uv, folder: Path, listen: Listener
) -> None:
    """Make `folder` a relocatable venv with exactly the locked packages. Raises UvError, `folder` then half-made."""
    listen(Event(phase="build", text=f"new venv on CPython {plan.interpreter.version}"))
    # Relocatable: its scripts find their interpreter from where they lie, so the folder can be renamed into place.
    venv = ("venv", "--quiet", "--relocatable", "--no-project", f"--prompt={Path(plan.target).name}")
    with ThreadPoolExecutor(1) as beside:
        looked = beside.submit(_refuse_special, plan.packages, locked, sources, uv, folder)
        uv.run((*venv, "--python", plan.interpreter.path, folder))
        looked.result()
    _install(plan.packages, locked, sources, uv, folder, listen, offline=plan.offline)


def install(
    packages: Sequence[PlannedPackage],
    locked: Mapping[str, LockedPackage],
    sources: IndexConfig,
    uv: Uv,
    folder: Path,
    listen: Listener,
    *,
    offline: bool,
) -> None:
    """Install exactly these wheels into the venv `folder`, each from its planned source. Raises UvError."""
    _refuse_special(packages, locked, sources, uv, folder)
    _install(packages, locked, sources, uv, folder, listen, offline=offline)


def _refuse_special(
    packages: Sequence[PlannedPackage], locked: Mapping[str, LockedPackage], sources: IndexConfig, uv: Uv, folder: Path
) -> None:
    copies = uv.copies or apart(sources.cache, folder)
    refuse_special(sources.cache, [locked[item.name] for item in packages], copies=copies)


def _install(
    packages: Sequence[PlannedPackage],
    locked: Mapping[str, LockedPackage],
    sources: IndexConfig,
    uv: Uv,
    folder: Path,
    listen: Listener,
    *,
    offline: bool,
) -> None:
    done, total = 0, len(packages)
    downloads = _Downloads(packages, listen)
    for group in groups(packages, locked):
        event = Event(phase="build", text=_words(group), done=done, total=total)
        fetched = _remote(group.source)
        if fetched:
            downloads.begin(group)
        else:
            listen(event)

        def hear(line: str, event: Event = event) -> None:
            # uv's summary says nothing that the plan did not; its errors are told once, at the end.
            if not line.lstrip().startswith(_PLAIN):
                listen(replace(event, text=line.strip()))

        arguments, reach = _installing(group, sources, folder, offline=offline)
        uv.run(
            [*arguments, *reach.arguments],
            extra=reach.variables,
            stdin=requirements(group.packages),
            listen=hear,
            written=downloads.written if fetched else None,
        )
        done += len(group.packages)
    listen(Event(phase="build", text=f"{counted(done, 'package')} installed", done=done, total=total))


def _remote(source: Source) -> bool:
    """Tell whether uv has to fetch from there over a network."""
    return not source.cached and (source.kind in ("configured", "backend") or not is_local(source.location))


class _Downloads:
    """What uv fetches, told in bytes: it unpacks as it fetches, so what it has written tells how far it is."""

    def __init__(self, packages: Sequence[PlannedPackage], listen: Listener) -> None:
        self._listen = listen
        self._sizes = {item.name: item.source.unpacked_bytes for item in packages}
        known = [item.source.unpacked_bytes for item in packages if _remote(item.source)]
        self._total = 0 if None in known else sum(filter(None, known))
        self._before, self._group, self._text = 0, 0, ""

    def begin(self, group: InstallGroup) -> None:
        self._before += self._group
        self._group = sum(self._sizes[package.name] or 0 for package in group.packages)
        self._text = _words(group)
        self.written(0)

    def written(self, count: int) -> None:
        # uv writes a little more than the files, and more than once what it has to fetch again.
        done = self._before + (min(count, self._group) if self._group else count)
        self._listen(Event(phase="download", text=self._text, done=done, total=self._total))


def _installing(
    group: InstallGroup, sources: IndexConfig, folder: Path, *, offline: bool
) -> tuple[list[str | Path], IndexAccess]:
    arguments: list[str | Path] = ["pip", "install", "--no-deps", "--no-build", "--require-hashes"]
    arguments += ["--python", folder / "bin" / "python", "--requirements", "-"]
    # Safe where every wheel must have a locked hash: whichever index answers, only the locked bytes are accepted.
    arguments += ["--index-strategy", "unsafe-best-match"]
    if group.source.cached or offline:
        # A cached wheel asked for online is re-validated, and behind some proxies fetched again.
        arguments += ["--offline"]
    if group.source.kind == "backend":
        arguments += ["--torch-backend", group.source.location]
    one_place = group.source.kind in ("find-links", "index")
    return arguments, sources.only(group.source.location) if one_place else sources.everywhere


def _words(group: InstallGroup) -> str:
    where = {"configured": "the configured sources", "backend": f"the {group.source.location} index"}
    place = "uv's cache" if group.source.cached else where.get(group.source.kind) or shown(group.source.location)
    return f"{counted(len(group.packages), 'package')} from {place}"
