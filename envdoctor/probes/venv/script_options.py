"""Scripts: what is a program, and whose first line alone was rewritten after the installation."""

from envdoctor.elf import reader
from envdoctor.errors import ElfError
from envdoctor.facts.regular_file import read_prefix, read_regular, read_text
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.standards.recorded import generated_scripts

_MAXIMUM = 1024 * 1024
_MOST_ENTRY_POINTS = 256 * 1024
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


def is_program(item: Distribution, path: str) -> bool:
    """Tell a script that was executable, or an ELF program, which names its loader, from a library or data.

    uv makes every script of bin executable; pip only those of entry points, others get their mode in the wheel, which
    is not known here.
    """
    at = f"{item.site}/{path}"
    try:
        if path.startswith("../") and read_prefix(at, 2) == b"#!":
            if item.installer == "uv":
                return True
            table = read_text(f"{item.site}/{item.folder}/entry_points.txt", _MOST_ENTRY_POINTS, "replace")
            return path.rpartition("/")[2] in generated_scripts(table)
        return reader.read(at).interpreter is not None
    except (ElfError, OSError):
        return False
