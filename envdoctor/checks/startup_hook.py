"""Code that runs at every start of the interpreter and that nothing accounts for.

What it finds:
    .pth files that are not text in UTF-8: Python reads them when it starts, and stops.
    Import lines of .pth files, and sitecustomize or usercustomize modules, that certainly end every start: they raise
    SystemExit or what else site.py does not catch, or leave through os._exit. Read from the syntax tree, never run.
    Import lines of .pth files, and sitecustomize or usercustomize modules, that no distribution owns; and owned ones
    that decode or fetch what they run. In a venv with --system-site-packages the base's are
    part of each start too. The standard library's own and virtualenv's are left out.

Why it matters:
    They run before any other code of every rank, can patch any module, and no lock lists them. One line can take
    seconds of each start, or send secrets away: litellm 1.82.8 came with one that did (BerriAI/litellm issue 24521).

Example:
    `site-packages/debug_patch.pth: import sys; exec(open('/tmp/patch.py').read())`

Fix:
    Read the file; set it aside when nobody claims it.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import reinstall_command, uninstall_command
from envdoctor.analysis.taken_away import not_to_uninstall
from envdoctor.analysis.variable_commands import leave_out_command
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.pattern import pattern
from envdoctor.model.verdict import BREAKS_IMPORT, STOPS_PYTHON
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.startup_ends import End
from envdoctor.probes.venv.startup_hooks import Hook, StartupHooks

CODE = "ED604"
NAME = "startup-hook"
AREA = "Environment"
# virtualenv and older uv write it without a RECORD; old setuptools' easy-install.pth keeps its place on sys.path.
_KNOWN = pattern(r"^import _virtualenv$|^import sys; (?:sys\.__plen = len\(sys\.path\)|new=sys\.path\[sys\.__plen:\])")
_HIDDEN = pattern(r"base64|subprocess|urllib|socket|marshal|zlib|b85decode")
_AT_ONCE = pattern(r"_exit|abort")
_SHOWN, _WIDTH = 3, 400
_OF_THE_BASE = "base site-packages"
# dpkg's packages come without RECORD.
_DEBIAN = "/lib/python3/dist-packages/"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file at which Python stops, and one for each unaccounted hook."""
    yield from (_fatal(path) for path in case.facts[SearchPath].fatal)
    for hook in case.facts[StartupHooks].hooks:
        if hook.end is not None:
            yield _ending(case, hook, hook.end)
            continue
        known = bool(hook.lines) and all(_KNOWN.match(line) for line in hook.lines)
        if known or hook.origin == "standard library" or _DEBIAN in hook.path:
            continue
        hidden = any(_HIDDEN.search(line) for line in hook.lines)
        if not hook.owner or hidden:
            yield _finding(hook, hidden=hidden)


def _fatal(path: str) -> Finding:
    name = path.rpartition("/")[2]
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{name} stops this interpreter when it starts: it is not text in UTF-8",
        subject=name,
        evidence=(
            f"{path}: UnicodeDecodeError in site.py",
            "Python 3.13 goes on to try the locale's encoding, which is the same one in a UTF-8 or C locale",
        ),
        remediation=Remediation(
            text="Set it aside, under a name that site.py does not read, and write it again in UTF-8",
            commands=(_aside(path),),
        ),
        causes=(STOPS_PYTHON, BREAKS_IMPORT),
    )


def _ending(case: CheckContext, hook: Hook, end: End) -> Finding:
    name = _name(hook)
    inside = f", which {name} imports" if end.path != hook.path else ""
    kind = "leaves Python at once" if _AT_ONCE.search(end.text) else "raises what site.py does not catch"
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{name} ends every start of this interpreter",
        subject=name,
        evidence=(
            f"{end.path}{f' line {end.line}' if end.line else ''}: {_shown(end.text)}",
            f"it {kind}, whatever is to be run{inside}",
            f"{hook.path} ({hook.origin}) is {_owned(hook)}",
        ),
        remediation=_without(case, hook),
        causes=(STOPS_PYTHON, BREAKS_IMPORT),
    )


def _without(case: CheckContext, hook: Hook) -> Remediation:
    """Return how Python starts without the hook. Nothing but a rename comes first: uv and pip start this Python too."""
    if hook.origin in ("PYTHONPATH", "user site"):
        folder = hook.path.removesuffix("/__init__.py").rpartition("/")[0]
        return Remediation(
            text="Keep its folder out of this environment, or correct the file",
            commands=(leave_out_command(case, hook.origin, folder),),
            safe=True,
        )
    if hook.origin == _OF_THE_BASE:
        text = "Correct or remove it in the base interpreter, or make the venv without --system-site-packages"
        return Remediation(text=text)
    if hook.origin not in ("site-packages", "") and not hook.owner:
        return Remediation(text=f"Correct the file, or take its folder out of {hook.origin}")
    aside = _aside(hook.path)
    if not hook.owner:
        return Remediation(
            text="Set it aside, under a name that Python does not look for, and read it", commands=(aside,)
        )
    version = next(item.version for item in case.facts[Distributions].items if item.name == hook.owner)
    if hook.published:
        keep = not_to_uninstall(case, [hook.owner])
        then = keep or f"uninstall {hook.owner} {version}, which was published so"
        commands = () if keep else (uninstall_command(case, [hook.owner]),)
        return Remediation(text=f"Set it aside so that Python starts, and {then}", commands=(aside, *commands))
    text = f"Set it aside so that Python starts, and install {hook.owner} {version} again, which has changed here"
    return Remediation(text=text, commands=(aside, reinstall_command(case, [(hook.owner, version)])))


def _aside(path: str) -> str:
    return f"mv {shlex.quote(path)} {shlex.quote(path + '.aside')}"


def _name(hook: Hook) -> str:
    return hook.path if hook.path.endswith("/__init__.py") else hook.path.rpartition("/")[2]


def _owned(hook: Hook) -> str:
    return f"owned by {hook.owner}" if hook.owner else "owned by no distribution"


def _finding(hook: Hook, *, hidden: bool) -> Finding:
    name = _name(hook)
    base = hook.origin == _OF_THE_BASE
    runs = "decodes or fetches code and runs it" if hidden else "runs code"
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{name} {runs} at every start of this interpreter; it is {_owned(hook)}",
        subject=name,
        evidence=(f"{hook.path} ({hook.origin})", *map(_shown, hook.lines[:_SHOWN]), *_more(hook)),
        remediation=Remediation(
            text="Read it before anything else: it runs in every process. "
            + (
                "It is the base interpreter's, and other environments start with it too; a venv made without "
                "--system-site-packages does not"
                if base
                else "Set it aside when nobody claims it; a machine's own set-up puts such files there too"
            ),
            commands=() if hook.owner or base else (_aside(hook.path),),
        ),
    )


def _shown(line: str) -> str:
    """Return a line of code, or its beginning and how long it is: what it does may be at its end."""
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]} … ({len(line)} characters in all)"


def _more(hook: Hook) -> tuple[str, ...]:
    left = len(hook.lines) - _SHOWN
    return (f"and {counted(left, 'more line')} of code",) if left > 0 else ()
