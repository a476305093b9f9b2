"""Installed distributions, from the headers of their dist-info folders."""

import os
import stat
from pathlib import Path
from urllib.parse import quote

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.model.wording import counted
from envdoctor.probes.venv import restore_note
from envdoctor.probes.venv.editable_source import NOT_THERE, is_gone, mount_point, source_folder
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.top_modules import modules_in
from envdoctor.standards.bounded_json import loads
from envdoctor.standards.names import normalized
from envdoctor.standards.redaction import HIDDEN, bare_url

_MAXIMUM_METADATA = 4 * 1024 * 1024
_MAXIMUM_SMALL = 256 * 1024
_MOST_FOLDERS = 20_000
"""Of metadata, on the whole search path: some thousand are more than anybody installs."""
_LONGEST_HEAD, _LONGEST_HEADS = 512 * 1024, 8 * 1024 * 1024
"""Bytes of one METADATA before its text, and of all: the largest published ones have 100 KB."""
_LONGEST_URL = 16 * 1024
_NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_LOOKED_AT = frozenset("nNvVrR")
"""Initials of the headers that are looked at: Name, Version, Requires-Dist, Requires-Python."""
_NOT_READ = "was not read"
_NO_NAME = pattern(r"[^A-Za-z0-9.]+")


@frozen
class Distribution:
    """One dist-info (or egg-info) folder."""

    name: str
    """Normalized."""
    version: str
    """As METADATA says it; empty when there is no METADATA."""
    site: str
    """The sys.path folder it is in."""
    origin: str
    """Why that folder is on sys.path."""
    folder: str
    """Name of the metadata folder."""
    has_metadata: bool
    has_record: bool
    installer: str
    requires: tuple[str, ...]
    requires_python: str
    direct_url: str
    """URL of direct_url.json: installed from a path, a VCS or an archive; empty for an index."""
    editable: bool
    tags: tuple[str, ...]
    """Wheel tags of WHEEL."""
    wheel: str = ""
    """File name of the wheel, where the restore that built the venv noted that it says other tags than WHEEL."""
    unreadable: bool = False
    """Its METADATA or RECORD may be there: looking was refused, the disk failed, or METADATA is too large to read."""
    no_folder: bool = False
    """There is something else where its metadata folder should be: a file, or a link that leads nowhere."""
    nameless: str = ""
    """What is wrong with a METADATA that is there and may be read, as the end of "its METADATA ..."; else empty."""
    link_gone: str = ""
    """Where the link in METADATA's place leads, where nothing is there."""
    source_gone: bool = False
    """Editable, and the source folder it names does not exist."""
    mount_point: str = ""
    """For such a source: the last folder of its path that exists, where that is empty or near the root, as is the mount
    point of a share that is not mounted."""
    built_from: str = ""
    """Where it comes from again: "file:///srv/project", "git+https://host/x@commit#subdirectory=y", the URL of a remote
    archive; empty for local archives."""
    shadowed: bool = False
    """An earlier sys.path folder holds a distribution of the same name."""


_EGG_INFO = "EGG-INFO"


@frozen
class Leftover:
    """A folder or file that pip renamed before an uninstall (`~orch` for `torch`) and never removed."""

    path: str
    name: str
    """Normalized, as the METADATA inside says it; empty where there is none."""
    version: str


@frozen
class Distributions:
    """All distributions on sys.path, in sys.path order, then by name."""

    items: tuple[Distribution, ...]
    leftovers: tuple[Leftover, ...]
    """What an interrupted pip left behind."""
    unreadable: tuple[str, ...]
    """Metadata files that could not be read, each with its reason."""
    bare: tuple[str, ...] = ()
    """Modules of the environment's own site-packages, where it holds no metadata at all."""

    def active(self, name: str) -> Distribution | None:
        """Return the distribution of that normalized name that wins, or None."""
        return next((item for item in self.items if item.name == name and not item.shadowed), None)


class _Unreadable(list[str]):
    """What could not be read, with its reason, and how much of METADATA may still be."""

    left = _LONGEST_HEADS


