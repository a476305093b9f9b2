"""A restore of what an earlier one has seen: which wheel is best is known, and what was read is not read again."""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories.make_index import Index, make_index
from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import Venv, make_venv, run_uv
from tests.factories.make_wheel import make_wheel

TAGS = {"old": "py310-none-any", "new": f"py3{sys.version_info[1]}-none-any"}


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, Index]]:
    """Two indexes with a wheel each of one version, the second of which fits better; the lock allows both."""
    for name, tag in TAGS.items():
        make_wheel(tmp_path / name, "twin", "1.0", tag=tag, files={"twin.py": f"name = {name!r}\n"})
    with make_index(tmp_path / "old") as old, make_index(tmp_path / "new") as new:
        yield {"old": old, "new": new}


@pytest.fixture
def stack(tmp_path: Path, places: dict[str, Index]) -> Stack:
    stack = make_stack(tmp_path)
    stack.lock(*stack.wheels, *(next((tmp_path / name).glob("*.whl")) for name in TAGS))
    for wheel in stack.wheels:
        shutil.copy2(wheel, tmp_path / "old")
    urls = [index.url for index in places.values()]
    online = {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": urls[0], "PIP_EXTRA_INDEX_URL": urls[1]}
    stack.environment |= online
    answer = stack.restore()
    assert answer.code == 0, answer.err
    assert _twin(stack) == "name = 'new'\n"
    return stack


def _twin(stack: Stack) -> str:
    return (Venv(prefix=stack.venv).site_packages / "twin.py").read_text()


def test_the_best_of_what_is_cached_is_known_without_asking(
    tmp_path: Path, stack: Stack, places: dict[str, Index]
) -> None:
    other = make_venv(tmp_path / "other", cache=stack.cache)
    from_old = {"UV_INDEX": places["old"].url, "UV_DEFAULT_INDEX": places["old"].url, "UV_OFFLINE": "0"}
    run_uv("pip", "install", "--quiet", "--python", other.python, "twin==1.0", cache=stack.cache, extra=from_old)
    assert (other.site_packages / "twin.py").read_text() == "name = 'old'\n"
    for index in places.values():
        index.requests.clear()
    answer = stack.restore("--force", "--offline")
    assert (answer.code, _twin(stack)) == (0, "name = 'new'\n"), answer.err
    assert [request for index in places.values() for request in index.requests] == []


def test_where_the_best_is_not_to_be_had_any_more_the_next_best_is_taken(
    stack: Stack, places: dict[str, Index]
) -> None:
    next(places["new"].folder.glob("*.whl")).unlink()
    shutil.rmtree(stack.cache)
    answer = stack.restore("--force")
    assert (answer.code, _twin(stack)) == (0, "name = 'old'\n"), answer.err


def test_in_another_shell_neither_uv_nor_an_interpreter_is_asked_again(stack: Stack) -> None:
    before = _asked(stack)
    assert {path.suffix for path in before} == {".msgpack", ".memo"}
    answer = stack.restore("--force", extra={"SHLVL": "7", "OLDPWD": "/"})
    assert answer.code == 0, answer.err
    assert _asked(stack) == before


def _asked(stack: Stack) -> dict[Path, int]:
    """Return what uv wrote of interpreters, and what we wrote of uv's sources, with the inode of each file."""
    files = (*stack.cache.glob("interpreter-v*/*/*.msgpack"), *stack.folder.rglob("uv-sources/*.memo"))
    return {path: path.stat().st_ino for path in files}


def test_what_was_read_is_told_and_all_reads_it_again(stack: Stack) -> None:
    time.sleep(0.15)  # what has just been changed is not remembered
    counts = []
    for options in ((), (), ("--verify", "all")):
        answer = stack.restore("--force", "--json", *options)
        assert answer.code == 0, answer.err
        counts.append(json.loads(answer.out)["result"])
    files = [result["files"] for result in counts]
    assert files[0] == files[1] == files[2]
    # RECORDs state no hash of themselves; uv writes INSTALLER and the launcher anew.
    assert 0 < counts[1]["remembered"] < files[1]
    assert 0 < counts[1]["remembered_bytes"] < counts[1]["bytes"]
    assert (counts[2]["remembered"], counts[2]["remembered_bytes"]) == (0, 0)
