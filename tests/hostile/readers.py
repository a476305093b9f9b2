"""Every reader of a file that somebody else wrote, with a file as it should be: what `fuzz.py` mutates."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from envdoctor.cache import archive, blob, manifest, quarantine, store
from envdoctor.cache.layout import Root
from envdoctor.cache.restore import restore
from envdoctor.cache.vouched import Vouching, checked
from envdoctor.doctor.examine import take_fingerprint
from envdoctor.documents import fingerprint_file, profile_store
from envdoctor.documents.project_table import read as read_table
from envdoctor.elf import fatbin, reader, symbols
from envdoctor.facts.context import Options
from envdoctor.facts.target import resolve
from envdoctor.loader.ldcache import parse_cache
from envdoctor.probes.caches.entry_damage import damage
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv import digest_memo, record_memo
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.launchers import Launchers
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.startup_hooks import StartupHooks
from envdoctor.report.style import on_terminal
from envdoctor.standards import bounded_json, need
from envdoctor.standards.recorded import generated_scripts, without_interpreter
from envdoctor.standards.redaction import redacted
from envdoctor.swap import journal, verdicts
from envdoctor.swap.store import BackupStore
from envdoctor.wheels import pip_config, uv_config
from envdoctor.wheels.wheel_contents import WheelError
from envdoctor.wheels.wheel_file import contents_of
from tests.factories import make_elf
from tests.factories.make_cache import filled, manifest_of
from tests.factories.make_profile import make_profile
from tests.factories.make_reading import bare_host, read
from tests.factories.make_wheel import make_wheel

INFO = "thing-1.0.dist-info"
Reader = Callable[[bytes], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One reader."""

    read: Reader
    """Reads the bytes; raises an EnvdoctorError or an OSError for what it refuses."""
    seed: bytes
    """A file as it should be."""


def subjects(folder: Path) -> dict[str, Subject]:
    """Return name -> reader; each has files of its own below the folder."""
    return dict((*_objects(folder), *_venv(folder), *_documents(folder), *_caches(folder), *_kept(folder)))


