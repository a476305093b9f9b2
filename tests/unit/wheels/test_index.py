"""Reading the simple API, from disk and over HTTP."""

import hashlib
from pathlib import Path

import pytest

from envdoctor.wheels import http
from envdoctor.wheels.index import File, page_files, project_files, size_of
from envdoctor.wheels.urls import Access, IndexUnreadableError, bare_host, shown
from tests.factories import faulty_index
from tests.factories.faulty_index import Deed
from tests.factories.make_index import make_index
from tests.factories.make_wheel import make_wheel

NOWHERE = Access(environment={}, home=Path("/nonexistent"))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_index_over_http_tells_names_hashes_and_sizes(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "some-thing", "1")
    with make_index(tmp_path) as index:
        files = project_files(index.url, "Some.Thing", NOWHERE)
        base = index.url.removesuffix("simple/")
    assert files == (
        File(filename=wheel.name, url=f"{base}files/{wheel.name}", sha256=_sha256(wheel), size=wheel.stat().st_size),
    )


def test_a_project_an_index_does_not_have_has_no_files(tmp_path: Path) -> None:
    with make_index(tmp_path) as index:
        assert project_files(index.url, "nothing", NOWHERE) == ()


@pytest.mark.parametrize("deed", [faulty_index.well, faulty_index.zipped, faulty_index.chunked])
def test_a_page_that_is_too_long_is_refused_and_never_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Deed
) -> None:
    wheel = make_wheel(tmp_path, "thing", "1")
    for number in range(2, 200):
        (tmp_path / f"thing-{number}-py3-none-any.whl").write_bytes(b"")
    with faulty_index.faulty_index(tmp_path) as index:
        index.scripts["/simple/thing/"] = [deed]
        files = project_files(index.url, "thing", NOWHERE)
        length = len(http.ask(f"{index.url}thing/", NOWHERE).body)
        assert (len(files), wheel.name in {file.filename for file in files}) == (199, True)
        monkeypatch.setattr(http, "_MAXIMUM", length)
        assert project_files(index.url, "thing", NOWHERE) == files
        monkeypatch.setattr(http, "_MAXIMUM", length - 1)
        with pytest.raises(IndexUnreadableError) as raised:
            project_files(index.url, "thing", NOWHERE)
    assert str(raised.value) == f"{index.url}thing/: its answer is longer than 0 MiB"


def test_a_size_the_page_leaves_out_is_asked_for(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "thing", "1")
    with make_index(tmp_path, {wheel.name: "unsized"}) as index:
        (file,) = project_files(index.url, "thing", NOWHERE)
        assert (file.size, size_of(file, NOWHERE)) == (None, wheel.stat().st_size)
        assert index.requests[-1] == f"HEAD /files/{wheel.name}"
        gone = File(filename="x.whl", url=f"{index.url.removesuffix('simple/')}files/x.whl")
        assert size_of(gone, NOWHERE) is None


def test_an_index_on_disk_is_read_without_a_server(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "files", "thing", "1")
    page = tmp_path / "simple" / "thing" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(
        f'<a href="../../files/{wheel.name}#sha256={"a" * 64}">x</a>'
        '<a data-yanked="" href="old-1.whl">y</a><a>no link</a>'
    )
    index = (tmp_path / "simple").as_uri()
    assert project_files(index, "thing", NOWHERE) == (
        File(filename=wheel.name, url=wheel.as_uri(), sha256="a" * 64, size=wheel.stat().st_size),
        File(filename="old-1.whl", url=(page.parent / "old-1.whl").as_uri(), yanked=True),
    )
    assert page_files(page.as_uri(), NOWHERE) == project_files(index, "thing", NOWHERE)
    assert project_files(index, "absent", NOWHERE) == ()


def test_an_index_that_is_not_there_did_not_answer(tmp_path: Path) -> None:
    with make_index(tmp_path) as index:
        dead = index.url
    with pytest.raises(IndexUnreadableError) as caught:
        project_files(dead, "thing", NOWHERE)
    assert (str(caught.value), caught.value.answered) == (
        f"{bare_host(dead)} did not answer: Connection refused",
        False,
    )


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://user:secret@host:8443/simple", "https://****@host:8443/simple"),
        ("https://token@host/simple", "https://****@host/simple"),
        ("https://host/simple", "https://host/simple"),
        ("/a/folder", "/a/folder"),
    ],
)
def test_credentials_are_not_shown(url: str, safe: str) -> None:
    assert shown(url) == safe
