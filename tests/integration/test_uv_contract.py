"""What uv says is parsed: the installed uv and the oldest of the range in pyproject.toml word it as it is read."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uv as uv_package
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.preview import Preview, read_log
from envdoctor.wheels.uv import Uv, UvError
from envdoctor.wheels.uv_cache import refuse_special
from envdoctor.wheels.uv_errors import RANGE, missing
from tests.factories.make_index import Fault, Index, make_index
from tests.factories.make_venv import make_venv, uv_environment
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import ROOT

A = "a" * 64


def _range() -> Requirement:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return next(wanted for wanted in map(Requirement, project["dependencies"]) if wanted.name == "uv")


def _oldest() -> str:
    return next(item.version for item in _range().specifier if item.operator == ">=")


@pytest.fixture(scope="module", params=["installed", pytest.param("oldest", marks=pytest.mark.index)])
def binary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the installed uv, or the oldest allowed one from the index."""
    if request.param == "installed":
        return uv_package.find_uv_bin()
    folder = tmp_path_factory.mktemp("uv")
    command = [uv_package.find_uv_bin(), "pip", "install", "-q", "--python", sys.executable, "--target", folder]
    done = subprocess.run([*command, f"uv=={_oldest()}"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"uv {_oldest()} cannot be fetched here: {done.stderr.splitlines()[-1]}")
    return str(folder / "bin/uv")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Serve one wheel."""
    make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing.bin": bytes(range(256)) * 4000})
    with make_index(tmp_path / "wheels") as served:
        yield served


class Asker:
    """Asks one uv for a wheel of the index, in a venv without anything."""

    def __init__(self, binary: str, folder: Path, index: Index) -> None:
        """Make the venv."""
        self.index = index
        self.venv = make_venv(folder / "venv")
        environment = {name: value for name, value in uv_environment(folder / "cache").items() if name != "UV_OFFLINE"}
        self.uv = Uv(binary=binary, environment=environment | {"UV_HTTP_RETRIES": "0"}, cwd=folder)

    def install(self, requirement: str, *arguments: str, digest: str = "") -> str:
        """Install a requirement and return what uv wrote to stderr."""
        asked = f"{requirement} --hash=sha256:{digest or self.digest}\n"
        command = ["pip", "install", "--no-deps", "--no-build", "--require-hashes", "--requirements", "-"]
        command += ["--python", str(self.venv.python), "--index-url", self.index.url, *arguments]
        return self.uv.run(command, stdin=asked).stderr

    @property
    def digest(self) -> str:
        """The hash of the served wheel."""
        return hashlib.sha256(next(self.index.folder.glob("*.whl")).read_bytes()).hexdigest()

    def refused(self, requirement: str, *arguments: str, digest: str = "") -> tuple[UvError, str]:
        """Return the error of an installation, and its message with the port and the digest replaced."""
        with pytest.raises(UvError) as caught:
            self.install(requirement, *arguments, digest=digest)
        message = caught.value.message.replace(self.index.url.removesuffix("/simple/"), "[INDEX]")
        return caught.value, message.replace(self.digest, "[DIGEST]")


@pytest.fixture
def asker(binary: str, tmp_path: Path, index: Index) -> Asker:
    """Return the asker."""
    return Asker(binary, tmp_path, index)


def test_the_installed_uv_is_in_the_range() -> None:
    said = subprocess.run([uv_package.find_uv_bin(), "--version"], capture_output=True, text=True, check=True).stdout
    assert _range().specifier.contains(Version(said.split()[1]))
    assert {item.operator for item in _range().specifier} == {">=", "<"}
    assert _range().specifier == SpecifierSet(RANGE)


def test_a_wheel_with_another_hash(asker: Asker) -> None:
    assert asker.refused("thing==1.0", digest=A)[1] == (
        f"the wheel of thing==1.0 is not the locked one: it hashes to [DIGEST], the lock allows {A}"
    )


def test_a_link_of_the_cache_that_leads_nowhere(asker: Asker) -> None:
    """Nothing waits at one: a wheel of an index is fetched again, and for one of a folder the cache is cleaned."""
    cache = Path(asker.uv.environment["UV_CACHE_DIR"])
    package = LockedPackage(name="thing", version="1.0", hashes=(asker.digest,))

    def emptied() -> Path:
        (link,) = (path for path in cache.glob("wheels-v*/index/*/thing/1.0-*") if path.is_symlink())
        folder = link.resolve()
        shutil.rmtree(folder)
        refuse_special(cache, [package], copies=True)
        return folder

    asker.install("thing==1.0")
    emptied()
    asker.install("thing==1.0", "--reinstall")
    asker.uv.run(["cache", "clean", "thing"])
    from_folder = ("thing==1.0", "--reinstall", "--no-index", "--find-links", str(asker.index.folder))
    asker.install(*from_folder)
    folder = emptied()
    error, message = asker.refused(*from_folder)
    assert message == f"uv's cache lists a wheel of thing, and its folder is gone: {folder}"
    assert error.hint == "`uv cache clean thing`, then run it again"
    asker.uv.run(["cache", "clean", "thing"])
    asker.install(*from_folder)


def test_offline_and_not_in_the_cache(asker: Asker) -> None:
    error, message = asker.refused("thing==1.0", "--offline")
    told = "uv was told to stay offline (--offline, UV_OFFLINE or uv.toml)"
    assert message == f"thing==1.0 is not in uv's cache, and {told}"
    assert missing(error.output) == ("thing", "1.0")


@pytest.mark.parametrize(("name", "version"), [("thing", "2.0"), ("nothing", "1.0")])
def test_a_version_or_a_package_that_no_source_has(asker: Asker, name: str, version: str) -> None:
    error, message = asker.refused(f"{name}=={version}")
    assert message == f"no configured source has {name} {version} for this interpreter"
    assert missing(error.output) == (name, version)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("forbidden", r"thing==1\.0: the index refused access \(403\): \[INDEX\]/files/thing-1\.0-py3-none-any\.whl"),
        (
            "missing",
            r"thing==1\.0: the index names a file that it does not serve \(404\): "
            r"\[INDEX\]/files/thing-1\.0-py3-none-any\.whl",
        ),
        ("truncated", r"thing==1\.0 could not be fetched: .+"),
        ("cut", r"(thing==1\.0|\[INDEX\]\S+) could not be fetched: .+"),
    ],
)
def test_an_index_that_fails(asker: Asker, fault: Fault, expected: str) -> None:
    asker.index.faults["thing-1.0-py3-none-any.whl"] = fault
    assert re.fullmatch(expected, asker.refused("thing==1.0")[1])


def _cut_short(wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes()[:2000])


def _not_a_zip(wheel: Path) -> None:
    wheel.write_bytes(b"<html>not found</html>")


@pytest.mark.parametrize("damage", [_cut_short, _not_a_zip])
def test_a_wheel_that_is_no_archive(asker: Asker, damage: Callable[[Path], None]) -> None:
    damage(next(asker.index.folder.glob("*.whl")))
    assert re.fullmatch(r"the wheel of thing==1\.0 is cut off or damaged: .+", asker.refused("thing==1.0")[1])


def test_a_uv_that_waits_is_said(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envdoctor.wheels.uv._STILL", 0.2)
    monkeypatch.setattr("envdoctor.wheels.uv._PULSE", 0.1)
    pipe = asker.uv.cwd / "requirements.txt"
    os.mkfifo(pipe)
    said: list[str] = []

    def listen(line: str) -> None:
        said.append(line)
        if len(said) == 1:
            pipe.write_text("")  # which lets it go on

    asker.uv.run(("pip", "compile", pipe), listen=listen)
    assert re.fullmatch(
        r"uv has done nothing for \d s: it waits for the network, for another uv that holds a lock of its cache, or "
        r"at a pipe; Ctrl-C ends it and leaves everything as it was",
        said[0],
    )


def test_a_dry_run_says_what_the_cache_has(asker: Asker) -> None:
    asked = frozenset({"thing"})
    dry = ("--dry-run", "--verbose", "--target", str(asker.uv.cwd / "empty"))
    assert read_log(asker.install("thing==1.0", *dry), asked) == Preview(uncached=asked)
    asker.install("thing==1.0")
    assert read_log(asker.install("thing==1.0", *dry), asked) == Preview(cached=asked)
