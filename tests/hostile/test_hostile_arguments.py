"""What is typed, or passed on by another program, is quoted in messages: it writes no line of its own there."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envdoctor.cli import leaving
from tests.factories.make_incident import Incident
from tests.factories.run_envdoctor import run_envdoctor

EVIL = "a\nerror: forged\x1b[2J\r\u2028b"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|(?m:^error: forged)")
VENV = ("--venv", ".venv")
COMMANDS: tuple[tuple[str, ...], ...] = (
    (EVIL,),
    ("check", EVIL),
    ("check", "-p", EVIL, ".venv"),
    ("check", f"--profile={EVIL}", ".venv"),
    ("check", "--ignore", EVIL, ".venv"),
    ("check", "--ignore", f"ED403={EVIL}", ".venv"),
    ("check", "--require", EVIL, ".venv"),
    ("check", "--lock", EVIL, ".venv"),
    ("check", "--format", EVIL, ".venv"),
    ("check", "-o", f"no/{EVIL}/folder", ".venv"),
    ("check", "--fingerprint", EVIL),
    ("check", "--root", EVIL),
    (f"check --{EVIL}",),
    ("check", f"--{EVIL}"),
    ("why", EVIL, *VENV),
    ("why", f"/no/{EVIL}", *VENV),
    ("impact", "remove", EVIL, *VENV),
    ("impact", "install", EVIL, *VENV),
    ("diff", EVIL, ".venv"),
    ("explain", EVIL),
    ("schema", EVIL),
    ("bisect", EVIL, ".venv", "--", "true"),
    ("bisect", "--measure", EVIL, ".venv", ".venv", "--", "true"),
    ("try", *VENV, "--discard", "--", EVIL),
    ("try", *VENV, "--discard", "--test", f"'{EVIL}", "--", "uv", "pip", "install", "x"),
    ("capture", EVIL, *VENV),
    ("lock", EVIL),
    ("lock", "requirements.txt", "-o", f"no/{EVIL}/x"),
    ("profile", "new", EVIL, "--from", "lockfiles/small.txt"),
    ("profile", "new", "x", "--from", EVIL),
    ("restore", "-p", EVIL, *VENV),
    ("restore", "-p", "small", "--venv", f"no/{EVIL}", "--dry-run", "--offline"),
    ("restore", "-p", "small", "--python", EVIL, "--dry-run", "--offline"),
    ("repair", "--venv", EVIL),
    ("rollback", EVIL, *VENV),
    ("rollback", "--venv", EVIL),
    ("history", EVIL),
    ("prune", "--keep", EVIL),
    ("run", "-p", EVIL, "--", "true"),
    ("run", "-p", "small", *VENV, "--", EVIL),
    ("run", "-p", "small", *VENV, "--gate", "off", "--reason", EVIL, "--", "true"),
    ("cache", "save", EVIL, *VENV),
    ("cache", "restore", EVIL, *VENV),
    ("cache", "status", "-p", EVIL, *VENV),
    ("cache", "gc", "--max-size", EVIL),
    ("gate", "write", EVIL),
    ("gate", "add", "-p", EVIL),
    ("fetch", "-p", "small", "--python", EVIL),
    ("sbom", "--venv", EVIL),
)


def test_no_argument_writes_a_line(project: Incident) -> None:
    for words in COMMANDS:
        outcome = run_envdoctor(*words, folder=project.root)
        said = outcome.out + outcome.err
        assert "Traceback" not in said, (words, said)
        assert (found := RAW.search(said)) is None, (words, said[: found.end() + 80])
        assert outcome.code in (0, 1, 2, 3, 4), (words, said)


WORD = st.text(st.sampled_from("ab\n\r\x1b\u2028\x85=/, "), min_size=1, max_size=12)


@pytest.mark.property
@given(words=st.lists(WORD, min_size=1, max_size=3), joint=st.sampled_from((" ", "`", ": ")))
@example(words=["\n", "a\nb"], joint=" ")
def test_a_message_has_the_lines_that_it_was_written_with(words: list[str], joint: str) -> None:
    quoted = [word for word in words if word.strip()]
    text = leaving.in_line(f"first{joint}{joint.join(quoted)}{joint}X\nsecond", words)
    assert len(text.split("\n")) == 2, text


def test_a_link_that_leads_to_itself_is_no_venv_and_no_end(project: Incident) -> None:
    (project.root / "self").symlink_to("self")
    for words in (
        ("check", "self"),
        ("history", "self"),
        ("restore", "-p", "small", "--venv", "self", "--dry-run", "--offline"),
        ("rollback", "--venv", "self"),
        ("prune", "--keep", "1", "--venv", "self"),
        ("repair", "--venv", "self"),
        ("check", "--write-baseline", "self", ".venv"),
        ("check", "-o", "self", ".venv"),
    ):
        outcome = run_envdoctor(*words, folder=project.root)
        assert "itself failed" not in outcome.err, (words, outcome.err)
        assert outcome.code in (0, 1, 2), (words, outcome.err)
