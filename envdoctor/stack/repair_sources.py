"""Where the wheels come from that a repair installs again."""

from collections.abc import Sequence
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.answer_memo import AnswerMemo
from envdoctor.facts.host import Host
from envdoctor.model.plan import BaseInterpreter, PlannedPackage
from envdoctor.stack.prepared_repair import RepairRequest
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import index_config, pip_config, wheel_origins
from envdoctor.wheels.cached_answers import Question, Remembered
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.uv import Uv
from envdoctor.wheels.wheelhouse import chosen, with_wheelhouses


def configured(uv: Uv, interpreter: BaseInterpreter, request: RepairRequest, venv: Path, host: Host) -> IndexConfig:
    """Return the places that pip and uv are configured with, the wheels beside the profile's lock first."""
    pip = pip_config.read(host.environ, host.home, venv=venv)
    pip = with_wheelhouses(pip, chosen((), request.file, host.cwd) if request.file else ())
    return index_config.configured(uv, pip, host.home, interpreter.path, AnswerMemo.of("uv-sources", host))


def located(
    wanted: Sequence[LockedPackage],
    request: RepairRequest,
    uv: Uv,
    interpreter: BaseInterpreter,
    sources: IndexConfig,
    host: Host,
) -> tuple[PlannedPackage, ...]:
    """Return a source for each pinned package. Raises RestoreError for one that is not found."""
    if not wanted:
        return ()
    backend = request.profile.lock.torch_backend if request.profile else ""
    question = Question(
        uv=uv,
        interpreter=interpreter,
        sources=sources,
        torch_backend=backend,
        offline=request.offline,
        folder_given_by="UV_FIND_LINKS=FOLDER",
    )
    found = wheel_origins.locate(question, wanted, Remembered.of(host))
    if found.unavailable:
        first = found.unavailable[0]
        raise RestoreError(f"{first.name} {first.version} was not found: {first.reason}", first.hint)
    return tuple(
        PlannedPackage(name=package.name, version=package.version, source=found.sources[package.name])
        for package in wanted
    )
