"""Where each locked wheel will come from."""

from collections.abc import Iterable, Mapping, Sequence

from envdoctor.model.frozen import field, frozen
from envdoctor.model.plan import BaseInterpreter, Source, SourceKind, Unavailable
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import wheel_tags
from envdoctor.wheels.cached_answers import CachedAnswer, CachedAnswers, Question, Remembered
from envdoctor.wheels.impatient import impatient
from envdoctor.wheels.index import File, size_of
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.offers import files_of
from envdoctor.wheels.preview import cached, preview
from envdoctor.wheels.temporary import sweep
from envdoctor.wheels.urls import THREADS, IndexUnreadableError, is_local, shown
from envdoctor.wheels.uv import Uv, UvError, UvNotStartedError, told_offline
from envdoctor.wheels.uv_cache import perhaps_cached
from envdoctor.wheels.wheel_names import WheelNames
from envdoctor.wheels.wheel_search import WheelSearch

_AGAIN = "run the same command again: the index did not answer, and may in a moment"


@frozen
class WheelOrigins:
    """The outcome: a source for each package, or why it has none."""

    sources: Mapping[str, Source]
    unavailable: tuple[Unavailable, ...]
    packages: Mapping[str, LockedPackage] = field(default_factory=dict)
    """Each package with the hash of the wheel that was found; with all its hashes where uv is to choose."""
    filenames: Mapping[str, str] = field(default_factory=dict)
    """File names of those wheels, as far as they are known."""


def locate(question: Question, wanted: Sequence[LockedPackage], memos: Remembered) -> WheelOrigins:
    """Find each package: uv's cache, find-links places, indexes in uv's order, else the torch backend's index.

    Nothing is downloaded; local candidates are hashed and compared with the lock.
    """
    sweep()
    memos.answers.about(question)
    order = wheel_tags.places(wheel_tags.tags_of(question.interpreter))
    searches = [WheelSearch(package=package, order=order) for package in wanted]
    found = _remembered(searches, memos.answers)
    gone: tuple[Unavailable, ...] = ()
    if new := [search for search in searches if search.package.name not in found]:
        taken, gone = _sought(question, new, memos.names)
        found |= taken
        _learn(new, found, memos.answers)
    packages = {search.package.name: search.asked for search in searches}
    named = {name: memos.names.name_of(package) for name, package in packages.items()}
    return WheelOrigins(
        sources=found,
        packages=packages,
        unavailable=gone,
        filenames={name: filename for name, filename in named.items() if filename},
    )


def _remembered(searches: Sequence[WheelSearch], answers: CachedAnswers) -> dict[str, Source]:
    found = {}
    for search in searches:
        if answer := answers.of_package(search.package):
            search.chosen, found[search.package.name] = answer.chosen, answer.source
    return found


def _learn(searches: Sequence[WheelSearch], found: Mapping[str, Source], answers: CachedAnswers) -> None:
    for search in searches:
        source = found.get(search.package.name)
        if source is None or not source.cached or search.unread:
            continue
        if len(search.package.hashes) > 1 and not search.chosen:
            continue  # which of them uv's cache has is not known
        files = [file for offered in search.offered.values() for file in offered if search.fits((file,))]
        wheels = [file.local for file in files if file.local is not None]
        answers.learn(search.package, CachedAnswer(source=source, chosen=search.chosen), wheels)
    answers.save()


