"""How the tool gets onto a node: a line of shell finds a Python there, which reads the program from standard input."""

import shlex

from envdoctor.fleet.answer import NO_PYTHON
from envdoctor.model.frozen import frozen

PYTHONS = (
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3",
)
"""The system's first: what PATH has may be the examined environment's own."""
_RUN = 'import sys; exec(compile(sys.stdin.buffer.read(), "envdoctor", "exec"))'
_VISIT = 'import sys; i = sys.stdin.buffer; exec(compile(i.read(int(i.readline())), "envdoctor", "exec"))'
_NEW = "import sys; sys.exit(sys.version_info < (3, 11))"
_EXACTLY = "import sys; sys.exit(sys.version_info[:2] != ({}))"


@frozen
class Errand:
    """What is to be done on one node."""

    node: str
    """As the engine names it."""
    venv: str
    """On the node; empty for the one that is active there."""
    python: str
    """On the node; empty to look for one."""
    mark: str
    """What its answer is recognized by."""
    request: str = ""
    """What a visit is to do, as JSON; empty for an examination."""
    version: tuple[int, int] | None = None
    """Of Python, where parts of what travels are compiled for it; None for any that is new enough."""

    def shell(self) -> str:
        """Return a script for `sh -c`, in one line, that runs the program from standard input.

        `-I -S`: without site and variables, so that no code of an environment is run by the interpreter's start.
        """
        pythons = shlex.join([self.python] if self.python else PYTHONS)
        words = (_VISIT, self.mark, self.request) if self.request else (_RUN, self.mark, self.venv)
        run = f'exec "$p" -I -S -Xutf8=1 -c {shlex.join(words)}'
        wanted = _EXACTLY.format("{}, {}".format(*self.version)) if self.version else _NEW
        test = f'"$p" -I -S -c {shlex.quote(wanted)} 2>/dev/null'
        seen = '$(command -v "$p" >/dev/null 2>&1 && "$p" -V 2>&1 | head -n 1)'
        loop = f'for p in {pythons}; do if {test}; then {run}; fi; v="$v$p {seen}, "; done'
        return f'v=; {loop}; echo "$v" >&2; exit {NO_PYTHON}'


def errand_for(node: str, venv: str, python: str, mark: str) -> Errand:
    """Return the errand for a node; `{node}` in both paths is its name."""
    return Errand(node=node, venv=venv.replace("{node}", node), python=python.replace("{node}", node), mark=mark)
