"""Markdown as a CommonMark parser reads it, and what of names it hides."""

import socket
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from envdoctor.report.formats import markdown
from tests.factories.run_envdoctor import run_envdoctor
from tests.formats.make_outline import HOSTILE, make_outline
from tests.formats.scene import COMMANDS, Scene

READER = MarkdownIt("commonmark").enable("table")


def texts(source: str, kind: str) -> list[str]:
    """Return the texts of all blocks of that kind, as they are read."""
    tokens = READER.parse(source)
    found = []
    for at, token in enumerate(tokens):
        if token.type == kind and kind == "fence":
            found.append(token.content.rstrip("\n"))
        elif token.type == kind:
            found.append("".join(child.content for child in tokens[at + 1].children or ()))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_writes_it(scene: Scene, command: str) -> None:
    done = run_envdoctor(*COMMANDS[command], "--format", "markdown", folder=scene.root)
    assert done.err == ""
    head = texts(done.out, "heading_open")[0]
    assert head.startswith(f"envdoctor {'impact remove' if command == 'impact' else command}: ")
    assert f"exit code {done.code}, envdoctor" in done.out


def test_causes_come_first_then_what_collect_env_gives(scene: Scene) -> None:
    out = run_envdoctor(*COMMANDS["check"], "--format", "markdown", folder=scene.root).out
    headings = texts(out, "heading_open")
    assert [head.partition(": ")[0] for head in headings] == [
        "envdoctor check",
        "❌ error[ED201]",
        "❌ error[ED404]",
        "ℹ️ note[ED403]",  # noqa: RUF001
    ]
    machine, distributions = texts(out, "fence")[-2:]
    names = [line.partition("  ")[0] for line in machine.splitlines()]
    assert names[:4] == ["Python", "torch", "CUDA of the build", "torch commit"]
    assert distributions.splitlines() == ["nvidia-cudnn-cu12==9.19.0.56", "torch==2.11.0+cu128"]


def test_names_are_hidden_unless_they_are_wanted(scene: Scene, tmp_path: Path) -> None:
    home = tmp_path / "home/somebody"
    home.mkdir(parents=True)
    variables = {"HOME": str(home), "LD_LIBRARY_PATH": f"{home}/lib:/srv/{socket.gethostname()}-disk/lib"}
    shown = [
        run_envdoctor("check", "--format", "markdown", *more, folder=scene.root, extra=variables).out
        for more in ((), ("--no-redact",))
    ]
    assert [(str(home) in text, socket.gethostname() in text) for text in shown] == [(False, False), (True, True)]
    plain = run_envdoctor("check", "--json", folder=scene.root, extra=variables).out
    assert str(home) in plain


def test_what_a_name_holds_is_no_markup() -> None:
    source = markdown.render(make_outline(HOSTILE))
    inline = [child.type for token in READER.parse(source) for child in token.children or ()]
    assert set(inline) <= {"text", "code_inline", "softbreak", "strong_open", "strong_close", "text_special"}
    blocks = {token.type for token in READER.parse(source)}
    assert {token.content.strip() for token in READER.parse(source) if token.type == "html_block"} == {
        "<details><summary>Environment</summary>",
        "<details><summary>1 of 2 distributions</summary>",
        "</details>",
    }
    assert "blockquote_open" not in blocks
    assert f"uv pip install {HOSTILE}".replace("\x00", "\ufffd") in texts(source, "fence")
