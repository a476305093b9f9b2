"""Modules that another file of the same folder is imported in front of, as importlib's FileFinder chooses in it.

In one folder a package (a folder with `__init__`) wins over an extension module, that one over source, source over
bytecode alone. What no RECORD lists is in front of what one lists where an upgrade of another tool, a layer of an image
or a copy by hand left it.
"""

import os
from collections.abc import Iterator

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.top_modules import modules_in

_PACKAGE = "/__init__"


@frozen
class Beside:
    """One module that is installed and never imported."""

    module: str
    """Dotted: "typing_extensions", "torch.utils.cpp"."""
    fronts: tuple[str, ...]
    """The files in front of it, absolute, in importlib's order; in no RECORD but for a `front_owner`."""
    installed: str
    """The file that a RECORD lists, absolute."""
    owner: str
    version: str
    front_owner: str = ""
    """Another distribution that installed the first of `fronts` ("python-magic" its magic/, file-magic magic.py)."""
    front_version: str = ""


def besides(reading: Reading) -> Iterator[Beside]:
    """Look at the top level of the environment's site folders, and with `deep` at every folder of their packages.

    Not at those of a fresh copy: a file of theirs that no RECORD lists is a fault there, so its facts are not used.
    """
    suffixes = reading.fact(Interpreter).module_suffixes
    sites = [entry.path for entry in reading.fact(SearchPath).site_dirs if entry.origin == "site-packages"]
    everywhere = reading.options.deep and not reading.options.fresh
    for site in sites:
        for folder in sorted(_folders(reading, site)) if everywhere else (site,):
            yield from _in_folder(reading, site, folder, suffixes)


def unlisted(reading: Reading) -> Iterator[str]:
    """Yield the packages of the environment's own site-packages, absolute, of which no RECORD lists a file.

    None where one of its distributions has no RECORD that could be read: they may be its.
    """
    site, records = f"{reading.fact(Interpreter).library}/site-packages", index(reading)
    own = [at for at, item in enumerate(reading.fact(Distributions).items) if item.site == site]
    refused = {at for at, _ in records.malformed}
    if own and all(at in records.rows and at not in refused for at in own):
        paths = (f"{site}/{name}" for name in modules_in([site]))
        yield from (path for path in paths if path not in records.packages and os.path.isdir(path))  # noqa: PTH112 - strings


def _folders(reading: Reading, site: str) -> set[str]:
    owners = index(reading).owners
    return {site} | {
        path.rpartition("/")[0] for path in owners if path.startswith(f"{site}/") and path.endswith((".py", ".so"))
    }


def _in_folder(reading: Reading, site: str, folder: str, suffixes: tuple[str, ...]) -> Iterator[Beside]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names only, and fast
    except OSError:
        return
    forms: dict[str, list[str]] = {}
    for name in names:
        stem, dot, _ = name.partition(".")
        if stem.isidentifier() and (not dot or name[len(stem) :] in suffixes):
            forms.setdefault(stem, []).append(name)
    records, items = index(reading), reading.fact(Distributions).items
    for stem, found in forms.items():
        if len(found) < 2:
            continue
        files = list(_in_order(folder, stem, suffixes))
        at = next((at for at, path in enumerate(files) if path in records.owners), 0)
        front = records.owners.get(files[0]) if files else None
        if front is not None:
            # Two metadata folders of one distribution are told as that.
            others = (items[records.owners.get(path, front)].name != items[front].name for path in files)
            at = next((at for at, other in enumerate(others) if other), 0)
        # `__init__.py` beside `__init__.so` is one package.
        if at and not files[at].startswith(f"{folder}/{stem}{_PACKAGE}"):
            owner = items[records.owners[files[at]]]
            below = f"{folder}/{stem}".removeprefix(f"{site}/")
            yield Beside(
                module=below.replace("/", "."),
                fronts=tuple(files[:at]),
                installed=files[at],
                owner=owner.name,
                version=owner.version,
                front_owner=items[front].name if front is not None else "",
                front_version=items[front].version if front is not None else "",
            )


def _in_order(folder: str, stem: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    for form in (f"{folder}/{stem}{_PACKAGE}", f"{folder}/{stem}"):
        yield from (path for suffix in suffixes if os.path.isfile(path := f"{form}{suffix}"))  # noqa: PTH113 - strings
