"""The environment a command line means, and what is found in it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.cli.terminal import say
from envdoctor.doctor import examine
from envdoctor.doctor.heading import heading
from envdoctor.documents import fingerprint_file
from envdoctor.errors import FingerprintError, UsageError
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import Target, resolve
from envdoctor.model.codec import CodecError
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.model.header import Header
from envdoctor.model.verdict import Verdict
from envdoctor.probes.venv.deep_files import DeepFiles

if TYPE_CHECKING:  # a check without a profile does not pay for its types
    from envdoctor.documents.profile_store import ProfileFile
    from envdoctor.model.profile import Waiver
    from envdoctor.standards.lock import Lock


# A stack of 100 distributions makes 100 KB, one with 10,000 damaged files 2 MB.
_MAXIMUM_FINGERPRINT = 64 * 1024 * 1024


@frozen
class Request:
    """What one command line asks to be examined."""

    venv: str = ""
    """A folder or an interpreter; empty for the default."""
    profile: str = ""
    fingerprint: str = ""
    """A fingerprint file, judged instead of a venv."""
    deep: bool = False
    quiet: bool = False
    """No progress on stderr."""
    waivers: "tuple[Waiver, ...]" = ()


def locate(named: str, host: Host) -> Target:
    """Return the environment the user named, else $VIRTUAL_ENV, else ./.venv; raise UsageError when there is none."""
    beside = host.cwd / ".venv"
    named = named or host.environ.get("VIRTUAL_ENV", "") or (str(beside) if beside.is_dir() else "")
    if not named:
        raise UsageError(
            f"no venv named, VIRTUAL_ENV is not set, and {beside} does not exist",
            "name a venv folder or its interpreter: `envdoctor check path/to/.venv`",
        )
    return resolve(named, host.environ.get("PATH"))


def examine_request(request: Request, host: Host | None = None) -> tuple[Header, Verdict]:
    """Return the report's header and the verdict for what was asked; `host` is the machine and environment assumed."""
    host = host or Host.current()
    if request.fingerprint and request.venv:
        raise UsageError("both a venv and --fingerprint were given", "leave one of them away")
    if request.fingerprint and request.deep:
        raise UsageError(
            "--deep hashes a venv's files, a fingerprint has none",
            "write it with its hashes: `envdoctor fingerprint --deep VENV -o FILE`",
        )
    found = _profile(request, host)
    profile, lock = (found.profile, _lock(found)) if found else (None, None)
    facts = read_back(request.fingerprint) if request.fingerprint else take(request, host)
    verdict = examine.judge(facts, profile, lock, ignore=request.waivers)
    return heading(facts, profile.name if profile else ""), verdict


def take(request: Request, host: Host | None = None, *, contents: bool = False) -> Fingerprint:
    """Return the facts of the venv that was asked for; a profile adds the hashes of the training code it names.

    contents: also digest every RECORD, so that the stack has a digest.
    """
    host = host or Host.current()
    found = _profile(request, host)
    options = Options(
        source_root=found.path.parent.parent if found else None,
        source_files=tuple(found.profile.sources) if found else (),
        variables=found.profile.environment.names if found else (),
        contents=contents,
        deep=request.deep,
    )
    target = locate(request.venv, host)
    return _deeply(target, host, options, request) if request.deep else examine.take_fingerprint(target, host, options)


def _deeply(target: Target, host: Host, options: Options, request: Request) -> Fingerprint:
    from envdoctor.cli.hashing import hashing

    with hashing(quiet=request.quiet) as show:
        facts = examine.take_fingerprint(target, host, replace(options, progress=show))
    for note in facts[DeepFiles].notes if facts.get(DeepFiles) else ():
        say(f"note: {note}")
    return facts


def _profile(request: Request, host: Host) -> "ProfileFile | None":
    if not request.profile:
        return None
    from envdoctor.documents import profile_store

    return profile_store.find(request.profile, host.cwd)


def _lock(found: "ProfileFile") -> "Lock":
    from envdoctor.documents import profile_store

    return profile_store.load_lock(found)


def read_back(file: str) -> Fingerprint:
    """Read a fingerprint file. Raises FingerprintError with the path of the mistake."""
    hint = "write it again: `envdoctor fingerprint VENV -o FILE`"
    try:
        # A pipe is fine (`--fingerprint <(ssh host envdoctor fingerprint)`), an endless one is not.
        with Path(file).open("rb") as stream:
            content = stream.read(_MAXIMUM_FINGERPRINT + 1)
        if len(content) > _MAXIMUM_FINGERPRINT:
            raise FingerprintError(f"{file} is larger than any fingerprint ({_MAXIMUM_FINGERPRINT} bytes)", hint)
        return fingerprint_file.parse(json.loads(content))
    except OSError as error:
        raise FingerprintError(f"cannot read {file}: {error.strerror}", hint) from error
    except CodecError as error:
        raise FingerprintError(f"{file}: {error}", hint) from error
    except (ValueError, RecursionError) as error:
        raise FingerprintError(f"{file} is no JSON document: {error}", hint) from error
