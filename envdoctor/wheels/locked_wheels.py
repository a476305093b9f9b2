"""For each package of a lock, the wheel file to fetch: present already, offered somewhere, or missing."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import tomli
from packaging.tags import Tag
from packaging.utils import canonicalize_name

from envdoctor.model.frozen import frozen, replace
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import wheel_tags
from envdoctor.wheels.download import hash_told, wheel_sha256
from envdoctor.wheels.index import File, size_of
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.offers import files_of
from envdoctor.wheels.preview import requirements
from envdoctor.wheels.temporary import temporary_folder
from envdoctor.wheels.urls import THREADS, IndexUnreadableError, shown
from envdoctor.wheels.uv import Uv, UvError

_AGAIN = "run the same command again: the index did not answer, and may in a moment"


@frozen
class Fit:
    """The interpreter and machine the wheels are for."""

    python: str
    """"3.12"."""
    machine: str
    tags: Sequence[Tag]
    """Best first."""
    torch_backend: str
    """Asked through uv for what no configured place has; empty for none."""


@frozen
class Job:
    """One wheel to fetch."""

    package: LockedPackage
    file: File


@frozen
class Missing:
    """A locked package whose wheel is not in the wheelhouse, why, and what can be done."""

    name: str
    version: str
    reason: str
    hint: str


@frozen
class _Absent:
    """A wheel that was not found, and whether a source that may have it did not answer."""

    reason: str
    transient: bool = False
    elsewhere: bool = False
    """Every locked wheel is for another Python or machine."""


@frozen
class Search:
    """Where every wheel of a lock is."""

    jobs: tuple[Job, ...]
    present: tuple[Path, ...]
    missing: tuple[Missing, ...]


def search(packages: Sequence[LockedPackage], folder: Path, fit: Fit, sources: IndexConfig, uv: Uv) -> Search:
    """Look into the wheelhouse, then into every configured place, then ask the torch backend's index through uv."""
    order = wheel_tags.places(fit.tags)
    inside = _inside(folder)
    found: dict[str, Path | Job | _Absent] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for package, outcome in zip(
            packages, pool.map(lambda one: _find(one, inside, order, sources), packages), strict=True
        ):
            found[package.name] = outcome
    left = [(package, gone) for package in packages if isinstance(gone := found[package.name], _Absent)]
    if left and fit.torch_backend:
        offered, refused = _from_backend([package for package, _ in left], fit, sources, uv)
        for package, lacking in left:
            told = f"{lacking.reason}; the {fit.torch_backend} index {refused or 'does not have it'}"
            found[package.name] = offered.get(package.name, replace(lacking, reason=told))
    jobs = [job for job in found.values() if isinstance(job, Job)]
    return Search(
        jobs=tuple(jobs),
        present=tuple(one for one in found.values() if isinstance(one, Path)),
        missing=tuple(
            _missing(package, absent, folder, fit)
            for package in packages
            if isinstance(absent := found[package.name], _Absent)
        ),
    )


def _inside(folder: Path) -> list[File]:
    wheels = sorted(folder.glob("*.whl"))
    return [File(filename=path.name, url=Path(os.path.realpath(path)).as_uri()) for path in wheels]


def _find(
    package: LockedPackage, inside: Sequence[File], order: Mapping[Tag, int], sources: IndexConfig
) -> Path | Job | _Absent:
    """Return the wheel in the wheelhouse, the job to fetch it, or why there is none."""
    for file in _fitting(inside, package, order):
        if file.local is not None and wheel_sha256(file.local) in package.hashes:
            return file.local
    seen: list[str] = []
    others: list[tuple[str, list[File]]] = []
    unread: list[str] = []
    transient = False
    found: list[tuple[tuple[int, tuple[int, str]], File]] = []
    for place in (*sources.find_links, *sources.indexes):
        try:
            files = files_of(place, package.name, package.version, sources)
        except IndexUnreadableError as error:
            unread.append(str(error))
            transient = transient or error.transient
            continue
        offered = _fitting(files, package, order)
        others.append((shown(place), [file for file in files if file not in offered]))
        for file in offered:
            digest = _digest(file)
            # What states no hash is fetched and then held to the lock's.
            if not digest or digest in package.hashes:
                found.append((_key(file, package, order), file))
                break
            told = hash_told(digest)
            seen.append(f"{shown(place)} has {file.filename}, but {told.replace('has', 'with', 1)}")
        if found and len(package.hashes) == 1:
            break
    if found:
        # Of several locked wheels the one that fits best, wherever it lies; the order of places decides between equals.
        return Job(package=package, file=_sized(min(found, key=lambda pair: pair[0])[1], sources))
    if transient and not seen:
        return _Absent(reason="; ".join(unread), transient=True)
    strange = _strange(others, package)
    reasons = seen or [*strange.values()][:1]
    reasons = reasons or [f"no configured place{' that could be read' if unread else ''} has it"]
    return _Absent(reason="; ".join([*reasons, *unread]), elsewhere=strange.keys() == set(package.hashes))


