"""What a venv takes from outside of itself: its base, the user site, PYTHONPATH, folders that .pth files add."""

import shlex
from collections.abc import Mapping, Sequence

from envdoctor.errors import CaptureError
from envdoctor.facts.context import Reading
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.own_packages import asked_again, is_from_elsewhere
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.shadowing import Shadowing
from envdoctor.standards.names import normalized
from envdoctor.standards.requirements import applies, parse_requirement
from envdoctor.wheels import printed


def outside_of(reading: Reading) -> dict[str, tuple[int, Distribution]]:
    """Return name -> the distribution, and its place, that Python takes from outside of the venv."""
    found = enumerate(reading.fact(Distributions).items)
    return {item.name: (at, item) for at, item in found if item.origin != "site-packages" and not item.shadowed}


def taken_of(
    reading: Reading, own: Sequence[tuple[int, Distribution]], outside: Mapping[str, tuple[int, Distribution]]
) -> list[tuple[int, Distribution]]:
    """Return what the venv takes from outside: torch, what comes before its own, what any of these require."""
    hidden = {item.name for item in reading.fact(Distributions).items if item.origin == "site-packages"}
    taken = {name: one for name, one in outside.items() if name in hidden or name == "torch"}
    while more := {
        name: outside[name]
        for name in required_by(reading, [*own, *taken.values()])
        if name in outside and name not in taken
    }:
        taken |= more
    return [one for _, one in sorted(taken.items())]


def modules_left_behind(
    reading: Reading, captured: Sequence[tuple[int, Distribution]]
) -> frozenset[tuple[str, str, str]]:
    """Return (module, folder in front, folder behind) of each hidden module that a rebuilt venv has once, as it is now.

    Distributions record it in both folders, all of them are outside of the venv or other copies of a captured one, and
    what is taken from the front is captured from there, or nothing of both is.
    """
    taken = {at for at, _ in captured}
    names = {item.name for _, item in captured}
    owners = _module_owners(reading)

    def is_left(item: Distribution) -> bool:
        return item.origin != "site-packages" and item.name not in names

    found = []
    for shadow in reading.fact(Shadowing).shadows:
        front, behind = (owners.get((folder, shadow.module), []) for folder in (shadow.front, shadow.behind))
        if not front or not behind:
            continue
        one = {item.name for _, item in front} if all(at in taken for at, _ in front) else set()
        none = all(is_left(item) for _, item in front)
        if (one or none) and all(item.name in one or is_left(item) for _, item in behind):
            found.append((shadow.module, shadow.front, shadow.behind))
    return frozenset(found)


def _module_owners(reading: Reading) -> dict[tuple[str, str], list[tuple[int, Distribution]]]:
    """Return (site folder, module at its top) -> the distributions that record it, with their places."""
    rows, found = index(reading).rows, dict[tuple[str, str], list[tuple[int, Distribution]]]()
    for at, item in enumerate(reading.fact(Distributions).items):
        for module in {row[0].partition("/")[0].partition(".")[0] for row in rows.get(at, ())} - {""}:
            found.setdefault((item.site, module), []).append((at, item))
    return found


def refuse_outside(reading: Reading, items: Sequence[tuple[int, Distribution]], without: Mapping[str, str]) -> None:
    """Refuse what the lock would lack: requirements that only a distribution outside the venv meets."""
    own = {item.name for _, item in items} | without.keys()
    outside = {item.name: item for item in reading.fact(Distributions).items if item.origin != "site-packages"}
    required = required_by(reading, items)
    lacking = {name: by for name, by in required.items() if name in outside and name not in own}
    if lacking:
        lines = "".join(
            f"\n  {name} {outside[name].version}, which {by} requires, is in {outside[name].site}"
            for name, by in sorted(lacking.items())
        )
        missing = [outside[name] for name in sorted(lacking)]
        pins = " ".join(
            asked_again(item) if is_from_elsewhere(item) else shlex.quote(f"{item.name}=={item.version}")
            for item in missing
        )
        host, python = reading.host, shlex.quote(str(reading.target.interpreter))
        known = printed.sources(host.environ, host.home, host.cwd, reading.target.prefix)
        command = printed.sourced(f"uv pip install --python {python} --no-deps {pins}", known)
        more = "".join(f"; {note}" for note in filter(None, [printed.note([command], known)]))
        raise CaptureError(
            f"a venv restored from this lock could not import all of it, since a part is outside:{lines}\n"
            "nothing was written",
            "pin what the venv takes from there as well: `--with-outside`; or install it into the venv, then capture "
            f"again: `{command}`{more}",
        )


def required_by(reading: Reading, items: Sequence[tuple[int, Distribution]]) -> dict[str, str]:
    """Return what the distributions require here -> the first of them that does."""
    markers = reading.fact(Interpreter).markers()
    found: dict[str, str] = {}
    for _, item in items:
        for line in item.requires:
            needed = parse_requirement(line)
            if needed and applies(needed, markers):
                found.setdefault(normalized(needed.name), item.name)
    return found
