"""What another program answered counts for the same question, and until that program changes."""

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from envdoctor.facts.answer_memo import AnswerMemo
from envdoctor.stack import interpreters
from envdoctor.stack.interpreters import InterpreterRequest, choose
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.index_config import configured
from envdoctor.wheels.pip_config import PipSettings
from tests.factories.make_stack import closed_environment

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def memo(tmp_path: Path) -> Path:
    """Return where the memo is."""
    return tmp_path / "kept" / "answers.memo"


def test_an_answer_is_known_to_the_next_command_and_to_no_other_question(memo: Path) -> None:
    AnswerMemo(memo).put(("which", 1), {"a": [1]})
    assert AnswerMemo(memo).get(("which", 1)) == {"a": [1]}
    assert AnswerMemo(memo).get(("which", 2)) is None


@pytest.mark.parametrize("text", [b"", b"[]", b"[1]", b"7", b"{", b"\xff", b"[" * 100_000])
def test_a_damaged_memo_says_nothing_and_is_written_again(memo: Path, text: bytes) -> None:
    memo.parent.mkdir()
    memo.write_bytes(text)
    damaged = AnswerMemo(memo)
    assert damaged.get("x") is None
    damaged.put("x", 1)
    assert AnswerMemo(memo).get("x") == 1


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count which interpreters are run; they are run."""
    counted: list[str] = []
    run = interpreters._run

    def noted(path: Path, environment: dict[str, str]) -> object:
        counted.append(path.name)
        return run(path, environment)

    monkeypatch.setattr(interpreters, "_run", noted)
    return counted


def test_an_interpreter_is_run_once_until_its_files_change(tmp_path: Path, memo: Path, runs: list[str]) -> None:
    real = Path(os.path.realpath(sys.executable))
    own = tmp_path / "python" / "bin" / real.name
    own.parent.mkdir(parents=True)
    shutil.copy2(real, own)
    (tmp_path / "python" / "lib").symlink_to(real.parent.parent / "lib")

    def asked() -> str:
        wanted = InterpreterRequest(versions=(HERE,), named=str(own), memo=AnswerMemo(memo))
        return choose(wanted, {"PATH": ""}, tmp_path).version

    time.sleep(0.2)
    version = asked()
    assert (asked(), runs) == (version, [real.name])
    os.utime(own)
    assert (asked(), runs) == (version, [real.name] * 2)


def test_a_script_that_starts_an_interpreter_is_run_each_time(tmp_path: Path, memo: Path, runs: list[str]) -> None:
    shim = tmp_path / "shims" / f"python{HERE}"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} "$@"\n')
    shim.chmod(0o755)
    for _ in range(2):
        wanted = InterpreterRequest(versions=(HERE,), named=str(shim), memo=AnswerMemo(memo))
        choose(wanted, {"PATH": "/usr/bin:/bin"}, tmp_path)
    assert runs == [shim.name] * 2


def test_uvs_sources_are_asked_again_for_other_settings_and_a_login_is_not_written_down(
    tmp_path: Path, memo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    run = uv_tool.Uv.run

    def noted(self: uv_tool.Uv, arguments: object, **more: object) -> uv_tool.Output:
        words = list(map(str, arguments))  # type: ignore[call-overload]
        asked.append(words[0])
        return run(self, words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(uv_tool.Uv, "run", noted)

    def indexes(url: str) -> tuple[str, ...]:
        asked.clear()
        uv = uv_tool.locate(closed_environment(tmp_path), tmp_path)
        pip = PipSettings(index_url=url, told_by={})
        found = configured(uv, pip, tmp_path, sys.executable, AnswerMemo(memo))
        assert found.cache == tmp_path / "uv-cache"
        return found.indexes

    for url, times in (("http://one/simple", 2), ("http://one/simple", 0), ("http://two/simple", 2)):
        assert (indexes(url), len(asked)) == ((url,), times)
    for _ in range(2):
        assert (indexes("http://me:secret@three/simple"), len(asked)) == (("http://me:secret@three/simple",), 2)
    assert "secret" not in memo.read_text()
