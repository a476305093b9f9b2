"""Files of a venv replaced by what no installer writes: no crash, no hang, bounded memory, and the gaps are said."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from envdoctor.doctor.examine import judge, take_fingerprint
from envdoctor.doctor.heading import heading
from envdoctor.documents import fingerprint_file
from envdoctor.explore.environment import explore
from envdoctor.explore.removal import removal
from envdoctor.explore.why import why
from envdoctor.facts.context import Options
from envdoctor.facts.target import resolve
from envdoctor.model.codec import encode
from envdoctor.report import as_json, as_text
from envdoctor.report.envelope import dump, envelope
from envdoctor.report.style import Style
from tests.factories.forked import forked
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

VERSION = "__version__ = '2.10.0+cpu'\ncuda = None\nhip = None\ngit_version = 'abc'\n"
INFO = "thing-1.0.dist-info"
# Below site-packages, but for those that begin with "../".
PLACES = (
    f"{INFO}/METADATA",
    f"{INFO}/RECORD",
    f"{INFO}/WHEEL",
    f"{INFO}/INSTALLER",
    f"{INFO}/direct_url.json",
    f"{INFO}",
    "thing/__init__.py",
    "thing",
    "extra.pth",
    "sitecustomize.py",
    "torch/version.py",
    "torch/__init__.py",
    "torch/fx/_symbolic_trace.py",
    "torch/lib/libtorch_global_deps.so",
    "torch/lib/libtorch_python.so",
    "torch/_C.abi3.so",
    "torch/lib",
    "torch",
    "../../../pyvenv.cfg",
    "../../../bin/python",
    "../../../bin/thing",
    "../../../bin",
    "../../../lib64",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What envdoctor made of a hostile venv."""

    text: str
    document: str
    unread: dict[str, str]
    gaps: tuple[str, ...]
    """Evidence of ED208."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    folder = tmp_path_factory.mktemp("template")
    torch = {
        "torch/__init__.py": "",
        "torch/version.py": VERSION,
        "torch/fx/_symbolic_trace.py": "_is_fx_tracing_flag = False\n",
    }
    torch |= {"torch/lib/libtorch_global_deps.so": "", "torch/lib/libtorch_python.so": "", "torch/_C.abi3.so": ""}
    made = make_venv(
        folder / "venv",
        make_wheel(folder / "wheels", "thing", "1.0", files={"thing/__init__.py": "x = 1\n"}, scripts={"thing": "a:b"}),
        make_wheel(folder / "wheels", "torch", "2.10.0", files=dict(torch)),
    )
    # What a check imports when it needs it, each forked child would import again.
    _look(made, deep=True)
    _ask(made)
    return made


@pytest.fixture
def venv(template: Venv, tmp_path: Path) -> Venv:
    shutil.copytree(template.prefix, tmp_path / "venv", symlinks=True)
    made = Venv(prefix=tmp_path / "venv")
    (made.site_packages / "extra.pth").write_text("import sys\n")
    (made.site_packages / "sitecustomize.py").write_text("")
    return made


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    # A socket's name has at most 108 bytes, so it is bound from inside its folder.
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _long_loop(path: Path) -> None:
    other = path.with_name(path.name + ".other")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


NO_FILES: dict[str, Callable[[Path], None]] = {
    "fifo": _fifo,
    "socket": _socket,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "loop": _loop,
    "loop of two": _long_loop,
    "dangling": lambda path: path.symlink_to("nowhere/at/all"),
    "folder": lambda path: path.mkdir(),
    "link to the root": lambda path: path.symlink_to("/"),
    "process memory": lambda path: path.symlink_to("/proc/self/mem"),
}


def _bytes(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


CONTENTS: dict[str, Callable[[Path], None]] = {
    "empty": _bytes(b""),
    "NULs": _bytes(bytes(4096)),
    "no UTF-8": _bytes(bytes(range(256)) * 16),
    "UTF-16": _bytes("Name: thing\nVersion: 1.0\n".encode("utf-16")),
    "byte order mark": _bytes(b"\xef\xbb\xbfName: thing\r\nVersion: 1.0\r\n"),
    "one long line": _bytes(b"A" * 2_000_000),
    "many lines": _bytes(b"a,b,1\n" * 300_000),
    "many names": _bytes(b"".join(b"p%d,sha256=x,1\n" % number for number in range(20_000))),
    "quotes": _bytes(b'"' * 10_001),
    "brackets": _bytes(b"[" * 200_000),
    "parentheses": _bytes(b"x = " + b"(" * 100_000),
    "an ELF head": _bytes(b"\x7fELF\x02\x01\x01" + b"\xff" * 4000),
    "a terabyte of nothing": _sparse,
}
# Whose contents are read for what they say; the others are only listed, hashed or mapped.
PARSED = (
    f"{INFO}/METADATA",
    f"{INFO}/RECORD",
    f"{INFO}/WHEEL",
    f"{INFO}/direct_url.json",
    "extra.pth",
    "torch/version.py",
    "torch/__init__.py",
    "torch/fx/_symbolic_trace.py",
    "torch/lib/libtorch_python.so",
    "../../../pyvenv.cfg",
    "../../../bin/thing",
)
MUTATIONS = {**NO_FILES, **CONTENTS}
CASES = [
    *((place, mutation) for place in PLACES for mutation in NO_FILES),
    *((place, mutation) for place in PARSED for mutation in CONTENTS),
]


def _look(venv: Venv, *, deep: bool) -> Shown:
    host = bare_host(venv.prefix.parent / "home")
    options = Options(deep=deep, ask_nvml=False)
    facts = take_fingerprint(resolve(venv.prefix), host, options)
    verdict = judge(facts)
    header = heading(facts)
    text = as_text.render(header, verdict, Style(verbosity=1))
    document = dump(envelope(as_json.document(header, verdict)))
    assert fingerprint_file.parse(json.loads(json.dumps(fingerprint_file.document(facts)))) == facts
    evidence = [line for finding in verdict.findings if finding.code == "ED208" for line in finding.evidence]
    unread = {gap.section: gap.reason for gap in facts.unread}
    return Shown(text=text, document=document, unread=unread, gaps=tuple(evidence))


def _ask(venv: Venv) -> None:
    """Ask everything else that reads a venv; bad input is an answer too."""
    environment = explore(resolve(venv.prefix), bare_host(venv.prefix.parent / "home"))
    for name in ("thing", "torch", "torch.version", "libtorch_python.so", "thing/__init__.py"):
        try:
            encode(why(environment, name))
        except Exception as error:
            if type(error).__name__ not in ("UsageError", "ProbeError"):
                raise
    for names in (["thing"], ["torch", "thing"]):
        try:
            encode(removal(environment, names))
        except Exception as error:
            if type(error).__name__ not in ("UsageError", "ProbeError"):
                raise


@pytest.mark.parametrize(("place", "mutation"), CASES)
def test_nothing_crashes_hangs_or_takes_all_memory(venv: Venv, place: str, mutation: str) -> None:
    at = Path(os.path.normpath(venv.site_packages / place))
    _clear(at)
    MUTATIONS[mutation](at)

    def everything() -> Shown:
        found = _look(venv, deep=True)
        _ask(venv)
        return found

    seen = forked(everything)
    assert seen.text.endswith("\n")
    assert json.loads(seen.document)["schema_version"] == 1


# What is not a regular file, and how that is said.
NOT_A_FILE = {
    "fifo": "not a regular file",
    "socket": "not a regular file",
    "endless device": "not a regular file",
    "folder": "not a regular file",
    "loop": "Too many levels of symbolic links",
}


@pytest.mark.parametrize("mutation", NOT_A_FILE)
@pytest.mark.parametrize("name", ["METADATA", "RECORD", "WHEEL", "INSTALLER", "direct_url.json"])
def test_a_metadata_file_that_is_no_file_is_said(venv: Venv, name: str, mutation: str) -> None:
    at = venv.site_packages / INFO / name
    _clear(at)
    NO_FILES[mutation](at)
    seen = forked(lambda: _look(venv, deep=False))
    owner = "thing: " if name == "RECORD" else ""
    assert seen.gaps == (f"{owner}{at}: {NOT_A_FILE[mutation]}",)


@pytest.mark.parametrize("mutation", NOT_A_FILE)
def test_a_pth_that_is_no_file_is_said(venv: Venv, mutation: str) -> None:
    at = venv.site_packages / "extra.pth"
    _clear(at)
    NO_FILES[mutation](at)
    seen = forked(lambda: _look(venv, deep=False))
    assert seen.gaps == (f"{at}: {NOT_A_FILE[mutation]}",)


@pytest.mark.parametrize("mutation", NOT_A_FILE)
@pytest.mark.parametrize(
    ("place", "section"), [("../../../pyvenv.cfg", "Interpreter"), ("torch/version.py", "TorchBuild")]
)
def test_a_file_that_everything_hangs_on_is_could_not_tell(venv: Venv, place: str, section: str, mutation: str) -> None:
    at = Path(os.path.normpath(venv.site_packages / place))
    _clear(at)
    NO_FILES[mutation](at)
    seen = forked(lambda: _look(venv, deep=False))
    assert seen.unread[section] == f"{at}: {NOT_A_FILE[mutation]}"
    assert json.loads(seen.document)["summary"]["could_not_tell"] > 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a.py,sha256=x,1\nno row\n", ("{record}:2: not a RECORD row",)),
        (b"a.py,sha256=x,one\n", ("{record}:1: not a RECORD row",)),
        (b"a.py,sha256=x,-1\n", ("{record}:1: not a RECORD row",)),
        (b"a.py,sha256=x,99999999999999999999999\n", ("{record}:1: not a RECORD row",)),
        ("a.py,sha256=x,\u0663\n".encode(), ("{record}:1: not a RECORD row",)),
        (b'"a.py,sha256=x,1\nb.py,,\n', ("{record}:1: not a RECORD row",)),
        (
            b'"' + b"a" * 200_000 + b'",,\nb.py,,\n',
            ("{record}: not read, it has a row of 200004 bytes",),
        ),
        (b'"a\nforged",,\n', ("{record}:1: not a RECORD row",)),
        (b"a/" * 201 + b"b.py,,\n", ("{record}: not read, it has a row of 201 folders",)),
        (b"\n" * 600_000, ("{record}: not read, there are more than 150000 rows in all",)),
    ],
)
def test_rows_that_are_none_are_said(venv: Venv, content: bytes, said: tuple[str, ...]) -> None:
    record = venv.site_packages / INFO / "RECORD"
    record.unlink()
    record.write_bytes(content)
    seen = forked(lambda: _look(venv, deep=False))
    assert seen.gaps == tuple(f"thing: {line.format(record=record)}" for line in said)


def test_a_record_too_large_is_said(venv: Venv) -> None:
    record = venv.site_packages / INFO / "RECORD"
    record.unlink()
    _sparse(record)
    seen = forked(lambda: _look(venv, deep=False))
    assert seen.gaps == (f"thing: {record}: {1 << 40} bytes, more than the {16 << 20} it can hold",)


@pytest.mark.parametrize(
    "name", ["-e evil", "--target=/", "$(touch x)", "a b", "../../etc", "\x1b[31mred", "ünïcode", "-", ""]
)
def test_a_name_that_is_none_never_reaches_a_command(venv: Venv, name: str) -> None:
    metadata = venv.site_packages / INFO / "METADATA"
    metadata.unlink()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (venv.site_packages / "thing/__init__.py").unlink()
    seen = forked(lambda: _look(venv, deep=False))
    commands = [
        command for finding in json.loads(seen.document)["findings"] for command in finding["remediation"]["commands"]
    ]
    assert [command for command in commands if len(name) > 1 and name in command] == []
    commands = [command for command in commands if command.startswith("uv pip") and " torch==" not in command]
    assert set(commands) == {f"uv pip install --python {venv.python} --no-deps --reinstall-package thing thing==1.0"}
    assert "\x1b" not in seen.text


def test_folders_below_each_other_for_ever_end(venv: Venv) -> None:
    """A RECORD row may go through a loop of folders as often as it likes."""
    package = venv.site_packages / "thing"
    (package / "again").symlink_to(".")
    record = venv.site_packages / INFO / "RECORD"
    rows = "".join(f"thing/{'again/' * depth}__init__.py,,\n" for depth in range(0, 600, 3))
    record.unlink()
    record.write_text(rows)
    forked(lambda: _look(venv, deep=True))


def test_a_path_as_long_as_a_file_is_no_path(venv: Venv) -> None:
    record = venv.site_packages / INFO / "RECORD"
    record.unlink()
    record.write_text("".join(f"{'a/' * 300_000}{number},,\n" for number in range(20)) + "../" * 100_000 + "x,,\n")
    forked(lambda: _look(venv, deep=True))


@pytest.mark.giant
def test_a_pth_of_a_hundred_thousand_lines(venv: Venv) -> None:
    (venv.site_packages / "extra.pth").write_text("./.\n" * 60_000 + "x" * 10_000)
    forked(lambda: _look(venv, deep=False))


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.giant)])
def test_thousands_of_distributions(venv: Venv, count: int) -> None:
    for number in range(count):
        (venv.site_packages / f"d{number}-1.dist-info").mkdir()
    forked(lambda: _look(venv, deep=False), seconds=60)
