"""uv's errors in the words of a restore: what is wrong, the evidence, the next command."""

import re
import signal
from collections.abc import Callable

from envdoctor.model.pattern import pattern

Explained = tuple[str, str]
"""(message, hint)"""
RANGE = ">=0.11,<0.14"
"""The versions of uv whose words are known here, as pyproject.toml has them."""

_REQUIREMENT = pattern(r"`([A-Za-z0-9][A-Za-z0-9._-]*==[^`\s]+)`")
_MISMATCH = pattern(
    r"Hash mismatch for `(?P<what>[^`]+)`\s+Expected:(?P<expected>.*?)Computed:(?P<computed>.*)", re.DOTALL
)
_DIGEST = pattern(r"sha256:([0-9a-f]{64})")
_REQUIRED = pattern(r"you\s+require\s+([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s,]+)")
_TAGS = pattern(
    r"(?:You require (?P<wanted>CPython [\d.]+)[^,]*, but w|W)e only found wheels for `(?P<name>[^`]+)` "
    r"\(v(?P<version>[^)]+)\) with the following [\w ]*tags?: (?P<has>`[^`]+`(?:, `[^`]+`)*)"
)
_UNKNOWN = pattern(
    r"(?<![A-Za-z0-9._-])([A-Za-z0-9][A-Za-z0-9._-]*) was not found in the "
    r"(?:package registry|provided package locations)"
    r"|there (?:are no versions|is no version) of ([A-Za-z0-9][A-Za-z0-9._-]*)"
    r"|only (?:the following versions of )?([A-Za-z0-9][A-Za-z0-9._-]*)[^ ]* (?:is|are) available"
)
_URL = pattern(r"[Ff]ailed to fetch:? `?(https?://[^`\s]+)")
_BEFORE = r"(?:at path |file |directory |: )[`\"']?"
_DENIED = pattern(rf"{_BEFORE}(/(?:(?!{_BEFORE}/)[^`\"'\n])*?)[`\"']?: Permission denied")
_NO_FOLDER = pattern(r"File exists|Not a directory|File name too long|Too many levels of symbolic links")
"""What the path itself is at fault for; every other refusal is the file system's."""
_FAILED_BUILD = pattern(r"Failed to (?:build|download and build) `([^`]+)`")
_RAISED = pattern(r"^[ \t]*((?:[A-Za-z_][\w.]{0,200}\.)?[A-Z]\w{0,200}(?:Error|Exception)(?:: .*)?)$", re.MULTILINE)
_NETWORK = (
    "dns error",
    "error sending request",
    "Could not connect",
    "tcp connect error",
    "operation timed out",
    "connection closed",
    "error decoding response body",
    "end of file before message length reached",
)
_EMPTIED = pattern(
    r"Failed to install: \S+ \((?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==[^)]+\)\s+"
    r"(?:cause|Caused by): failed to read directory `(?P<folder>[^`]+)`: No such file"
)
_SOME = "a wheel"
_BROKEN_ARCHIVE = ("Failed to extract archive", "Invalid zip file", "ZIP structure was truncated", "unexpected EOF")


def explain(stderr: str, returncode: int) -> Explained:
    """Return (message, hint) for a failed uv run; the first rule that knows the error wins."""
    if returncode == -signal.SIGXFSZ:
        return "a file grew over the limit of this shell (`ulimit -f`)", "raise it: `ulimit -f unlimited`"
    if returncode < 0:
        return (
            f"uv was ended by {signal.Signals(-returncode).name}",
            "run it again; if it was SIGKILL and stays so, memory ran out (`dmesg` names who was killed)",
        )
    for rule in _RULES:
        known = rule(stderr)
        if known is not None:
            return known
    return (
        f"uv ended with code {returncode}: {_first_error(stderr)}",
        _hint(stderr) or "run it again; if it stays so, report these lines",
    )


def of_input(stderr: str) -> bool:
    """Tell whether what the user told uv is at fault, and no source, network or disk."""
    if _no_cache(stderr):
        return _NO_FOLDER.search(stderr) is not None
    return any(rule(stderr) for rule in (_value, _variable))


