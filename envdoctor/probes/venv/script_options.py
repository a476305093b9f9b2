"""A script whose first line was rewritten after the installation, and nothing else of it."""

from envdoctor.facts.regular_file import read_regular

_MAXIMUM = 1024 * 1024
_SPACE, _NEWLINE = b" ", b"\n"


def only_options_added(path: str, stated: str) -> bool:
    """Tell whether a script is the recorded one but for options behind its interpreter.

    pipx appends ` -E` to the first line of each script of an application that it installs (`pipx/commands/common.py`,
    `_add_ignore_environment_to_python_shebang`), and leaves RECORD as the installer wrote it. `stated` is the row's
    hash, `sha256=…` (PEP 376); without one nothing is proven.
    """
    algorithm, _, digest = stated.partition("=")
    if algorithm != "sha256" or not digest:
        return False
    try:
        first, newline, rest = read_regular(path, _MAXIMUM).partition(_NEWLINE)
    except OSError:
        return False
    interpreter, space, options = first.partition(_SPACE)
    if not interpreter.startswith(b"#!/") or not space or not options.lstrip().startswith(b"-"):
        return False
    import base64  # noqa: PLC0415 - as below
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few checks hash anything

    plain = hashlib.sha256(interpreter + newline + rest).digest()
    return base64.urlsafe_b64encode(plain).rstrip(b"=").decode() == digest