def probe(reading: Reading) -> Distributions:
    """Scan every site folder of sys.path."""
    found: list[Distribution] = []
    leftovers: list[Leftover] = []
    unreadable = _Unreadable()
    for entry in reading.fact(SearchPath).site_dirs:
        # Paths are strings here: of five small files for each distribution, making the Paths cost as much as reading.
        site = str(Path(entry.path))
        names = sorted(os.listdir(site))  # noqa: PTH208 - names only, and fast
        leftovers += [_leftover(Path(site, name), unreadable) for name in names if name.startswith("~")]
        folders = [name for name in names if name.endswith((".dist-info", ".egg-info")) and not name.startswith("~")]
        # `setup.py install` makes a folder NAME.egg, which easy-install.pth names; importlib.metadata looks into it.
        folders += [name for name in names if name == _EGG_INFO and site.endswith(".egg")]
        odd = [name for name in folders if not name.isprintable()]
        unreadable += [f"{site}/: {name!r:.80} is not a name of a metadata folder" for name in odd]
        folders = [name for name in folders if name.isprintable()]
        taken = folders[: _MOST_FOLDERS - len(found)]
        if len(taken) < len(folders):
            more = counted(len(folders) - len(taken), "metadata folder")
            unreadable.append(f"{site}: {more} not read, there are more than {_MOST_FOLDERS} in all")
        found += [_read(site, entry.origin, name, unreadable) for name in taken]
    own = [entry.path for entry in reading.fact(SearchPath).site_dirs if entry.origin == "site-packages"]
    bare = () if any(item.origin == "site-packages" for item in found) else tuple(modules_in(own))
    return Distributions(
        items=_mark_shadowed(_with_wheels(found, reading.target.prefix)),
        leftovers=tuple(leftovers),
        unreadable=tuple(unreadable),
        bare=bare,
    )


def _with_wheels(found: list[Distribution], prefix: Path) -> list[Distribution]:
    """Add what the venv's note says of renamed wheels; of what was replaced since, it says nothing."""
    noted = restore_note.built_from(prefix)
    if not noted:
        return found

    def told(item: Distribution) -> Distribution:
        note = noted.get(item.name) if item.origin == "site-packages" else None
        same = note is not None and (note.version, note.tags) == (item.version, item.tags)
        return replace(item, wheel=note.wheel) if note is not None and same else item

    return list(map(told, found))


def distribution_in(site: str, folder: str) -> Distribution | None:
    """Return the distribution of one dist-info folder, wherever it is; None where it cannot be read."""
    unreadable = _Unreadable()
    found = _read(site, "site-packages", folder, unreadable)
    return None if unreadable or not found.has_metadata else found


def _leftover(path: Path, unreadable: _Unreadable) -> Leftover:
    headers, _ = _headers(f"{path}/METADATA", unreadable) if path.suffix == ".dist-info" else ([], False)
    name = _first(headers, "name")
    return Leftover(path=str(path), name=normalized(name) if name else "", version=_first(headers, "version"))


def _mark_shadowed(found: list[Distribution]) -> tuple[Distribution, ...]:
    # Within one folder importlib.metadata's answer depends on directory order; the complete one is taken as meant.
    best: dict[str, Distribution] = {}
    for item in found:
        other = best.get(item.name)
        if other is None or (other.site == item.site and _rank(item) > _rank(other)):
            best[item.name] = item
    return tuple(item if best[item.name] is item else replace(item, shadowed=True) for item in found)


def _rank(item: Distribution) -> tuple[bool, bool]:
    return (item.has_metadata, item.has_record)


def _read(site: str, origin: str, folder: str, unreadable: _Unreadable) -> Distribution:
    at = f"{site}/{folder}"
    egg = folder.endswith((".egg-info", _EGG_INFO))
    told = len(unreadable)
    headers, has_metadata = _headers(
        at if egg and os.path.isfile(at) else f"{at}/{'PKG-INFO' if egg else 'METADATA'}",  # noqa: PTH113
        unreadable,
    )
    not_read = len(unreadable) > told
    stem = (Path(site).name if folder == _EGG_INFO else folder).rpartition(".")[0]
    stem_name, _, stem_version = stem.partition("-")
    stated = _first(headers, "name")
    name = _name(stated, stem_name, at, unreadable)
    version = _first(headers, "version") or ("" if has_metadata else stem_version)
    if _NAME.match(stated) and normalized(stated) != name:
        # The METADATA is another distribution's, and so are its version and what it requires.
        headers, version = [], stem_version
    direct_url, editable, built_from = _direct_url(f"{at}/direct_url.json", unreadable)
    has_record = os.path.lexists(f"{at}/RECORD")
    gone = editable and direct_url.startswith("file://") and is_gone(source_folder(direct_url))
    incomplete = not egg and not (has_metadata and has_record)
    refused = incomplete and (_is_refused(f"{at}/RECORD") or _is_refused(f"{at}/METADATA"))
    nameless = "" if has_metadata or egg else _nameless(f"{at}/METADATA", not_read=not_read)
    refused = refused or (has_record and nameless == _NOT_READ)
    return Distribution(
        name=name,
        version=version,
        site=site,
        origin=origin,
        folder=folder,
        has_metadata=has_metadata,
        # One that is not a file is said where it is read; that is not the same as having none.
        has_record=has_record,
        unreadable=refused,
        no_folder=incomplete and not refused and not os.path.isdir(at),  # noqa: PTH112 - a string path
        nameless=nameless,
        link_gone="" if has_metadata else _dangling(f"{at}/METADATA"),
        installer=_small(f"{at}/INSTALLER", unreadable).strip(),
        requires=tuple(value for key, value in headers if key == "requires-dist"),
        requires_python=_first(headers, "requires-python"),
        direct_url=direct_url,
        editable=editable,
        built_from=built_from,
        source_gone=gone,
        mount_point=mount_point(source_folder(direct_url)) if gone else "",
        tags=_tags(f"{at}/WHEEL", unreadable),
    )