def missing(stderr: str) -> tuple[str, str] | None:
    """Return the (name, version) that uv's resolver could not find, when that is the error."""
    if "No solution found" not in stderr and "not found in the" not in stderr:
        return None
    required = _REQUIRED.search(" ".join(stderr.split()))
    return (required[1], required[2].rstrip(".")) if required else None


def _first_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    at = next((index for index, line in enumerate(lines) if line.startswith("error:")), max(len(lines) - 1, 0))
    end = next((index for index, line in enumerate(lines) if line.startswith("hint:") and index > at), len(lines))
    told = [line.removeprefix("error:").removeprefix("cause:").strip() for line in lines[at : min(at + 6, end)]]
    return ": ".join(told) or "it said nothing"


def _what(stderr: str) -> str:
    named = _REQUIREMENT.search(stderr) or _URL.search(stderr)
    return named[1] if named else _SOME


def _hash_mismatch(stderr: str) -> Explained | None:
    found = _MISMATCH.search(stderr)
    if found is None:
        return None
    locked = ", ".join(_DIGEST.findall(found["expected"]))
    got = ", ".join(_DIGEST.findall(found["computed"])[:1])
    return (
        f"the wheel of {found['what']} is not the locked one: it hashes to {got}, the lock allows {locked}",
        "do not install it; find out which source serves other bytes (a rebuilt wheel, a mirror, a tampered cache)",
    )


def _offline(stderr: str) -> Explained | None:
    if "Network connectivity is disabled" not in stderr and "network was disabled" not in stderr:
        return None
    absent = missing(stderr)
    what = "==".join(absent) if absent else _what(stderr)
    told = "uv was told to stay offline (--offline, UV_OFFLINE or uv.toml)"
    return f"{what} is not in uv's cache, and {told}", "run the same command with the network allowed"


def _other_tags(stderr: str) -> Explained | None:
    """Explain that the source has the version, for another Python or platform only."""
    found = _TAGS.search(" ".join(stderr.split())) if "No solution found" in stderr else None
    if found is None:
        return None
    has = re.findall(r"`([^`]+)`", found["has"])
    wanted = f"{found['wanted']} is" if found["wanted"] else "another is"
    pythons = [f"3.{tag[3:]}" for tag in has if re.fullmatch(r"cp3\d+", tag)]
    other = f" (Python {pythons[-1]})" if pythons else ""
    return (
        f"{found['name']} {found['version']} has wheels for {', '.join(has)} only, and {wanted} asked for",
        f"ask for one that it has a wheel for{other}, or for another version of it",
    )


def _unresolved(stderr: str) -> Explained | None:
    absent = missing(stderr)
    if absent is None:
        return None
    name, version = absent
    return (
        f"no configured source has {name} {version} for this interpreter",
        "look at its name and version, or name a folder that has its wheel: `export PIP_FIND_LINKS=FOLDER`",
    )


def _unknown(stderr: str) -> Explained | None:
    words = " ".join(stderr.split())
    found = _UNKNOWN.search(words) if "No solution found" in words else None
    if found is None:
        return None
    return (
        f"no configured source has {found[1] or found[2] or found[3]} as it is asked for: {_first_error(stderr)}",
        "look at its name and version; the sources are those of uv's and pip's configuration (UV_INDEX, pip.conf)",
    )


def _build(stderr: str) -> Explained | None:
    """Explain a failed build of a source distribution by the last error in it, and by what uv says of it."""
    failed = _FAILED_BUILD.search(stderr)
    if failed is None:
        return None
    raised = _RAISED.findall(stderr)
    return (
        f"{failed[1]} could not be built: {raised[-1].strip() if raised else _last_cause(stderr)}",
        _hint(stderr) or "take a version that has a wheel for this interpreter, or build a wheel of it elsewhere",
    )


def _hint(stderr: str) -> str:
    """Return uv's own hint in one line; empty where it gives none."""
    _, found, rest = stderr.partition("\nhint: ")
    return " ".join(rest.split()) if found else ""


def _unknown_argument(stderr: str) -> Explained | None:
    found = re.search(r"(?:unexpected argument|unrecognized subcommand) '[^']+'", stderr)
    if found is None:
        return None
    return (
        f"this uv is too old or too new for envdoctor ({found[0]})",
        f"`uv --version` says which it is; `pip install 'uv{RANGE}'` beside envdoctor installs one that fits",
    )


