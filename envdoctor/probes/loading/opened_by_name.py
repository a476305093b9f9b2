"""Libraries that a distribution's Python code opens by name when it is imported, and that are not there."""

from collections.abc import Iterator

from envdoctor.catalog.cudalibs import soname_of
from envdoctor.catalog.opened_at_import import OPENERS
from envdoctor.facts.context import Reading
from envdoctor.loader.disk import Disk
from envdoctor.loader.loaded import LoadFailure
from envdoctor.probes.loading.load_faults import FaultMaker, LoadFault
from envdoctor.probes.loading.own_code import OwnCode
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions

_OF_TOOLKIT = ("lib64", "lib", "targets/x86_64-linux/lib")


def not_found(reading: Reading, disk: Disk, maker: FaultMaker) -> Iterator[LoadFault]:
    """Yield a fault for each library that the import of an installed distribution would raise for."""
    major = reading.fact(TorchBuild).cuda_major
    for at, item in enumerate(reading.fact(Distributions).items):
        opener = OPENERS.get(item.name)
        if opener is None or not major or item.shadowed:
            continue
        for name in OwnCode(reading, at).named_in_calls(opener.file, opener.call):
            if not _in_toolkit(reading, disk, name) and not _in_wheels(disk, item.site, name):
                message = opener.message.format(name=name)
                failure = LoadFailure(kind="not found", name=soname_of(name, major), requester=None, message=message)
                yield maker.of_opener(f"{item.site}/{opener.file}", failure)


def _in_toolkit(reading: Reading, disk: Disk, name: str) -> bool:
    environ = reading.host.environ
    variables = (f"{name.upper()}_HOME", f"{name.upper()}_PATH", "CUDA_HOME", "CUDA_PATH")
    roots = [*filter(None, map(environ.get, variables)), str(reading.host.root / "usr/local/cuda")]
    folders = [f"{root}/{inside}" for root in roots for inside in _OF_TOOLKIT]
    folders += filter(None, environ.get("LD_LIBRARY_PATH", "").split(":"))
    return any(found.startswith(f"lib{name}.so") for folder in folders for found in disk.names(folder))


def _in_wheels(disk: Disk, site: str, name: str) -> bool:
    # CUDA 13's wheels share one folder, so there the name decides; elsewhere the folder does.
    folders = {f"cu13/{name}/lib": "lib", "cu13/lib": f"lib{name}", f"{name}/lib": "lib", f"cuda_{name}/lib": "lib"}
    return any(
        found.startswith(start) and ".so." in found
        for folder, start in folders.items()
        for found in disk.names(f"{site}/nvidia/{folder}")
    )
