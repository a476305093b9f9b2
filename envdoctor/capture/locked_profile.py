"""The profile of a lock that another tool wrote: the torch build, from the wheel itself where the lock does not say."""

import re
from typing import BinaryIO

from envdoctor.capture.captured_files import CapturePaths
from envdoctor.capture.captured_profile import FORBIDDEN, SCHEMA
from envdoctor.catalog.minimum_drivers import MINIMUM_DRIVER
from envdoctor.errors import CaptureError
from envdoctor.model.profile import (
    DriverWanted,
    EnvironmentWanted,
    LockWanted,
    Profile,
    PythonWanted,
    TorchWanted,
)
from envdoctor.probes.venv.version_file import constants_of
from envdoctor.wheels.index import File
from envdoctor.wheels.remote_file import NoRangesError, open_remote
from envdoctor.wheels.urls import Access, IndexUnreadableError
from envdoctor.wheels.wheel_contents import WheelError, open_wheel

# The local part of PyTorch's own wheels; uv's --torch-backend takes the same words.
_BUILD = re.compile(r"(?:cpu|cu(?P<major>\d+)(?P<minor>\d))$")
_MAXIMUM = 64 * 1024


def torch_of(version: str, file: File | None, access: Access) -> TorchWanted:
    """Return the build of a locked torch: what its wheel's torch/version.py states, else what its local part says.

    A wheel on PyPI is called 2.10.0 and is the build 2.10.0+cu128: only the file tells. Raises CaptureError.
    """
    local = version.partition("+")[2]
    if match := _BUILD.fullmatch(local):
        return TorchWanted(version=version, cuda=f"{match['major']}.{match['minor']}" if match["major"] else "")
    if file is None:
        raise CaptureError(
            f"the build of torch {version} is not known: the lock does not say where its wheel is",
            "pin a version with its local part (2.10.0+cu128), or capture a venv that has it: `envdoctor capture NAME`",
        )
    try:
        with _open(file, access) as content:
            stated = constants_of(open_wheel(content).text("torch/version.py").encode(), f"{file.filename}: version.py")
    except (NoRangesError, IndexUnreadableError, FileNotFoundError, OSError, WheelError) as error:
        raise CaptureError(
            f"the build of torch {version} is not known: {file.filename} cannot be looked into ({error})",
            "try again where its index answers, or capture a venv that has it: `envdoctor capture NAME`",
        ) from error
    if not stated.get("__version__"):
        raise CaptureError(f"{file.filename} has no torch/version.py that states a version", "lock another torch")
    return TorchWanted(
        version=stated["__version__"], cuda=stated.get("cuda", ""), git_version=stated.get("git_version", "")
    )


def _open(file: File, access: Access) -> BinaryIO:
    return file.local.open("rb") if file.local is not None else open_remote(file.url, access)


def profile_of_lock(
    place: CapturePaths, summary: str, python: str, torch: TorchWanted, *, pinned: str, day: str
) -> Profile:
    """Return the profile; `python` is "3.12", `pinned` the version of torch in the lock, `day` an ISO date."""
    # By the lock's own version: the PyTorch index has no wheel called 2.10.0.
    backend = pinned.partition("+")[2]
    return Profile(
        schema=SCHEMA,
        name=place.name,
        summary=summary,
        python=PythonWanted(versions=(python,)),
        torch=torch,
        lock=LockWanted(file=place.lock.name, resolved=day, torch_backend=backend if _BUILD.fullmatch(backend) else ""),
        driver=DriverWanted(minimum=MINIMUM_DRIVER.get(torch.cuda.partition(".")[0], "")),
        environment=EnvironmentWanted(forbidden=FORBIDDEN),
    )
