"""Who vouches for an archive of a cache: a sha256 that was told in another way, or a signature of somebody known.

A cache is code that torch runs. Signatures are those of `ssh-keygen -Y sign`, and whom to believe is a file of allowed
signers (ssh-keygen(1)): keys that people have already, and a format that git uses for commits.
"""

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path

from envdoctor.errors import CacheError, UsageError
from envdoctor.facts.children import run_child
from envdoctor.facts.programs import outside_venvs
from envdoctor.facts.regular_file import open_regular, read_regular
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.frozen import frozen

NAMESPACE = "envdoctor-cache"
"""A signature for another purpose is not one for this."""
SUFFIX = ".sig"
_MAXIMUM_SIGNATURE = 64 << 10
_TIMEOUT = 120.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


@frozen
class Vouching:
    """What an archive has to prove before anything of it is read."""

    sha256: str = ""
    """Of the file, in hex; empty for any."""
    signers: str = ""
    """A file of allowed signers; empty when none is asked for."""


@frozen
class Vouched:
    """What an archive has proven."""

    sha256: str
    """Of the file, in hex; empty when it was not asked for."""
    signer: str
    """The principal, as the file of allowed signers names it; empty without a signature."""


def checked(wanted: Vouching, environ: Mapping[str, str], cwd: Path) -> Vouching:
    """Return what is wanted, the signers by their path: $ENVDOCTOR_CACHE_SIGNERS holds where none are named.

    Raises UsageError for what is not a sha256, or no file.
    """
    digest = wanted.sha256.lower().removeprefix("sha256:")
    if digest and not _SHA256.fullmatch(digest):
        raise UsageError(f"`{wanted.sha256}` is not a sha256", "`sha256sum FILE` prints one, 64 hexadecimal digits")
    named = wanted.signers or environ.get("ENVDOCTOR_CACHE_SIGNERS", "")
    signers = str(cwd / Path(named).expanduser()) if named else ""
    if signers and not Path(signers).is_file():
        raise UsageError(f"there is no file of allowed signers at {signers}", "ssh-keygen(1), ALLOWED SIGNERS")
    return Vouching(sha256=digest, signers=signers)


def vouched(content: BufferedReader, path: Path, wanted: Vouching, environ: Mapping[str, str]) -> Vouched:
    """Return what an open archive proves; it is read from its start, and not unpacked.

    Raises CacheError when it is not the one that was named, or not signed by a signer of the file.
    """
    digest = ""
    if wanted.sha256:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        content.seek(0)
        if digest != wanted.sha256:
            raise CacheError(
                f"{path} has the sha256 {digest}, not {wanted.sha256}; nothing was taken from it",
                "get the file again from where its sha256 was told",
            )
    signer = _signer(content, path, Path(wanted.signers), environ) if wanted.signers else ""
    content.seek(0)
    return Vouched(sha256=digest, signer=signer)


def sign(path: Path, key: str, environ: Mapping[str, str]) -> Path:
    """Sign an archive with an ssh key, which ssh-agent may hold, and return the signature's file.

    Raises CacheError when it cannot be signed.
    """
    with open_regular(path) as content:
        done = _ssh_keygen(("-Y", "sign", "-n", NAMESPACE, "-f", key), content, environ)
    if done.returncode:
        raise CacheError(
            f"{path} is saved, but was not signed: {_said(done)}",
            f"name a key that can sign: `ssh-keygen -Y sign -n {NAMESPACE} -f KEY {shlex.quote(str(path))}`",
        )
    signature = path.with_name(path.name + SUFFIX)
    write_whole(signature, done.stdout, 0o644)
    return signature


def _signer(content: BufferedReader, path: Path, signers: Path, environ: Mapping[str, str]) -> str:
    signature = path.with_name(path.name + SUFFIX)
    command = f"ssh-keygen -Y sign -n {NAMESPACE} -f KEY {shlex.quote(path.name)}"
    hint = f"its maker signs it: `{command}` makes {signature.name}"
    try:
        read_regular(signature, _MAXIMUM_SIGNATURE)
    except OSError as error:
        raise CacheError(f"{signature}: {error.strerror}; nothing was taken from {path.name}", hint) from error
    named = _ssh_keygen(("-Y", "find-principals", "-s", str(signature), "-f", str(signers)), None, environ)
    said = _said(named)
    for principal in named.stdout.decode("utf-8", "replace").splitlines() if not named.returncode else ():
        content.seek(0)
        words = ("-Y", "verify", "-n", NAMESPACE, "-f", str(signers), "-I", principal, "-s", str(signature))
        done = _ssh_keygen(words, content, environ)
        if not done.returncode:
            return principal
        said = _said(done)
    raise CacheError(
        f"{path} is not signed by anyone in {signers} ({said}); nothing was taken from it",
        "ask who made it, and add their key to that file if you trust them",
    )


def _ssh_keygen(
    words: tuple[str, ...], content: BufferedReader | None, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    program = outside_venvs("ssh-keygen", environ)
    if program is None:
        raise CacheError(
            "ssh-keygen is not installed, so no signature can be made or checked", "install OpenSSH's client"
        )
    kept = {
        name: environ[name] for name in ("HOME", "SSH_AUTH_SOCK", "SSH_ASKPASS", "DISPLAY", "TERM") if name in environ
    }
    try:
        return run_child(
            [program, *words],
            stdin=content if content is not None else subprocess.DEVNULL,
            env={**kept, "LC_ALL": "C", "PATH": os.defpath},
            timeout=_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CacheError(f"{program} did not answer: {error}", "try it by hand") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"ssh-keygen ended with {done.returncode}"
