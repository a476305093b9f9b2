"""Reading a wheel's table of contents from a server, in ranges, and from one that knows none."""

import os
from pathlib import Path

import pytest

from envdoctor.wheels.index import File
from envdoctor.wheels.remote_file import NoRangesError, open_remote
from envdoctor.wheels.urls import Access, IndexUnreadableError
from envdoctor.wheels.wheel_contents import open_wheel
from envdoctor.wheels.wheel_safety import look_into
from tests.factories.make_index import Fault, make_index
from tests.factories.make_wheel import make_wheel

ACCESS = Access(environment={}, home=Path("/nonexistent"))


def _url(base: str, wheel: Path) -> str:
    return f"{base.removesuffix('simple/')}files/{wheel.name}"


def test_only_the_ends_of_a_large_wheel_are_fetched(tmp_path: Path) -> None:
    files = {"big/first.bin": os.urandom(600_000), "big/__init__.py": "", "big/last.bin": os.urandom(300_000)}
    wheel = make_wheel(tmp_path, "big", "1", files=files)
    content = wheel.read_bytes()
    with make_index(tmp_path) as index, open_remote(_url(index.url, wheel), ACCESS) as file:
        with wheel.open("rb") as local:
            assert open_wheel(file).places("python3.12") == open_wheel(local).places("python3.12")
        assert index.downloads() == []
        assert len(index.requests) == 1
        file.seek(1000)
        assert file.read(5000) == content[1000:6000]
        file.seek(-10, os.SEEK_END)
        assert file.read() == content[-10:]
        assert file.read() == b""
        file.seek(500)
        file.seek(500, os.SEEK_CUR)
        assert (file.tell(), file.read(1)) == (1000, content[1000:1001])


def test_a_server_without_ranges_sends_a_small_wheel_whole(tmp_path: Path) -> None:
    small = make_wheel(tmp_path, "small", "1")
    large = make_wheel(tmp_path, "large", "1", files={"large.bin": os.urandom(200_000)})
    with make_index(tmp_path) as index:
        index.ranges = False
        with open_remote(_url(index.url, small), ACCESS) as file:
            assert file.read() == small.read_bytes()
        with pytest.raises(NoRangesError) as caught:
            open_remote(_url(index.url, large), ACCESS)
    assert str(caught.value) == f"{_url(index.url, large)}: the server sends it only whole"


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("missing", FileNotFoundError, ""),
        ("forbidden", IndexUnreadableError, ": it answered 403 Forbidden"),
        ("cut", IndexUnreadableError, ": the connection broke off (Remote end closed connection without response)"),
        ("truncated", IndexUnreadableError, ": the connection broke off ("),
    ],
)
def test_a_server_that_fails(tmp_path: Path, fault: Fault, kind: type[Exception], said: str) -> None:
    wheel = make_wheel(tmp_path, "thing", "1")
    with make_index(tmp_path, {wheel.name: fault}) as index:
        url = _url(index.url, wheel)
        with pytest.raises(kind) as caught:
            open_remote(url, ACCESS)
        assert str(caught.value).startswith(f"{url}{said}")
        # What cannot be looked into has no verdict: its hash speaks when it is fetched.
        assert look_into(File(filename=wheel.name, url=url), ACCESS).problem == ""


@pytest.mark.parametrize(
    ("files", "symlinks", "problem"),
    [
        ({"../evil.py": ""}, {}, "its entry ../evil.py leads out of the venv"),
        ({"/etc/evil": ""}, {}, "its entry /etc/evil leads out of the venv"),
        ({"a/../../../evil": ""}, {}, "its entry a/../../../evil leads out of the venv"),
        ({"a\\..\\evil": ""}, {}, "its entry a\\..\\evil leads out of the venv"),
        ({"a.py": ""}, {"link": "/etc/passwd"}, "its entry link is a symbolic link"),
        ({"a.py": ""}, {}, ""),
    ],
)
def test_a_wheel_that_must_not_be_installed_is_told_from_afar(
    tmp_path: Path, files: dict[str, bytes | str], symlinks: dict[str, str], problem: str
) -> None:
    wheel = make_wheel(tmp_path, "thing", "1", files=files, symlinks=symlinks)
    with make_index(tmp_path) as index:
        assert look_into(File(filename=wheel.name, url=_url(index.url, wheel)), ACCESS).problem == problem
    assert look_into(File(filename=wheel.name, url=wheel.as_uri()), ACCESS).problem == problem
