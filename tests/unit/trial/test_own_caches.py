"""Compile caches of a copy's own."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envdoctor.facts.folders import walk
from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from envdoctor.trial.own_caches import own_caches


def test_a_compiler_works_in_a_cache_on_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    (cache / "fxgraph").mkdir(parents=True)
    for name in ("entry", "going", "gone"):
        (cache / "fxgraph" / name).write_text(name)

    def meanwhile(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        """Let files go while a folder is listed: one when it is counted, one when it is copied."""
        for at, folders, names in walk(top):
            if names:
                Path(at, names[-1]).unlink()
            yield at, folders, names

    monkeypatch.setattr("envdoctor.trial.own_caches.walk", meanwhile)
    host = replace(Host.current(), environ={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        assert Path(other).stat().st_dev != cache.stat().st_dev
        variables = own_caches(host, Path(other, "caches"), warm=True)
        assert variables["TORCHINDUCTOR_CACHE_DIR"] == f"{other}/caches/inductor"
        copied = list(Path(other, "caches/inductor/fxgraph").iterdir())
        assert [path.read_text() for path in copied] == [path.name for path in copied]
        assert len(copied) == 1
