"""The commands that README and docs give: read from their blocks, as somebody would copy them."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.factories.run_envdoctor import ROOT

PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
MARKER = re.compile(r"<!--\s*not run:\s*(?P<reason>.+?)\s*-->")
"""Before a block: why no test runs it."""
ELSEWHERE = {
    r"^(make|git) ": "the checkout's own: tests/unit/test_makefile.py and CI run it",
    r"^docker ": "needs docker; tests/integration/test_dockerfile.py reads the file",
    r"^(pipx|uv tool|pip|uvx|uv) ": "installs from an index: tests/release/test_installed.py does",
    r"^envdoctor (lock|fetch) .*(--exclude-newer|--undated)": "needs an index that says when a wheel was uploaded",
    r"^(python|torchrun) .*(-m trainer|train\.py)": "needs the checkout's trainer, or GPUs",
    r" -m trainer": "needs the checkout's trainer",
    r"^(source |export PATH=)": "the test's own venvs stand for those of `make run`",
    r"[…<]|\.\.\.|(?<![\w-])[A-Z]+(?![\w-])(?!=)": "a form to fill in, no command to paste",
    r"^envdoctor cache undo$": "needs a clean-up before it: tests/cli/test_cache.py",
    r" /srv/": "a path of somebody's machine",
}
"""Form of a command -> where it is run instead, or why it cannot be."""
_PROMPT = re.compile(r"^\$ ")
_STARTS = re.compile(
    r"^(\$ |envdoctor |\.venv/bin/|export |source |make |docker |pipx |uvx? |pip |git |cd |torchrun |python |"
    r"ENVDOCTOR_)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a page."""

    page: str
    line: int
    text: str
    skip: str
    """Why it is not run here; empty when it is."""


def commands() -> list[Command]:
    """Return every command of every page, in order."""
    return [command for page in PAGES for command in _of_page(page, (ROOT / page).read_text())]


def _of_page(page: str, text: str) -> Iterator[Command]:
    for start, reason, block in _blocks(text):
        # Where there are prompts, what has none is output.
        prompts = any(_PROMPT.match(line) for line in block)
        lines = [line if _PROMPT.match(line) or not prompts else "" for line in block]
        at = 0
        while at < len(lines):
            line, first = lines[at], at
            while line.endswith("\\") and at + 1 < len(lines):
                at += 1
                line = line[:-1] + lines[at].strip()
            at += 1
            if _STARTS.match(line):
                command = re.sub(r"\s+#( .*)?$|\s{2,}\S.*$", "", _PROMPT.sub("", line)).strip()
                yield Command(page=page, line=start + first, text=command, skip=reason or _elsewhere(command))


def _elsewhere(command: str) -> str:
    for form, reason in ELSEWHERE.items():
        if re.search(form, command):
            return reason
    absent = [name for name in re.findall(r"\| ([a-z]+)\b(?!\()", command) if not shutil.which(name)]
    return f"{absent[0]} is not installed here" if absent else ""


def _blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield first line, reason not to run it, and lines of each fenced block of shell and each indented one."""
    lines = text.splitlines()
    reason, at = "", 0
    while at < len(lines):
        if found := MARKER.search(lines[at]):
            reason = found["reason"]
        elif fence := re.match(r"^(\s*)```(\w*)", lines[at]):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip().startswith("```"))
            if fence[2] in ("", "sh", "bash", "shell", "console"):
                yield at + 2, reason, [line.removeprefix(fence[1]) for line in lines[at + 1 : end]]
            reason, at = "", end
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            end = next((i for i in range(at, len(lines)) if lines[i] and not lines[i].startswith("    ")), len(lines))
            yield at + 1, reason, [line[4:] for line in lines[at:end]]
            reason, at = "", end - 1
        elif lines[at].strip():
            reason = ""
        at += 1


def spans() -> list[tuple[str, str]]:
    """Return (page, text) of each `envdoctor …` that stands in a sentence, without those that leave something out."""
    found = []
    for page in (*PAGES, *sorted(str(Path("docs/checks", path.name)) for path in (ROOT / "docs/checks").glob("*.md"))):
        text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
        found += [(page, span) for span in re.findall(r"`(envdoctor [^`\n]+)`", text)]
    return list(dict.fromkeys(found))
