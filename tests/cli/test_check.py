"""`envdoctor check` as a process, on a real venv, healthy and broken."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest

from tests.factories.make_incident import Incident, make_broken_incident, make_incident
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, filtered, run_envdoctor
from tests.unit.report.test_as_json import SCHEMA, closed

UNSEEN = "not checked: the GPU driver (none here), the compile cache (cold)"
HEALTHY = """\
envdoctor check  [TMP]/.venv   profile small   torch 2.11.0+cu128 (not imported)

[✓] Interpreter         CPython [PYTHON], venv by uv [UV]
[✓] Distributions       2 distributions, compared with 2 locked
[✓] torch build         torch 2.11.0+cu128 (CUDA 12.8 build), read from torch/version.py
[✓] Installed files     [N] files as their RECORDs say, by size
[✓] Shared libraries    all [N] libraries of `import torch` resolve
[–] Compile cache       cold: no compiled graph or kernel
[✓] Environment         no LD_LIBRARY_PATH, LD_PRELOAD or PYTHONPATH
[–] Driver / GPU        no NVIDIA driver: this CUDA build would run on the CPU
[–] Sources             the profile names no sources

Nothing found; not checked: the GPU driver (none here), the compile cache (cold).   exit 0
"""

BROKEN = """\
envdoctor check  [TMP]/.venv   profile small   torch 2.11.0+cu128 (not imported)

[✓] Interpreter         CPython [PYTHON], venv by uv [UV]
[✓] Distributions       2 distributions, compared with 2 locked
[✓] torch build         torch 2.11.0+cu128 (CUDA 12.8 build), read from torch/version.py
[✗] Installed files     [N] files: 1 missing
[✓] Shared libraries    all [N] libraries of `import torch` resolve
[–] Compile cache       cold: no compiled graph or kernel
[✓] Environment         no LD_LIBRARY_PATH, LD_PRELOAD or PYTHONPATH
[–] Driver / GPU        no NVIDIA driver: this CUDA build would run on the CPU
[–] Sources             the profile names no sources

error[ED201]: files of 1 distribution are missing, each at a path that another wheel writes too
  nvidia-cudnn-cu12 9.19.0.56: 1 of [N] files in its RECORD are missing:
    nvidia/cudnn/lib/libcudnn.so.9
  the same paths are written by nvidia-cudnn-cu11 and nvidia-cudnn-cu13, not installed now
  an uninstall deletes every path of its RECORD, even if another package owns it too
  files that were deleted by hand, or not copied, leave the same
  confidence: medium
  help: Rebuild the profile's stack beside this one and swap it in; or, by hand: force-reinstall the
        surviving owners; a plain install changes nothing, since their metadata says they are there
        envdoctor restore --profile small --venv [TMP]/.venv

Found 1 error (1 cause); not checked: the GPU driver (none here), the compile cache (cold).   exit 1
For more about a finding, run `envdoctor explain ED201`.
"""

QUIET = """\
error[ED201]: files of 1 distribution are missing, each at a path that another wheel writes too

