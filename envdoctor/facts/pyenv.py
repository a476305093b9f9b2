"""The interpreter behind a pyenv shim, found as `pyenv which` finds it and without starting anything.

pyenv's own order (libexec/pyenv-version-name, pyenv-version-file, pyenv-which): PYENV_VERSION, the nearest
`.python-version` from the current folder upward, the file `version` of its root;
"3.11" means the newest installed 3.11.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.errors import TargetError
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import read_prefix
from envdoctor.model.pattern import pattern

_MAXIMUM_FILE = 1024
_CALL = pattern(rb"^exec \"?(?P<root>[^\"\n]+)/libexec/pyenv\"? exec ", re.MULTILINE)
_RELEASE = pattern(r"\d+(?:\.\d+)*\Z")


def shim_root(path: Path) -> Path | None:
    """Return pyenv's root where the file is one of its shims, by the call that it ends with; else None."""
    if path.parent.name != "shims":
        return None
    try:
        match = _CALL.search(read_prefix(path, _MAXIMUM_FILE))
    except OSError:
        return None
    return Path(os.fsdecode(match["root"])) if match else None


def behind(shim: Path, root: Path, host: Host) -> tuple[Path, str]:
    """Return the interpreter a shim would start in this folder, and who chose its version.

    Raises TargetError where pyenv itself would refuse: the version is not installed, or has no such program.
    """
    wanted, chosen_by = chosen(root, host.environ, host.cwd)
    for version in wanted:
        at = _program(shim, root, version, host)
        if at is not None:
            return at, f"pyenv's {version}, by {chosen_by}"
    raise TargetError(
        f"{shim} is a pyenv shim, and {chosen_by} chooses {', '.join(wanted)}, which is not installed or has no "
        f"{shim.name}",
        "`pyenv versions` lists what is installed; name the interpreter itself: "
        f"`envdoctor check {shlex.quote(str(root))}/versions/VERSION/bin/python`",
    )


def chosen(root: Path, environ: Mapping[str, str], cwd: Path) -> tuple[list[str], str]:
    """Return the versions that pyenv chooses in a folder, the first one first, and what names them."""
    if stated := environ.get("PYENV_VERSION", ""):
        return stated.split(":"), "PYENV_VERSION"
    start = Path(environ.get("PYENV_DIR") or cwd)
    files = [*(folder / ".python-version" for folder in (start, *start.parents)), root / "version"]
    for file in files:
        if words := list(_words(file)):
            return words, str(file)
    return ["system"], "pyenv's default"


def _words(file: Path) -> Iterator[str]:
    try:
        text = read_prefix(file, _MAXIMUM_FILE).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        first, *_ = (*line.split(), "")
        # As pyenv's is_version_safe: a version is a name in its folder and no path.
        if first and not first.startswith("#") and first != ".." and "/" not in first:
            yield first


def _program(shim: Path, root: Path, version: str, host: Host) -> Path | None:
    if version == "system":
        elsewhere = [at for at in host.environ.get("PATH", "").split(os.pathsep) if Path(at) != shim.parent]
        found = shutil.which(shim.name, path=os.pathsep.join(elsewhere))
        return Path(found) if found else None
    folder = installed(root / "versions", version)
    at = folder / "bin" / shim.name if folder else None
    return at if at is not None and at.exists() else None


def installed(versions: Path, version: str) -> Path | None:
    """Return the folder of a version as it is chosen, "3.11" the newest 3.11; None where it is not installed."""
    wanted = version.removeprefix("python-")
    if (versions / wanted).is_dir():
        return versions / wanted
    try:
        names = os.listdir(versions)  # noqa: PTH208 - names only
    except OSError:
        return None
    newer = [name for name in names if name.startswith(f"{wanted}.") and _RELEASE.match(name)]
    newest = max(newer, key=lambda name: tuple(map(int, name.split("."))), default="")
    return versions / newest if newest else None
