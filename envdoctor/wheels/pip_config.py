"""pip's configuration, read as pip reads it, so that a restore takes wheels where the user's pip would.

Precedence as in pip's own `_internal/configuration.py` and `_internal/cli/parser.py`: files of the kinds global, user,
site, PIP_CONFIG_FILE, a later kind overriding the same section and key; then section [global], then the command's own
section, then PIP_* variables.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from envdoctor.errors import UsageError
from envdoctor.facts.regular_file import read_text
from envdoctor.model.frozen import frozen

_MAXIMUM = 8 << 20

Command = Literal["install", "download"]
_LISTS = ("extra-index-url", "find-links", "constraint", "trusted-host")
_TRUE = {"y", "yes", "t", "true", "on", "1"}
_FALSE = {"n", "no", "f", "false", "off", "0"}
_NOT_OPTIONS = {"version", "help"}


@frozen
class PipSettings:
    """What pip was told that matters for where wheels come from."""

    index_url: str = ""
    """Empty when pip would use its default."""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    constraints: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    certificate: str = ""
    proxy: str = ""
    told_by: Mapping[str, str]
    """Option -> the file, or the variable, that set it."""

    @property
    def anything(self) -> bool:
        """Tell whether pip has any source setting of its own."""
        return bool(self.index_url or self.extra_index_urls or self.find_links or self.no_index)


def read(
    environment: Mapping[str, str],
    home: Path,
    *,
    venv: Path | None = None,
    root: Path = Path("/"),
    command: Command = "install",
) -> PipSettings:
    """Read pip's settings for one command. `root` stands for the file system's root, so that a test can supply /etc.

    Raises UsageError for a file that pip itself would refuse.
    """
    merged: dict[str, tuple[str, str]] = {}
    for path in config_files(environment, home, venv=venv, root=root):
        merged |= _read_file(path)
    values: dict[str, tuple[str, str]] = {}
    for section in ("global", command):
        prefix = f"{section}."
        values |= {key.removeprefix(prefix): item for key, item in merged.items() if key.startswith(prefix) and item[0]}
    for name, value in environment.items():
        key = _option(name.removeprefix("PIP_"))
        if name.startswith("PIP_") and value and key not in _NOT_OPTIONS:
            values[key] = (value, name)
    return _settings(values, home)


def config_files(
    environment: Mapping[str, str], home: Path, *, venv: Path | None = None, root: Path = Path("/")
) -> list[Path]:
    """Return the files pip would load, a later one overriding an earlier one; any of them may be absent."""
    named = environment.get("PIP_CONFIG_FILE")
    if named == "/dev/null":
        return []
    shared = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    files = [_under(root, folder) / "pip" / "pip.conf" for folder in shared.split(":") if folder]
    files.append(_under(root, "/etc") / "pip.conf")
    # The user's own files are passed over only when the named file exists.
    if not (named and os.path.exists(named)):  # noqa: PTH110 - Path.exists raises in a closed folder
        own = environment.get("XDG_CONFIG_HOME") or str(home / ".config")
        files += [home / ".pip" / "pip.conf", Path(own) / "pip" / "pip.conf"]
    if venv is not None:
        files.append(venv / "pip.conf")
    if named:
        files.append(Path(named))
    return files


def _under(root: Path, folder: str) -> Path:
    return root / folder.lstrip("/")


def _option(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _read_file(path: Path) -> dict[str, tuple[str, str]]:
    try:
        text = read_text(path, _MAXIMUM)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    import configparser  # noqa: PLC0415 - most users have no such file

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text, source=str(path))
    except configparser.Error as error:
        raise _unreadable(path, error) from error
    return {
        f"{section}.{_option(name)}": (value or "", str(path))
        for section in parser.sections()
        for name, value in parser.items(section)
    }


def _unreadable(path: Path, error: Exception) -> UsageError:
    # pip refuses to run here as well; going on without the user's index would fetch from the wrong place.
    return UsageError(
        f"pip's configuration cannot be read: {path}: {str(error).splitlines()[0]}",
        "correct the file, or set PIP_CONFIG_FILE=/dev/null to go without it",
    )


def _settings(values: Mapping[str, tuple[str, str]], home: Path) -> PipSettings:
    def one(key: str) -> str:
        return values[key][0].strip() if key in values else ""

    def several(key: str) -> tuple[str, ...]:
        return tuple(values[key][0].split()) if key in values else ()

    kept = (*_LISTS, "index-url", "no-index", "cert", "proxy")
    return PipSettings(
        index_url=one("index-url"),
        extra_index_urls=several("extra-index-url"),
        find_links=tuple(_page(place, home) for place in several("find-links")),
        no_index=_truth(values, "no-index"),
        constraints=several("constraint"),
        trusted_hosts=several("trusted-host"),
        certificate=_expanded(one("cert"), home),
        proxy=one("proxy"),
        told_by={key: values[key][1] for key in kept if key in values},
    )


def _expanded(path: str, home: Path) -> str:
    """Return a path without `~`, as pip reads it where an option is a path."""
    return f"{home}{path[1:]}" if path.split("/", maxsplit=1)[0] == "~" else os.path.expanduser(path)  # noqa: PTH111 - text stays


def _page(place: str, home: Path) -> str:
    """Return a find-links place: pip takes `~` for a home folder where that has one."""
    own = _expanded(place, home)
    return own if os.path.exists(own) else place  # noqa: PTH110 - Path.exists raises in a closed folder


def _truth(values: Mapping[str, tuple[str, str]], key: str) -> bool:
    if key not in values:
        return False
    value, source = values[key]
    word = value.strip().lower()
    if word not in _TRUE | _FALSE:
        raise UsageError(f"{source}: {key} = `{value}` is neither yes nor no", "write true or false")
    return word in _TRUE
