"""Known error texts: as terminal text, and as the page docs/symptoms.md."""

from collections.abc import Mapping, Sequence

from envdoctor.analysis.symptoms import MOST_PLACES
from envdoctor.model.symptom import FoundSymptom, Recognized
from envdoctor.report.style import Style

GENERATED = "<!-- Written by `make docs` from envdoctor/catalog/symptoms; edit that instead. -->"
_INTRODUCTION = """\
An error text, the checks that find its cause, and the command that says which cause it is. `envdoctor check` prints the
evidence and the command that fixes it.

The same from the command line, for a text or for a log:

<!-- not run: tests/cli/test_explain.py does, with a log -->

    envdoctor explain "libcudnn.so.9: cannot open shared object file"
    envdoctor explain --log train.log
    python train.py 2>&1 | envdoctor explain --log -

The names in these texts (a library, a module, a version) stand for any other of their kind."""


def as_terminal_text(data: Recognized, style: Style = Style()) -> str:  # noqa: B008 - it is frozen
    """Return what is known of each text that was found."""
    blocks = [_block(found, data, style) for found in data.found]
    if data.left_out:
        blocks.append(f"Only the end of {_called(data.source)} was read: {data.left_out:,} bytes before it were not.")
    codes = [code for found in data.found for code, _, _ in found.causes if code]
    if codes:
        blocks.append(f"For more about a check, run `envdoctor explain {codes[0]}`.")
    return "\n\n".join(blocks) + "\n"


def _block(found: FoundSymptom, data: Recognized, style: Style) -> str:
    part = " of what was read" if data.left_out else ""
    more = " or more" if found.times >= MOST_PLACES else ""
    place = f"line {found.line}{part}" + (f", {found.times} times{more}: " if found.times > 1 else ": ")
    codes = max((len(f"{code} {name}") for code, name, _ in found.causes), default=0)
    lines = [(place if data.source else "") + found.seen, f"  {found.meaning}", "", "  Possible causes"]
    lines += [f"    {f'{code} {name}'.strip() or '-':{codes}}  {what}" for code, name, what in found.causes]
    if found.commands:
        lines += ["", "  Which one it is", *(f"    {style.paint('command', command)}" for command in found.commands)]
    return "\n".join(lines)


def _called(source: str) -> str:
    return "standard input" if source == "-" else source


def as_page(subjects: Mapping[str, Sequence[FoundSymptom]]) -> str:
    """Return docs/symptoms.md."""
    blocks = [GENERATED, "# Symptoms", _INTRODUCTION]
    for subject, symptoms in subjects.items():
        blocks.append(f"## {subject}")
        for found in symptoms:
            blocks += [f"### {_quoted(found.text)}", found.meaning, "\n".join(map(_cause, found.causes))]
            if found.commands:
                blocks.append(f"Which one it is: {', then '.join(f'`{command}`' for command in found.commands)}")
    return "\n\n".join(blocks) + "\n"


def _cause(cause: tuple[str, str, str]) -> str:
    code, name, what = cause
    return f"- [{code}](checks/{code}.md) {name}: {what}" if code else f"- no check: {what}"


def _quoted(text: str) -> str:
    """Return a text as code, also one that has backticks in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
