"""What is kept beside the caches, and paths that may be in a manifest."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.cache.manifest import StoredFile, _wrong
from envdoctor.cache.store import SnapshotStore, label, labels
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
    assert labels(root.path) == ()
    assert label(root.path, manifest) == root.path / ".envdoctor/mine.json"
    assert labels(root.path) == (manifest,)
    write(root.path / ".envdoctor/mine.json", b"{")
    with pytest.raises(CacheError) as caught:
        labels(root.path)
    assert caught.value.message.startswith(f"{root.path}/.envdoctor/mine.json: its manifest cannot be read: ")


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
