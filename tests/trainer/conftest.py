"""One toy target for all tests of a session, and the gate out of the way: these tests are about the trainer."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from trainer.target import toy


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder with the taught toy target in it, which the workers of a run share: one teaches it."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trainer-cache"
    toy.folder(place / "envdoctor")
    return place


@pytest.fixture(scope="session")
def target_folder(cache: Path) -> Path:
    """Return the toy target's folder."""
    return toy.folder(cache / "envdoctor")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Bypass the gate, point caches at the session's, and keep torch's thread count as it was."""
    monkeypatch.setenv("ENVDOCTOR_GATE", "off")
    monkeypatch.setenv("ENVDOCTOR_GATE_REASON", "trainer tests")
    monkeypatch.setenv("ENVDOCTOR_GATE_LOG", str(tmp_path / "gate.log"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # where ranks share a verdict
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    if "cache" in request.fixturenames:
        monkeypatch.setenv("XDG_CACHE_HOME", str(request.getfixturevalue("cache")))
    threads = torch.get_num_threads()
    # On a busy host two threads of a tiny operation wait for each other far longer than one works.
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
