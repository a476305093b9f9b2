"""The report a person reads, compared whole."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.report.as_text import render
from envdoctor.report.style import Style, printable
from tests.factories.make_verdict import CUDNN, incident, make_finding, make_header, make_verdict

COMMAND = (
    "uv pip install --python /srv/dflash/.venv --no-deps --reinstall-package nvidia-cudnn-cu12 "
    "--reinstall-package nvidia-nccl-cu12 nvidia-cudnn-cu12==9.19.0.56 nvidia-nccl-cu12==2.28.9"
)

AREAS = """\
envdoctor check  /srv/dflash/.venv   profile 21k-toks   torch 2.11.0+cu128 (not imported)

[✓] Interpreter, wheels    CPython 3.12.1, 57 distributions
[✗] Installed files        2 distributions damaged (2 files missing)
[✗] Shared libraries       2 of 21 sonames unresolved for torch
[!] Compile cache          cold: the profile expects 353 MB
[?] Driver, GPU            NVML did not answer within 5 s
"""

CAUSE = """\
error[ED201]: file removed by another package's uninstall                        PRIMARY
  nvidia/cudnn/lib/libcudnn.so.9: claimed by nvidia-cudnn-cu12 9.19.0.56 (RECORD), missing on disk
  needed by torch/lib/libtorch_cuda.so (DT_NEEDED, via RPATH $ORIGIN/../../nvidia/cudnn/lib)
  nvidia-cudnn-cu13 writes the same path; uninstalling it deletes this file
"""

RACE = """\
warning[ED510]: torch's FX tracing flag is process-global and the profile compiles in 3 threads
  confidence: medium
  help: serialize first compiles; a warm cache does not prevent the race
"""

WAIVED = """\
waived:
  note[ED210] two owners, same bytes (nvidia/__init__.py), because: empty file
