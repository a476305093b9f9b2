"""LD_LIBRARY_PATH serves the examined environment; the program's own Python takes nothing unfit from it."""

import json
import sysconfig
from pathlib import Path

import pytest

from tests.factories.make_venv import make_venv
from tests.factories.run_envdoctor import run_envdoctor

# What zlib, _hashlib, _ssl and _ctypes of one Python or another are linked with.
LIBRARIES = ("libz.so.1", "libcrypto.so.3", "libcrypto.so.1.1", "libssl.so.3", "libffi.so.8", "libffi.so.7")


@pytest.mark.parametrize("of_an_environment", [True, False])
def test_libraries_that_do_not_fit_are_not_loaded(tmp_path: Path, *, of_an_environment: bool) -> None:
    if not sysconfig.get_config_var("HAVE_DYNAMIC_LOADING"):
        pytest.skip("a static Python loads no library")
    make_venv(tmp_path / "venv")
    folder = tmp_path / "other/lib"
    folder.mkdir(parents=True)
    if of_an_environment:
        (tmp_path / "other/conda-meta").mkdir()
    for name in LIBRARIES:
        (folder / name).write_bytes(b"not a library")
    value = f"/nowhere:{folder}"
    done = run_envdoctor("check", tmp_path / "venv", "--json", folder=tmp_path, extra={"LD_LIBRARY_PATH": value})
    assert (done.code, done.err) == (0, "")
    area = next(area for area in json.loads(done.out)["areas"] if area["area"] == "Environment")
    assert area["summary"] == "LD_LIBRARY_PATH set"
