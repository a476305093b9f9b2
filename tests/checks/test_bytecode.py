"""ED209: bytecode that Python would run and cannot, or that is not of its source; real venvs, no code of theirs run."""

import py_compile
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import unusable_bytecode
from envdoctor.doctor.examine import judge, take_fingerprint
from envdoctor.facts.context import Options
from envdoctor.facts.target import resolve
from envdoctor.model.finding import Finding
from envdoctor.model.verdict import Verdict
from envdoctor.probes.venv import used_bytecode
from envdoctor.probes.venv.bytecode import BytecodeState, DamagedBytecode
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.stack.fix_commands import on_a_copy
from tests.factories import make_facts as facts
from tests.factories.examine_venv import mend, outline, verdict_of
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, make_venv, rewrite
from tests.factories.make_wheel import make_wheel

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
TAG = sys.implementation.cache_tag
MODES = py_compile.PycInvalidationMode


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytecode")


@pytest.fixture(scope="module")
def made(root: Path) -> Venv:
    files = {f"thing/{name}.py": f"value = [{name!r}, 'a text', 1.5]\n" for name in NAMES}
    wheel = make_wheel(root / "wheels", "thing", "1", files={"thing/__init__.py": "", **files})
    return make_venv(root / "venv", wheel)


@pytest.fixture
def venv(made: Venv) -> Venv:
    shutil.rmtree(made.site_packages / "thing/__pycache__", ignore_errors=True)
    return made


def _mend(finding: Finding, root: Path) -> None:
    mend(finding, wheels=root / "wheels", cache=root / ".uv-cache")


def _compiled(venv: Venv, name: str, mode: MODES = MODES.TIMESTAMP) -> Path:
    source = venv.site_packages / f"thing/{name}.py"
    return Path(py_compile.compile(str(source), invalidation_mode=mode, doraise=True))


def _deep(venv: Venv, **environ: str) -> BytecodeState:
    host = bare_host(venv.prefix.parent / "home", UV_CACHE_DIR=str(venv.prefix.parent / ".uv-cache"), **environ)
    return read(venv.prefix, host, Options(deep=True)).fact(DeepFiles).bytecode_state


def _verdict(venv: Venv) -> Verdict:
    host = bare_host(venv.prefix.parent / "home")
    return judge(take_fingerprint(resolve(venv.prefix), host, Options(deep=True)))


def _imports(venv: Venv, name: str, **environ: str) -> str:
    """Return the last line of what an import says; empty for one that works."""
    done = subprocess.run(
        [venv.python, "-B", "-c", f"import thing.{name}"], capture_output=True, text=True, check=False, env=environ
    )
    return done.stderr.splitlines()[-1] if done.returncode else ""


CUT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "the end is cut": (lambda data: data[:-20], "EOFError: marshal data too short"),
    "the header alone": (lambda data: data[:16], "EOFError: EOF read where object expected"),
    "zeros": (lambda data: data[:16] + bytes(len(data) - 16), "ValueError: bad marshal data (unknown type code)"),
    "no code": (lambda data: data[:16] + b"N", "it holds no code"),
}


@pytest.mark.parametrize("what", CUT)
@pytest.mark.parametrize("mode", [MODES.TIMESTAMP, MODES.CHECKED_HASH, MODES.UNCHECKED_HASH])
def test_what_python_would_use_must_be_whole(venv: Venv, what: str, mode: MODES) -> None:
    change, reason = CUT[what]
    path, _ = _compiled(venv, "a", mode), _compiled(venv, "b")
    rewrite(path, change(path.read_bytes()))
    assert _imports(venv, "a") != ""
    damaged = DamagedBytecode(owner="thing", bytecode=str(path), reason=reason, sourceless=False)
    assert _deep(venv) == BytecodeState(whole=1, damaged=(damaged,))


def test_a_file_gets_no_more_memory_than_whole_bytecode_needs(venv: Venv) -> None:
    path = _compiled(venv, "a")
    rewrite(path, path.read_bytes()[:16] + b"(\xff\xff\xff\x7f")  # a tuple of 16 GiB
    assert [item.reason for item in _deep(venv).damaged] == ["MemoryError"]


HARMLESS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "zeros": lambda data: bytes(len(data)),
    "a cut header": lambda data: data[:12],
    "of another Python": lambda data: b"\x00\x01" + data[2:30],
    "of another time": lambda data: data[:8] + b"\0\0\0\0" + data[12:30],
    "of another size": lambda data: data[:12] + b"\0\0\0\0" + data[16:30],
    "unknown flags": lambda data: data[:4] + b"\x07" + data[5:30],
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_python_makes_again_is_no_finding(venv: Venv, what: str) -> None:
    path = _compiled(venv, "a")
    rewrite(path, HARMLESS[what](path.read_bytes()))
    assert _deep(venv) == BytecodeState()
    assert _imports(venv, "a") == ""


