"""The table `[tool.envdoctor]`, from TOML to values."""

from pathlib import Path
from typing import Any, Literal

from envdoctor.documents.profile_store import dates_as_text, parsed, refuse_waivers
from envdoctor.errors import UsageError
from envdoctor.model.codec import CodecError, decode
from envdoctor.model.finding import Severity
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.profile import Waiver

KEYS = ("profile", "venv", "fail-on", "ranks", "ranks-ignore", "waivers")
_HINT = "docs/config.md shows an example"


@frozen
class Table:
    """The keys of the table, with `_` for `-`; paths are absolute."""

    profile: str = ""
    venv: str = ""
    fail_on: Severity | None = None
    ranks: Literal["compare", "require", "off", ""] = ""
    ranks_ignore: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()


def read(path: Path, content: bytes) -> Table | None:
    """Return what a pyproject.toml says, or None when it has no such table; relative paths start at its folder.

    Raises UsageError with the file and the key.
    """
    try:
        table: Any = parsed(content.decode("utf-8-sig"))["tool"]["envdoctor"]
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}", "correct the file") from error
    except (KeyError, TypeError):
        return None  # the words stand in a comment or in a text
    where = f"{path}: tool.envdoctor"
    if not isinstance(table, dict):
        raise UsageError(f"{where}: expected a table", _HINT)
    if unknown := sorted(set(table) - set(KEYS)):
        raise UsageError(f"{where}.{unknown[0]}: unknown key; known here: {', '.join(KEYS)}", _HINT)
    try:
        found: Table = decode(Table, {key.replace("-", "_"): dates_as_text(value) for key, value in table.items()})
    except CodecError as error:
        raise UsageError(
            f"{where}.{str(error).replace('fail_on', 'fail-on').replace('ranks_ignore', 'ranks-ignore')}", _HINT
        ) from error
    refuse_waivers(found.waivers, where, UsageError)
    is_path = "/" in found.profile or found.profile.endswith(".toml")
    return replace(
        found,
        profile=str(path.parent / _home(found.profile)) if is_path else found.profile,
        venv=str(path.parent / _home(found.venv)) if found.venv else "",
    )


def _home(written: str) -> Path:
    """Return a path with `~` and `~user` as a shell has them; one that stands for nobody stays as it is."""
    try:
        return Path(written).expanduser()
    except RuntimeError:
        return Path(written)
