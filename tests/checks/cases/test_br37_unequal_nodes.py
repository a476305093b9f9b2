"""Nodes of one job have different NCCLs, torches or drivers (NVIDIA/nccl issue 1381, mmdetection issue 1089)."""

import json
from dataclasses import replace
from pathlib import Path

from envdoctor.compare.comparable import of_fingerprint
from envdoctor.compare.difference import Difference, compare
from envdoctor.doctor.examine import take_fingerprint
from envdoctor.documents.fingerprint_file import document, parse
from envdoctor.facts.context import Options
from envdoctor.facts.target import resolve
from envdoctor.model.fingerprint import Fingerprint
from tests.factories.make_driver import host_with, make_driver
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, install, make_venv
from tests.factories.make_wheel import make_wheel

NCCL = "nvidia/nccl/lib/libnccl.so.2"


def _facts(prefix: Path, driver: str, root: Path) -> Fingerprint:
    """Fingerprint a venv as the file that travels from its node; every node keeps it at the same path."""
    host = host_with(make_driver(root, version=driver), root / "home")
    taken = take_fingerprint(resolve(prefix), host, Options(ask_nvml=False, contents=True))
    text = json.dumps(document(taken)).replace(str(root), "/srv").replace(str(prefix.parent), "/srv")
    return parse(json.loads(text))


def _differences(one: Fingerprint, other: Fingerprint) -> list[Difference]:
    """Return what `envdoctor diff one.json other.json` tells, once every area could be compared."""
    found = compare(of_fingerprint(one, "node0", "fingerprint"), of_fingerprint(other, "node1", "fingerprint"))
    assert found.unread == {}
    return list(found.differences)


def _node(root: Path, name: str, nccl: str, *, driver: str = "570.86.10", bytes_: bytes = b"nccl") -> Fingerprint:
    node = root / name
    torch = make_torch(root / "wheels", "2.11.0+cu128", "12.8")
    wheel = make_wheel(node / "wheels", "nvidia-nccl-cu12", nccl, files={NCCL: bytes_})
    return _facts(make_venv(node / "venv", torch, wheel).prefix, driver, node)


def test_br37_only_what_differs_is_told(tmp_path: Path) -> None:
    one = _node(tmp_path, "node0", "2.28.9")
    other = _node(tmp_path, "node1", "2.27.5", bytes_=b"older nccl")
    assert _differences(one, other) == [
        Difference(area="packages", kind="changed", subject="nvidia-nccl-cu12", a="2.28.9", b="2.27.5"),
    ]


def test_br37_equal_versions_with_unequal_bytes(tmp_path: Path) -> None:
    one = _node(tmp_path, "node0", "2.28.9")
    other = _node(tmp_path, "node1", "2.28.9", bytes_=b"rebuilt")
    assert [(item.area, item.subject) for item in _differences(one, other)] == [("files", "nvidia-nccl-cu12")]


def test_br37_another_driver(tmp_path: Path) -> None:
    one = _node(tmp_path, "node0", "2.28.9")
    other = _node(tmp_path, "node1", "2.28.9", driver="580.65.06")
    assert _differences(one, other) == [
        Difference(area="machine", kind="changed", subject="driver", a="570.86.10", b="580.65.06"),
    ]


def test_br37_equal_nodes_have_no_difference(tmp_path: Path) -> None:
    one = _node(tmp_path, "node0", "2.28.9")
    assert _differences(one, _node(tmp_path, "node1", "2.28.9")) == []
    assert _differences(one, replace(one, taken_at="2026-11-30T00:00:00Z")) == []


def test_br37_the_same_lock_on_both_nodes_heals_it(tmp_path: Path) -> None:
    one = _node(tmp_path, "node0", "2.28.9")
    _node(tmp_path, "node1", "2.27.5", bytes_=b"older nccl")
    wheel = tmp_path / "node0/wheels/nvidia_nccl_cu12-2.28.9-py3-none-any.whl"
    venv = Venv(prefix=tmp_path / "node1/venv")
    install(venv, wheel)
    assert _differences(one, _facts(venv.prefix, "570.86.10", tmp_path / "again")) == []
