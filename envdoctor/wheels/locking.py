"""Making a lock: resolve requirements with uv for a date, keep the hashes of the wheels that fit, name no host."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import tomli
from packaging.markers import Marker
from packaging.tags import Tag
from packaging.utils import BuildTag, canonicalize_name, parse_wheel_filename

from envdoctor.errors import LockError
from envdoctor.facts.regular_file import read_text
from envdoctor.model.frozen import frozen
from envdoctor.standards import lock as lock_model
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.standards.need import linux_markers
from envdoctor.standards.wheel_builds import tags_in
from envdoctor.wheels import pylock_text, wheel_tags
from envdoctor.wheels.index_config import IndexAccess
from envdoctor.wheels.temporary import temporary_folder
from envdoctor.wheels.uv import Uv

_MAXIMUM = 32 << 20

# Newer than any glibc in use: a wheel built for a later one must not be missing from the lock on a later machine.
NEWEST_GLIBC = 50


@frozen
class LockPlatform:
    """A Python and a machine the lock is to fit."""

    python: str
    """"3.12"."""
    machine: str
    """"x86_64"."""

    def markers(self) -> dict[str, str]:
        """Return its PEP 508 environment."""
        return linux_markers(self.python, self.machine)

    def tags(self) -> Mapping[Tag, int]:
        """Return the wheel tags it supports and their order, best first."""
        major, minor = (int(part) for part in self.python.split("."))
        return wheel_tags.places(wheel_tags.supported((major, minor), self.machine, NEWEST_GLIBC))


@frozen
class LockRequest:
    """What is to be locked."""

    requirements: Path
    platforms: tuple[LockPlatform, ...]
    before: str = ""
    """RFC 3339 time: nothing uploaded later is used; empty for today's newest."""
    undated: tuple[str, ...] = ()
    """Distributions from sources that state no upload time (a folder, the PyTorch indexes)."""
    torch_backend: str = ""
    kept: tuple[LockedPackage, ...] = ()
    """Pins of an earlier lock that are to stay where the requirements allow it."""
    upgrade: tuple[str, ...] = ()
    """Distributions that need not stay."""


def attested(text: str, name: str) -> tuple[LockedPackage, ...]:
    """Return the pins of a requirements text that carry hashes."""
    logical = text.replace("\\\n", " ").splitlines()
    hashed = [line for line in logical if "--hash" in line and not line.lstrip().startswith("#")]
    told = [line for line in logical if line.lstrip().startswith("#")]
    return lock_model.parse("\n".join([*hashed, *told]), name).packages if hashed else ()


def resolve(wanted: LockRequest, uv: Uv, reach: IndexAccess) -> dict[str, Any]:
    """Let uv resolve; return its PEP 751 document, which names the wheels behind the hashes. Raises UvError."""
    arguments: list[str | Path] = ["pip", "compile", wanted.requirements, "--format", "pylock.toml", "--quiet"]
    # Named, so that uv starts no other to ask what it is: an active venv's would run the start-up code of the venv.
    arguments += ["--python", sys.executable, "--no-header", "--only-binary", ":all:"]
    arguments += ["--index-strategy", "unsafe-best-match"]
    first = wanted.platforms[0]
    if len(wanted.platforms) > 1:
        arguments += ["--universal", "--python-version", min((p.python for p in wanted.platforms), key=_numbers)]
    else:
        arguments += ["--python-version", first.python, "--python-platform", f"{first.machine}-manylinux_2_28"]
    arguments += ["--exclude-newer", wanted.before] if wanted.before else []
    for name in wanted.undated:
        arguments += ["--exclude-newer-package", f"{name}=false"]
    arguments += ["--torch-backend", wanted.torch_backend] if wanted.torch_backend else []
    for name in wanted.upgrade:
        arguments += ["--upgrade-package", name]
    with temporary_folder() as folder:
        output = Path(folder, "pylock.toml")
        if wanted.kept:
            # uv prefers the versions of the file that it is about to replace.
            output.write_text(pylock_text.preferences(wanted.kept), encoding="utf-8")
        uv.run([*arguments, *reach.arguments, "--output-file", output], extra=reach.variables)
        return tomli.loads(output.read_text(encoding="utf-8"))


