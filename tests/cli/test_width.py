"""What a terminal shows is no wider than it is; what is there to be copied stays whole."""

import contextlib
import json
import os
import pty
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.model.finding import Finding, Remediation
from envdoctor.report.commands import bisect, repair
from envdoctor.report.fitted import columns, fitted
from envdoctor.report.plan_text import kept_lines
from envdoctor.report.style import Style
from tests.factories import make_cache
from tests.factories.make_incident import Incident, make_incident, sources_of
from tests.factories.run_envdoctor import COMMAND, ROOT, environment, run_envdoctor

COMMANDS = (
    "check -p small",
    "check -v",
    "check --fix --dry-run",
    "why torch",
    "why libcudnn.so.9",
    "impact remove torch",
    "diff small .venv",
    "history",
    "repair --dry-run",
    "restore -p small --dry-run --wheelhouse wheels",
    "cache status",
    "cache list",
    "cache gc --older-than 0 --dry-run",
    "fleet check --files n1.json n2.json n3.json",
    "explain ED201",
    "explain ED411",
    "explain --log train.log",
    "checks",
    "profiles",
    "config",
    "gate add -p small",
)
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_ALONE = re.compile(r"[| ]+(?:uv pip|uv venv|envdoctor|export|unset|rm|mv) [^ ]")
_COMMAND = re.compile(r"(?:uv|envdoctor|pip|python|export|unset|rm|mv|env) |\S+/bin/\S+ ")


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    made = make_incident(tmp_path_factory.mktemp("width"))
    for name in ("n1.json", "n2.json"):
        run_envdoctor("fingerprint", "-o", name, folder=made.root)
    made.lose()
    run_envdoctor("fingerprint", "-o", "n3.json", folder=made.root)
    log = "RuntimeError: CUDA out of memory\nImportError: libcudnn.so.9: cannot open shared object file: No such file\n"
    (made.root / "train.log").write_text(log)
    make_cache.filled(made.root / "cache")
    return made


def on_terminal(line: list[str], folder: Path, told: Mapping[str, str], stream: str = "stdout") -> str:
    """Return what a command writes to a terminal as its result, or on stderr."""
    ours, theirs = pty.openpty()
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
    with subprocess.Popen(line, cwd=folder, env=told, stdin=subprocess.DEVNULL, **streams):
        os.close(theirs)
        found = b""
        with contextlib.suppress(OSError):  # EIO: the command has ended
            while part := os.read(ours, 65536):
                found += part
    os.close(ours)
    return found.decode().replace("\r\n", "\n")


def too_wide(text: str, width: int) -> list[str]:
    """Return the lines that are wider than that and hold more than one thing that stays whole."""
    return [line for line in text.splitlines() if len(line) > width and not whole(line.strip())]


def whole(line: str) -> bool:
    """Tell whether a line is one word, one command, or what stands in backticks with what clings to it."""
    return len(re.sub(r"`[^`]*`", "`", line.lstrip("| ")).split()) == 1 or bool(_COMMAND.match(line.lstrip("| ")))


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("words", COMMANDS)
def test_no_line_of_a_report_is_wider_than_the_terminal(incident: Incident, words: str, width: int) -> None:
    extra = {
        **sources_of(incident.root),
        "COLUMNS": str(width),
        "TORCHINDUCTOR_CACHE_DIR": str(incident.root / "cache"),
        "ENVDOCTOR_COLOR": "always" if width == 60 else "never",
    }
    told = environment(incident.root, extra)
    line = [*COMMAND, *words.split()]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(line, incident.root, told))
    assert plain.count("\n") > 1, plain
    assert too_wide(plain, width) == []


def test_a_file_and_a_pipe_get_whole_lines(incident: Incident) -> None:
    piped = run_envdoctor("checks", folder=incident.root)
    written = run_envdoctor("explain", "ED201", folder=incident.root)
    assert max(map(len, piped.out.splitlines())) > 120
    assert max(map(len, written.out.splitlines())) > 110


@pytest.mark.parametrize("words", ["fingerprint", "sbom .venv"])
def test_a_document_keeps_its_lines(incident: Incident, words: str) -> None:
    told = environment(incident.root, sources_of(incident.root) | {"COLUMNS": "40"})
    assert json.loads(on_terminal([*COMMAND, *words.split()], incident.root, told))


_WORDS = st.lists(st.text("abc/-`", min_size=1, max_size=60), max_size=30)


@pytest.mark.property
@given(st.integers(40, 200), st.integers(0, 12), _WORDS, st.sampled_from([" ", "  ", "   "]))
def test_words_are_kept_in_order_and_lines_fit(width: int, indent: int, words: list[str], gap: str) -> None:
    line = " " * indent + gap.join(words)
    shown = fitted(line, width, color=False)
    assert shown.split() == line.split()
    assert too_wide(shown, width) == []