"""

COUNT = "Found 3 errors, 1 warning (2 causes); 1 check could not tell; 1 waived.   exit 1\n"
MORE = "For more about a finding, run `envdoctor explain ED201`.\n"


def test_cause_stands_first_with_what_it_explains_and_its_command() -> None:
    assert render(make_header(), incident(), Style()) == (
        f"{AREAS}\n{CAUSE}"
        "  explains: ED301 unresolved-soname: libcudnn.so.9, libnccl.so.2\n"
        "  help: reinstall the wheels whose files are gone\n"
        f"        {COMMAND}\n\n{RACE}\n"
        "could not tell:\n  ED601 driver-too-old: NVML did not answer within 5 s\n\n"
        f"{WAIVED}\n{COUNT}{MORE}"
    )


def test_verbose_shows_consequences_in_full_and_what_does_not_apply() -> None:
    assert render(make_header(), incident(), Style(verbosity=1)) == (
        f"{AREAS}\n{CAUSE}"
        "  help: reinstall the wheels whose files are gone\n"
        f"        {COMMAND}\n"
        "  which causes error[ED301]: libcudnn.so.9 is found nowhere\n"
        "    asked for by torch/lib/libtorch_cuda.so\n"
        "    help: fix the cause\n"
        "  which causes error[ED301]: libnccl.so.2 is found nowhere\n"
        "    asked for by torch/lib/libtorch_cuda.so\n"
        f"    help: fix the cause\n\n{RACE}\n"
        "could not tell:\n  ED601 driver-too-old: NVML did not answer within 5 s\n"
        "does not apply:\n  ED701 source-drift: no profile was given\n\n"
        f"{WAIVED}\n{COUNT}{MORE}"
    )


def test_quiet_is_one_line_a_cause_and_the_count() -> None:
    assert render(make_header(), incident(), Style(verbosity=-1)) == (
        "error[ED201]: file removed by another package's uninstall\n"
        "warning[ED510]: torch's FX tracing flag is process-global and the profile compiles in 3 threads\n\n"
        f"{COUNT}"
    )


def test_narrow_terminal_wraps_prose_and_never_a_command() -> None:
    text = render(make_header(), incident(), Style(width=60, unicode=False))
    assert text.splitlines()[2:23] == [
        "[+] Interpreter, wheels    CPython 3.12.1, 57 distributions",
        "[x] Installed files        2 distributions damaged (2 files",
        "                           missing)",
        "[x] Shared libraries       2 of 21 sonames unresolved for",
        "                           torch",
        "[!] Compile cache          cold: the profile expects 353 MB",
        "[?] Driver, GPU            NVML did not answer within 5 s",
        "",
        "error[ED201]: file removed by another package's uninstall  PRIMARY",
        "  nvidia/cudnn/lib/libcudnn.so.9: claimed by",
        "    nvidia-cudnn-cu12 9.19.0.56 (RECORD), missing on disk",
        "  needed by torch/lib/libtorch_cuda.so (DT_NEEDED, via RPATH",
        "    $ORIGIN/../../nvidia/cudnn/lib)",
        "  nvidia-cudnn-cu13 writes the same path; uninstalling it",
        "    deletes this file",
        "  explains: ED301 unresolved-soname: libcudnn.so.9,",
        "              libnccl.so.2",
        "  help: reinstall the wheels whose files are gone",
        f"        {COMMAND}",
        "",
        "warning[ED510]: torch's FX tracing flag is process-global and the profile compiles in 3 threads",
    ]
    assert text.isascii()


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_colour_changes_nothing_but_colour(verbosity: int) -> None:
    plain = render(make_header(), incident(), Style(verbosity=verbosity))
    coloured = render(make_header(), incident(), Style(verbosity=verbosity, color=True))
    assert coloured != plain
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == plain


def test_nothing_found() -> None:
    header = make_header(profile="", torch="")
    assert render(header, make_verdict(), Style()) == (
        "envdoctor check  /srv/dflash/.venv   no profile   torch not installed\n\nNothing found.   exit 0\n"
    )


def test_errors_that_explain_nothing_have_no_primary_among_them() -> None:
    verdict = make_verdict(make_finding(), make_finding("ED404", title="another torch build"))
    assert render(make_header(), verdict, Style(verbosity=-1)) == (
        "error[ED201]: file removed by another package's uninstall\n"
        "error[ED404]: another torch build\n\nFound 2 errors (2 causes).   exit 1\n"
    )


def test_the_cause_that_explains_most_leads_among_equally_severe_ones() -> None:
    lonely = make_finding("ED101", title="a lonely error", subject="a")
    cause = make_finding("ED201", title="a cause", causes=("soname:x",))
    symptom = make_finding("ED301", title="a symptom", subject="x", symptom_of=("soname:x",))
    text = render(make_header(), make_verdict(lonely, cause, symptom), Style(verbosity=-1))
    assert [line.split(":")[0] for line in text.splitlines()[:2]] == ["error[ED201]", "error[ED101]"]


def test_many_consequences_of_one_code_are_counted() -> None:
    cause = make_finding(causes=("dist:x",))
    symptoms = [make_finding("ED301", name="n", subject=f"lib{i}.so", symptom_of=("dist:x",)) for i in range(5)]
    text = render(make_header(), make_verdict(cause, *symptoms), Style())
    assert "  explains: ED301 n: lib0.so, lib1.so, lib2.so and 2 more\n" in text


@pytest.mark.parametrize(
    ("fail_on", "code"), [("error", 0), ("warning", 1), ("note", 1)], ids=["error", "warning", "note"]
)
def test_the_exit_code_shown_follows_fail_on(fail_on: str, code: int) -> None:
    verdict = make_verdict(make_finding(severity="warning"))
    last = render(make_header(), verdict, Style(verbosity=-1), fail_on=fail_on).splitlines()[-1]  # type: ignore[arg-type]
    assert last == f"Found 1 warning (1 cause).   exit {code}"


def test_names_from_files_cannot_steer_the_terminal() -> None:
    evil = make_finding(
        title="bad\x1b]0;owned\x07title",
        subject=CUDNN,
        evidence=("two\nlines\x1b[2J",),
        commands=("echo \x9b31m",),
        text="x",
    )
    text = render(make_header(target="/srv/\udcff"), make_verdict(evil), Style())
    assert text == (
        "envdoctor check  /srv/\\xff   profile 21k-toks   torch 2.11.0+cu128 (not imported)\n\n"
        "error[ED201]: bad\\x1b]0;owned\\x07title\n"
        "  two\\x0alines\\x1b[2J\n"
        "  help: x\n"
        "        echo \\x9b31m\n\n"
        "Found 1 error (1 cause).   exit 1\n"
        "For more about a finding, run `envdoctor explain ED201`.\n"
    )


@pytest.mark.property
@given(st.text())
def test_printable_text_holds_no_control_and_can_be_encoded(text: str) -> None:
    shown = printable(text)
    assert not re.search("[\x00-\x1f\x7f-\x9f]", shown)
    shown.encode("utf-8")


@pytest.mark.property
@given(st.lists(st.text(), max_size=5), st.integers(1, 200))
def test_evidence_never_breaks_a_command_or_the_closing_line(evidence: list[str], width: int) -> None:
    verdict = make_verdict(make_finding(evidence=evidence, commands=(COMMAND,)))
    lines = render(make_header(), verdict, Style(width=width)).splitlines()
    assert f"        {COMMAND}" in lines
    assert lines[-2] == "Found 1 error (1 cause).   exit 1"


def test_what_the_same_command_fixes_is_shown_together_with_the_command_once() -> None:
    restore = ("envdoctor restore --profile 21k-toks --venv .venv",)
    text = "Rebuild the profile's stack; or, by hand: install {}"
    verdict = make_verdict(
        make_finding("ED401", title="numpy drifted", evidence=["numpy"], text=text.format("numpy"), commands=restore),
        make_finding("ED402", title="tqdm is missing", text=text.format("tqdm"), commands=restore),
        make_finding("ED601", severity="warning", title="a variable", text="unset it", commands=["unset A"]),
        make_finding("ED403", severity="note", title="one more", text=text.format("nothing"), commands=restore),
        make_finding("ED510", severity="note", title="no command", text="think"),
        make_finding("ED511", severity="note", title="no command either", text="think"),
    )
    report = render(make_header(), verdict, Style(width=100))
    assert (
        report.partition("\n\n")[2]
        == """\
error[ED401]: numpy drifted
  numpy
error[ED402]: tqdm is missing
note[ED403]: one more
  help: Rebuild the profile's stack
        envdoctor restore --profile 21k-toks --venv .venv

warning[ED601]: a variable
  help: unset it
        unset A

note[ED510]: no command
  help: think

note[ED511]: no command either
  help: think

Found 2 errors, 1 warning, 3 notes (6 causes; 1 command fixes 3 of them).   exit 1
For more about a finding, run `envdoctor explain ED401`.
"""
    )
    # One alone keeps all of its text.
    alone = render(make_header(), make_verdict(verdict.findings[0]), Style(width=100))
    assert "  help: Rebuild the profile's stack; or, by hand: install numpy\n" in alone