def _sought(
    question: Question, searches: Sequence[WheelSearch], names: WheelNames
) -> tuple[dict[str, Source], tuple[Unavailable, ...]]:
    """Ask for each package what uv's cache and every source have; return what was found, and what was not."""
    uv, interpreter, sources = question.uv, question.interpreter, question.sources
    torch_backend, offline = question.torch_backend, question.offline
    order = searches[0].order
    several = [search for search in searches if len(search.package.hashes) > 1]
    for search in several:
        search.chosen = names.best(search.package, order)
    known = [search for search in several if search.chosen]
    _prefer([search for search in several if not search.chosen], sources, names, offline=offline)
    there = perhaps_cached(sources.cache, [search.package.name for search in searches])
    found = _cached(uv, [one for one in searches if one.package.name in there], interpreter, sources, offline=offline)

    def left() -> list[WheelSearch]:
        return [search for search in searches if search.package.name not in found]

    if again := [search for search in known if search.package.name not in found]:
        # The best wheel by its name is not in uv's cache: the places tell which is the best they have.
        for search in again:
            search.chosen = ""
        _prefer(again, sources, names, offline=offline)
        again = [search for search in again if search.package.name in there]
        found |= _cached(uv, again, interpreter, sources, offline=offline)
    with impatient(THREADS) as pool:
        sought = list(pool.map(lambda one: (one, _search(one, sources, offline)), left()))
    for search, source in sought:
        if source is not None and source.filename and len(search.asked.hashes) == 1:
            names.learn(search.asked.hashes[0], source.filename)
    names.save()
    found |= {search.package.name: source for search, source in sought if source is not None}
    found |= _through_uv(uv, [one for one in left() if one.silent], interpreter, sources)
    refused = ""
    if left() and torch_backend:
        packages = [search.package for search in left()]
        taken, refused = _from_backend(uv, packages, interpreter, sources, torch_backend, offline=offline)
        found |= taken
    gone = tuple(_unavailable(search, question, refused) for search in left())
    return found, gone


def _prefer(several: Sequence[WheelSearch], sources: IndexConfig, names: WheelNames, *, offline: bool) -> None:
    """Find the best wheel, and its place, for each package of which the lock allows several.

    A lock that allows `py310` and `py312` wheels of one version means the one that fits the interpreter best, as pip
    and uv take it, wherever that lies; which place is asked first, or is cached, must not decide.
    """
    places = [place for place in (*sources.find_links, *sources.indexes) if not offline or is_local(place)]

    def prefer(search: WheelSearch) -> None:
        bests = [(search.best(_files(place, search, sources), names), place) for place in places]
        there = [(best[0], best[1], place) for best, place in bests if best is not None]
        # Of what could not be asked, uv's cache may have the better one.
        if len(there) > 1 or (there and not offline and not search.unread):
            _, search.chosen, place = min(there, key=lambda one: one[0])
            search.preferred = place if len(there) > 1 else ""

    if len(places) > 1 and several:
        with impatient(THREADS) as pool:
            list(pool.map(prefer, several))


def _cached(
    uv: Uv, searches: Sequence[WheelSearch], interpreter: BaseInterpreter, sources: IndexConfig, *, offline: bool
) -> dict[str, Source]:
    """Ask source by source: uv keeps a cache for each, and asked for all at once it looks only into the first's."""
    found: dict[str, Source] = {}
    # The default index comes last in uv's order, and has most of what there is.
    for place in (*reversed(sources.indexes), *sources.find_links):
        left = [search for search in searches if search.package.name not in found and search.preferred in ("", place)]
        if is_local(place):
            left = [search for search in left if search.fits(_files(place, search, sources))]
        packages = [search.asked for search in left]
        if not packages:
            continue
        seen = cached(uv, packages, interpreter, sources.only(place), offline=offline or is_local(place))
        kind: SourceKind = "find-links" if place in sources.find_links else "index"
        found |= {name: Source(kind=kind, location=place, cached=True, bytes=0) for name in seen.cached}
        for search in left:
            search.unknown = search.unknown or search.package.name in seen.unknown
    return found


def _files(place: str, search: WheelSearch, sources: IndexConfig) -> Iterable[File]:
    """Return the files a place offers for one package, asked once; none when it cannot be read."""
    if place not in search.offered:
        search.offered[place] = ()
        try:
            search.offered[place] = tuple(files_of(place, search.package.name, search.package.version, sources))
        except IndexUnreadableError as error:
            search.unread.append(str(error))
            search.silent = search.silent or error.transient
            search.refused = search.refused or not error.transient
    return search.offered[place]


