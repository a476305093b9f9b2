"""What travels to a node is whole wherever this program's files are, and its uv is the one that a node runs."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from envdoctor.rollout.payload import payload

FIND = "import sys; sys.path.insert(0, sys.argv[1]); from envdoctor.wheels import uv; print(uv.own_binary())"


@pytest.fixture(scope="module")
def travelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack what travels with a profile and a lock that are links, as stores of data have them."""
    root = tmp_path_factory.mktemp("travelled")
    (root / "real").write_text("mine")
    (root / "link").symlink_to("real")
    with payload({"profiles/a.toml": root / "link"}, {}) as load:
        content = bytes(load)
    length, _, rest = content.partition(b"\n")
    with tarfile.open(fileobj=io.BytesIO(rest[int(length) :])) as archive:
        assert [member.name for member in archive if not member.isreg()] == []
        archive.extractall(root / "node", filter="data")
    return root / "node"


def test_a_link_travels_as_the_file_it_names(travelled: Path) -> None:
    assert (travelled / "files/profiles/a.toml").read_text() == "mine"


@pytest.mark.parametrize("options", [["-I", "-S"], ["-I"]])
def test_the_uv_that_travelled_is_used_and_none_of_the_interpreters_own(travelled: Path, options: list[str]) -> None:
    # The interpreter of the tests has a uv among its scripts, as that of an examined environment may.
    assert (Path(sys.executable).parent / "uv").exists()
    command = [sys.executable, *options, "-c", FIND, str(travelled / "tool")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{travelled}/tool/bin/uv\n"
    subprocess.run([done.stdout.strip(), "--version"], check=True, capture_output=True)
