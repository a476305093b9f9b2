"""What is kept beside the caches, and paths that may be in a manifest."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.cache import blob
from envdoctor.cache.manifest import StoredFile, _wrong
from envdoctor.cache.store import Labels, SnapshotStore, label, labels
from envdoctor.errors import CacheError, UsageError
from envdoctor.probes.caches.compile_caches import ColdStart, CompileCaches, probe
from tests.factories.make_cache import filled, manifest_of, write
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import make_venv


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, "[HOME]/.local/share/envdoctor/caches"),
        ({"XDG_DATA_HOME": "/data"}, "/data/envdoctor/caches"),
        ({"ENVDOCTOR_CACHE_STORE": "/kept", "XDG_DATA_HOME": "/data"}, "/kept"),
    ],
)
def test_where_the_store_lies(tmp_path: Path, environ: dict[str, str], folder: str) -> None:
    assert str(SnapshotStore.of(bare_host(tmp_path, **environ)).folder).replace(str(tmp_path), "[HOME]") == folder


def test_a_label_goes_with_its_cache(tmp_path: Path) -> None:
    root = filled(tmp_path / "cache")
    manifest = manifest_of(root, name="mine")
    assert labels(root.path) == Labels(manifests=())
    assert label(root.path, manifest) == root.path / ".envdoctor/mine.json"
    assert labels(root.path) == Labels(manifests=(manifest,))


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"{}," * 5_000_000, b"pipe", b"a world's"])
def test_a_label_that_cannot_be_read_hinders_no_other(tmp_path: Path, content: bytes) -> None:
    root = filled(tmp_path / "cache")
    manifest = manifest_of(root, name="mine")
    label(root.path, manifest)
    broken = root.path / ".envdoctor/zz.json"
    if content == b"pipe":
        os.mkfifo(broken)
    elif content == b"a world's":
        broken.write_bytes((root.path / ".envdoctor/mine.json").read_bytes())
        broken.chmod(0o666)
    else:
        broken.write_bytes(content)
    found = labels(root.path)
    assert found.manifests == (manifest,)
    (problem,) = found.problems
    assert problem.startswith(str(broken))


def test_a_link_in_the_place_of_our_folder_is_not_followed(tmp_path: Path) -> None:
    root = filled(tmp_path / "cache")
    (tmp_path / "elsewhere").mkdir()
    (root.path / ".envdoctor").symlink_to(tmp_path / "elsewhere")
    problem = f"{root.path}/.envdoctor is not a real folder, so nothing is read from it or put there"
    assert labels(root.path) == Labels(manifests=(), problems=(problem,))
    with pytest.raises(CacheError) as refused:
        label(root.path, manifest_of(root, name="mine"))
    assert (refused.value.message, refused.value.hint) == (problem, "move it away")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_links_that_wait_for_a_temporary_file_are_not_written_through(tmp_path: Path) -> None:
    root = filled(tmp_path / "cache")
    own = root.path / ".envdoctor"
    own.mkdir()
    victim = write(tmp_path / "precious", b"precious")
    for name in (f".mine.json.{os.getpid()}.tmp", f".import-{os.getpid()}", "mine.json"):
        (own / name).symlink_to(victim)
    label(root.path, manifest_of(root, name="mine"))
    blob.merge((blob.Artifact(kind="inductor", key="fabc", content=b"graph"),), root.path)
    assert victim.read_bytes() == b"precious"
    assert len(labels(root.path).manifests) == 1


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "../x", "a b", "x" * 101, "a\n"])
def test_names_that_are_no_file_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        SnapshotStore(folder=tmp_path).archive(name)
    assert caught.value.message == f"`{name}` is not a name for a snapshot"


def test_the_history_of_a_profile_is_a_fact(tmp_path: Path) -> None:
    host = bare_host(tmp_path / "home")
    store = SnapshotStore.of(host)
    manifest = replace(manifest_of(filled(tmp_path / "cache"), profile="good"), made_at="2026-11-01T00:00:00Z")
    store.keep_warm(manifest, 61.25)
    store.keep_warm(replace(manifest, made_at="2026-11-02T00:00:00Z"), 58.0)
    # A warm-up of a cache that was not empty says nothing of a cold start.
    store.keep_warm(replace(manifest, made_at="2026-11-03T00:00:00Z"), None)
    lines = (store.folder / "warm/good/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["seconds"] for line in lines] == [61.2, 58.0]
    write(store.folder / "warm/broken/history.jsonl", b"not json\n")
    facts: CompileCaches = probe(read(make_venv(tmp_path / "venv").prefix, host))
    assert facts.cold_starts == (ColdStart(profile="good", seconds=58.0, at="2026-11-02T00:00:00Z"),)
    (kept,) = store.warm_manifests()
    assert kept.made_at == "2026-11-03T00:00:00Z"


@pytest.mark.property
@given(st.text(alphabet=st.sampled_from("a./\\\n\0\u2025\ud800~-"), max_size=12) | st.text(max_size=40))
def test_a_path_that_is_taken_stays_inside(path: str) -> None:
    file = StoredFile(root="inductor", path=path, size=0, sha256="0" * 64, modified=0, mode=0o644)
    if _wrong(file):
        return
    parts = path.split("/")
    assert parts
    assert not {"", ".", ".."} & set(parts)
    assert parts[0] != ".envdoctor"
    assert "\0" not in path
    assert all(len(os.fsencode(part)) <= 255 for part in parts)