def test_finds_ed209_cut_bytecode_and_heals_it(venv: Venv, root: Path) -> None:
    paths = [_compiled(venv, name) for name in NAMES]
    for path in paths[:2]:
        rewrite(path, path.read_bytes()[:-20])
    verdict = _verdict(venv)
    assert outline(verdict, root) == [
        "error ED209 thing: the bytecode of 2 modules is cut or damaged, so importing them fails"
    ]
    (finding,) = verdict.findings
    assert finding.evidence == tuple(f"{path}: EOFError: marshal data too short" for path in paths[:2])
    assert finding.remediation.commands == (f"rm {paths[0]} {paths[1]}",)
    _mend(finding, root)
    assert [_imports(venv, name) for name in NAMES] == [""] * len(NAMES)
    assert _verdict(venv).findings == ()


def test_finds_ed209_many_and_deletes_nothing_but_bytecode(venv: Venv, root: Path) -> None:
    paths = [_compiled(venv, name) for name in NAMES]
    for path in paths:
        rewrite(path, path.read_bytes()[:-20])
    (finding,) = _verdict(venv).findings
    folder = venv.site_packages / "thing/__pycache__"
    assert finding.remediation.commands == (f"rm -r {folder}",)
    copied = "/copy" + str(folder).removeprefix(str(venv.prefix))
    assert on_a_copy(f"rm -r {folder}", str(venv.prefix), "/copy") == (("rm", "-r", copied),)
    assert (len(finding.evidence), finding.evidence[-1]) == (5, "and 6 more")
    _mend(finding, root)
    assert not folder.exists()
    assert len(list((venv.site_packages / "thing").glob("*.py"))) == len(NAMES) + 1


def test_finds_ed209_bytecode_of_another_source(venv: Venv, root: Path) -> None:
    source = venv.site_packages / "thing/a.py"
    text = source.read_bytes()
    rewrite(source, b"raise ImportError('of the bytecode')\n")
    path = _compiled(venv, "a", MODES.UNCHECKED_HASH)
    rewrite(source, text)
    assert _imports(venv, "a") == "ImportError: of the bytecode"
    (finding,) = _verdict(venv).findings
    assert finding.title == "thing: the bytecode of 1 module is not of its source, and Python runs it"
    assert finding.evidence == (
        f"{path}: made from another a.py",
        "its header says unchecked hash (PEP 552): Python never compares it with the source",
    )
    _mend(finding, root)
    assert _imports(venv, "a") == ""


def test_finds_ed209_a_module_that_is_bytecode_alone(venv: Venv, root: Path) -> None:
    source = venv.site_packages / "thing/a.py"
    rewrite(source.with_suffix(".pyc"), _compiled(venv, "a").read_bytes()[:-20])
    source.unlink()
    verdict = _verdict(venv)
    assert outline(verdict, root)[0] == (
        "error ED209 thing: 1 module without source, and its bytecode is cut or damaged"
    )
    _mend(verdict.findings[0], root)
    assert (_imports(venv, "a"), _verdict(venv).findings) == ("", ())


def test_passes_ed209_and_says_so_without_deep() -> None:
    with pytest.raises(DoesNotApplyError, match=r"^contents were not hashed; `--deep` does it$"):
        list(unusable_bytecode.run(facts.case()))


def test_bytecode_is_looked_for_where_this_environment_keeps_it(venv: Venv, tmp_path: Path) -> None:
    """PYTHONPYCACHEPREFIX, and the files of `python -O`."""
    beside = _compiled(venv, "a")
    path = tmp_path / f"kept/{venv.site_packages}/thing/a.{TAG}.pyc"
    path.parent.mkdir(parents=True)
    path.write_bytes(beside.read_bytes()[:-20])
    where = {"PYTHONPYCACHEPREFIX": str(tmp_path / "kept")}
    assert _imports(venv, "a", **where) == "EOFError: marshal data too short"
    assert [item.bytecode for item in _deep(venv, **where).damaged] == [str(path)]
    optimized = beside.with_name(f"a.{TAG}.opt-1.pyc")
    rewrite(optimized, beside.read_bytes()[:-20])
    assert _imports(venv, "a", PYTHONOPTIMIZE="1") == "EOFError: marshal data too short"
    state = _deep(venv)
    told = [(item.bytecode, item.option) for item in state.damaged]
    assert (state.whole, told) == (1, [(str(optimized), "-O")])
    for value, option in (("1", ""), ("yes", ""), ("2", "-O"), ("0", "-O")):
        assert [item.option for item in _deep(venv, PYTHONOPTIMIZE=value).damaged] == [option]


