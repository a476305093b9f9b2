"""`--help` and the manual page: groups, examples that are commands, the width of the terminal, one source for both."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from envdoctor.cli.app import build
from envdoctor.cli.examples import EXAMPLES
from tests.factories.run_envdoctor import ROOT, run_envdoctor
from tools.man_page import page

ROLLBACK = """\
Usage: envdoctor rollback [OPTIONS] [N]

  Exchange the venv with a kept one, in one step; the venv before it becomes
  the newest backup.

  Exit codes: 0 done, 2 bad input, 4 failed with the venv as it was, 130
  declined or interrupted.

Arguments:
  N  Which one, as `envdoctor history` lists them. Default: the newest.

Environment:
  --venv VENV  A venv, its interpreter or a project with a .venv. Default:
               $VIRTUAL_ENV, $CONDA_PREFIX, or the nearest .venv.

Before something is changed:
  --dry-run      Show what would happen and change nothing.
  -y, --yes      Do not ask.
  --plan DIGEST  Carry out the plan that `--dry-run --json` showed with this
                 digest, without a question; refuse another.

Result:
  --format <text|json>  How the result is written to stdout.  [env var:
                        ENVDOCTOR_FORMAT; default: text]
  --json                The same as `--format json`.

How it is shown:
  --color <auto|always|never>  Colour the text. `auto`: on a terminal, unless
                               NO_COLOR is set; FORCE_COLOR forces it.  [env
                               var: ENVDOCTOR_COLOR; default: auto]
  -q, --quiet                  Show no progress; in a report one line a cause,
                               and the count.
  -v, --verbose                Show lists and consequences in full, and checks
                               that do not apply.
  --redact / --no-redact       For sharing: hide the names of users, homes and
                               this host. Markdown and GitHub do. Secrets
                               always are.
  -h, --help                   Show this message and exit.

Examples:
  envdoctor rollback
      the newest backup
  envdoctor rollback 2 --dry-run
      the plan of another
"""


def commands() -> Iterator[tuple[str, Any, Any]]:
    root = build()
    yield from _of(root, root.make_context("envdoctor", ["checks"]))


def _of(group: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        own = command.context_class(command, info_name=name, parent=context)
        if hasattr(command, "list_commands"):
            yield from _of(command, own)
        else:
            yield own.command_path.removeprefix("envdoctor "), command, own


def test_a_help_has_groups_and_examples(tmp_path: Any) -> None:
    told = run_envdoctor("rollback", "--help", folder=tmp_path, extra={"COLUMNS": "80"})
    assert (told.code, told.out, told.err) == (0, ROLLBACK, "")


@pytest.mark.parametrize("columns", [40, 60, 110])
def test_a_help_is_as_wide_as_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    helps = [(path, command.get_help(context)) for path, command, context in commands()]
    helps += [("", build().get_help(build().make_context("envdoctor", ["checks"])))]
    widest = 0
    for path, text in helps:
        examples = {example for example, _ in EXAMPLES[path]}
        widest = max(widest, *(len(line) for line in text.splitlines() if line.strip() not in examples))
    assert columns - 12 < widest <= columns


def test_every_example_is_a_command_line() -> None:
    known = {path: (command, context.parent) for path, command, context in commands()}
    assert sorted(EXAMPLES) == sorted(["", *known])
    for own, examples in EXAMPLES.items():
        for line, _ in examples:
            words = shlex.split(line)[1:]
            path = next(path for path in (" ".join(words[:many]) for many in (3, 2, 1)) if path in known)
            assert own in ("", path), line
            command, parent = known[path]
            command.make_context(path.split()[-1], words[len(path.split()) :], parent=parent)


def test_the_manual_page_is_up_to_date() -> None:
    assert (ROOT / "docs/envdoctor.1").read_text() == page(), "run `make docs`"


@pytest.mark.parametrize("reader", ["man --warnings -l", "mandoc -T lint -W warning"])
def test_readers_of_manual_pages_have_nothing_to_say(reader: str) -> None:
    program, *options = reader.split()
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    told = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
    done = subprocess.run(
        [program, *options, "docs/envdoctor.1"], cwd=ROOT, env=told, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    if program == "mandoc":
        # A date would be another one with every build.
        assert [line for line in done.stdout.splitlines() if 'missing date, using ""' not in line] == []
    else:
        text = " ".join(done.stdout.split())
        assert "envdoctor repair --dry-run" in text
        assert "Carry out the plan that `--dry-run --json` showed with this digest" in text
