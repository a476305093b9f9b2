"""A printed uv line looks where uv and pip are configured to look, and at the PyTorch index only where neither is.

uv reads nothing of pip's configuration, so pip's sources become options of the line. A build such as torch 2.11.0+cu128
is on no default index: it is on the PyTorch index, which `--torch-backend` names, or on what somebody configured.
`--torch-backend` passes over configured indexes, so it is never added to theirs. A restore has the same order.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from envdoctor.errors import EnvdoctorError
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.standards.redaction import secret_place, secrets_of
from envdoctor.wheels import pip_config, uv_config
from envdoctor.wheels.index_config import PLACES, pip_as_uv

_WORD = pattern(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+")
_VARIABLE = pattern(r"[A-Z_]+=")
_BUILD = pattern(r"(?:torch|torchvision|torchaudio)={2,3}[\w.]+\+(?P<local>cpu|cu\d+|rocm[\d.]+|xpu)")
_INSTALL, _UNINSTALL = ["uv", "pip", "install"], ["uv", "pip", "uninstall"]
_INLINE = pattern(r"`(?P<line>[^`]*uv pip install [^`]*)`")
_BACKEND = "--torch-backend"
_BREAK = "--break-system-packages"
_OPTIONS = {
    "UV_DEFAULT_INDEX": ("--default-index", " "),
    "UV_INDEX": ("--index", " "),
    "UV_FIND_LINKS": ("--find-links", ","),
    "SSL_CERT_FILE": ("", "\n"),
    "ALL_PROXY": ("", "\n"),
}
"""Variable -> the option that says the same, if there is one in every uv, and what is between two values."""
_OF_PLACES = {"--no-index", "--default-index", "--index", "--index-url", "--extra-index-url", "--find-links"}


@frozen
class WheelSources:
    """What is configured besides the default index."""

    own: bool = False
    options: tuple[str, ...] = ()
    """pip's, for a line of uv's."""
    login: str = ""
    """Says which of pip's no option can carry, and how the shell gets them; else empty."""
    managed: bool = False
    """Whether the Python is marked as its system's: uv changes nothing there unless it is told to."""


def sources(environ: Mapping[str, str], home: Path, cwd: Path, prefix: Path) -> WheelSources:
    """Read the configuration of uv and pip for the Python of `prefix`.

    What cannot be read counts as none: its own tool refuses it anyway.
    """
    # Debian's folder of the standard library is not always that of its packages.
    marks = () if (prefix / "pyvenv.cfg").exists() else prefix.glob("lib/python3*/EXTERNALLY-MANAGED")
    return replace(_configured(environ, home, cwd, prefix), managed=any(marks))


def _configured(environ: Mapping[str, str], home: Path, cwd: Path, prefix: Path) -> WheelSources:
    try:
        pip = pip_config.read(environ, home, venv=prefix)
        told = uv_config.read(environ, home, cwd).settings
    except EnvdoctorError:
        return WheelSources()
    own = any(map(environ.get, PLACES)) or any(key in (*told, *told.get("pip", {})) for key in uv_config.PLACES)
    if not (pip.anything or pip.certificate or pip.proxy):
        return WheelSources(own=own)
    variables, _ = pip_as_uv(environ, pip, cwd, told)
    secrets, hidden, exports = secrets_of(environ), list[str](), list[str]()
    options = ["--no-index"] if pip.no_index else []
    for name, (option, separator) in _OPTIONS.items():
        own_places = environ.get(name, "").split(separator)
        # The shell has what the environment names.
        places = variables[name].split(separator) if variables.get(name, "") not in ("", environ.get(name)) else []
        added = [place for place in places if place not in own_places]
        if not added:
            continue  # uv's own variable has them all
        if any(secret_place(place, secrets) for place in added):
            hidden.append(name)
        elif not option or any(secret_place(place, secrets) for place in places):
            # Its own the shell adds without showing them; an option would take the place of all of them.
            before = f'"${name}{separator}"' if len(added) < len(places) else ""
            exports.append(f"{name}={before}{shlex.quote(separator.join(added))}")
        else:
            options += [part for place in places for part in (option, place)]
    options += [part for name in pip.trusted_hosts for part in ("--allow-insecure-host", name)]
    if "UV_DEFAULT_INDEX" in hidden:
        # With the others alone, a name could be taken from an index that the user did not mean.
        options, exports = [], [one for one in exports if not one.startswith("UV_")]
    elif pip.extra_index_urls:
        options += ["--index-strategy", "unsafe-best-match"]
    return WheelSources(own=own or pip.anything, options=tuple(options), login=_not_carried(exports, hidden))


def _not_carried(exports: Sequence[str], hidden: Sequence[str]) -> str:
    told = [f"first `export {' '.join(exports)}`"] if exports else []
    told += [f"what may be a secret is not printed: set {' and '.join(hidden)}"] if hidden else []
    return f"uv does not read pip's configuration: {', and '.join(told)}" if told else ""


def sourced(command: str, known: WheelSources) -> str:
    """Return a printed command whose installs by uv look where wheels can come from."""
    words = _WORD.findall(command)
    if " ".join(words) != command:
        return command
    parts: list[list[str]] = [[]]
    for word in words:
        parts[-1].append(word)
        if word == "&&":
            parts.append([])
    return " ".join(word for part in parts for word in _part(part, known))


def sourced_text(text: str, known: WheelSources) -> str:
    """Return a sentence whose lines for uv, each in backquotes, look where wheels can come from."""
    return _INLINE.sub(lambda found: f"`{sourced(found['line'], known)}`", text)


def note(commands: Sequence[str], known: WheelSources) -> str:
    """Return what else there is to know about the sources of printed commands; empty for nothing."""
    installs = " ".join(command for command in commands if " ".join(_INSTALL) in command)
    told = []
    if _BREAK in " ".join(commands):
        told.append(f"this Python is marked as the system's, which `{_BREAK}` passes over: a venv is the safe place")
    told += [known.login] if known.login and installs else []
    if not installs or not known.own:
        return "; ".join(told)
    if _BACKEND in installs:
        told.append(f"`{_BACKEND}` asks the PyTorch index: with a mirror, name the build instead (torch==2.11.0+cu128)")
    elif match := _BUILD.search(installs):
        told.append(f"where no configured source has that build, add `{_BACKEND} {match['local']}`")
    return "; ".join(told)


def _part(words: list[str], known: WheelSources) -> list[str]:
    start = next((at for at, word in enumerate(words) if not _VARIABLE.match(word)), 0)
    if known.managed and words[start : start + 3] in (_INSTALL, _UNINSTALL):
        words = [*words[: start + 3], _BREAK, *words[start + 3 :]]
    if words[start : start + 3] != _INSTALL:
        return words
    builds = {match["local"] for word in words for text in shlex.split(word) if (match := _BUILD.fullmatch(text))}
    added: list[str] = []
    if len(builds) == 1:
        at = words.index(_BACKEND) if _BACKEND in words else len(words)
        words = [*words[:at], *words[at + 2 :]]
        added = [] if known.own else [_BACKEND, *builds]
    if not _OF_PLACES & set(words):
        added += map(shlex.quote, known.options)
    at = words.index("--python") + 2 if "--python" in words else start + 3
    return [*words[:at], *added, *words[at:]]
