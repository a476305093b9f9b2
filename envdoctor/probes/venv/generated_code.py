"""Versions that generated Python code states of the runtime it was generated for, as literals.

Sources: protobuf's generator (5.27 and newer: `ValidateProtobufRuntimeVersion(Domain, MAJOR, MINOR, PATCH, ...)` at the
top of each *_pb2.py; google/protobuf/runtime_version.py compares them), grpcio-tools (1.63 and newer:
`GRPC_GENERATED_VERSION` in each *_pb2_grpc.py).
"""

import re
from collections.abc import Iterator

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix, read_regular
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.source_memo import remembered
from envdoctor.standards.need import parse_need

_HEAD = 4096
_MAXIMUM = 256 * 1024
_PROTOBUF = pattern(
    rb"^_runtime_version\.ValidateProtobufRuntimeVersion\(\s*_runtime_version\.Domain\.PUBLIC,\s*(\d+),\s*(\d+),\s*(\d+),",
    re.MULTILINE,
)
_GRPC = pattern(rb"""^GRPC_GENERATED_VERSION = ['"](\d+)\.(\d+)\.(\d+)""", re.MULTILINE)
_FOR_MAJOR = pattern(r"(?:^|/)v(\d+)/[^/]+$")
_TESTS = pattern(r"(?:^|/)tests?/")
_SAME_MAJOR = b"Same major version is required"
_RUNTIMES = (("protobuf", "_pb2.py", _PROTOBUF), ("grpcio", "_pb2_grpc.py", _GRPC))


@frozen
class Generated:
    """The files of one distribution that were generated for one version."""

    owner: str
    owner_version: str
    runtime: str
    """Distribution that is compared with it at import: protobuf or grpcio."""
    version: str
    """"6.32.1"."""
    path: str
    """One of them, absolute."""
    files: int


@frozen
class GeneratedCode:
    """Every such group, of the distributions that require their runtime."""

    groups: tuple[Generated, ...]
    same_major: bool
    """The installed protobuf refuses code that is two or more majors older (5 and 6 do, 7.36 does not)."""


def probe(reading: Reading) -> GeneratedCode:
    """Read the head of each generated file; of folders for one major each (`proto/v6`) that of the one here."""
    return remembered(reading, "generated", GeneratedCode, lambda: _read(reading))


def _read(reading: Reading) -> GeneratedCode:
    items = reading.fact(Distributions).items
    groups: dict[tuple[int, str, str], list[str]] = {}
    for runtime, suffix, statement in _RUNTIMES:
        installed = reading.fact(Distributions).active(runtime)
        major = installed.version.partition(".")[0] if installed else ""
        for at, item in enumerate(items) if installed else ():
            if item.shadowed or not _requires(item, runtime):
                continue
            paths = [row[0] for row in index(reading).rows.get(at, ()) if row[0].endswith(suffix)]
            for path, version in _stated(item.site, paths, statement, major):
                groups.setdefault((at, runtime, version), []).append(path)
    return GeneratedCode(
        groups=tuple(
            Generated(
                owner=items[at].name,
                owner_version=items[at].version,
                runtime=runtime,
                version=version,
                path=paths[0],
                files=len(paths),
            )
            for (at, runtime, version), paths in groups.items()
        ),
        same_major=bool(groups) and _demands_same_major(reading),
    )


def _requires(item: Distribution, runtime: str) -> bool:
    lines = [line for line in item.requires if line[: len(runtime)].lower() == runtime and "extra ==" not in line]
    return any(need is not None and need.name == runtime for need in map(parse_need, lines))


def _stated(site: str, paths: list[str], pattern: re.Pattern[bytes], major: str) -> Iterator[tuple[str, str]]:
    for path in sorted(paths):
        if _TESTS.search(path):
            continue
        try:
            match = pattern.search(read_prefix(f"{site}/{path}", _HEAD))
        except OSError:
            continue
        if match is None:
            continue
        numbers = [int(number) for number in match.groups()]
        folder = _FOR_MAJOR.search(path)
        # wandb/proto/v6 holds what 6 generated and is imported with that runtime; trace/v1 is the version of an API.
        if folder and int(folder[1]) == numbers[0] and folder[1] != major:
            continue
        yield f"{site}/{path}", ".".join(map(str, numbers))


def _demands_same_major(reading: Reading) -> bool:
    runtime = reading.fact(Distributions).active("protobuf")
    try:
        path = f"{runtime.site}/google/protobuf/runtime_version.py" if runtime else ""
        return bool(path) and _SAME_MAJOR in read_regular(path, _MAXIMUM)
    except OSError:
        return False
