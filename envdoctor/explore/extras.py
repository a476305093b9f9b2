"""Which extras of the installed distributions somebody asks for."""

from collections import deque

from envdoctor.explore.environment import ExploredEnvironment
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.need import holds, parse_need


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
