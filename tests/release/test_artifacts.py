"""The wheel and the source archive: what is in them, what they say of themselves, and that they are reproducible."""

import email.message
import email.parser
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from envdoctor import __version__
from tests.factories.make_release import build, published_wheel, tracked_copy
from tests.factories.run_envdoctor import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel."""
    return published_wheel(tmp_path_factory.mktemp("wheel"))


def _tracked(*folders: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def _metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_the_package_the_shipped_profiles_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    data = {f"envdoctor/_data/{name}" for name in _tracked("profiles", "lockfiles") if not name.endswith(".in")}
    page = f"torch_envdoctor-{__version__}.data/data/share/man/man1/envdoctor.1"
    assert held == _tracked("envdoctor") | data | {page}


def test_what_the_index_and_an_installer_read(wheel: Path) -> None:
    told = _metadata(wheel)
    assert (told["Name"], told["License-Expression"], told["Requires-Python"]) == ("torch-envdoctor", "MIT", ">=3.11")
    assert "Operating System :: POSIX :: Linux" in (told.get_all("Classifier") or [])
    assert "Typing :: Typed" in (told.get_all("Classifier") or [])
    assert told.get_all("Provides-Extra") == ["conda-lock", "html", "mcp", "sbom"]
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert archive.read(name).decode() == "[console_scripts]\nenvdoctor = envdoctor.__main__:main\n"


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        {path.name: path.read_bytes() for path in build(tracked_copy(tmp_path / name), tmp_path / f"{name}.out")}
        for name in ("a", "b/deeper")
    )
    assert sorted(PurePosixPath(name).suffix for name in first) == [".gz", ".whl"]
    assert first == second


def test_the_source_archive_builds_the_same_wheel_and_holds_no_captured_profile(tmp_path: Path, wheel: Path) -> None:
    source = tracked_copy(tmp_path / "source")
    shutil.copy(source / "profiles/cpu-smoke.toml", source / "profiles/captured-here.toml")
    shutil.copy(source / "lockfiles/cpu-smoke.txt", source / "lockfiles/captured-here.txt")
    made = {path.suffix: path for path in build(source, tmp_path / "out")}
    assert made[".whl"].read_bytes() == wheel.read_bytes()
    with tarfile.open(made[".gz"]) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
        assert [name for name in archive.getnames() if "captured-here" in name] == []
    unpacked = next((tmp_path / "unpacked").iterdir())
    again = {path.suffix: path for path in build(unpacked, tmp_path / "again")}
    assert again[".whl"].read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("program", ["twine", "check-wheel-contents"])
def test_the_checkers_of_the_index_have_nothing_to_say(wheel: Path, program: str) -> None:
    tool = Path(sys.executable).parent / program
    if not tool.exists():
        pytest.skip(f"{program} is not installed in this venv (dependency group `release`)")
    arguments = ["check", "--strict"] if program == "twine" else []
    done = subprocess.run([tool, *arguments, wheel], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
