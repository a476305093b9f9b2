"""Profiles, locks and fingerprints that nobody would write: refused with a reason or read, never a crash or a hang."""

import copy
import json
import os
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envdoctor.doctor.examine import judge, take_fingerprint
from envdoctor.doctor.heading import heading
from envdoctor.documents import fingerprint_file, profile_store
from envdoctor.errors import FingerprintError, LockError, ProfileError
from envdoctor.facts.context import Options
from envdoctor.facts.target import resolve
from envdoctor.model.codec import CodecError
from envdoctor.report import as_json, as_text
from envdoctor.report.envelope import dump
from envdoctor.report.style import Style
from envdoctor.standards import lock as lock_model
from tests.factories.forked import forked
from tests.factories.make_cuda_stack import make_cuda_wheels
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import edit_in_place, install, make_venv
from tests.factories.make_wheel import make_wheel

SOME = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
DIGEST = "0" * 64
LOCK = f"torch==2.10.0 \\\n    --hash=sha256:{DIGEST}\nnumpy==2.4.4 ; python_version < '3.13' --hash=sha256:{DIGEST}\n"
PROFILE = """\
schema = 1
name = "small"
summary = "for tests"
[python]
versions = ["3.11"]
[torch]
version = "2.10.0"
[lock]
file = "small.txt"
[environment]
set = { A = "b" }
[[waivers]]
code = "ED501"
reason = "cold by design"
"""


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _bytes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


FILES: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "a terabyte of nothing": _sparse,
    "empty": _bytes(b""),
    "NULs": _bytes(bytes(1000)),
    "no UTF-8": _bytes(bytes(range(256)) * 4),
    "UTF-16": _bytes(PROFILE.encode("utf-16")),
    "brackets": _bytes(b"[" * 100_000),
    "nested arrays": _bytes(b"x = " + b"[" * 100_000 + b"]" * 100_000),
    "nested tables": _bytes(b"x = " + b"{a = " * 50_000 + b"1" + b"}" * 50_000),
    "a long dotted key": _bytes(b".".join([b"a"] * 50_000) + b" = 1\n"),
    "an endless number": _bytes(b"schema = " + b"9" * 100_000 + b"\n"),
    "a deep marker": _bytes(f"a==1 ; {'(' * 5000}os_name == 'x'{')' * 5000} --hash=sha256:{DIGEST}\n".encode()),
    "an endless version": _bytes(f"a=={'9' * 100_000} --hash=sha256:{DIGEST}\n".encode()),
    "an endless line": _bytes(b"a==1 " + b"--hash=sha256:0 " * 300_000),
    "many lines": _bytes(b"".join(b"p%d==1 --hash=sha256:%s\n" % (n, DIGEST.encode()) for n in range(30_000))),
    "JSON": _bytes(b'{"a": ' * 100_000 + b"1" + b"}" * 100_000),
    "not a number": _bytes(b'{"schema_version": NaN}'),
}


def _outcome(function: Callable[[], object], *expected: type[Exception]) -> str:
    """Return "read", or the refusal's message; anything but the expected errors is a crash."""
    try:
        function()
    except expected as error:
        return str(error)
    return "read"


@pytest.mark.parametrize("mutation", FILES)
def test_any_file_as_a_profile(tmp_path: Path, mutation: str) -> None:
    (tmp_path / "profiles").mkdir()
    FILES[mutation](tmp_path / "profiles/small.toml")
    told = forked(lambda: _outcome(lambda: profile_store.find("small", tmp_path), ProfileError))
    assert told.startswith(("no profile is called `small`", f"{tmp_path}/profiles/small.toml: "))
    told = forked(lambda: _outcome(lambda: profile_store.find("./profiles/small.toml", tmp_path), ProfileError))
    assert told.startswith((f"there is no profile at {tmp_path}", f"{tmp_path}/profiles/small.toml: "))


@pytest.mark.parametrize("name", ["small.txt", "pylock.small.toml"])
@pytest.mark.parametrize("mutation", FILES)
def test_any_file_as_a_lock(tmp_path: Path, mutation: str, name: str) -> None:
    for folder in ("profiles", "lockfiles"):
        (tmp_path / folder).mkdir()
    (tmp_path / "profiles/small.toml").write_text(PROFILE.replace("small.txt", name))
    FILES[mutation](tmp_path / "lockfiles" / name)
    if mutation == "endless device":
        # Everybody may write to /dev/zero.
        told = forked(lambda: _outcome(lambda: profile_store.find("small", tmp_path), ProfileError))
        assert told == (
            f"{tmp_path}/lockfiles/{name}, the lock of profile small, can be written by everybody, so the profile is "
            "not taken by its name"
        )
        return
    found = profile_store.find("small", tmp_path)
    told = forked(lambda: _outcome(lambda: found.lock, LockError))
    readable = mutation == "many lines" and name.endswith(".txt")
    assert told == "read" if readable else told.startswith(f"{tmp_path}/lockfiles/{name}: ")


@pytest.mark.parametrize("mutation", [name for name in FILES if name != "fifo"])
def test_any_file_as_a_fingerprint(tmp_path: Path, mutation: str) -> None:
    FILES[mutation](tmp_path / "facts.json")
    told = forked(lambda: _outcome(lambda: fingerprint_file.read(str(tmp_path / "facts.json")), FingerprintError))
    assert told != "read"
    assert str(tmp_path / "facts.json") in told