def _value(stderr: str) -> Explained | None:
    found = re.search(r"invalid value '([^']*)' for '(--[\w-]+)[^']*'(?:: (.+))?", stderr)
    return (f"uv does not take {found[1]!r} for {found[2]}: {found[3] or 'unknown'}", "correct it") if found else None


def _variable(stderr: str) -> Explained | None:
    found = re.search(r"Failed to parse environment variable `(\w+)` with invalid value `([^`]*)`: (.+)", stderr)
    return (f"uv refuses {found[1]}={found[2]}: {found[3]}", f"correct it, or `unset {found[1]}`") if found else None


def _no_cache(stderr: str) -> Explained | None:
    if "Failed to initialize cache" not in stderr or "No space left" in stderr or "Permission denied" in stderr:
        return None
    return f"uv's cache cannot be used: {_last_cause(stderr)}", "name a folder for it: `export UV_CACHE_DIR=FOLDER`"


def _disk_full(stderr: str) -> Explained | None:
    if "No space left on device" not in stderr and "os error 28" not in stderr:
        return None
    return "the disk is full", "free some space (`uv cache prune` and old backups are candidates) and run it again"


def _permission(stderr: str) -> Explained | None:
    found = _DENIED.search(stderr)
    if "Permission denied" not in stderr and "Read-only file system" not in stderr:
        return None
    where = found[1] if found else _first_error(stderr)
    return f"permission denied: {where}", "run as the owner of the venv's folder and of uv's cache, or set UV_CACHE_DIR"


def _credentials(stderr: str) -> Explained | None:
    found = re.search(r"HTTP status client error \((40[137]) [^)]*\) for url\s+\(([^)]+)\)", stderr)
    if found is None:
        return None
    return (
        f"{_what(stderr)}: the index refused access ({found[1]}): {found[2]}",
        "give uv credentials for it (netrc, keyring, or UV_INDEX_<NAME>_USERNAME and _PASSWORD)",
    )


def _gone(stderr: str) -> Explained | None:
    found = re.search(r"HTTP status (?:client|server) error \(([45]\d\d) [^)]*\) for url\s+\(([^)]+)\)", stderr)
    if found is None:
        return None
    return (
        f"{_what(stderr)}: the index names a file that it does not serve ({found[1]}): {found[2]}",
        "try again later, or name another source that has the wheel: `export PIP_FIND_LINKS=FOLDER`",
    )


def _damaged(stderr: str) -> Explained | None:
    if not any(sign in stderr for sign in _BROKEN_ARCHIVE):
        return None
    what = _what(stderr)
    return (
        f"{what if what == _SOME else f'the wheel of {what}'} is cut off or damaged: {_last_cause(stderr)}",
        "run it again; if it stays so, the source serves a broken file",
    )


def _emptied(stderr: str) -> Explained | None:
    """Explain a link of the cache that leads nowhere: of a wheel from an index uv fetches it again, of a file not."""
    found = _EMPTIED.search(stderr)
    if found is None:
        return None
    message = f"uv's cache lists a wheel of {found['name']}, and its folder is gone: {found['folder']}"
    return message, f"`uv cache clean {found['name']}`, then run it again"


def _network(stderr: str) -> Explained | None:
    if not any(sign in stderr for sign in _NETWORK):
        return None
    return (
        f"{_what(stderr)} could not be fetched: {_last_cause(stderr)}",
        "check the network and the proxy; what is in uv's cache or in a local folder needs neither",
    )


def _last_cause(stderr: str) -> str:
    causes = re.findall(r"(?:cause|Caused by): (.+)", stderr)
    return causes[-1].strip() if causes else _first_error(stderr)


_RULES: tuple[Callable[[str], Explained | None], ...] = (
    _unknown_argument,
    _value,
    _variable,
    _no_cache,
    _hash_mismatch,
    _disk_full,
    _permission,
    _offline,
    _other_tags,
    _unresolved,
    _unknown,
    _credentials,
    _gone,
    _network,
    _damaged,
    _emptied,
    _build,
)
