"""An interrupt that comes while the threads of a pool start: what they wait for is ended, and the pool leaves."""

import concurrent.futures
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envdoctor.fleet import gather
from envdoctor.probes.venv.file_digests import FileDigests, Hashing
from envdoctor.stack import restore_copy


@pytest.fixture(autouse=True)
def _interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = concurrent.futures.ThreadPoolExecutor.submit

    def started(pool: concurrent.futures.ThreadPoolExecutor, *arguments: Any, **options: Any) -> None:
        submit(pool, *arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrent.futures.ThreadPoolExecutor, "submit", started)


def test_what_a_restore_does_beside_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[bool] = []
    monkeypatch.setattr(restore_copy._Meanwhile, "run", lambda own: told.append(own.over.wait(20)))
    monkeypatch.setattr(restore_copy.uv_tool, "locate", lambda *_, **__: None)
    prepared: Any = SimpleNamespace(host=SimpleNamespace(environ={}, cwd=tmp_path))
    copying: Any = SimpleNamespace(folder=tmp_path, clock=None, descriptor=0)
    with pytest.raises(KeyboardInterrupt):
        restore_copy._make_copy(prepared, copying, lambda _: None)
    assert told == [True]


def test_the_commands_of_a_fleet(tmp_path: Path) -> None:
    errand: Any = SimpleNamespace(node="n1", version="")

    def command(_: object) -> list[str]:
        return ["sh", "-c", f"sleep 5; touch {tmp_path}/done"]

    with pytest.raises(KeyboardInterrupt):
        gather.listen([errand], command, b"", at_once=1, timeout=60)
    assert not (tmp_path / "done").exists()


def test_the_threads_that_hash() -> None:
    hashing = Hashing(FileDigests(memo=None, roots=()))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt), hashing:
        pass
    assert hashing._work.closed
    hashing._pool.shutdown()