def _through_uv(
    uv: Uv, searches: Sequence[WheelSearch], interpreter: BaseInterpreter, sources: IndexConfig
) -> dict[str, Source]:
    """Leave to uv what no answer came for: it tries again, in ways of its own."""
    if not searches:
        return {}
    try:
        packages = [search.package for search in searches]
        seen = preview(uv, packages, interpreter, sources.everywhere, offline=False)
    except UvNotStartedError:
        raise
    except UvError:
        return {}  # it did not get through either
    return dict.fromkeys(seen.uncached | seen.unknown | seen.cached, Source(kind="configured"))


def _search(search: WheelSearch, sources: IndexConfig, offline: bool) -> Source | None:  # noqa: FBT001 - mapped over a pool
    for place in search.places(sources):
        if offline and not is_local(place):
            continue
        fitting = search.fitting(_files(place, search, sources), shown(place), sources.access)
        if fitting is not None:
            file, inside = fitting
            kind: SourceKind = "find-links" if place in sources.find_links else "index"
            size = 0 if file.local is not None else size_of(file, sources.access)
            return Source(kind=kind, location=place, filename=file.filename, bytes=size, unpacked_bytes=inside.unpacked)
    # An index that would not talk to us may talk to uv, which knows more ways to log in.
    return Source(kind="configured") if search.unknown or (search.refused and not offline) else None


def _from_backend(
    uv: Uv,
    packages: Sequence[LockedPackage],
    interpreter: BaseInterpreter,
    sources: IndexConfig,
    backend: str,
    *,
    offline: bool,
) -> tuple[dict[str, Source], str]:
    """Return what the backend's index has, and why it could not be queried; what it gave before may be in the cache."""
    try:
        seen = cached(uv, packages, interpreter, sources.everywhere, offline=True, torch_backend=backend)
        if not offline and (seen.absent or seen.uncached):
            seen = preview(uv, packages, interpreter, sources.everywhere, offline=False, torch_backend=backend)
    except UvNotStartedError:
        raise
    except UvError as error:
        return {}, error.message
    here = Source(kind="backend", location=backend, cached=True, bytes=0)
    there = seen.unknown if offline else seen.unknown | seen.uncached
    found = {name: Source(kind="backend", location=backend) for name in there}
    return found | dict.fromkeys(seen.cached, here), ""


def _unavailable(search: WheelSearch, question: Question, refused: str) -> Unavailable:
    package, interpreter, offline = search.package, question.interpreter, question.offline
    reasons = list(search.seen)
    if offline and not search.unsafe:
        by = "UV_OFFLINE" if told_offline(question.uv.environment) else "--offline"
        reasons.append(f"it is neither in uv's cache nor in a local source, and {by} forbids to fetch it")
    elif not reasons and search.strange:
        told = f"; and {len(search.strange) - 1} more" if len(search.strange) > 1 else ""
        reasons.append(
            f"{next(iter(search.strange.values()))}, with a locked hash, for another Python or machine{told}"
        )
    elif not reasons:
        reasons.append(
            "no configured source that could be read has it" if search.unread else "no configured source has it"
        )
    if refused:
        reasons.append(f"the {question.torch_backend} index could not be queried: {refused}")
    minor = interpreter.version.rpartition(".")[0]
    transient = search.silent and not search.seen and not offline
    if transient:
        return Unavailable(
            name=package.name,
            version=package.version,
            reason="; ".join(dict.fromkeys(search.unread)),
            hint=_AGAIN,
            transient=True,
        )
    return Unavailable(
        name=package.name,
        version=package.version,
        reason="; ".join(dict.fromkeys(reasons + search.unread)),
        hint=_what_to_do(search, minor, question),
    )


def _what_to_do(search: WheelSearch, minor: str, question: Question) -> str:
    if search.unsafe:
        return "do not install it by hand either: find out where the wheel comes from, and lock another"
    if search.strange.keys() == set(search.package.hashes):
        machine = question.interpreter.markers["platform_machine"]
        return (
            f"the lock has none for this Python and machine: lock it again with `--python {minor} --machine {machine}`"
        )
    return (
        f"download its wheel for CPython {minor} (sha256 {' or '.join(search.package.hashes[:3])}) "
        f"on a machine with access, put it into a folder, and run again with `{question.folder_given_by}`"
    )