def lock_of(
    pylock: Mapping[str, Any], platforms: Sequence[LockPlatform], name: str, known: Iterable[LockedPackage]
) -> Lock:
    """Return the lock for these platforms. `known` adds attested hashes of wheels that cannot be seen from here.

    Packages for other systems are left out, and so are the hashes of wheels that fit none of the platforms. Raises
    LockError for a package without a wheel that fits.
    """
    attested = {(package.name, package.version): package for package in known}
    tags = [platform.tags() for platform in platforms]
    packages = []
    for entry in pylock["packages"]:
        marker = str(entry.get("marker", ""))
        holds = [not marker or Marker(marker).evaluate(platform.markers()) for platform in platforms]
        if any(holds):
            pinned = (canonicalize_name(entry["name"]), str(entry["version"]))
            hashes = _hashes(entry, [t for t, held in zip(tags, holds, strict=True) if held])
            more = attested.get(pinned)
            hashes = list(dict.fromkeys([*hashes, *(more.hashes if more else ())]))
            packages.append(
                LockedPackage(
                    name=pinned[0],
                    version=pinned[1],
                    hashes=tuple(hashes),
                    marker="" if all(holds) else marker,
                    tags=_tags(hashes, entry, more),
                )
            )
    bare = [package.name for package in packages if not package.hashes]
    if bare:
        raise LockError(f"{name}: no wheel fits for {', '.join(bare)}", "pin another version, or fewer platforms")
    return Lock(name=name, packages=tuple(sorted(packages, key=lambda package: (package.name, package.version))))


def text_of(lock: Lock, comment: str) -> str:
    """Return the lock as hashed requirements, with `comment` as its head. It names no host."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for package in lock.packages:
        marker = f" ; {package.marker}" if package.marker else ""
        lines.append(f"{package.name}=={package.version}{marker} \\")
        lines += [f"    --hash=sha256:{digest} \\" for digest in package.hashes[:-1]]
        lines.append(f"    --hash=sha256:{package.hashes[-1]}")
        wheels = dict(zip(package.hashes, package.tags, strict=True)) if package.tags else {}
        lines += [f"    # {digest[:12]}: {tags}" for digest, tags in wheels.items() if tags]
    return "\n".join(lines) + "\n"


def head_of(lock_file: Path | None) -> str:
    """Return the comment at the head of a lock that is to be replaced; empty without one. Raises LockError."""
    if lock_file is None or not lock_file.exists():
        return ""
    try:
        lines = read_text(lock_file, _MAXIMUM).splitlines()
    except OSError as error:
        raise LockError(f"{lock_file} cannot be read: {error.strerror}", "name another output") from error
    except UnicodeDecodeError as error:
        raise LockError(f"{lock_file} is not UTF-8 text: {error}", "name another output") from error
    comment = [line for at, line in enumerate(lines) if all(one.startswith("#") for one in lines[: at + 1])]
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in comment)


def _tags(hashes: Sequence[str], entry: Mapping[str, Any], more: LockedPackage | None) -> tuple[str, ...]:
    """Return the tags of the wheel behind each hash, from its file name, else as the attested pin says."""
    known = dict(zip(more.hashes, more.tags, strict=True)) if more and more.tags else {}
    known |= {digest: tags_in(filename) for filename, digest in _files(entry)}
    tags = tuple(known.get(digest, "") for digest in hashes)
    return tags if any(tags) else ()


def _files(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return file name and sha256 of each wheel of an entry of a resolver's document."""
    return [
        (unquote(urlsplit(wheel["url"]).path.rsplit("/", 1)[-1]), str(wheel["hashes"]["sha256"]))
        for wheel in entry.get("wheels", ())
    ]


def _hashes(entry: Mapping[str, Any], platforms: Sequence[Mapping[Tag, int]]) -> list[str]:
    return best_hashes(_files(entry), platforms)


def best_hashes(files: Iterable[tuple[str, str]], platforms: Sequence[Mapping[Tag, int]]) -> list[str]:
    """Return the hashes of the wheels that fit best, for each platform those of one Python tag and ABI.

    files: file name and sha256 of each wheel of one distribution.

    A `py310-none-any` beside a `py312-none-any` of one version is another build, which must not be taken by chance, and
    of several with the same tags the one with the highest build tag is meant. Of one build for several glibc all stay:
    which of them a machine can take is not known here.
    """
    last: dict[frozenset[Tag], tuple[BuildTag, str]] = {}
    for filename, digest in files:
        _, _, number, fitting = parse_wheel_filename(filename)
        if fitting not in last or number > last[fitting][0]:
            last[fitting] = (number, digest)
    wheels = [(fitting, digest) for fitting, (_, digest) in last.items()]
    kept: set[str] = set()
    for order in platforms:
        builds = [(min(ranked), digest) for tags, digest in wheels if (ranked := _ranked(tags, order))]
        best = min((build for (_, build), _ in builds), key=lambda build: _first(build, order), default=None)
        kept |= {digest for (_, build), digest in builds if build == best}
    return [digest for _, digest in wheels if digest in kept]


def _ranked(tags: Iterable[Tag], order: Mapping[Tag, int]) -> list[tuple[int, tuple[str, str]]]:
    """Return (place in the order, (Python tag, ABI)) of each tag that is supported."""
    return [(order[tag], (tag.interpreter, tag.abi)) for tag in tags if tag in order]


def _first(build: tuple[str, str], order: Mapping[Tag, int]) -> int:
    return min(at for tag, at in order.items() if (tag.interpreter, tag.abi) == build)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
