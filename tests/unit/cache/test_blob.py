"""torch's portable cache, read and written without torch; the integration tests let the real one do both."""

import io
import zlib
from pathlib import Path

import pytest

from envdoctor.cache import blob
from envdoctor.cache.blob import Artifact
from envdoctor.cache.layout import Root
from envdoctor.errors import CacheError
from envdoctor.probes.caches.entry_damage import content_name
from tests.factories.make_cache import filled, graph, write


def exported(root: Root) -> bytes:
    out = io.BytesIO()
    blob.export(root, out)
    return out.getvalue()


def sealed(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4, "big") + body


def test_a_round_trip(tmp_path: Path) -> None:
    root = filled(tmp_path / "a")
    out = io.BytesIO()
    assert blob.export(root, out) == {"inductor": 1, "aot_autograd": 1, "autotune": 1}
    artifacts = blob.read(out.getvalue(), "it")
    assert [(artifact.kind, artifact.key) for artifact in artifacts] == [
        ("inductor", "fabcdefgh"),
        ("aot_autograd", "akey"),
        ("autotune", "xy/csome.best_config"),
    ]
    assert blob.merge(artifacts, tmp_path / "b") == {"added": 3}
    assert blob.merge(artifacts, tmp_path / "b") == {"present": 3}
    for path in ("fxgraph/ab/fabcdefgh", "aotautograd/akey", "xy"):
        ours = {file.name: file.read_bytes() for file in (root.path / path).iterdir() if file.suffix != ".so"}
        theirs = {file.name: file.read_bytes() for file in (tmp_path / "b" / path).iterdir()}
        assert {name: ours[name] for name in theirs} == theirs
        assert theirs


def test_the_layout_is_torchs(tmp_path: Path) -> None:
    """Check the bytes against a blob written by hand from _appending_byte_serializer.py."""
    graph(tmp_path, b"G", key="fx")
    number = (1).to_bytes(8, "big")
    text = {"inductor": b"aW5kdWN0b3I=", "fx": b"Zng="}
    body = number + len(text["inductor"]).to_bytes(8, "big") + text["inductor"] + number
    body += len(text["fx"]).to_bytes(8, "big") + text["fx"] + number + b"G"
    assert exported(Root(kind="inductor", path=tmp_path, found_via="default")) == sealed(body)


def test_a_damaged_entry_is_not_exported(tmp_path: Path) -> None:
    root = filled(tmp_path)
    next((tmp_path / "fxgraph/ab/fabcdefgh").iterdir()).write_bytes(b"other")
    assert [artifact.kind for artifact in blob.read(exported(root), "it")] == ["aot_autograd", "autotune"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is not a cache of torch, or is damaged: its checksum is wrong"),
        (b"x" * 100, "it is not a cache of torch, or is damaged: its checksum is wrong"),
        (sealed((2).to_bytes(8, "big")), "it has the encoding version 2, this reads 1"),
        (sealed((1).to_bytes(8, "big") + (99).to_bytes(8, "big") + b"x"), "it ends too early"),
        (sealed((1).to_bytes(8, "big") + (1 << 60).to_bytes(8, "big")), "it ends too early"),
        (sealed((1).to_bytes(8, "big") + (2).to_bytes(8, "big") + b"!!" + bytes(8)), "it: a name in it cannot be read"),
    ],
)
def test_what_is_no_blob(data: bytes, message: str) -> None:
    with pytest.raises(CacheError) as caught:
        blob.read(data, "it")
    assert caught.value.message == message


def test_any_bit_flip_is_found(tmp_path: Path) -> None:
    whole = exported(filled(tmp_path))
    for at in range(0, len(whole), 37):
        with pytest.raises(CacheError):
            blob.read(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :], "it")


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("inductor", "../../evil"),
        ("inductor", "a/b"),
        ("inductor", ""),
        ("aot_autograd", "/etc"),
        ("autotune", "../x.best_config"),
        ("autotune", "/tmp/x.best_config"),
        ("autotune", "ab/x.py"),
    ],
)
def test_a_key_that_leads_elsewhere_is_refused(tmp_path: Path, kind: str, key: str) -> None:
    with pytest.raises(CacheError) as caught:
        blob.merge([Artifact(kind=kind, key=key, content=b"x")], tmp_path / "cache")
    assert caught.value.message == f"{key!r} is not a key of torch's {kind} cache"
    assert list(tmp_path.iterdir()) == []


def test_kinds_that_live_elsewhere_are_skipped_and_said(tmp_path: Path) -> None:
    found = [
        Artifact(kind="pgo", key="job", content=b"x"),
        Artifact(kind="precompile", key="job", content=b"x"),
        Artifact(kind="inductor", key="fkey", content=b"graph"),
    ]
    assert blob.merge(found, tmp_path) == {"skipped (pgo)": 1, "skipped (precompile)": 1, "added": 1}
    assert (tmp_path / "fxgraph/ke/fkey" / content_name(b"graph")).read_bytes() == b"graph"


def test_an_entry_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    there = write(tmp_path / "ab/x.best_config", b"mine")
    assert blob.merge([Artifact(kind="autotune", key="ab/x.best_config", content=b"theirs")], tmp_path) == {
        "present": 1
    }
    assert there.read_bytes() == b"mine"