def _nameless(path: str, *, not_read: bool) -> str:
    try:
        status = os.stat(path)  # noqa: PTH116 - a string path
    except OSError:
        return ""
    if not stat.S_ISREG(status.st_mode) or not os.access(path, os.R_OK):
        return ""
    if not_read:
        return _NOT_READ
    return "names no distribution" if status.st_size else "is empty"


def _dangling(path: str) -> str:
    try:
        return "" if os.path.exists(path) else os.path.join(os.path.dirname(path), os.readlink(path))  # noqa: PTH110, PTH115, PTH118, PTH120
    except OSError:
        return ""  # no link


def _is_refused(path: str) -> bool:
    """Tell whether nothing can be said of a file, not even whether it is there."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and not os.access(path, os.R_OK)  # noqa: PTH116 - a string path
    except OSError as error:
        return error.errno not in NOT_THERE


def _name(stated: str, stem: str, at: str, unreadable: _Unreadable) -> str:
    folder = normalized(stem) if _NAME.match(stem) and at.endswith(".dist-info") else ""
    if folder and _NAME.match(stated) and normalized(stated) != folder:
        # Installers write the wheel's name into both; a reinstall of the other name may bring somebody else's package.
        unreadable.append(f"{at}: its METADATA names {stated!r:.80}, its folder {stem!r}; the folder is believed")
        return folder
    if _NAME.match(stated):
        return normalized(stated)
    if stated:
        unreadable.append(f"{at}: its METADATA gives no distribution name but {stated[:60]!r}")
    # It is put into commands to paste: whatever is not a letter, digit or dot cannot stand in it.
    return normalized(_NO_NAME.sub("-", stem)).strip("-") or "unnamed"


def _first(headers: list[tuple[str, str]], wanted: str) -> str:
    return next((value for key, value in headers if key == wanted), "")


def _headers(path: str, unreadable: _Unreadable) -> tuple[list[tuple[str, str]], bool]:
    try:
        data = read_regular(path, _MAXIMUM_METADATA)
    except FileNotFoundError:
        return [], False
    except OSError as error:
        unreadable.append(f"{path}: {error.strerror or error}")
        return [], False
    headers: list[tuple[str, str]] = []
    head = _head(data)
    if len(head) > min(_LONGEST_HEAD, unreadable.left):
        unreadable.append(f"{path}: not read, its headers have {len(head)} bytes")
        return [], False
    unreadable.left -= len(head)
    for line in head.decode("utf-8-sig", "replace").split("\n"):
        if line and line[0] in _LOOKED_AT:
            key, _, value = line.partition(":")
            headers.append((key.strip().lower(), value.strip()))
    return headers, any(key == "name" for key, _ in headers)


def _head(data: bytes) -> bytes:
    """Return what is before the first blank line: behind it is the project's README, often a hundred times as long."""
    end = data.find(b"\n\n")
    with_returns = data.find(b"\n\r\n", 0, end if end >= 0 else len(data))
    end = with_returns if with_returns >= 0 else end
    head = data[:end].removesuffix(b"\r") if end >= 0 else data
    return head.replace(b"\r\n", b"\n")


def _small(path: str, unreadable: _Unreadable) -> str:
    try:
        return read_regular(path, _MAXIMUM_SMALL).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        unreadable.append(f"{path}: {error.strerror or error}")
        return ""


def _direct_url(path: str, unreadable: _Unreadable) -> tuple[str, bool, str]:
    """Return (URL, whether it is editable, what it can be built from) of a direct_url.json (PEP 610)."""
    text = _small(path, unreadable)
    if not text:
        return "", False, ""
    try:
        data = loads(text)
        if len(str(data["url"])) > _LONGEST_URL:
            unreadable.append(f"{path}: its URL has {len(str(data['url']))} letters")
            return "", False, ""
        url = bare_url(str(data["url"]))
        editable = bool(data.get("dir_info", {}).get("editable", False))
        vcs = data.get("vcs_info") or {}
        inner = f"#subdirectory={quote(str(data['subdirectory']))}" if data.get("subdirectory") else ""
        commit = f"{vcs['vcs']}+{url}@{vcs['commit_id']}{inner}" if vcs else ""
        if not f"{url}{commit}".isprintable():
            unreadable.append(f"{path}: its URL holds control characters")
            return "", False, ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        unreadable.append(f"{path}: not a direct_url document ({type(error).__name__})")
        return "", False, ""
    again = "dir_info" in data or (url.startswith(("https:", "http:")) and HIDDEN not in url)
    return url, editable, commit or (url + inner if again else "")


def _tags(path: str, unreadable: _Unreadable) -> tuple[str, ...]:
    lines = _small(path, unreadable).splitlines()
    return tuple(line.partition(":")[2].strip() for line in lines if line.lower().startswith("tag:"))
