"""Markdown for an issue or a pull request: the causes first, then what `torch.utils.collect_env` would ask for.

Text of the environment is escaped: a backslash before every ASCII punctuation of CommonMark's chapter 2.4 that could
begin markup, and commands in a fence that is longer than any run of backticks inside it.
"""

import re
from collections.abc import Iterator

from envdoctor.model.wording import counted
from envdoctor.report.formats.outline import Outline, OutlineEntry

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!@&$])")
_FEW = 3
_SIGNS = {"ok": "✅", "note": "ℹ️", "warning": "⚠️", "error": "❌", "unknown": "❔", "not-applicable": "–"}  # noqa: RUF001
# As collect_env lists them (torch/utils/collect_env.py, DEFAULT_PIP_PATTERNS), and what belongs to training.
_RELEVANT = re.compile(
    r"torch|numpy|triton|nvidia|cuda|cudnn|onnx|optree|flake8|mypy|transformers|accelerate|flash|vllm|deepspeed|xformers"
)


def render(outline: Outline) -> str:
    """Return the whole text, ending in a newline."""
    blocks = list(_blocks(outline))
    return "\n\n".join(blocks) + "\n"


def _blocks(outline: Outline) -> Iterator[str]:
    yield f"## envdoctor {outline.command}: {escaped(outline.conclusion)}"
    yield "\n".join(f"- {name}: {_code(value)}" for name, value in (("looked at", outline.subject), *outline.context))
    for bundle in outline.bundles:
        if len(bundle) > _FEW:
            yield from _bundle(bundle[0][0], [entry.line for entry, _ in bundle])
        else:
            for entry, others in bundle:
                yield from _cause(entry, others)
    if outline.gaps:
        yield "### Could not tell"
        yield "\n".join(f"- {escaped(f'{gap.code} {gap.name}: {gap.reason}')}" for gap in outline.gaps)
    if outline.waived:
        yield "### Waived"
        yield "\n".join(
            f"- {escaped(f'{item.entry.code} {item.entry.title}, because: {item.reason}')}" for item in outline.waived
        )
    if outline.rows:
        yield "| | looked at | found |\n|---|---|---|\n" + "\n".join(
            f"| {_SIGNS[row.state]} | {escaped(row.area)} | {escaped(row.summary)} |" for row in outline.rows
        )
    yield from _environment(outline)
    yield f"exit code {outline.exit_code}, envdoctor {outline.tool_version}"


def _cause(entry: OutlineEntry, others: tuple[OutlineEntry, ...]) -> Iterator[str]:
    at = f" ({_code(f'{entry.place.file}:{entry.place.line}')})" if entry.place else ""
    yield f"### {_SIGNS[entry.level]} {escaped(f'{entry.level}[{entry.code}]: {entry.title}')}{at}"
    lines = [*entry.evidence, *([f"confidence: {entry.confidence}"] if entry.confidence != "high" else [])]
    if lines:
        yield "\n".join(f"- {escaped(line)}" for line in lines)
    if others:
        named = ", ".join(f"{other.code} {other.name} ({other.subject})" for other in others)
        yield f"Explains {counted(len(others), 'more finding')}: {escaped(named)}"
    if entry.remedy:
        yield f"**Fix:** {escaped(entry.remedy)}"
    if entry.commands:
        yield fenced("\n".join(entry.commands), "console")


def _bundle(entry: OutlineEntry, lines: list[str]) -> Iterator[str]:
    """Yield many causes of one kind as one list."""
    yield f"### {_SIGNS[entry.level]} {escaped(f'{entry.level}[{entry.code}]')}: {counted(len(lines), 'finding')}"
    yield "\n".join(f"- {escaped(line)}" for line in lines)


def _environment(outline: Outline) -> Iterator[str]:
    if outline.machine:
        width = max(len(name) for name, _ in outline.machine)
        text = "\n".join(f"{name.ljust(width)}  {value}" for name, value in outline.machine)
        yield _folded("Environment", text)
    if outline.distributions:
        kept = {name: version for name, version in outline.distributions.items() if _RELEVANT.search(name)}
        text = "\n".join(f"{name}=={version}" for name, version in kept.items())
        number = f"{len(kept)} of {counted(len(outline.distributions), 'distribution')}"
        yield _folded(number, text or "none of torch's")


def _folded(summary: str, text: str) -> str:
    return f"<details><summary>{escaped(summary)}</summary>\n\n{fenced(text)}\n\n</details>"


def fenced(text: str, language: str = "") -> str:
    """Return a fenced block that no backticks of the text end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def escaped(text: str) -> str:
    """Return text on one line that no renderer takes for markup, a mention or a link."""
    flat = " ".join(text.split())
    return _SPECIAL.sub(r"\\\1", flat).replace("://", ":\u200b//").replace("\\@", "@\u200b")


def _code(text: str) -> str:
    flat = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    ticks = "`" * (longest + 1)
    gap = " " if flat.startswith("`") or flat.endswith("`") or not flat else ""
    return f"{ticks}{gap}{flat}{gap}{ticks}"