def _file(path: Path, read: Callable[[Path], object]) -> Reader:
    path.parent.mkdir(parents=True, exist_ok=True)

    def reading(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return reading


def _objects(folder: Path) -> Iterator[tuple[str, Subject]]:
    needed = make_elf.make_shared(folder / "elf/libneeded.so.1", exports=("far",), version="V_1.0")
    made = make_elf.make_shared(folder / "elf/libmade.so.1", needed=(needed,), exports=("near",), undefined=("far",))
    seed = made.read_bytes()

    def all_symbols(path: Path) -> None:
        table = symbols.SymbolTable(str(path))
        for name in ("near", "far", "absent"):
            table.defines(name)
        for _ in (*table.undefined(), *table.exported()):
            pass

    at = folder / "elf/mutated.so"
    yield "elf", Subject(read=_file(at, lambda path: reader.read(str(path))), seed=seed)
    yield "elf symbols", Subject(read=_file(at, all_symbols), seed=seed)
    yield "fatbin", Subject(read=_file(at, lambda path: fatbin.architectures(str(path))), seed=seed)
    cache = Path("/etc/ld.so.cache")
    cached = cache.read_bytes()[:20_000] if cache.exists() else b"glibc-ld.so.cache1.1" + bytes(64)
    yield "ld.so.cache", Subject(read=lambda data: parse_cache(data, "ld.so.cache"), seed=cached)
    wheel = make_wheel(folder / "wheels", "thing", "1.0", files={"thing/__init__.py": "x = 1\n"})

    def listing(path: Path) -> object:
        with contextlib.suppress(WheelError):
            return contents_of(path)
        return None

    yield "wheel", Subject(read=_file(folder / "wheels/mutated.whl", listing), seed=wheel.read_bytes())


def _venv(folder: Path) -> Iterator[tuple[str, Subject]]:
    prefix = folder / "venv"
    site = prefix / "lib/python3.12/site-packages"
    files = {
        "pyvenv.cfg": (b"home = /usr/bin\nversion = 3.12.1\ninclude-system-site-packages = false\n", Interpreter),
        f"{site.relative_to(prefix)}/{INFO}/METADATA": (
            b"Metadata-Version: 2.1\nName: thing\nVersion: 1.0\nRequires-Dist: a[b]>=1,<2; extra == 'x'\n\nText\n",
            Distributions,
        ),
        f"{site.relative_to(prefix)}/{INFO}/WHEEL": (b"Wheel-Version: 1.0\nTag: py3-none-any\n", Distributions),
        f"{site.relative_to(prefix)}/{INFO}/direct_url.json": (
            b'{"url": "https://u:p@h.invalid/x", "vcs_info": {"vcs": "git", "commit_id": "0a"}}', Distributions),
        f"{site.relative_to(prefix)}/{INFO}/entry_points.txt": (b"[console_scripts]\nthing = thing:main\n", Launchers),
        f"{site.relative_to(prefix)}/{INFO}/RECORD": (
            f'thing/__init__.py,sha256=abc,1\n"a,b",,\n{INFO}/METADATA,,\n{INFO}/RECORD,,\n../../../bin/thing,,\n'.encode(),
            InstalledFiles),
        f"{site.relative_to(prefix)}/extra.pth": (b"import sys\n/usr\n../other\n# no\n", StartupHooks),
        f"{site.relative_to(prefix)}/path.pth": (b"/usr/lib\n./a\n", SearchPath),
        f"{site.relative_to(prefix)}/torch/version.py": (
            b"__version__ = '2.10.0+cpu'\ncuda: str = '12.8'\nhip = None\ngit_version = 'abc'\n", TorchBuild),
        "bin/thing": (b"#!/usr/bin/env -S python3 -E\nimport thing\n", Launchers),
    }  # fmt: skip
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python").symlink_to("/bin/sh")
    for name, (seed, _) in files.items():
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_bytes(seed)
    (prefix / "bin/thing").chmod(0o755)
    (site / "torch/__init__.py").write_text("")
    host = bare_host(folder / "home")

    def fact(name: str, seed: bytes, kind: type) -> Reader:
        def reading(data: bytes) -> None:
            try:
                (prefix / name).write_bytes(data)
                read(prefix, host, Options()).fact(kind)
            finally:
                (prefix / name).write_bytes(seed)

        return reading

    for name, (seed, kind) in files.items():
        yield (
            name.rpartition("/")[2] if name != "bin/thing" else "script",
            Subject(read=fact(name, seed, kind), seed=seed),
        )


def _documents(folder: Path) -> Iterator[tuple[str, Subject]]:
    wheel = make_wheel(folder / "wheels", "torch", "2.10.0", files={"torch/__init__.py": ""})
    make_profile(folder / "project", "small", [wheel], torch="2.10.0", cuda="")
    profile, lock = folder / "project/profiles/small.toml", folder / "project/lockfiles/small.txt"
    yield "profile", Subject(read=_file(profile, profile_store.read), seed=profile.read_bytes())
    yield "lock", Subject(read=_file(lock, profile_store.read_lock), seed=lock.read_bytes())
    pylock = b"""lock-version = '1.0'
created-by = 'x'
[[packages]]
name = 'torch'
version = '2.10.0'
marker = "sys_platform == 'linux'"
wheels = [{name = 'torch-2.10.0-py3-none-any.whl', url = 'https://h.invalid/x', hashes = {sha256 = 'aa'}}]
"""
    yield "pylock", Subject(read=_file(folder / "project/pylock.small.toml", profile_store.read_lock), seed=pylock)
    table = b"[tool.envdoctor]\nprofile = 'small'\nfail-on = 'error'\n"
    table += b"[[tool.envdoctor.waivers]]\ncode = 'ED101'\nreason = 'x'\n"
    yield "pyproject.toml", Subject(read=lambda data: read_table(Path("pyproject.toml"), data), seed=table)
    taken = take_fingerprint(resolve(folder / "venv"), bare_host(folder / "home"), Options(ask_nvml=False))
    document = json.dumps(fingerprint_file.document(taken)).encode()
    yield (
        "fingerprint",
        Subject(read=_file(folder / "facts.json", lambda path: fingerprint_file.read(str(path))), seed=document),
    )
    pip = b"[global]\nindex-url = https://u:p@h.invalid/simple\nextra-index-url =\n    https://b.invalid\n"
    pip += b"[install]\nno-deps = 1\n"
    home = folder / "pip-home"
    yield "pip.conf", Subject(read=_file(home / ".config/pip/pip.conf", lambda _: pip_config.read({}, home)), seed=pip)
    uv = b"index-url = 'https://h.invalid'\nlink-mode = 'copy'\n[[index]]\nname = 'a'\nurl = 'b'\n"
    uv += b"[pip]\nno-deps = true\n"
    place = folder / "uv"
    for name in ("uv.toml", "pyproject.toml"):
        at = place / name.replace(".", "-")
        seed = (
            uv
            if name == "uv.toml"
            else b"[tool.uv]\n" + uv.replace(b"[[index]]", b"[[tool.uv.index]]").replace(b"[pip]", b"[tool.uv.pip]")
        )
        yield (
            f"uv's {name}",
            Subject(
                read=_file(
                    at / name, lambda path: uv_config.read({}, folder / "nobody", path.parent, folder / "nobody")
                ),
                seed=seed,
            ),
        )
    yield "requirement", Subject(
        read=_required,
        seed=b"numpy[a,b]>=1,<2; python_version < '3.12' and extra == 'x'\nx @ https://h.invalid/x.whl\n",
    )  # fmt: skip
    yield (
        "script line",
        Subject(
            read=lambda data: (without_interpreter(data), generated_scripts(data.decode("utf-8", "replace"))),
            seed=b"#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n' '''\n[console_scripts]\nx = y:z\n",
        ),
    )

    def shown(data: bytes) -> None:
        text = json.dumps({"said": data.decode("utf-8", "surrogateescape")})
        json.loads(redacted(text))
        assert "\x1b]" not in on_terminal(redacted(data.decode("utf-8", "surrogateescape")))

    yield (
        "redaction",
        Subject(
            read=shown,
            seed=b"https://u:p@h?token=x --key \"v\" password = 'a' A_TOKEN=b eyJhbGciOi.eyJhbGciOi \x1b]0;x\x07",
        ),
    )
    yield (
        "json",
        Subject(
            read=lambda data: _refusing(lambda: bounded_json.loads(data, 1000)), seed=b'{"a": [1, 2, {"b": null}]}'
        ),
    )
    yield (
        "sha256",
        Subject(
            read=lambda data: checked(Vouching(sha256=data.decode("latin-1")), {}, folder), seed=b"sha256:" + b"ab" * 32
        ),
    )


def _required(data: bytes) -> None:
    for line in data.decode("utf-8", "replace").splitlines():
        if found := need.parse_need(line):
            need.holds(found.marker, {"python_version": "3.12"}, ("x",))
            need.meets("1.0", found.specifier)
            need.agree([found.specifier, ">=1"])


def _refusing(function: Callable[[], object]) -> object:
    with contextlib.suppress(ValueError):
        return function()
    return None


def _caches(folder: Path) -> Iterator[tuple[str, Subject]]:
    root = filled(folder / "cache")
    made = manifest_of(root, name="made")
    text = manifest.dump(made)
    yield "manifest", Subject(read=lambda data: manifest.parse(data, "made"), seed=text)
    path = folder / "made.tar.zst"

    def open_file(file: manifest.StoredFile):  # noqa: ANN202 - a binary file
        return (root.path / file.path).open("rb")

    archive.write(path, made, open_file)
    there = folder / "there"

    def merge(at: Path) -> None:
        with archive.reading(at) as reading:
            found, _ = reading.manifest()
            restore(reading, found, {"inductor": there})

    yield "archive", Subject(read=_file(folder / "mutated.tar.zst", merge), seed=path.read_bytes())
    unpacked = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    packed = _file(folder / "packed.tar.zst", merge)
    yield "archive's tar", Subject(read=lambda data: packed(zstandard.compress(data, 1)), seed=unpacked)
    out = folder / "blob.bin"
    with out.open("w+b") as stream:
        blob.export(root, stream)
    yield "torch's blob", Subject(read=lambda data: blob.read(data, "blob"), seed=out.read_bytes())
    for name, kind in (("cx.py", "python wrapper"), ("k.json", "other"), ("k.so", "c++ kernel"), ("g", "fx graph")):
        source = min(root.path.rglob(f"*.{name.partition('.')[2]}")) if "." in name else root.path / made.files[-1].path
        yield (
            f"cache entry {name}",
            Subject(
                read=_file(folder / "entries" / name, lambda at, kind=kind: damage(at, kind)),
                seed=source.read_bytes(),  # type: ignore[misc]
            ),
        )
    label = root.path / ".envdoctor/made.json"
    yield "label", Subject(read=_file(label, lambda _: store.labels(root.path)), seed=text)
    other = Root(kind="inductor", path=folder / "quarantined", found_via="x")
    record = other.path / ".envdoctor/quarantine/20261129T101500Z-1/record.json"
    yield (
        "quarantine",
        Subject(
            read=_file(record, lambda _: [item.seconds for item in quarantine.listed([other])]),
            seed=b'{"root": "inductor", "origin": "/x", "reason": "old", "files": ["a/b", "c"]}',
        ),
    )


def _kept(folder: Path) -> Iterator[tuple[str, Subject]]:
    (folder / "kept/venv").mkdir(parents=True)
    backups = BackupStore.of(folder / "kept/venv")
    backups.builds.mkdir(parents=True)
    backups.generations.mkdir()
    entry = {"phase": "building", "profile": "p", "build": str(backups.builds / "x"), "keep": "", "command": "restore"}
    yield (
        "journal",
        Subject(read=_file(backups.journal, lambda _: journal.read(backups)), seed=json.dumps(entry).encode()),
    )
    told = b'{"1": {"inode": 5, "verdict": {"errors": [{"code": "ED101", "title": "x"}], "could_not_tell": []}}}'
    yield "verdicts", Subject(read=_file(backups.verdicts, lambda _: verdicts.read(backups)), seed=told)
    yield (
        "digest memo",
        Subject(
            read=lambda data: _refusing_memo(lambda: digest_memo._parse(data)),
            seed=b'[["sha256", 32, 1]]\n' + bytes(80),
        ),
    )
    yield (
        "record memo",
        Subject(
            read=lambda data: _refusing_memo(lambda: list(record_memo._parse(data))), seed=b"[[3], []]\n" + bytes(80)
        ),
    )


def _refusing_memo(function: Callable[[], object]) -> object:
    # What a memo that is not one raises is caught where it is loaded: these are its kinds.
    with contextlib.suppress(ValueError, LookupError, TypeError, OverflowError):
        return function()
    return None
