"""Where the wheels come from that a repair installs again."""

from collections.abc import Sequence

from envdoctor.errors import RestoreError
from envdoctor.model.plan import BaseInterpreter, PlannedPackage
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import wheel_origins
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.uv import Uv
from envdoctor.wheels.wheel_names import WheelNames


def located(
    wanted: Sequence[LockedPackage],
    uv: Uv,
    interpreter: BaseInterpreter,
    configured: IndexConfig,
    names: WheelNames,
    torch_backend: str,
    *,
    offline: bool,
) -> tuple[PlannedPackage, ...]:
    """Return a source for each pinned package. Raises RestoreError for one that is not found."""
    if not wanted:
        return ()
    found = wheel_origins.locate(
        uv, wanted, interpreter, configured, names=names, torch_backend=torch_backend, offline=offline
    )
    if found.unavailable:
        first = found.unavailable[0]
        raise RestoreError(f"{first.name} {first.version} was not found: {first.reason}", first.hint)
    return tuple(
        PlannedPackage(name=package.name, version=package.version, source=found.sources[package.name])
        for package in wanted
    )
