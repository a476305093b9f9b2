"""`explain` of an error text and of a log: what people have before they know a code."""

import json
import subprocess
from pathlib import Path

import pytest

from envdoctor.app import explain as app
from envdoctor.report import symptom_pages
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_envdoctor

TEXT = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"
TOLD = """\
{place}libcudnn.so.9: cannot open shared object file
  The loader found no file for a CUDA library, which the wheels of CUDA 12 and 13 write to one path.

  Possible causes
    ED201 files-removed-by-uninstall  another wheel that writes the same file was uninstalled; the owner's metadata is \
complete
    ED301 unresolved-library          no wheel that brings it is installed
    ED307 library-not-searched        it is installed, and the extension that needs it does not search there

  Which one it is
    envdoctor why libcudnn.so.9
    envdoctor check
"""
MORE = "\nFor more about a check, run `envdoctor explain ED201`.\n"


def test_an_error_text(tmp_path: Path) -> None:
    told = run_envdoctor("explain", TEXT, folder=tmp_path)
    assert told == Outcome(code=0, out=TOLD.format(place="") + MORE, err="")


def test_remembered_words_of_several_texts_list_them(tmp_path: Path) -> None:
    told = run_envdoctor("explain", "cannot open shared", folder=tmp_path)
    heads = [line for line in told.out.splitlines() if line.endswith(": cannot open shared object file")]
    assert told.code == 0
    assert len(heads) > 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("it does not work",), "no known error text in `it does not work`"),
        ((f"a\x1b[31m {'b' * 80}",), f"no known error text in `a [31m {'b' * 53}…`"),
        ((), "no code, no error text and no --log was given"),
        (("ED201", "--log", "x"), "both a text and --log were given"),
        (("--log", "gone.log"), "cannot read the log gone.log: No such file or directory"),
        (("--log", "tmp"), "cannot read the log tmp: not a regular file"),
        (("--log", "well.log"), "no known error text in well.log"),
    ],
)
def test_what_is_not_known_is_said_and_is_bad_input(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "well.log").write_text("step 1 loss 3.2\n")
    told = run_envdoctor("explain", *words, folder=tmp_path)
    assert (told.code, told.out, told.err.splitlines()[0]) == (2, "", f"error: {message}")
    assert told.err.splitlines()[2].startswith("hint: ")


def test_a_log_file(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(
        b"\xff start\r\n\x1b[31m" + TEXT.encode() + b"\x1b[0m\n" + TEXT.encode() + b"\n"
    )
    told = run_envdoctor("explain", "--log", "train.log", folder=tmp_path)
    assert told == Outcome(code=0, out=TOLD.format(place="line 2, 2 times: ") + MORE, err="")


def test_a_log_through_a_pipe_as_json(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "explain", "--log", "-", "--json"],
        input=f"start\n{TEXT}\n".encode(),
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert (document["log"], document["left_out"]) == ("-", 0)
    assert [(one["line"], one["times"], one["causes"][0]["code"]) for one in document["found"]] == [(2, 1, "ED201")]


@pytest.mark.parametrize("piped", [True, False])
def test_of_a_long_log_the_end_is_read_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, piped: bool
) -> None:
    monkeypatch.setattr(app, "LOG_END", 1000)
    monkeypatch.setattr(app, "_CHUNK", 300)
    log = tmp_path / "long.log"
    log.write_text(f"libgone.so: cannot open shared object file\n{'x' * 5000}\n{TEXT}\n")
    with log.open("rb") as stream:
        data = app.explain_log("-" if piped else str(log), stream).data
    assert data.left_out == log.stat().st_size - 1000
    assert [found.seen for found in data.found] == ["libcudnn.so.9: cannot open shared object file"]
    told = symptom_pages.as_terminal_text(data)
    assert told.startswith("line 2 of what was read: libcudnn.so.9: cannot open shared object file\n")
    where = "standard input" if piped else log
    assert f"\n\nOnly the end of {where} was read: {data.left_out:,} bytes before it were not.\n\n" in told


def test_places_are_counted_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "many.log").write_text(f"{TEXT}\n" * 1200)
    told = run_envdoctor("explain", "--log", "many.log", folder=tmp_path)
    assert told.out.startswith("line 1, 1000 times or more: libcudnn.so.9: cannot open shared object file\n")