@pytest.mark.property
@given(st.integers(40, 200), _WORDS)
def test_a_command_is_one_line_with_every_space_of_it(width: int, words: list[str]) -> None:
    command = f"uv pip install {'  '.join(words)}".replace("`", "")
    style = Style(color=True)
    text = f"help: {'install the owner again and then ' * 9}\n  {style.paint('command', command)}\n"
    lines = fitted(text, width, color=False).splitlines()
    assert lines[-1] == f"  {command}"
    colored = fitted(text, width, color=True)
    assert [columns(line) for line in colored.splitlines()] == [len(line) for line in lines]


_FOLDERS = st.text("ab 'é$-", min_size=1, max_size=60).map(lambda name: Path("/srv") / name.strip(" ").strip("/"))


def _way_back(folder: Path, style: Style) -> tuple[str, list[str]]:
    lines = kept_lines(folder, folder.with_name("kept"), (), style)
    return "\n".join(lines), [f"envdoctor rollback --venv {shlex.quote(str(folder))}"]


def _left(folder: Path, style: Style) -> tuple[str, list[str]]:
    commands = (f"uv pip install --python {shlex.quote(f'{folder}/bin/python')} --no-deps 'a==1'", "export X='a  b'")
    finding = Finding(
        code="ED301",
        name="",
        severity="error",
        confidence="high",
        title="t " * 60,
        subject="s",
        evidence=(),
        remediation=Remediation(text="do this " * 30, commands=commands),
    )
    return "\n".join(repair._remaining_lines([finding], style)), list(commands)


def _undo(folder: Path, style: Style) -> tuple[str, list[str]]:
    commands = [f"envdoctor bisect --undo --venv {shlex.quote(str(folder))}", f"rm {shlex.quote(str(folder))}"]
    undo = SimpleNamespace(command=commands[0], by_hand=commands[1:])
    return "\n".join(bisect._undo_lines(SimpleNamespace(undo=undo), style)), commands


@pytest.mark.property
@pytest.mark.parametrize("rendered", [_way_back, _left, _undo])
@given(width=st.integers(40, 200), folder=_FOLDERS, color=st.booleans())
def test_every_command_of_a_report_is_whole_at_every_width(
    rendered: Callable[[Path, Style], tuple[str, list[str]]], width: int, folder: Path, *, color: bool
) -> None:
    text, commands = rendered(folder, Style(color=True))
    shown = _COLORS.sub("", fitted(text, width, color=color)).split("\n")
    for command in commands:
        assert any(line.endswith(command) for line in shown), shown
    assert max(map(len, (line for line in shown if not any(line.endswith(one) for one in commands)))) <= width


@pytest.mark.parametrize("words", COMMANDS)
def test_what_is_to_be_copied_stands_whole_in_every_report(incident: Incident, words: str) -> None:
    extra = {**sources_of(incident.root), "TORCHINDUCTOR_CACHE_DIR": str(incident.root / "cache")}
    told = environment(incident.root, extra)
    wide = subprocess.run(
        [*COMMAND, *words.split()], cwd=incident.root, env=told, capture_output=True, text=True, check=False
    ).stdout
    quoted = {found.replace("\n", "") for found in re.findall(r"`[^`\n]*`", wide)}
    alone = {line.strip("| ") for line in wide.splitlines() if _ALONE.match(line)}
    narrow = on_terminal([*COMMAND, *words.split()], incident.root, told | {"COLUMNS": "40"})
    shown = _COLORS.sub("", narrow)
    assert [command for command in sorted(quoted | alone) if command not in shown] == []


def test_an_error_on_a_terminal_is_no_wider_and_its_commands_stay_whole(incident: Incident) -> None:
    command = [*COMMAND, "fleet", "cache", "push", "a-snapshot-of-mine"]
    told = environment(incident.root, {"COLUMNS": "40"})
    assert on_terminal(command, incident.root, told, "stderr") == (
        "error: no nodes are named\n\nhint: say which nodes: `--hosts FILE`,\n  `--slurm` or `--ray ADDRESS`\n"
    )
    written = subprocess.run(command, cwd=incident.root, env=told, capture_output=True, text=True, check=False)
    assert written.stderr == (
        "error: no nodes are named\n\nhint: say which nodes: `--hosts FILE`, `--slurm` or `--ray ADDRESS`\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hint: `uv pip install torch==2.10.0 numpy==2.4.0`", "hint:\n  `uv pip install torch==2.10.0 numpy==2.4.0`"),
        ("error: the venv of this project is not there", "error: the venv of this project is not\n  there"),
        (
            "hint: `envdoctor check --venv /srv/venv -v` says why",
            "hint:\n  `envdoctor check --venv /srv/venv -v`\n  says why",
        ),
        ("kubectl wait --for=condition=complete job/x", "kubectl wait --for=condition=complete job/x"),
        ("  a line of evidence that is longer than it is wide", "  a line of evidence that is longer than it is wide"),
    ],
)
def test_prose_alone_is_broken(text: str, shown: str, incident: Incident) -> None:
    program = f"from envdoctor.cli.terminal import say; say({text!r})"
    command = [COMMAND[0], "-c", program]
    told = environment(incident.root, {"COLUMNS": "40", "PYTHONPATH": str(ROOT)})
    assert on_terminal(command, incident.root, told, "stderr") == f"{shown}\n"
