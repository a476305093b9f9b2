"""The user's uv configuration, without what would change the result: where wheels come from and how they are reached.

Files as uv finds them (docs.astral.sh/uv/concepts/configuration-files): UV_CONFIG_FILE alone, else the nearest folder
upwards with a uv.toml or a pyproject.toml that has [tool.uv], then the user's, then the system's; what an earlier one
says wins, lists are joined. A setting that is not named here does not reach uv: `[pip] target` would install into
another folder, `python-platform` another machine's wheels, `link-mode = "symlink"` make a venv whose files are in uv's
cache.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli

from envdoctor.errors import UsageError
from envdoctor.facts.owned import behind_sudo, stranger_of
from envdoctor.facts.regular_file import read_text
from envdoctor.model.frozen import frozen

_MAXIMUM = 8 << 20

PLACES = ("index-url", "extra-index-url", "find-links", "no-index", "index")
_KEPT = {
    *PLACES, "keyring-provider", "native-tls", "system-certs", "allow-insecure-host", "http-proxy", "https-proxy",
    "no-proxy", "cache-dir", "no-cache", "offline", "concurrent-downloads", "concurrent-builds", "concurrent-installs",
}  # fmt: skip
# What else decides the result; the rest is for uv's other commands, and its absence no news.
_RESULT = {
    "link-mode", "compile-bytecode", "resolution", "prerelease", "exclude-newer", "exclude-newer-package", "reinstall",
    "reinstall-package", "no-build", "no-binary", "no-binary-package", "torch-backend", "override-dependencies",
    "exclude-dependencies", "constraint-dependencies", "index-strategy",
}  # fmt: skip
LINK_MODES = ("clone", "copy", "hardlink")
"""Those that leave a venv whole by itself."""


@frozen
class UvConfig:
    """What uv is told in place of the user's files."""

    settings: Mapping[str, Any]
    """Empty when there is nothing to tell."""
    ignored: tuple[str, ...]
    """What is not handed on: "link-mode (/home/me/.config/uv/uv.toml)"."""
    strange: str = ""
    """A project's file that somebody else can have written, and who: it is not read."""
    project: str = ""
    """A project's file that names indexes or other places of wheels."""

    def text(self) -> str:
        """Return it as TOML."""
        import tomli_w  # noqa: PLC0415 - most users have no such file

        return tomli_w.dumps(self.settings)


NOTHING = UvConfig(settings={}, ignored=())


def read(environment: Mapping[str, str], home: Path, cwd: Path, root: Path = Path("/")) -> UvConfig:
    """Read and filter the files. `root` stands for the file system's root. Raises UsageError for a broken file."""
    settings: dict[str, Any] = {}
    ignored: list[str] = []
    project = strange = ""
    for path in _files(environment, home, cwd, root):
        nearest = path.parent in (cwd, *cwd.parents) and not environment.get("UV_CONFIG_FILE")
        # Under /tmp, say, another user's uv.toml would decide where packages come from.
        if nearest and (who := stranger_of(path, behind_sudo())):
            strange = f"{path} {who}"
            continue
        found = _load(path)
        kept = _kept(found, path.parent)
        ignored += [f"{key} ({path})" for key in found if key in _RESULT and key not in kept]
        pip = found.get("pip", {}) if isinstance(found.get("pip", {}), dict) else {}
        kept_pip = _kept(pip, path.parent)
        ignored += [f"pip.{key} ({path})" for key in pip if key not in kept_pip]
        if nearest and any(key in PLACES for key in (*kept, *kept_pip)):
            project = str(path)
        _merge(settings, kept)
        if kept_pip:
            _merge(settings.setdefault("pip", {}), kept_pip)
    return UvConfig(settings=settings, ignored=tuple(ignored), strange=strange, project=project)


def has_default_index(settings: Mapping[str, Any]) -> bool:
    """Tell whether they name the default index; a value of another kind is uv's to refuse."""
    indexes = settings.get("index", ())
    tables = (one for one in indexes if isinstance(one, dict)) if isinstance(indexes, list) else ()
    named = "index-url" in settings or "index-url" in settings.get("pip", {})
    return named or any(one.get("default") is True for one in tables)


def _files(environment: Mapping[str, str], home: Path, cwd: Path, root: Path) -> Iterator[Path]:
    if environment.get("UV_NO_CONFIG", "").lower() in {"1", "true", "yes", "on"}:
        return
    if named := environment.get("UV_CONFIG_FILE"):
        yield cwd / named
        return
    nearest = (path for folder in (cwd, *cwd.parents) if (path := _project(folder)) is not None)
    yield from [path for path in (next(nearest, None),) if path is not None]
    own = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    shared = [root / part.lstrip("/") for part in environment.get("XDG_CONFIG_DIRS", "").split(":") if part]
    systems = [folder / "uv" / "uv.toml" for folder in (*shared, root / "etc")]
    yield from [own] if own.is_file() else []
    yield from [path for path in systems if path.is_file()][:1]


def _project(folder: Path) -> Path | None:
    if (path := folder / "uv.toml").is_file():
        return path
    path = folder / "pyproject.toml"
    tool = _load(path, whole=True).get("tool") if path.is_file() else None
    return path if isinstance(tool, dict) and tool.get("uv") else None


def _load(path: Path, *, whole: bool = False) -> dict[str, Any]:
    try:
        found = tomli.loads(read_text(path, _MAXIMUM))
    except (OSError, ValueError, RecursionError) as error:
        if whole:
            return {}  # a project's own file is for its tools to complain about
        raise UsageError(
            f"uv's configuration cannot be read: {path}: {str(error).splitlines()[0]}",
            "correct the file, or set UV_NO_CONFIG=1 to go without it",
        ) from error
    if path.name == "pyproject.toml" and not whole:
        tool = found.get("tool", {})
        ours = tool.get("uv", {}) if isinstance(tool, dict) else {}
        return dict(ours) if isinstance(ours, dict) else {}
    return found


def _kept(found: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    kept = {key: value for key, value in found.items() if key in _KEPT}
    if found.get("link-mode") in LINK_MODES:
        kept["link-mode"] = found["link-mode"]
    for key in PLACES:
        if isinstance(value := kept.get(key), list):
            kept[key] = [_placed(item, folder) for item in value]
        elif value is not None:
            kept[key] = _placed(value, folder)
    return kept


def _placed(value: Any, folder: Path) -> Any:
    """Return a place as it is found from anywhere: a path counts from its file's folder."""
    if isinstance(value, dict):
        return {name: _placed(item, folder) if name == "url" else item for name, item in value.items()}
    return str(folder / value) if isinstance(value, str) and "://" not in value else value


def _merge(into: dict[str, Any], added: Mapping[str, Any]) -> None:
    for key, value in added.items():
        if isinstance(value, list) and isinstance(into.get(key), list):
            into[key] = [*into[key], *value]
        else:
            into.setdefault(key, value)