def test_a_fingerprint_may_come_through_a_pipe(tmp_path: Path, facts: dict[str, Any]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if os.fork() == 0:
        pipe.write_text(json.dumps(facts))
        os._exit(0)
    assert forked(lambda: fingerprint_file.read(str(pipe)).target) == facts["target"]
    os.wait()


LINE = st.sampled_from(
    [
        *LOCK.splitlines(keepends=True),
        "a==1\n",
        "-e .\n",
        "a @ https://x/y.whl\n",
        "--hash=sha256:0\n",
        "# c\n",
        "\\\n",
        ";",
        "==",
    ]
)


@pytest.mark.property
@SOME
@given(st.lists(LINE | st.text(max_size=30), max_size=12).map("".join))
def test_any_text_as_a_lock(text: str) -> None:
    _outcome(lambda: lock_model.parse(text, "lock").select({"python_version": "3.11"}), LockError)


@pytest.mark.property
@SOME
@given(data=st.data())
def test_any_change_to_a_profile(tmp_path: Path, data: st.DataObject) -> None:
    lines = PROFILE.splitlines(keepends=True)
    values = st.sampled_from(['"x"', "1", "-1", "1.5", "true", "[]", "{}", "[[1]]", "1979-05-27", '"\\u0000"', "nan"])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        key = lines[at].partition("=")[0]
        change = data.draw(st.sampled_from(["drop", "twice", "value"]))
        value = data.draw(values)
        lines[at] = {"drop": "\n", "twice": lines[at] * 2, "value": f"{key} = {value}\n"}[change]
    folder = tmp_path / "profiles"
    folder.mkdir(exist_ok=True)
    (folder / "small.toml").write_text("".join(lines))
    _outcome(lambda: profile_store.find("small", tmp_path), ProfileError)


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a fingerprint in which something of every kind is wrong, so that every check has something to say."""
    folder = tmp_path_factory.mktemp("facts")
    wheels = make_cuda_wheels(folder)
    venv = make_venv(folder / "venv", *wheels.all())
    broken = make_wheel(folder / "w", "broken", "1.0", requires=["absent>=2", "torch<1"], scripts={"broken": "a:b"})
    install(venv, wheels.foreign, broken)
    edit_in_place(venv.site_packages / "torch/version.py", b"__version__ = '2.10.1'")
    (venv.site_packages / "torch/lib/libtorch_cpu.so").unlink()
    (venv.site_packages / "debug.pth").write_text("import sys\n/nowhere\n")
    record = venv.dist_info("broken") / "RECORD"
    record.write_text(record.read_text() + "/etc/passwd,,\nno row\n")
    host = bare_host(folder / "home", LD_LIBRARY_PATH="/opt/cuda", PYTHONPATH=str(folder))
    made = take_fingerprint(resolve(venv.prefix), host, Options(ask_nvml=False, deep=True))
    document: dict[str, Any] = json.loads(json.dumps(fingerprint_file.document(made)))
    return document


def _judge(document: Any) -> None:
    facts = fingerprint_file.parse(document)
    verdict = judge(facts)
    header = heading(facts)
    as_text.render(header, verdict, Style(verbosity=1))
    dump(as_json.document(header, verdict))


def test_the_fingerprint_itself_is_judged(facts: dict[str, Any]) -> None:
    _judge(facts)


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value[:3]):
            yield from _places(item, (*path, at))


STRANGE: list[Any] = [
    None, True, 0, -1, 1, 1 << 70, 1.5, float("nan"), "", "x", "1.0", "3.11.7", "not/a/version", "../../..", "\x1b[31m",
    "\ud800", "\0", "ED201", "-1", "9" * 5000, [], [[]], {}, {"a": 1}, ["x"], [1], "[" * 50,
]  # fmt: skip


def _changed(document: dict[str, Any], changes: list[tuple[tuple[str | int, ...], Any]]) -> Any:
    # As copy.deepcopy does, in a quarter of its time.
    made: Any = pickle.loads(pickle.dumps(document))  # noqa: S301 - what was dumped here
    for path, value in changes:
        if not path:
            return value
        at = made
        try:
            for step in path[:-1]:
                at = at[step]
            if value == "drop":
                del at[path[-1]]
            else:
                at[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    return made


@pytest.mark.property
@settings(SOME, max_examples=400)
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, len(STRANGE))), min_size=1, max_size=5))
def test_any_change_to_a_fingerprint(facts: dict[str, Any], changes: list[tuple[int, int]]) -> None:
    places = list(_places(facts))
    values = [*STRANGE, "drop"]
    document = _changed(facts, [(places[at % len(places)], values[value]) for at, value in changes])
    _outcome(lambda: _judge(document), CodecError)


ODD: tuple[Any, ...] = ("", "x", "\ud800", "not/a/version", -1, 1 << 70, [], {}, False, "drop")


@pytest.mark.parametrize("count", [2, pytest.param(len(ODD), marks=pytest.mark.giant)])
def test_every_single_change_to_a_fingerprint(facts: dict[str, Any], count: int) -> None:
    """Each value in turn, by so many of the values that no probe would write there."""
    crashes = []
    draw = random.Random(20261130)  # noqa: S311 - the same values in each run
    for path in _places(facts):
        for value in draw.sample(ODD, count):
            try:
                _judge(_changed(facts, [(path, value)]))
            except CodecError:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, it is listed
                crashes.append(f"{'.'.join(map(str, path))} = {value!r}: {type(error).__name__}: {error}")
    assert crashes == []