def _digest(file: File) -> str:
    return wheel_sha256(file.local) if file.local is not None else file.sha256


def _strange(others: Iterable[tuple[str, Iterable[File]]], package: LockedPackage) -> dict[str, str]:
    """Return the digest of each locked wheel that is for another Python or machine -> the first place that has it."""
    found: dict[str, str] = {}
    for place, files in others:
        named = [file for file in files if canonicalize_name(file.filename.partition("-")[0]) == package.name]
        for digest, name in {_digest(file): file.filename for file in named}.items():
            if digest in package.hashes:
                found.setdefault(digest, f"{place} has {name}, with a locked hash, for another Python or machine")
    return found


def _key(file: File, package: LockedPackage, order: Mapping[Tag, int]) -> tuple[int, tuple[int, str]]:
    return wheel_tags.rank(file.filename, package.name, package.version, order) or (len(order), (0, ""))


def _fitting(files: Iterable[File], package: LockedPackage, order: Mapping[Tag, int]) -> list[File]:
    ranked = [
        (key, file)
        for file in files
        if (key := wheel_tags.rank(file.filename, package.name, package.version, order)) is not None
    ]
    return [file for _, file in sorted(ranked, key=lambda pair: pair[0])]


def _sized(file: File, sources: IndexConfig) -> File:
    if file.size is not None:
        return file
    return replace(file, size=size_of(file, sources.access))


def _from_backend(
    packages: Sequence[LockedPackage], fit: Fit, sources: IndexConfig, uv: Uv
) -> tuple[dict[str, Job], str]:
    """Let uv resolve the packages on the torch backend's index: its lock says where the wheels lie."""
    with temporary_folder() as folder:
        asked, output = Path(folder, "asked.txt"), Path(folder, "pylock.toml")
        asked.write_text(requirements(packages), encoding="utf-8")
        arguments: list[str | Path] = ["pip", "compile", asked, "--no-deps", "--format", "pylock.toml", "--quiet"]
        arguments += ["--no-header", "--only-binary", ":all:", "--index-strategy", "unsafe-best-match"]
        arguments += ["--python-version", fit.python, "--python-platform", f"{fit.machine}-manylinux_2_28"]
        arguments += ["--torch-backend", fit.torch_backend, "--output-file", output]
        everywhere = sources.everywhere
        try:
            uv.run([*arguments, *everywhere.arguments], extra=everywhere.variables)
        except UvError as error:
            return {}, f"could not be queried: {error.message}"
        return jobs_of(tomli.loads(output.read_text(encoding="utf-8")), packages), ""


def jobs_of(pylock: Mapping[str, Any], packages: Sequence[LockedPackage]) -> dict[str, Job]:
    """Return the jobs that a lock of uv's (PEP 751) names for the packages: wheels with one of their hashes."""
    wanted = {package.name: package for package in packages}
    found: dict[str, Job] = {}
    for entry in pylock["packages"]:
        package = wanted.get(canonicalize_name(entry["name"]))
        for wheel in entry.get("wheels", ()):
            digest = wheel["hashes"].get("sha256", "")
            if package is not None and "url" in wheel and digest in package.hashes:
                filename = unquote(urlsplit(wheel["url"]).path.rsplit("/", 1)[-1])
                file = File(filename=filename, url=wheel["url"], sha256=digest, size=wheel.get("size"))
                found[package.name] = Job(package=package, file=file)
    return found


def _missing(package: LockedPackage, absent: _Absent, folder: Path, fit: Fit) -> Missing:
    if absent.transient:
        return Missing(name=package.name, version=package.version, reason=absent.reason, hint=_AGAIN)
    if absent.elsewhere:
        hint = (
            "the lock has none for this Python and machine: "
            f"lock it again with `--python {fit.python} --machine {fit.machine}`"
        )
        return Missing(name=package.name, version=package.version, reason=absent.reason, hint=hint)
    digests = " or ".join(package.hashes[:3])
    return Missing(
        name=package.name,
        version=package.version,
        reason=absent.reason,
        hint=f"download its CPython {fit.python} wheel (sha256 {digests}) on a machine with access, "
        f"put it into {folder}, and run the same command again: it verifies the wheel",
    )
