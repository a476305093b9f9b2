"""A printed reinstall stays offline where uv's cache holds the wheel whole, and nowhere else; it then heals."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv

from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from tests.factories.examine_venv import commands_of, first, verdict_of
from tests.factories.make_index import make_index
from tests.factories.make_venv import Venv, edit_in_place, make_venv, rewrite, uv_environment
from tests.factories.make_wheel import make_wheel

HELD = "uv pip install --python [TMP]/venv/bin/python --offline --no-deps --reinstall-package thing thing==1.0"
FETCHED = HELD.replace("--offline ", "")


@dataclass(frozen=True, slots=True)
class Scene:
    """A venv with a wheel of the default index, and uv's cache."""

    folder: Path
    venv: Venv
    host: Host

    def command(self, **changes: object) -> str:
        """Return what is printed to put the missing file back."""
        verdict = verdict_of(self.venv.prefix, host=replace(self.host, **changes))
        assert first(verdict, self.folder)[0] == "ED202"
        return commands_of(verdict.findings[0], self.folder)[0]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Install a wheel from an index; then let the cache have it as the default index's, and delete a file of it."""
    make_wheel(
        tmp_path / "wheels", "thing", "1.0", files={"thing/__init__.py": "a = 1\n", "thing/data.bin": "x" * 9999}
    )
    cache = tmp_path / "home" / ".cache" / "uv"
    venv = make_venv(tmp_path / "venv")
    with make_index(tmp_path / "wheels") as index:
        environ = {**uv_environment(cache), "UV_OFFLINE": "0", "UV_DEFAULT_INDEX": index.url}
        command = [uv.find_uv_bin(), "pip", "install", "--python"]
        subprocess.run([*command, venv.python, "thing"], env=environ, check=True, capture_output=True)
    for kind in ("wheels", "simple"):
        (found,) = cache.glob(f"{kind}-v*/index/*")
        # A link of the same depth: uv's links into the archives are relative.
        shutil.copytree(found, found.parent.parent / "pypi", symlinks=True)
        for link in (path for path in (found.parent.parent / "pypi").rglob("*") if path.is_symlink()):
            goal = (found / link.relative_to(found.parent.parent / "pypi")).resolve()
            link.unlink()
            link.symlink_to(goal)
        shutil.rmtree(found)
    (venv.site_packages / "thing/data.bin").unlink()
    home = tmp_path / "home"
    host = replace(Host.current(), environ={"HOME": str(home), "PATH": os.environ["PATH"]}, home=home, cwd=home)
    return Scene(tmp_path, venv, host)


def test_what_the_cache_holds_is_not_fetched_again(scene: Scene) -> None:
    assert scene.command() == HELD


@pytest.mark.index
def test_the_command_heals_from_what_the_default_index_gave(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {**uv_environment(home / ".cache" / "uv"), "PATH": str(Path(sys.executable).parent), "UV_OFFLINE": "0"}
    environ |= {name: os.environ[name] for name in ("SSL_CERT_FILE", "HTTPS_PROXY", "ALL_PROXY") if name in os.environ}
    environ |= {"SSL_CERT_FILE": os.environ["PIP_CERT"]} if "PIP_CERT" in os.environ else {}
    venv = make_venv(tmp_path / "venv")
    command = [uv.find_uv_bin(), "pip", "install", "--python", venv.python, "iniconfig==2.3.0"]
    done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the default index cannot be reached: {done.stderr.splitlines()[-1]}")
    lost = venv.site_packages / "iniconfig" / "exceptions.py"
    lost.unlink()
    host = replace(Host.current(), environ={"HOME": str(home), "PATH": os.environ["PATH"]}, home=home, cwd=home)
    (printed,) = verdict_of(venv.prefix, host=host).findings[0].remediation.commands
    assert " --offline " in printed
    subprocess.run(shlex.split(printed), env=environ | {"HTTPS_PROXY": "http://127.0.0.1:9"}, check=True)
    assert lost.exists()
    assert verdict_of(venv.prefix, host=host).findings == ()


def _cleaned(scene: Scene) -> None:
    shutil.rmtree(next((scene.folder / "home/.cache/uv").glob("wheels-v*/pypi/thing")))


def _page_gone(scene: Scene) -> None:
    next((scene.folder / "home/.cache/uv").glob("simple-v*/pypi/thing.rkyv")).unlink()


def _file_gone(scene: Scene) -> None:
    next((scene.folder / "home/.cache/uv").glob("archive-v*/*/thing/data.bin")).unlink()


def _another_build(scene: Scene) -> None:
    wheel = next((scene.folder / "home/.cache/uv").glob("archive-v*/*/thing-1.0.dist-info/WHEEL"))
    rewrite(wheel, wheel.read_text().replace("py3-none-any", "py2-none-any"))


def _newer_uv(scene: Scene) -> None:
    (scene.folder / "home/.cache/uv/wheels-v99/pypi").mkdir(parents=True)


def _configured(scene: Scene) -> None:
    (scene.folder / "home/uv.toml").write_text("")


def _in_the_project(scene: Scene) -> None:
    (scene.folder / "home/pyproject.toml").write_text("[tool.uv]\n")


def _edited_in_place(scene: Scene) -> None:
    edit_in_place(scene.venv.site_packages / "thing/__init__.py", b"a = 1\nbb")


@pytest.mark.parametrize(
    "change", [_cleaned, _page_gone, _file_gone, _another_build, _newer_uv, _configured, _in_the_project]
)
def test_what_it_does_not_hold_for_sure_is_fetched(scene: Scene, change: Callable[[Scene], None]) -> None:
    change(scene)
    assert scene.command() == FETCHED


def test_what_uv_is_told_to_look_for_elsewhere_is_fetched(scene: Scene) -> None:
    told = {**scene.host.environ, "UV_DEFAULT_INDEX": "file:///nowhere"}
    assert scene.command(environ=told) == FETCHED


def test_what_was_edited_in_the_cache_too_is_fetched_once_it_is_cleaned(scene: Scene) -> None:
    _edited_in_place(scene)
    lines = commands_of(verdict_of(scene.venv.prefix, host=scene.host).findings[0], scene.folder)
    assert lines[0].startswith("uv cache clean thing")
    assert not any("--offline" in line for line in lines)
