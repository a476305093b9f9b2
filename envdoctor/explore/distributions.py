"""What a distribution owns, and who wants it."""

import difflib
import os
import shlex
from collections import deque
from collections.abc import Iterator

from envdoctor.errors import UsageError
from envdoctor.explore.environment import ExploredEnvironment
from envdoctor.model.why import DistributionAnswer, Requirer, Shared
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.names import normalized
from envdoctor.standards.need import holds, parse_need

_SUGGESTED = 3


def distribution_named(environment: ExploredEnvironment, asked: str) -> tuple[int, Distribution]:
    """Return the active distribution of that name and its index; raise UsageError, with the nearest, when none is."""
    name = normalized(asked)
    for at, item in enumerate(environment.items):
        if item.name == name and not item.shadowed:
            return at, item
    near = difflib.get_close_matches(name, sorted({item.name for item in environment.items}), _SUGGESTED)
    raise UsageError(
        f"{environment.reading.target.prefix} has no distribution called `{asked}`",
        f"did you mean {' or '.join(f'`{other}`' for other in near)}?"
        if near
        else f"`uv pip list --python {shlex.quote(str(environment.reading.target.interpreter))}` lists them",
    )


def distribution_answer(environment: ExploredEnvironment, asked: str) -> DistributionAnswer | None:
    """Return the answer for a distribution's name, however it is spelled; None for an unknown one."""
    name = normalized(asked)
    at = next((at for at, item in enumerate(environment.items) if item.name == name and not item.shadowed), None)
    if at is None:
        return None
    item = environment.items[at]
    files = environment.reading.fact(InstalledFiles)
    owner = next((one for one in files.owners if one.name == name and one.version == item.version), None)
    # What an uninstall would take: `impact remove` tells the same figures.
    there = environment.on_disk(at)
    return DistributionAnswer(
        name=name,
        version=item.version,
        folder=environment.shown(f"{item.site}/{item.folder}"),
        origin=item.origin,
        installer=item.installer,
        editable_from=item.direct_url,
        files=len(there),
        bytes=sum(there.values()),
        missing=owner.missing if owner else 0,
        changed=owner.resized if owner else 0,
        sonames=tuple(sorted(sonames_of(environment, at))),
        required_by=tuple(requirers_of(environment, name)),
        shared=tuple(shared_with(environment, at)),
        libraries=tuple(_taken_from(environment, name)),
    )


def sonames_of(environment: ExploredEnvironment, at: int) -> set[str]:
    """Return the sonames of the libraries in a distribution's RECORD."""
    site = environment.items[at].site
    paths = {os.path.normpath(f"{site}/{row[0]}") for row in environment.records.rows.get(at, ())}
    return {elf.soname for elf in environment.objects() if elf.soname and elf.path in paths}


def requirers_of(environment: ExploredEnvironment, name: str) -> Iterator[Requirer]:
    """Yield what requires a distribution of that normalized name, and whether the requirement applies here."""
    markers = environment.reading.fact(Interpreter).markers()
    extras = requested_extras(environment)
    for item in environment.items:
        for line in item.requires if not item.shadowed else ():
            need = parse_need(line)
            if need is not None and need.name == name:
                yield Requirer(
                    name=item.name,
                    version=item.version,
                    requirement=line,
                    applies=holds(need.marker, markers, extras[item.name]),
                )


def shared_with(environment: ExploredEnvironment, at: int) -> Iterator[Shared]:
    """Yield the paths that a distribution and another one both own, equal bytes or not."""
    others: dict[str, list[str]] = {}
    for path, claims in environment.records.contested.items():
        owners = [owner for owner, _ in claims]
        for other in dict.fromkeys(owners) if at in owners else ():
            if other != at:
                others.setdefault(environment.items[other].name, []).append(environment.shown(path))
    yield from (Shared(other=other, paths=tuple(sorted(paths))) for other, paths in sorted(others.items()))


def _taken_from(environment: ExploredEnvironment, name: str) -> Iterator[str]:
    played = environment.played
    if played is None:
        return
    opened = (*played.objects, *(item for lazy in played.lazy for item in lazy.result.opened))
    for item in opened:
        if environment.owner(os.path.normpath(item.path), item.real) == name:
            yield item.soname or os.path.basename(item.path)


def requested_extras(environment: ExploredEnvironment) -> dict[str, set[str]]:
    """Return normalized name -> extras that other installed distributions ask of it, followed to the end.

    `torch` asks for `cuda-toolkit[cublas]`, so what cuda-toolkit wants for `cublas` is wanted here.
    """
    markers = environment.reading.fact(Interpreter).markers()
    items = {item.name: item for item in environment.items if not item.shadowed}
    asked: dict[str, set[str]] = {name: set() for name in items}
    waiting = deque(items)
    while waiting:
        name = waiting.popleft()
        for line in items[name].requires:
            # Most lines of a large METADATA wait for an extra that nobody asks for.
            need = parse_need(line) if asked[name] or "extra ==" not in line else None
            if need is None or need.name not in asked or not holds(need.marker, markers, asked[name]):
                continue
            if not asked[need.name].issuperset(need.extras):
                asked[need.name].update(need.extras)
                waiting.append(need.name)
    return asked
