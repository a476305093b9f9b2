"""What a terminal shows is no wider than it is; what is there to be copied stays whole."""

import contextlib
import os
import pty
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.report.fitted import columns, fitted
from envdoctor.report.style import Style
from tests.factories import make_cache
from tests.factories.make_incident import Incident, make_incident, sources_of
from tests.factories.run_envdoctor import COMMAND, environment, run_envdoctor

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


def on_terminal(line: list[str], folder: Path, told: Mapping[str, str]) -> str:
    """Return what a command writes to a terminal as its result."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        line, cwd=folder, env=told, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL
    ):
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


_WORDS = st.lists(st.text("abc/-`", min_size=1, max_size=60), max_size=30)


@pytest.mark.property
@given(st.integers(40, 200), st.integers(0, 12), _WORDS, st.sampled_from([" ", "  ", "   "]))
def test_words_are_kept_in_order_and_lines_fit(width: int, indent: int, words: list[str], gap: str) -> None:
    line = " " * indent + gap.join(words)
    shown = fitted(line, width, color=False)
    assert shown.split() == line.split()
    if not 5 <= indent <= 8:
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
