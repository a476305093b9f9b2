"""The factories make what uv itself accepts, and the index misbehaves exactly as asked."""

import urllib.request
from pathlib import Path

import pytest
import uv

from tests.factories.make_index import Fault, make_index
from tests.factories.make_venv import install, make_venv, run_uv, tree_state, uninstall
from tests.factories.make_wheel import lock_text, make_wheel, sha256


def test_a_wheel_installs_and_runs(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path / "wheels",
        "some-tool",
        "1.2",
        files={"some_tool.py": "def main():\n    print('hello')\n"},
        scripts={"hello": "some_tool:main"},
    )
    venv = make_venv(tmp_path / "venv", wheel)
    assert (venv.dist_info("some-tool") / "INSTALLER").read_text() == "uv"
    assert (venv.prefix / "bin" / "hello").is_file()


def test_two_owners_of_one_path_lose_it_to_the_uninstall(tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "wheels", "nvidia-nccl-cu12", "1", files={"nvidia/nccl/lib/libnccl.so.2": b"12"})
    two = make_wheel(tmp_path / "wheels", "nvidia-nccl-cu13", "1", files={"nvidia/nccl/lib/libnccl.so.2": b"13"})
    venv = make_venv(tmp_path / "venv", one)
    before = tree_state(venv.prefix)
    install(venv, two)
    assert (venv.site_packages / "nvidia/nccl/lib/libnccl.so.2").read_bytes() == b"13"
    uninstall(venv, "nvidia-nccl-cu13")
    lost = set(before) - set(tree_state(venv.prefix))
    assert {path for path in lost if path.endswith(".so.2")} == {
        str((venv.site_packages / "nvidia/nccl/lib/libnccl.so.2").relative_to(venv.prefix))
    }


def test_a_lock_of_wheels_is_what_uv_checks(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1")
    assert lock_text(wheel) == f"thing==1 \\\n    --hash=sha256:{sha256(wheel)}\n"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("truncated", "error"),
        ("missing", "404"),
        ("changed", "Hash mismatch"),
        ("cut", "error"),
        ("forbidden", "403"),
    ],
)
def test_faults_of_the_index_reach_uv(tmp_path: Path, fault: Fault, said: str) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1", files={"thing.py": "x = 1\n" * 4000})
    venv = make_venv(tmp_path / "venv")
    online = {"UV_OFFLINE": "0", "UV_HTTP_RETRIES": "0"}
    with make_index(wheel.parent, {wheel.name: fault}) as index, pytest.raises(AssertionError, match=said):
        run_uv(
            "pip", "install", "--python", venv.python, "--index-url", index.url, "thing==1",
            cache=tmp_path / "cache", extra=online,
        )  # fmt: skip


@pytest.mark.parametrize("fault", [None, "slow", "unsized"])
def test_a_well_served_wheel_installs(tmp_path: Path, fault: Fault | None) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1", files={"thing.py": "x = 1\n" * 4000})
    venv = make_venv(tmp_path / "venv")
    with make_index(wheel.parent, {wheel.name: fault} if fault else None) as index:
        run_uv(
            "pip", "install", "--python", venv.python, "--index-url", index.url, "thing==1",
            cache=tmp_path / "cache", extra={"UV_OFFLINE": "0"},
        )  # fmt: skip
        assert wheel.name in index.downloads()
        with urllib.request.urlopen(f"{index.url}thing/") as page:
            assert wheel.name in page.read().decode()
    assert Path(uv.find_uv_bin()).is_file()
