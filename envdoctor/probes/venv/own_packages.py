"""What a venv itself holds: the distributions of its own site-packages, each name once."""

import shlex
from pathlib import Path

from envdoctor.errors import ProbeError, TargetError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.model.frozen import frozen, replace
from envdoctor.probes.venv import distributions, interpreter, search_path
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.editable_source import source_folder
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.search_path import SearchPath

_PROBES = {
    Interpreter: interpreter.probe,
    SearchPath: search_path.probe,
    Distributions: distributions.probe,
}


@frozen
class OwnPackages:
    """A venv in short."""

    python: str
    """Its interpreter's version; empty when nothing states it."""
    system_site_packages: bool
    packages: dict[str, Distribution]
    """Normalized name -> the one that counts."""


def own_packages(reading: Reading) -> dict[str, Distribution]:
    """Return normalized name -> distribution of the environment's own site-packages. Raises ProbeError."""
    own = (item for item in reading.fact(Distributions).items if item.origin == "site-packages" and not item.shadowed)
    return dict(sorted((item.name, item) for item in own))


def read_venv(venv: Path) -> OwnPackages:
    """Return what a venv holds, from its files alone; of one that cannot be read, nothing."""
    try:
        # The variables of the shell decide what else is on sys.path, not what is in the venv.
        host = replace(Host.current(), environ={})
        reading = Reading(target=resolve(venv), host=host, options=Options(), probes=_PROBES)
        python = reading.fact(Interpreter)
        return OwnPackages(
            python=python.version,
            system_site_packages=python.is_venv and python.system_site_packages,
            packages=own_packages(reading),
        )
    except (ProbeError, TargetError):
        return OwnPackages(python="", system_site_packages=False, packages={})


def origin(item: Distribution) -> str:
    """Return "editable from file:///…" or "from <url>" for what did not come from an index; else an empty string."""
    if not item.direct_url:
        return ""
    return f"editable from {item.direct_url}" if item.editable else f"from {item.direct_url}"


def local_wheel(item: Distribution) -> str:
    """Return the URL of the local wheel that a distribution came from; else empty."""
    url = "" if item.editable else item.direct_url
    return url if url.startswith("file:") and url.endswith(".whl") else ""


def is_from_elsewhere(item: Distribution) -> bool:
    """Tell what no index has: it came from a folder, a repository or a remote archive."""
    return bool(item.direct_url) and not local_wheel(item)


def asked_again(item: Distribution) -> str:
    """Return the words of a uv line that install what did not come from an index again, from where it came."""
    url = item.built_from or item.direct_url
    if item.editable:
        return f"--editable {shlex.quote(str(source_folder(url)))}"
    return shlex.quote(f"{item.name} @ {url}")
