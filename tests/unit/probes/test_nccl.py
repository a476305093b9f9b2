"""The bytes of NCCL, as far as a launch looks at them."""

from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.errors import ProbeError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.target import Target
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.nccl import Nccl, probe
from tests.factories import make_facts as facts
from tests.factories.make_reading import bare_host


def _read(root: Path, *sonames: str) -> Nccl:
    found = tuple(
        replace(facts.provider(soname, "nvidia-nccl-cu12"), path=f"lib/{soname}", owner_version="2.27.5")
        for soname in sonames
    )
    return probe(
        Reading(
            target=Target(prefix=root, interpreter=root / "bin/python"),
            host=bare_host(root / "home"),
            options=Options(contents=True),
            probes={},
            read={Libraries: replace(facts.LIBRARIES, providers=found)},
        )
    )


def _write(root: Path, content: bytes) -> None:
    (root / "lib").mkdir(exist_ok=True)
    (root / "lib/libnccl.so.2").write_bytes(content)


def test_another_build_of_the_same_size_has_other_samples(tmp_path: Path) -> None:
    content = bytearray(3 << 20)
    seen = set()
    for at in (0, (len(content) - (64 << 10)) * 7 // 15, len(content) - 1):
        _write(tmp_path, bytes(content))
        found = _read(tmp_path, "libcudnn.so.9", "libnccl.so.2")
        assert (found.path, found.owner, found.owner_version, found.size) == (
            "lib/libnccl.so.2", "nvidia-nccl-cu12", "2.27.5", 3 << 20
        )  # fmt: skip
        seen.add(found.sampled)
        content[at] = 1
    _write(tmp_path, bytes(content))
    assert _read(tmp_path, "libnccl.so.2") == _read(tmp_path, "libnccl.so.2")
    assert len(seen | {_read(tmp_path, "libnccl.so.2").sampled}) == 4


def test_a_file_smaller_than_a_sample_and_an_empty_one(tmp_path: Path) -> None:
    _write(tmp_path, b"x")
    one = _read(tmp_path, "libnccl.so.2")
    _write(tmp_path, b"")
    assert (one.size, _read(tmp_path, "libnccl.so.2").size) == (1, 0)
    assert one.sampled != _read(tmp_path, "libnccl.so.2").sampled


def test_a_torch_without_nccl_and_a_library_that_is_gone(tmp_path: Path) -> None:
    assert _read(tmp_path, "libcudnn.so.9") == Nccl(path="", owner="", owner_version="", size=0, sampled="")
    with pytest.raises(ProbeError, match=r"^.*/lib/libnccl\.so\.2 cannot be read: No such file or directory$"):
        _read(tmp_path, "libnccl.so.2")