def test_what_an_option_alone_uses_is_a_warning_and_breaks_no_import(venv: Venv) -> None:
    path = _compiled(venv, "a").with_name(f"a.{TAG}.opt-1.pyc")
    path.write_bytes(path.with_name(f"a.{TAG}.pyc").read_bytes()[:-20])
    assert _imports(venv, "a") == ""
    (finding,) = _verdict(venv).findings
    assert (finding.severity, finding.title) == (
        "warning",
        "thing: the bytecode of 1 module is cut or damaged, so importing it fails with `python -O`",
    )
    assert (finding.remediation.commands, finding.causes) == ((f"rm {path}",), (f"bytes:{path}",))


def test_what_was_whole_is_remembered_until_it_changes(venv: Venv, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _compiled(venv, "a")
    old = path.read_bytes()
    monkeypatch.setattr(used_bytecode.digest_memo, "settled", lambda *_: True)
    assert _deep(venv).whole == 1
    monkeypatch.setattr(used_bytecode, "_CHILD", "raise SystemExit('not asked again')")
    assert _deep(venv) == BytecodeState(whole=1)
    rewrite(path, old)
    reason = "the child that reads it did not start"
    assert _deep(venv) == BytecodeState(unread=1, reason=reason)


ENDED = DamagedBytecode(owner="thing", bytecode="", reason="Python ends when it reads it (SIGSEGV)", sourceless=False)


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (signal.SIGSEGV, BytecodeState(whole=2, damaged=(ENDED,))),
        (signal.SIGKILL, BytecodeState(whole=2, unread=1, reason="the child that reads it ended with -9")),
    ],
)
def test_a_file_that_ends_the_child_is_told_and_the_rest_read(
    venv: Venv, number: int, state: BytecodeState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody else ended says nothing of the file."""
    paths = [_compiled(venv, name) for name in "abc"]
    kill = f"if path.endswith(b'/b.{TAG}.pyc'): os.kill(os.getpid(), {int(number)})"
    monkeypatch.setattr(used_bytecode, "_CHILD", used_bytecode._CHILD.replace("    try:", f"    {kill}\n    try:", 1))
    named = tuple(replace(item, bytecode=str(paths[1])) for item in state.damaged)
    assert _deep(venv) == replace(state, damaged=named)


def test_bytecode_of_another_python_is_said_to_be_unread(venv: Venv, monkeypatch: pytest.MonkeyPatch) -> None:
    _compiled(venv, "a")
    monkeypatch.setattr(used_bytecode.importlib.util, "MAGIC_NUMBER", b"\x01\x01\r\n")
    state = _deep(venv)
    minor = f"3.{sys.version_info.minor}"
    assert state == BytecodeState(unread=1, reason=f"it is Python {minor}'s, and envdoctor runs on {minor}")
    assert _verdict(venv).not_checked == (
        "no torch here: torch and its libraries were not checked",
        f"not checked: 1 bytecode file ({state.reason})",
    )


def test_a_wheels_own_bytecode_is_a_file_like_any_other(tmp_path: Path) -> None:
    """Some wheels bring modules as bytecode alone: no interpreter writes it again."""
    source = tmp_path / "a.py"
    source.write_text("value = 1\n")
    code = Path(py_compile.compile(str(source), cfile=str(tmp_path / "a.pyc"), doraise=True)).read_bytes()
    files = {"closed/__init__.py": "", "closed/a.pyc": code, "closed/b.pyc": code, "closed/c.pyc": code}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "closed", "1", files=files))
    assert _verdict(venv).findings == ()
    folder = venv.site_packages / "closed"
    (folder / "a.pyc").unlink()
    rewrite(folder / "b.pyc", code[:-20])
    plain = verdict_of(venv.prefix)
    assert outline(plain, tmp_path) == ["error ED202 closed 1: 1 of 11 files missing, 1 of 11 files changed"]
    rewrite(folder / "c.pyc", code[:-4] + b"abcd")
    assert outline(_verdict(venv), tmp_path) == [
        "error ED202 closed 1: 1 of 11 files missing, 1 of 11 files changed",
        "error ED207 closed 1: 1 file holds other bytes than RECORD says, at the recorded size",
    ]
    mend(plain.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert _verdict(venv).findings == ()


def test_virtualenv_lists_bytecode_where_there_is_none(tmp_path: Path) -> None:
    """For the pip that it seeds: `pip/__init__.cpython-313.pyc,,`, and `pip/__pycache__`."""
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1"))
    record = venv.dist_info("thing") / "RECORD"
    rewrite(record, record.read_text() + f"thing/__init__.{TAG}.pyc,,\nthing/__pycache__,,\n")
    assert (verdict_of(venv.prefix).findings, _verdict(venv).findings) == ((), ())
