"""Which installed wheels uv's cache holds, whole, so that a printed reinstall need not fetch them again.

`uv pip install --reinstall-package NAME` asks the index again and fetches a wheel that the cache has; with `--offline`
it takes that one. uv has no command that tells what its cache holds. Its layout is read here: `wheels-vN/pypi/NAME`
has a link into the unpacked archives for each wheel of the default index, `simple-vN/pypi/NAME.rkyv` the index's page.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import read_regular
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.rows import Fields
from envdoctor.probes.venv.uv_cache import folder

_MAXIMUM = 32 * 1024 * 1024
# With one of these uv looks elsewhere than into what the default index gave, or into no cache.
_ELSEWHERE = (
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
    "UV_NO_CACHE",
    "UV_CONFIG_FILE",
)
_OWN = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")


def held(reading: Reading, names: Collection[str]) -> tuple[str, ...]:
    """Return those of the distributions that uv, asked offline and without settings, would install from its cache."""
    return tuple(_held(reading, names)) if names else ()


def _held(reading: Reading, names: Collection[str]) -> Iterator[str]:
    host, records = reading.host, index(reading)
    wheels, pages = _newest(folder(host), "wheels-v"), _newest(folder(host), "simple-v")
    if not wheels or not pages or _is_configured(host):
        return
    for at, item in enumerate(reading.fact(Distributions).items):
        page = f"{pages}/pypi/{item.name}.rkyv"
        if item.name not in names or item.shadowed or item.direct_url or not os.path.isfile(page):  # noqa: PTH113
            continue
        archives = _archives(f"{wheels}/pypi/{item.name}")
        if any(_is_it(archive, item, records.rows.get(at, ())) for archive in archives):
            yield item.name


def _newest(cache: Path, kind: str) -> str:
    try:
        numbers = [int(name.removeprefix(kind)) for name in os.listdir(cache) if name.removeprefix(kind).isdecimal()]  # noqa: PTH208
    except OSError:
        return ""
    return f"{cache}/{kind}{max(numbers)}" if numbers else ""


def _is_configured(host: Host) -> bool:
    if any(host.environ.get(name) for name in _ELSEWHERE):
        return True
    configs = [Path(host.environ.get("XDG_CONFIG_HOME") or host.home / ".config"), host.root / "etc"]
    files = [config / "uv" / "uv.toml" for config in configs]
    files += [above / "uv.toml" for above in (host.cwd, *host.cwd.parents)]
    if any(path.exists() for path in files):
        return True
    return any(b"[tool.uv" in _text(above / "pyproject.toml") for above in (host.cwd, *host.cwd.parents))


def _text(path: Path) -> bytes:
    try:
        return read_regular(path, _MAXIMUM)
    except OSError:
        return b""


def _archives(above: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(above))  # noqa: PTH208 - names only
    except OSError:
        return
    for name in names:
        link = f"{above}/{name}"
        if os.path.isfile(f"{link}.http") and os.path.isdir(link):  # noqa: PTH112, PTH113 - string paths
            yield link


def _is_it(archive: str, item: Distribution, rows: Iterable[Fields]) -> bool:
    """Tell whether an unpacked wheel is the installed one, by its tags and by the size of every file."""
    wheel = _text(Path(archive, item.folder, "WHEEL")).decode("utf-8", "replace")
    tags = tuple(line.partition(":")[2].strip() for line in wheel.splitlines() if line.lower().startswith("tag:"))
    if not tags or tags != item.tags:
        return False
    sizes = {path: size for path, _, size in rows if size and not path.startswith("..") and not _is_own(path, item)}
    return bool(sizes) and all(_size(archive, path) == size for path, size in sizes.items())


def _is_own(path: str, item: Distribution) -> bool:
    """Tell what installers write themselves, and bytecode, which the wheel need not have."""
    return path.endswith(".pyc") or path in [f"{item.folder}/{name}" for name in _OWN]


def _size(archive: str, path: str) -> str:
    try:
        return str(os.stat(f"{archive}/{path}").st_size)  # noqa: PTH116 - thousands of string paths
    except OSError:
        return ""