Found 1 error (1 cause); not checked: the GPU driver (none here), the compile cache (cold).   exit 1
"""


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_incident(tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_broken_incident(tmp_path_factory.mktemp("broken"))


def test_a_healthy_venv(healthy: Incident) -> None:
    assert run_envdoctor("check", "--profile", "small", folder=healthy.root) == Outcome(code=0, out=HEALTHY, err="")


def test_the_incident(broken: Incident) -> None:
    assert run_envdoctor("check", "--profile", "small", folder=broken.root) == Outcome(code=1, out=BROKEN, err="")


@pytest.mark.parametrize(
    ("named", "extra"),
    [
        (".venv", {}),
        (".venv/bin/python", {}),
        ("", {"VIRTUAL_ENV": ".venv"}),
        ("", {}),
        ("python3", {"PATH": ".venv/bin"}),
    ],
    ids=["folder", "interpreter", "VIRTUAL_ENV", "beside", "on PATH"],
)
def test_every_way_to_name_the_venv_means_the_same(broken: Incident, named: str, extra: dict[str, str]) -> None:
    absolute = {name: str(broken.root / value) for name, value in extra.items()}
    outcome = run_envdoctor("check", *filter(None, [named]), "-p", "small", folder=broken.root, extra=absolute)
    why = " (from $VIRTUAL_ENV)" if "VIRTUAL_ENV" in extra else ""
    report = BROKEN.replace("[TMP]/.venv   profile", f"[TMP]/.venv{why}   profile")
    assert outcome == Outcome(code=1, out=report, err="")


@pytest.mark.parametrize(
    ("options", "extra", "code"),
    [
        ([], {}, 1),
        (["--format", "json"], {}, 1),
        (["-v"], {}, 1),
        (["--exit-zero"], {}, 0),
        (["--exit-zero", "--json"], {}, 0),
        (["--fail-on", "note"], {}, 1),
        ([], {"ENVDOCTOR_FAIL_ON": "warning"}, 1),
        (["--ignore", "ED201=known, the owner was told"], {}, 0),
        (["--ignore", "ed201=known", "--json"], {}, 0),
        (["--ignore", "files-removed-by-uninstall=known"], {}, 0),
        (["--ignore", "files-lost-to-another-uninstall=known"], {}, 0),
    ],
)
def test_exit_codes_are_the_same_in_every_format(
    broken: Incident, options: list[str], extra: dict[str, str], code: int
) -> None:
    assert run_envdoctor("check", *options, folder=broken.root, extra=extra).code == code


def test_json_is_one_document_that_fits_the_schema(broken: Incident) -> None:
    outcome = run_envdoctor("check", "-p", "small", "--json", folder=broken.root)
    value = json.loads(outcome.out)
    jsonschema.validate(value, closed(SCHEMA))
    assert (value["profile"], value["summary"]["exit_code"], outcome.code, outcome.err) == ("small", 1, 1, "")
    assert [finding["code"] for finding in value["findings"]] == ["ED201"]
    assert run_envdoctor("check", "-p", "small", "--format", "json", folder=broken.root) == outcome
    asked = {"ENVDOCTOR_FORMAT": "json", "ENVDOCTOR_PROFILE": "small"}
    assert run_envdoctor("check", folder=broken.root, extra=asked) == outcome


def test_a_waived_finding_is_shown_with_its_reason(broken: Incident) -> None:
    outcome = run_envdoctor("check", "-p", "small", "--ignore", "ED201=the owner was told", folder=broken.root)
    assert outcome.out.splitlines()[-5:] == [
        "waived:",
        "  error[ED201] files of 1 distribution are missing, each at a path that another wheel writes too",
        "    (nvidia-cudnn-cu12), because: the owner was told",
        "",
        "Nothing found; 1 waived; not checked: the GPU driver (none here), the compile cache (cold).   exit 0",
    ]


def test_quiet(broken: Incident) -> None:
    assert run_envdoctor("check", "-q", folder=broken.root) == Outcome(code=1, out=QUIET, err="")


def test_output_goes_to_a_file(broken: Incident, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    outcome = run_envdoctor("check", "-q", "-o", report, folder=broken.root)
    assert (outcome, report.read_text()) == (Outcome(code=1, out="", err=""), QUIET)


HELP = "  help: Rebuild the profile's stack beside this one and swap it in"


def test_a_fingerprint_is_judged_as_the_venv_is(broken: Incident, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    assert run_envdoctor("fingerprint", "-o", facts, folder=broken.root) == Outcome(code=0, out="", err="")
    outcome = run_envdoctor("check", "-p", "small", "--fingerprint", facts, folder=broken.root)
    # The same, but for where the commands are to be run.
    there = HELP.replace("help:", "help: To be run where the fingerprint was taken:")
    text = " ".join(BROKEN.replace(HELP, there).split())
    assert (outcome.code, " ".join(outcome.out.split()), outcome.err) == (1, text, "")
    assert run_envdoctor("fingerprint", folder=broken.root).out == filtered(facts.read_text(), broken.root)


@pytest.mark.parametrize(
    ("options", "extra", "coloured"),
    [
        ([], {}, False),
        (["--color", "always"], {}, True),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        ([], {"ENVDOCTOR_COLOR": "always"}, True),
    ],
)
def test_colour(broken: Incident, options: list[str], extra: dict[str, str], coloured: bool) -> None:  # noqa: FBT001
    outcome = run_envdoctor("check", "-q", *options, folder=broken.root, extra=extra)
    assert outcome.out == (
        QUIET.replace("error[ED201]:", "\x1b[1;31merror[ED201]:\x1b[0m").replace(
            f"Found 1 error (1 cause); {UNSEEN}", f"\x1b[1mFound 1 error (1 cause); {UNSEEN}\x1b[0m"
        )
        if coloured
        else QUIET
    )


def test_plain_signs_where_the_terminal_knows_no_unicode(broken: Incident) -> None:
    outcome = run_envdoctor("check", folder=broken.root, extra={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"})
    assert outcome.out.isascii()
    assert outcome.out.splitlines()[5] == "[x] Installed files     [N] files: 1 missing"


def test_a_reader_that_leaves_is_no_error(broken: Incident) -> None:
    # A pipe nobody reads from: the first write fails with EPIPE.
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "check"],
        cwd=broken.root,
        env=environment(broken.root),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_interrupted(healthy: Incident) -> None:
    # A FIFO in place of a fingerprint holds the command where Ctrl-C can meet it.
    fifo = healthy.root / "facts.json"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*COMMAND, "check", "--fingerprint", fifo],
        cwd=healthy.root,
        env=environment(healthy.root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with fifo.open("w"):  # opens once the command has opened its end
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "error: interrupted\n")
