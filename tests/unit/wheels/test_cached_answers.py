"""What uv said of its cache counts until something that it was made of changes; then uv is asked again."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from envdoctor.model.frozen import replace
from envdoctor.model.plan import BaseInterpreter
from envdoctor.stack.interpreters import InterpreterRequest, choose
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels import wheel_origins
from envdoctor.wheels.cached_answers import CachedAnswers, Question, Remembered
from envdoctor.wheels.index_config import configured
from envdoctor.wheels.pip_config import PipSettings
from tests.factories.make_stack import PYTHON, closed_environment
from tests.factories.make_wheel import make_wheel, sha256

LONG_AGO = time.time() - 100_000


@dataclass(slots=True, kw_only=True)
class Bench:
    """A folder of two wheels, uv's cache that holds both, and who plans with them."""

    folder: Path
    interpreter: BaseInterpreter
    wheels: dict[str, Path]
    packages: tuple[LockedPackage, ...]
    """Both, locked."""
    asked: list[str] = field(default_factory=list)
    """What was asked of uv, a word each."""

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the user's."""
        return closed_environment(self.folder)

    def install(self) -> None:
        """Have uv install the wheels into a folder, and so into its cache, long ago."""
        command = [uv_tool.locate(self.environment, self.folder).binary, "pip", "install", "--no-deps", "-q"]
        command += ["--offline", "--no-index", "--find-links", str(self.folder / "wheels"), "--python", sys.executable]
        lines = "".join(f"{one.name}==1.0 --hash=sha256:{one.hashes[0]}\n" for one in self.packages)
        subprocess.run(
            [*command, "--target", str(self.folder / "target"), "--require-hashes", "-r", "-"],
            env=self.environment,
            input=lines,
            text=True,
            check=True,
        )
        self.age()

    def age(self) -> None:
        """Set every time of the cache and the wheels back."""
        for path in [
            *(self.folder / "uv-cache").rglob("*"),
            *(self.folder / "wheels").rglob("*"),
            self.folder / "wheels",
        ]:
            os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)

    def plan(self, interpreter: BaseInterpreter | None = None) -> dict[str, bool]:
        """Return for each package whether uv's cache has it, and note in `asked` what that took."""
        environment = self.environment
        uv = uv_tool.locate(environment, self.folder)
        pip = PipSettings(find_links=(str(self.folder / "wheels"),), no_index=True, told_by={})
        sources = configured(uv, pip, self.folder / "home", sys.executable)
        self.asked.clear()
        question = Question(uv=uv, interpreter=interpreter or self.interpreter, sources=sources)
        memos = Remembered(answers=CachedAnswers(self.folder / "answers.memo"))
        found = wheel_origins.locate(question, self.packages, memos)
        return {name: source.cached for name, source in found.sources.items()}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Make the wheels, the cache and a memo of one plan; whatever uv is asked is counted, and answered by uv."""
    wheels = {name: make_wheel(tmp_path / "wheels", name, "1.0") for name in ("one", "two")}
    made = Bench(
        folder=tmp_path,
        interpreter=choose(InterpreterRequest(versions=(PYTHON,)), {"PATH": ""}, Path("/nonexistent")),
        wheels=wheels,
        packages=tuple(LockedPackage(name=name, version="1.0", hashes=(sha256(one),)) for name, one in wheels.items()),
    )
    run = uv_tool.Uv.run

    def counted(self: uv_tool.Uv, arguments: object, **more: object) -> uv_tool.Output:
        words = list(map(str, arguments))  # type: ignore[call-overload]
        made.asked.append("dry run" if "--dry-run" in words else words[0])
        return run(self, words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(uv_tool.Uv, "run", counted)
    made.install()
    assert made.plan() == {"one": True, "two": True}
    assert made.asked == ["dry run"]
    return made


def test_the_second_plan_asks_uv_nothing(bench: Bench) -> None:
    assert bench.plan() == {"one": True, "two": True}
    assert bench.asked == []


def _cleaned(bench: Bench) -> None:
    uv = uv_tool.locate(bench.environment, bench.folder)
    uv.run(("cache", "clean", "two"))


def _unpacked_gone(bench: Bench) -> None:
    for archive in (bench.folder / "uv-cache").glob("archive-v*/*"):
        if (archive / "two").is_dir():
            shutil.rmtree(archive)


@pytest.mark.parametrize(
    ("change", "held"),
    [
        (_cleaned, {"one": True, "two": False}),
        (_unpacked_gone, {"one": True, "two": False}),
    ],
)
def test_what_changed_is_asked_again_and_told_as_uv_tells_it(
    bench: Bench, change: Callable[[Bench], None], held: dict[str, bool]
) -> None:
    change(bench)
    assert bench.plan() == held


def _another_wheel(bench: Bench) -> None:
    make_wheel(bench.folder / "wheels", "three", "1.0")


def _wheel_made_again(bench: Bench) -> None:
    make_wheel(bench.folder / "wheels", "two", "1.0", files={"two.py": "a = 2\n"})


def _wheel_touched(bench: Bench) -> None:
    os.utime(bench.wheels["two"])


@pytest.mark.parametrize("change", [_another_wheel, _wheel_made_again, _wheel_touched])
def test_a_place_that_changed_is_asked_about_again(bench: Bench, change: Callable[[Bench], None]) -> None:
    change(bench)
    assert bench.plan() == {"one": True, "two": True}
    assert bench.asked == ["dry run"]


def test_an_answer_about_one_interpreter_says_nothing_of_another(bench: Bench) -> None:
    assert bench.plan(replace(bench.interpreter, glibc="2.17")) == {"one": True, "two": True}
    assert bench.asked == ["dry run"]


@pytest.mark.parametrize("ahead", [0.0, 3600.0], ids=["just now", "an hour ahead"])
def test_what_changed_a_moment_ago_or_in_the_future_is_not_remembered(bench: Bench, ahead: float) -> None:
    (bench.folder / "answers.memo").unlink()
    now = time.time() + ahead
    os.utime(bench.wheels["two"], (now, now))
    for _ in range(2):
        assert bench.plan() == {"one": True, "two": True}
        assert bench.asked == ["dry run"]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"x": 1}', b'{"x y==1.0 ": ["a"]}', b"\xff", b"[" * 100_000])
def test_a_damaged_memo_says_nothing(bench: Bench, text: bytes) -> None:
    (bench.folder / "answers.memo").write_bytes(text)
    assert bench.plan() == {"one": True, "two": True}
    assert bench.asked == ["dry run"]


def test_places_with_a_password_are_not_written_down(bench: Bench) -> None:
    text = (bench.folder / "answers.memo").read_text()
    assert str(bench.folder / "wheels") not in text.replace(str(bench.wheels["one"]), "").replace(
        str(bench.wheels["two"]), ""
    )


def test_what_was_forgotten_is_asked_again(bench: Bench) -> None:
    CachedAnswers(bench.folder / "answers.memo").forget()
    assert bench.plan() == {"one": True, "two": True}
    assert bench.asked == ["dry run"]
