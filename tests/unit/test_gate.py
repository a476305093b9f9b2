"""The launch gate in a process of a real venv: it starts on the right stack, and says why it does not on another."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from envdoctor.errors import UsageError
from envdoctor.gate import Admitted, Expected, choose
from tests.factories.make_incident import Incident, make_gated_incident
from tests.factories.make_venv import install
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import ROOT, Outcome, environment, filtered, run_envdoctor, without_waits

HEAVY = ("torch", "typer", "rich", "pydantic", "numpy")
SCRIPT = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
from envdoctor import gate
gate.require({{arguments}})
print("started", sorted(set({HEAVY!r}) & set(sys.modules)))
"""
STARTED = "started []\n"
REFUSED = "error: envdoctor gate: {who} does not start on [TMP]/.venv (profile small)\n"
ALONE = REFUSED.format(who="this process")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_gated_incident(tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_gated_incident(tmp_path_factory.mktemp("broken"), lost=True)


def start(incident: Incident, arguments: str = '"small"', extra: Mapping[str, str] | None = None) -> Outcome:
    """Run a train script that calls the gate with these arguments and then says that it started."""
    done = subprocess.run(
        [incident.venv.python, "-c", SCRIPT.format(arguments=arguments)],
        cwd=incident.root,
        env=environment(incident.root, extra),
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(
        code=done.returncode, out=filtered(done.stdout, incident.root), err=filtered(done.stderr, incident.root)
    )


def report(incident: Incident) -> str:
    return run_envdoctor("check", "-p", "small", folder=incident.root).out


def test_the_right_stack_starts_and_nothing_heavy_is_loaded(healthy: Incident) -> None:
    assert start(healthy) == Outcome(code=0, out=STARTED, err="")


@pytest.mark.parametrize("asked", ["small", "./profiles/small.toml"])
@pytest.mark.parametrize("mode", ["enforce", "off"])
def test_what_the_profile_says_of_the_run_is_returned(healthy: Incident, tmp_path: Path, asked: str, mode: str) -> None:
    script = SCRIPT.replace("gate.require(", "said = gate.require(").replace('print("started"', "print(said")
    done = subprocess.run(
        [healthy.venv.python, "-c", script.format(arguments=f"{asked!r}, mode={mode!r}, reason='r'")],
        cwd=healthy.root,
        env=environment(healthy.root, {"ENVDOCTOR_GATE_LOG": str(tmp_path / "gate.log")}),
        capture_output=True,
        text=True,
        check=False,
    )
    admitted = Admitted(profile="small", preset="", expected=Expected())
    assert (done.returncode, done.stdout) == (0, f"{admitted} []\n"), done.stderr


def test_a_broken_stack_is_refused_with_the_report(broken: Incident) -> None:
    assert start(broken) == Outcome(code=1, out="", err=f"{report(broken)}\n{ALONE}")


def test_every_rank_refuses_and_explains_where_no_other_does(broken: Incident) -> None:
    first = start(broken, extra={"RANK": "8", "LOCAL_RANK": "0"})
    assert first == Outcome(code=1, out="", err=f"{report(broken)}\n{REFUSED.format(who='rank 8')}")
    assert start(broken, extra={"RANK": "9", "LOCAL_RANK": "1"}) == Outcome(
        code=1, out="", err=f"{REFUSED.format(who='rank 9')}{report(broken)}\n"
    )


@pytest.mark.parametrize("where", ["arguments", "environment"])
@pytest.mark.parametrize(("mode", "codes"), [("warn", ["ED201"]), ("off", [])])
def test_a_bypass_starts_and_is_logged(
    broken: Incident, tmp_path: Path, mode: str, codes: list[str], where: str
) -> None:
    log = tmp_path / "new" / "gate.log"
    extra = {"ENVDOCTOR_GATE_LOG": str(log)}
    if where == "environment":
        extra |= {"ENVDOCTOR_GATE": mode, "ENVDOCTOR_GATE_REASON": "no cudnn here"}
        outcome = start(broken, extra=extra)
    else:
        outcome = start(broken, f'"small", mode="{mode}", reason="no cudnn here"', extra)
    passed = f"; findings let through: {codes[0]}" if codes else ""
    said = f"warning: envdoctor gate: mode {mode} for profile small, because: no cudnn here{passed}\n"
    shown = f"{report(broken)}\n" if mode == "warn" else ""
    assert outcome == Outcome(code=0, out=STARTED, err=shown + said)
    entry = json.loads(log.read_text())
    assert sorted(entry) == ["at", "command", "found", "mode", "prefix", "profile", "reason", "user"]
    assert (entry["mode"], entry["reason"], entry["found"], entry["prefix"]) == (
        mode,
        "no cudnn here",
        codes,
        str(broken.venv.prefix),
    )


def test_the_log_grows_beside_the_train_script(healthy: Incident) -> None:
    for number in range(2):
        start(healthy, f'"small", mode="off", reason="try {number}"')
    lines = (healthy.root / ".envdoctor/gate.log").read_text().splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["try 0", "try 1"]


def test_a_log_that_cannot_be_written_stops_nothing(healthy: Incident) -> None:
    outcome = start(healthy, '"small", mode="off", reason="r"', {"ENVDOCTOR_GATE_LOG": "/dev/null/logs/gate.log"})
    assert outcome == Outcome(
        code=0,
        out=STARTED,
        err="warning: envdoctor gate: mode off for profile small, because: r\n"
        "warning: envdoctor gate: cannot write /dev/null/logs/gate.log: Not a directory; "
        "this bypass is recorded here only\n",
    )


@pytest.mark.parametrize(
    ("arguments", "extra", "message"),
    [
        (
            '"small"',
            {"ENVDOCTOR_GATE": "off"},
            "mode `off` needs a reason, which is logged\n\n"
            'hint: say why: ENVDOCTOR_GATE_REASON="...", `envdoctor run --reason`, or `gate.require(reason=...)`',
        ),
        (
            '"small"',
            {"ENVDOCTOR_GATE": "of"},
            "`of` is not a gate mode\n\nhint: ENVDOCTOR_GATE is one of enforce, warn, off",
        ),
        (
            '"smal"',
            {},
            "no profile is called `smal`\n\nhint: known here: 21k-toks, cpu-smoke, pypi-cu128, small; looked in "
            "[TMP]/profiles and in those of the folders above it, up to /; a profile's path works anywhere",
        ),
    ],
    ids=["no reason", "no mode", "no profile"],
)
def test_what_cannot_be_used_is_refused(healthy: Incident, arguments: str, extra: dict[str, str], message: str) -> None:
    assert start(healthy, arguments, extra) == Outcome(code=2, out="", err=f"error: envdoctor gate: {message}\n")


def test_a_torch_from_elsewhere_is_refused(healthy: Incident) -> None:
    other = healthy.root / "other"
    (other / "torch").mkdir(parents=True)
    (other / "torch/__init__.py").write_text("")
    said = (
        "error: envdoctor gate: `import torch` takes [TMP]/other/torch in this process; "
        "examined was [TMP]/.venv/lib/[LIB]/site-packages/torch\n\n"
        "hint: take what puts it there out of sys.path, or examine that one\n"
    ).replace("[LIB]", healthy.venv.site_packages.parent.name)
    inserted = f'(sys.path.insert(0, {str(other)!r}), "small")[1]'
    assert start(healthy, inserted) == Outcome(code=1, out="", err=said + ALONE)


@pytest.mark.parametrize(
    ("mode", "reason", "environ", "chosen"),
    [
        (None, "", {}, ("enforce", "")),
        (None, "", {"ENVDOCTOR_GATE": ""}, ("enforce", "")),
        (None, "", {"ENVDOCTOR_GATE": "warn", "ENVDOCTOR_GATE_REASON": " r "}, ("warn", "r")),
        ("enforce", "", {"ENVDOCTOR_GATE": "off", "ENVDOCTOR_GATE_REASON": "r"}, ("enforce", "r")),
        ("off", "mine", {"ENVDOCTOR_GATE_REASON": "theirs"}, ("off", "mine")),
    ],
)
def test_the_argument_beats_the_environment(
    mode: str | None, reason: str, environ: dict[str, str], chosen: tuple[str, str]
) -> None:
    assert choose(mode, reason, environ) == chosen


def test_a_blank_reason_is_none() -> None:
    with pytest.raises(UsageError, match="mode `warn` needs a reason"):
        choose("warn", "  ", {})


def test_an_interpreter_without_packaging_is_told_so_and_not_with_a_traceback(tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['packaging'] = None\n"
        "from envdoctor import gate\ngate.require('21k-toks')\nprint('started')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env=_without_gate()
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert without_waits(done.stderr) == (
        f"error: envdoctor gate: this interpreter lacks packaging.version, so nothing can be said about "
        f"{sys.prefix}\n\n"
        f"hint: look from outside: `envdoctor check {sys.prefix} --profile 21k-toks`\n"
    )


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_log_that_is_a_pipe_or_a_link_holds_no_launch_and_is_not_written_through(
    healthy: Incident, tmp_path: Path, kind: str
) -> None:
    log = healthy.root / ".envdoctor/gate.log"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    precious = tmp_path / "precious"
    precious.touch()
    os.mkfifo(log) if kind == "pipe" else log.symlink_to(precious)
    outcome = start(healthy, '"small", mode="off", reason="r"')
    log.unlink()
    why = "No such device or address" if kind == "pipe" else "Too many levels of symbolic links"
    assert (outcome.code, outcome.out, precious.read_text()) == (0, STARTED, "")
    assert outcome.err.endswith(f"cannot write .envdoctor/gate.log: {why}; this bypass is recorded here only\n")


CRASHING = """\
CODE, NAME, AREA = "ED999", "crashing-rule", "Environment"
def run(case):
    raise KeyError("gone")
"""
RULE = "(__import__('envdoctor.checks').checks.__path__.append('rules'), 'small')[1]"
PROBE = "(__import__('envdoctor.doctor.heading').doctor.heading.__dict__.pop('_torch'), 'small')[1]"
REASON = {"ENVDOCTOR_GATE": "warn", "ENVDOCTOR_GATE_REASON": "r"}


def test_a_rule_that_crashes_stops_no_training_that_is_only_warned(healthy: Incident) -> None:
    (healthy.root / "rules").mkdir()
    (healthy.root / "rules/crashing.py").write_text(CRASHING)
    told = "could not tell:\n  ED999 crashing-rule: internal error: KeyError: 'gone', raised in rules/crashing.py:3\n"
    warned = start(healthy, RULE, REASON)
    assert (warned.code, warned.out) == (0, STARTED)
    assert told in warned.err
    assert warned.err.endswith("\nwarning: envdoctor gate: mode warn for profile small, because: r\n")
    enforced = start(healthy, RULE)
    assert (enforced.code, enforced.out) == (3, "")
    assert told in enforced.err
    assert enforced.err.endswith(ALONE)


def test_a_gate_that_crashes_stops_no_training_that_is_only_warned(broken: Incident) -> None:
    said = (
        "NameError: name '_torch' is not defined\n"
        "error: envdoctor gate: internal error: NameError: name '_torch' is not defined, raised in "
        "doctor/heading.py:10, so nothing can be said about [TMP]/.venv\n\n"
        "hint: look from outside: `envdoctor check [TMP]/.venv --profile small -v`\n"
    )
    bypassed = (
        "warning: envdoctor gate: mode warn for profile small, because: r; findings let through: could-not-tell\n"
    )
    warned = start(broken, PROBE, REASON)
    assert (warned.code, warned.out) == (0, STARTED)
    assert warned.err.startswith("Traceback (most recent call last):\n")
    assert warned.err.endswith(said + bypassed)
    enforced = start(broken, PROBE)
    assert (enforced.code, enforced.out) == (3, "")
    assert enforced.err.endswith(said)


LACKING = f"""\
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from envdoctor import gate

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def code_of(mode, name=""):
    if not (child := os.fork()):
        finder = Lacking()
        finder.name = name
        sys.meta_path.insert(0, finder)
        try:
            gate.require("small", mode=mode, reason="a test")
        except SystemExit as end:
            os._exit(end.code)
        except BaseException:
            os._exit(99)
        if not name:
            os.write(there, " ".join(sys.modules.keys() - known - {{"envdoctor.doctor.unexamined"}}).encode())
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

known = set(sys.modules)
here, there = os.pipe()
code_of("warn")
found = os.read(here, 1 << 16).decode().split()
names = sorted(name for name in found if name.count(".") < 2 and not name.startswith("_"))
print(len(names) > 20, "json" in names, "zlib" in names, "envdoctor.errors" in names)
print([name for name in names if code_of("warn", name)])
print([name for name in names if code_of("enforce", name) in (0, 99)])
"""


def test_a_module_that_the_gate_lacks_stops_no_training_that_is_only_warned_and_passes_no_other(
    broken: Incident,
) -> None:
    done = subprocess.run(
        [broken.venv.python, "-c", LACKING],
        cwd=broken.root,
        env=environment(broken.root, {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True True True True\n[]\n[]\n"


def _without_gate() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENVDOCTOR_")}
    return kept | {"PYTHONPATH": str(ROOT)}


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
STRICT = "import io, sys\nsys.stderr = io.TextIOWrapper(sys.stderr.buffer, encoding='ascii', line_buffering=True)\n"


def test_a_stream_that_refuses_signs_gets_them_written_out(broken: Incident, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locale knows ASCII alone, and the script has put a strict stream in the place of stderr."""
    monkeypatch.setitem(globals(), "SCRIPT", STRICT + SCRIPT)
    written = report(broken).encode("ascii", "backslashreplace").decode()
    assert start(broken, extra=ASCII) == Outcome(code=1, out="", err=f"{written}\n{ALONE}")


@pytest.mark.parametrize("place", ["None", "open('/dev/full', 'w')", "closed"])
def test_a_stream_that_takes_nothing_stops_no_training(
    healthy: Incident, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    made = "closed = open('/dev/null', 'w')\nclosed.close()\n"
    monkeypatch.setitem(globals(), "SCRIPT", f"{made}import sys\nsys.stderr = {place}\n{SCRIPT}sys.stderr = None\n")
    outcome = start(healthy, '"small", mode="off", reason="r"', {"ENVDOCTOR_GATE_LOG": str(tmp_path / "log")})
    assert outcome == Outcome(code=0, out=STARTED, err="")


@pytest.mark.parametrize("place", ["None", "closed"])
def test_a_stream_that_takes_nothing_changes_no_refusal(
    broken: Incident, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Found broken is 1; could not be examined would be 3."""
    made = "closed = open('/dev/null', 'w')\nclosed.close()\n"
    monkeypatch.setitem(globals(), "SCRIPT", f"{made}import sys\nsys.stderr = {place}\n{SCRIPT}")
    assert start(broken) == Outcome(code=1, out="", err="")


def test_a_name_that_the_locale_cannot_write_is_the_locales_fault(tmp_path: Path) -> None:
    """Which no restart in UTF-8 can heal inside somebody's process: the gate says what to set."""
    incident = make_gated_incident(tmp_path)
    signs = {"signs/__init__.py": "", "signs/é.py": ""}
    install(incident.venv, make_wheel(tmp_path / "wheels", "signs", "1.0", files=signs))
    refused = start(incident, extra=ASCII)
    said = " ".join(refused.err.split())
    assert refused.code == 3
    assert "a file name has '\\xe9', and this process was started with names in ascii: set PYTHONUTF8=1" in said
    assert "internal error" not in said
    assert start(incident, extra={**ASCII, "PYTHONUTF8": "1"}).code == 0
