"""Where the wheels of a lock are."""

import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import locked_wheels, wheel_tags
from envdoctor.wheels.download import wheel_sha256
from envdoctor.wheels.index_config import configured
from envdoctor.wheels.locked_wheels import Fit, search
from envdoctor.wheels.pip_config import PipSettings
from envdoctor.wheels.uv import Uv
from tests.factories.make_wheel import make_wheel, sha256


def test_a_wheel_for_another_machine_is_read_only_where_none_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    other = make_wheel(wheels, "one", "1.0", tag="cp39-cp39-linux_s390x")
    fitting = make_wheel(wheels, "one", "1.0")
    read: list[str] = []
    monkeypatch.setattr(locked_wheels, "wheel_sha256", lambda path: read.append(path.name) or wheel_sha256(path))
    uv = Uv(binary=find_uv_bin(), environment={"HOME": str(tmp_path)}, cwd=tmp_path)
    pip = PipSettings(find_links=(str(wheels),), no_index=True, told_by={})
    sources = configured(uv, pip, tmp_path, sys.executable)
    tags = wheel_tags.supported((3, 11), "x86_64", 17)
    fit = Fit(python="3.11", machine="x86_64", tags=tags, torch_backend="")
    locked = LockedPackage(name="one", version="1.0", hashes=(sha256(fitting), sha256(other)))

    assert [job.file.filename for job in search([locked], tmp_path, fit, sources, uv).jobs] == [fitting.name]
    assert read == [fitting.name]
    fitting.unlink()
    (missing,) = search([locked], tmp_path, fit, sources, uv).missing
    assert missing.reason == f"{wheels} has {other.name}, with a locked hash, for another Python or machine"
    assert read[1:] == [other.name]
