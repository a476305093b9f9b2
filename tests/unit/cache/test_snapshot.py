"""Snapshots: bit-identical round trips, and archives made to hurt."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from envdoctor.cache import archive, snapshot
from envdoctor.cache import restore as merging
from envdoctor.cache.archive import reading
from envdoctor.cache.layout import Root
from envdoctor.cache.manifest import Manifest, dump, fingerprint, parse
from envdoctor.cache.restore import Merged, restore
from envdoctor.errors import CacheError
from tests.factories.make_cache import filled, graph, manifest_of, write
from tests.factories.make_venv import tree_state


@pytest.fixture
def source(tmp_path: Path) -> Root:
    return filled(tmp_path / "source")


def saved(tmp_path: Path, *roots: Root) -> tuple[Path, Manifest]:
    manifest = manifest_of(*roots)
    path = tmp_path / "made.tar.zst"
    snapshot.save(path, manifest)
    return path, manifest


def merge(path: Path, folder: Path) -> Merged:
    with reading(path) as reader:
        manifest, _ = reader.manifest()
        return restore(reader, manifest, {"inductor": folder, "triton": folder.with_name("hand-written")})


def contents(folder: Path) -> dict[str, str]:
    state = tree_state(folder) if folder.exists() else {}
    return {path: told for path, told in state.items() if told.startswith("file") and not path.startswith("locks/")}


def test_a_round_trip_to_the_same_folder_is_bit_identical(tmp_path: Path, source: Root) -> None:
    path, manifest = saved(tmp_path, source)
    before = contents(source.path)
    times = {file.path: (source.path / file.path).stat().st_mtime_ns for file in manifest.files}
    source.path.rename(tmp_path / "away")
    merged = merge(path, source.path)
    assert contents(source.path) == before
    assert {file.path: (source.path / file.path).stat().st_mtime_ns for file in manifest.files} == times
    assert merged.outcomes == {"added": 10}
    assert merged.relocated == 0
    assert merge(path, source.path).outcomes == {"present": 10}


def test_the_manifest_is_readable_without_this_program(tmp_path: Path, source: Root) -> None:
    path, manifest = saved(tmp_path, source)
    unpacked = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        names = tar.getnames()
        member = tar.extractfile("manifest.json")
        assert member is not None
        text = member.read()
    assert names == ["manifest.json", *(f"blobs/{file.sha256}" for file in archive.distinct(manifest))]
    assert parse(text, "it") == manifest
    document = json.loads(text)
    assert document["entries"]["fx graph"] == 1
    assert {part["name"]: part["value"] for part in document["key"]}["gpu.name"] == "NVIDIA H200"
    # One file a line, so that two manifests can be compared with diff.
    assert sum(line.startswith(b'{"mode"') for line in text.splitlines()) == len(manifest.files)


def test_at_another_folder_group_files_name_that_folder(tmp_path: Path, source: Root) -> None:
    path, _ = saved(tmp_path, source)
    merged = merge(path, tmp_path / "there")
    group = "triton/0/KERNELHASH/__grp__sum.json"
    children = json.loads((tmp_path / "there" / group).read_bytes())["child_paths"]
    assert set(children.values()) == {
        str(tmp_path / "there/triton/0/KERNELHASH" / name) for name in ("sum.json", "sum.ttir", "sum.cubin")
    }
    assert all(Path(child).is_file() for child in children.values())
    assert merged.relocated == 1
    before, after = contents(source.path), contents(tmp_path / "there")
    assert {name for name in before if before[name] != after.get(name)} == {group}
    (listed,) = (file for file in merged.manifest.files if file.path == group)
    assert listed.sha256 == hashlib.sha256((tmp_path / "there" / group).read_bytes()).hexdigest()
    assert merged.manifest.folders["inductor"] == str(tmp_path / "there")


def test_one_content_in_two_places_is_stored_once(tmp_path: Path, source: Root) -> None:
    triton = Root(kind="triton", path=tmp_path / "triton", found_via="default")
    for name in ("ONE/k.ttir", "TWO/k.ttir"):
        write(triton.path / name, b"module { same }")
    write(source.path / "triton/0/THREE/k.ttir", b"module { same }")
    path, manifest = saved(tmp_path, source, triton)
    # The third is the object that stands for a cubin and for a C++ kernel.
    assert len(manifest.files) - len(list(archive.distinct(manifest))) == 3
    merge(path, tmp_path / "there")
    found = [*(tmp_path / "there").rglob("k.ttir"), *(tmp_path / "hand-written").rglob("k.ttir")]
    assert [file.read_bytes() for file in found] == [b"module { same }"] * 3
    # Three files, not three names of one: a compiler that writes one must not change the others.
    assert {file.stat().st_nlink for file in found} == {1}


def test_a_damaged_entry_is_left_out_whole_and_named(tmp_path: Path, source: Root) -> None:
    write(source.path / "triton/0/KERNELHASH/sum.ttir", b"")
    manifest = manifest_of(source)
    assert manifest.left_out == ("inductor/triton/0/KERNELHASH/sum.ttir: empty",)
    assert not [file for file in manifest.files if "KERNELHASH" in file.path]
    assert manifest.entries.get("triton kernel") is None


def test_a_newer_entry_is_never_overwritten_and_a_broken_one_is(tmp_path: Path, source: Root) -> None:
    path, manifest = saved(tmp_path, source)
    newer = source.path / "xy/csome.best_config"
    newer.write_bytes(b'{"XBLOCK": 256}')
    broken = source.path / "triton/0/KERNELHASH/sum.json"
    broken.write_bytes(b"")
    merged = merge(path, source.path)
    assert merged.outcomes == {"present": 8, "newer kept": 1, "replaced": 1}
    assert newer.read_bytes() == b'{"XBLOCK": 256}'
    assert broken.read_bytes() == b'{"name": "sum"}'
    assert len(merged.manifest.files) == len(manifest.files) - 1


def test_an_older_entry_is_replaced(tmp_path: Path, source: Root) -> None:
    path, _ = saved(tmp_path, source)
    older = source.path / "xy/csome.best_config"
    older.write_bytes(b'{"XBLOCK": 64}')
    os.utime(older, (1, 1))
    assert merge(path, source.path).outcomes == {"present": 9, "replaced": 1}
    assert older.read_bytes() == b'{"XBLOCK": 128}'


def test_a_file_that_changes_while_it_is_saved_stops_the_save(tmp_path: Path, source: Root) -> None:
    manifest = manifest_of(source)
    (source.path / "xy/csome.best_config").write_bytes(b'{"XBLOCK": 999}')
    with pytest.raises(CacheError) as caught:
        snapshot.save(tmp_path / "made.tar.zst", manifest)
    assert caught.value.message == (
        "inductor/xy/csome.best_config changed while it was being saved; no snapshot was written"
    )
    (source.path / "xy/csome.best_config").unlink()
    with pytest.raises(CacheError) as caught:
        snapshot.save(tmp_path / "made.tar.zst", manifest)
    assert caught.value.message == (
        "inductor/xy/csome.best_config went away while it was being saved; no snapshot was written"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


# Archives made to hurt. Each takes the honest archive's members and returns others.

Members = list[tuple[tarfile.TarInfo, bytes]]


def members(path: Path) -> Members:
    unpacked = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]


def pack(path: Path, found: Members, tail: bytes = b"") -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in found:
            tar.addfile(info, io.BytesIO(content))
    raw = out.getvalue().rstrip(b"\0")
    raw += bytes(-len(raw) % 512) + bytes(1024)
    path.write_bytes(zstandard.compress(raw + tail))


def with_manifest(found: Members, change: Callable[[dict[str, Any]], None]) -> Members:
    document = json.loads(found[0][1])
    change(document)
    text = json.dumps(document).encode()
    info = tarfile.TarInfo("manifest.json")
    info.size = len(text)
    return [(info, text), *found[1:]]


def renamed(index: int, **changes: Any) -> Callable[[Members], Members]:
    def change(found: Members) -> Members:
        info, content = found[index]
        for name, value in changes.items():
            setattr(info, name, value)
        return [*found[:index], (info, content), *found[index + 1 :]]

    return change


def in_path(value: str) -> Callable[[Members], Members]:
    return lambda found: with_manifest(found, lambda document: document["files"][0].update(path=value))


def in_file(**values: Any) -> Callable[[Members], Members]:
    return lambda found: with_manifest(found, lambda document: document["files"][0].update(values))


def flipped(found: Members) -> Members:
    info, content = found[1]
    return [found[0], (info, bytes([content[0] ^ 1]) + content[1:]), *found[2:]]


@pytest.mark.parametrize(
    ("attack", "problem"),
    [
        (
            in_path("../../../etc/cron.d/evil"),
            "'../../../etc/cron.d/evil': it leads out of its folder, or hides where it leads",
        ),
        (in_path("a/../../evil"), "'a/../../evil': it leads out of its folder, or hides where it leads"),
        (in_path("/etc/passwd"), "'/etc/passwd': no plain relative path"),
        (in_path("a//b"), "'a//b': no plain relative path"),
        (in_path("./a"), "'./a': no plain relative path"),
        (in_path(""), "'': no plain relative path"),
        (in_path("a\\..\\b"), r"'a\\..\\b': it leads out of its folder, or hides where it leads"),
        (in_path("a\nb"), r"'a\nb': it leads out of its folder, or hides where it leads"),
        (in_path(".envdoctor/two.json"), "'.envdoctor/two.json': it would replace envdoctor's own records"),
        (in_path("x" * 2000), f"'{'x' * 200}': no plain relative path"),
        (in_file(root="home"), "no root of that name"),
        (in_file(size=-1), "impossible size, time, hash or mode"),
        (in_file(modified=1 << 63), "impossible size, time, hash or mode"),
        (in_path("\ud800"), "no name a file can have"),
        (in_path("y" * 256), "no name a file can have"),
        (in_file(mode=0o4755), "impossible size, time, hash or mode"),
        (in_file(sha256="../x"), "impossible size, time, hash or mode"),
        (in_file(size=1 << 50), "MB free, the snapshot unpacks to 1125899907 MB"),
        (in_file(size=1), "should follow, found"),
        (in_file(sha256="0" * 64), f"blobs/{'0' * 64} should follow, found"),
        (in_file(extra=1), "files[0].extra: unknown key"),
        (
            lambda found: with_manifest(found, lambda document: document.update(schema=99)),
            "schema 99, this version reads 1",
        ),
        (
            lambda found: with_manifest(found, lambda document: document["files"].append(document["files"][0])),
            "listed twice",
        ),
        (
            lambda found: with_manifest(found, lambda document: document.update(name="../../../x")),
            "'../../../x' is not a name for a snapshot",
        ),
        (
            lambda found: with_manifest(
                found, lambda document: document["files"][1].update(path=document["files"][0]["path"] + "/c")
            ),
            "a file of that list is where its folder should be",
        ),
        (renamed(0, name="other.json"), "manifest.json should follow, found 'other.json' of"),
        (renamed(1, type=tarfile.SYMTYPE, linkname="/etc/passwd", size=0), "(type b'2') of 0 bytes"),
        (renamed(1, type=tarfile.LNKTYPE, linkname="manifest.json", size=0), "(type b'1') of 0 bytes"),
        (renamed(1, type=tarfile.CHRTYPE, size=0), "(type b'3') of 0 bytes"),
        (renamed(1, type=tarfile.DIRTYPE, size=0), "(type b'5') of 0 bytes"),
        (renamed(1, name="blobs/" + "x" * 300), "found '././@PaxHeader'"),
        (flipped, "is not what the manifest says (sha256)"),
        (lambda found: found[:-1], "should be: end of file header"),
        (lambda found: [found[0], *reversed(found[1:])], "should follow, found"),
        (lambda found: [*found, found[-1]], "something follows the last file of its manifest"),
    ],
)
def test_a_forged_archive_changes_nothing(
    tmp_path: Path, source: Root, attack: Callable[[Members], Members], problem: str
) -> None:
    path, _ = saved(tmp_path, source)
    pack(path, attack(members(path)))
    there = tmp_path / "there"
    with pytest.raises(CacheError) as caught:
        merge(path, there)
    assert problem in caught.value.message
    assert contents(there) == {}
    assert sorted(file.name for file in tmp_path.iterdir() if file.name != "there") == ["made.tar.zst", "source"]
    assert not list(there.rglob("staging-*"))


def test_the_honest_archive_survives_the_same_repacking(tmp_path: Path, source: Root) -> None:
    path, _ = saved(tmp_path, source)
    pack(path, members(path))
    assert merge(path, tmp_path / "there").count("added") == 10


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it ends too early"),
        (b"no zstd at all" * 100, "zstd: "),
        (zstandard.compress(bytes(512)), "no tar header where manifest.json should be: end of file header"),
    ],
)
def test_a_file_that_is_no_archive(tmp_path: Path, content: bytes, problem: str) -> None:
    path = write(tmp_path / "made.tar.zst", content)
    with pytest.raises(CacheError) as caught, reading(path) as reader:
        reader.manifest()
    assert caught.value.message.startswith(f"{path} is damaged or forged: {problem}")


@pytest.mark.parametrize("kept", [10, 300, 1000, -20])
def test_a_truncated_archive_changes_nothing(tmp_path: Path, source: Root, kept: int) -> None:
    path, _ = saved(tmp_path, source)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CacheError):
        merge(path, tmp_path / "there")
    assert contents(tmp_path / "there") == {}


def test_a_bomb_is_stopped_by_what_it_declares(tmp_path: Path, source: Root) -> None:
    path, _ = saved(tmp_path, source)
    honest = members(path)
    # 2 GiB of zeros behind a manifest that declares a small file: read as far as declared, and refused.
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in honest[:1]:
            tar.addfile(info, io.BytesIO(content))
    info = tarfile.TarInfo(honest[1][0].name)
    info.size = honest[1][0].size
    head = out.getvalue().rstrip(b"\0")
    head += bytes(-len(head) % 512) + info.tobuf(tarfile.USTAR_FORMAT)
    compressor = zstandard.ZstdCompressor().compressobj()
    with path.open("wb") as file:
        file.write(compressor.compress(head))
        for _ in range(2048):
            file.write(compressor.compress(bytes(1 << 20)))
        file.write(compressor.flush())
    assert path.stat().st_size < 1_000_000
    with pytest.raises(CacheError) as caught:
        merge(path, tmp_path / "there")
    assert "is not what the manifest says (sha256)" in caught.value.message
    assert contents(tmp_path / "there") == {}


def test_a_manifest_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("manifest.json")
    info.size = 1 << 32
    path = tmp_path / "made.tar.zst"
    path.write_bytes(zstandard.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(4096)))
    with pytest.raises(CacheError) as caught, reading(path) as reader:
        reader.manifest()
    assert caught.value.message == (
        f"{path} is damaged or forged: its manifest claims 4294967296 bytes; nothing was taken from it"
    )


def test_a_window_larger_than_zstds_own_limit_is_refused(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = tmp_path / "made.tar.zst"
    path.write_bytes(compressor.compress(bytes(1 << 20)) + compressor.flush())
    with pytest.raises(CacheError) as caught, reading(path) as reader:
        reader.manifest()
    assert "zstd: " in caught.value.message


@pytest.mark.parametrize("place", ["fxgraph", "xy/csome.best_config"])
def test_a_link_inside_the_cache_is_not_followed_out_of_it(tmp_path: Path, source: Root, place: str) -> None:
    path, _ = saved(tmp_path, source)
    there, outside = tmp_path / "there", tmp_path / "outside"
    outside.mkdir()
    (there / place).parent.mkdir(parents=True)
    (there / place).symlink_to(outside if "." not in place else outside / "file")
    with pytest.raises(CacheError) as caught:
        merge(path, there)
    assert caught.value.message.endswith("a link that leads out of the cache; nothing was merged")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("place", ["fxgraph", "xy/csome.best_config/folder"])
def test_what_is_in_the_way_is_said_before_anything_is_merged(tmp_path: Path, source: Root, place: str) -> None:
    path, _ = saved(tmp_path, source)
    there = tmp_path / "there"
    write(there / place, b"in the way")
    with pytest.raises(CacheError) as caught:
        merge(path, there)
    assert re.search(
        r"a (file|folder) where the snapshot has a (file|folder); nothing was merged$", caught.value.message
    )
    assert list(contents(there)) == [place]


def test_a_merge_that_fails_in_the_middle_is_undone(
    tmp_path: Path, source: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, manifest = saved(tmp_path, source)
    there = tmp_path / "there"
    old = write(there / manifest.files[0].path, b"older than the snapshot's")
    os.utime(old, (1, 1))
    before = contents(there)
    installed, install = [], merging._install

    def failing(*given: Any) -> Any:
        if len(installed) == 5:
            raise OSError(28, "No space left on device")
        installed.append(install(*given))
        return installed[-1]

    monkeypatch.setattr(merging, "_install", failing)
    with pytest.raises(CacheError) as caught:
        merge(path, there)
    assert caught.value.message.endswith("No space left on device; nothing was merged")
    assert installed == ["replaced", "added", "added", "added", "added"]
    assert contents(there) == before


def test_what_a_killed_restore_left_unpacked_is_removed_by_the_next(tmp_path: Path, source: Root) -> None:
    path, _ = saved(tmp_path, source)
    own = tmp_path / "there/.envdoctor"
    left, young = own / "staging-4000000000-abc", own / "staging-4000000001-abc"
    write(left / "0", b"x")
    write(young / "0", b"x")
    os.utime(left, (1, 1))
    merge(path, tmp_path / "there")
    assert sorted(own.iterdir()) == [young]


def test_a_cache_that_everybody_can_write_is_not_filled(tmp_path: Path, source: Root) -> None:
    path, _ = saved(tmp_path, source)
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o777)
    with pytest.raises(CacheError) as caught:
        merge(path, there)
    assert caught.value.message == (
        f"{there} can be written by everybody, who can put any code there; nothing was merged"
    )
    assert list(there.iterdir()) == []


def test_an_archive_is_not_for_everybody_to_write(tmp_path: Path, source: Root) -> None:
    former = os.umask(0)
    try:
        path, _ = saved(tmp_path, source)
    finally:
        os.umask(former)
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_cache_folder_itself_may_be_a_link(tmp_path: Path, source: Root) -> None:
    path, _ = saved(tmp_path, source)
    (tmp_path / "disk").mkdir()
    (tmp_path / "there").symlink_to(tmp_path / "disk")
    assert merge(path, tmp_path / "there").count("added") == 10


def test_the_digest_names_the_content(tmp_path: Path, source: Root) -> None:
    manifest = manifest_of(source)
    digest = snapshot.save(tmp_path / "made.tar.zst", manifest)
    with reading(tmp_path / "made.tar.zst") as reader:
        assert fingerprint(reader.manifest()[1]) == digest
    graph(source.path, b"another graph")
    other = replace(manifest_of(source), made_at=manifest.made_at)
    assert fingerprint(dump(other)) != digest
    assert other.key_digest == manifest.key_digest


def test_a_full_disk_leaves_no_archive_and_merges_nothing(tmp_path: Path, source: Root) -> None:
    write(source.path / "triton/0/BIG/big.cubin.txt", bytes(range(256)) * 40_000)
    path, manifest = saved(tmp_path, source)
    # A limit on the size of files that a process may write is what a full disk looks like to it.
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000));"
        f"sys.path.insert(0, {str(Path(archive.__file__).parents[2])!r})\n"
        "from pathlib import Path\n"
        "from envdoctor.cache import archive, restore, snapshot\n"
        "from envdoctor.cache.manifest import load\n"
        "from envdoctor.errors import CacheError\n"
        "try: snapshot.save(Path(sys.argv[2]), load(Path(sys.argv[1])))\n"
        "except CacheError as error: print(error.message)\n"
        "with archive.reading(Path(sys.argv[3])) as reader:\n"
        "    try: restore.restore(reader, reader.manifest()[0], {'inductor': Path(sys.argv[4])})\n"
        "    except CacheError as error: print(error.message.replace(str(error.message.split(':')[0]), 'FILE'))"
    )
    listed = write(tmp_path / "manifest.json", dump(manifest))
    target, there = tmp_path / "store/made.tar.zst", tmp_path / "there"
    words = [sys.executable, "-c", code, listed, target, path, there]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"{target}: File too large\nFILE: File too large; nothing was merged\n"
    assert list(target.parent.iterdir()) == []
    assert contents(there) == {}
