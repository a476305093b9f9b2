"""The report a person reads: a line per area, then findings with the cause first, then the count and the exit code."""

from collections.abc import Iterator

from envdoctor.model.finding import BY_HAND, Finding, Severity
from envdoctor.model.header import Header
from envdoctor.model.verdict import Skipped, Verdict
from envdoctor.report.groups import CauseGroup, by_cause, by_remedy, primary, shared
from envdoctor.report.style import Style, printable

_SUBJECTS_SHOWN = 3
_PRIMARY_COLUMN = 88
_CODES_SHOWN = 6


def render(header: Header, verdict: Verdict, style: Style, *, fail_on: Severity = "error") -> str:
    """Return the whole report, ending in a newline. Quiet: one line a cause; verbose: the consequences in full."""
    groups = by_cause(verdict)
    first = primary(groups)
    together = by_remedy(groups)
    blocks = [[title_line(header, style)]] if style.verbosity >= 0 else []
    if style.verbosity >= 0:
        blocks.append(list(_areas(verdict, style)))
        leader = first.cause if first else None
        blocks += [list(_group(group, style, is_primary=group.cause is leader)) for group in together]
        blocks.append(list(_could_not_tell(verdict, style)))
        blocks.append(list(_waived(verdict, style)))
    else:
        blocks.append([_headline(group.cause, style, is_primary=False) for group in groups])
    blocks.append(list(_closing(verdict, groups, style, fail_on)))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def title_line(header: Header, style: Style) -> str:
    """Return the line that says what was examined and against which profile."""
    torch = f"torch {header.torch} (not imported)" if header.torch else f"torch {header.torch_note or 'not installed'}"
    profile = f"profile {header.profile}" if header.profile else f"lock {header.lock}" if header.lock else "no profile"
    profile += f" ({header.profile_path})" if header.profile_path else ""
    found_by = f" ({header.found_by})" if header.found_by else ""
    parts = (f"envdoctor check  {header.target}{found_by}", profile, torch)
    return style.paint("strong", "   ".join(printable(part) for part in parts))


def _areas(verdict: Verdict, style: Style) -> Iterator[str]:
    column = max((len(line.area) for line in verdict.areas), default=0)
    for line in verdict.areas:
        box = style.paint(line.state, f"[{style.sign(line.state)}]")
        indent = " " * (column + 8)
        first, *rest = style.wrap(line.summary, indent, indent)
        yield f"{box} {line.area.ljust(column)}    {first.strip()}".rstrip()
        yield from rest


def _group(group: CauseGroup, style: Style, *, is_primary: bool) -> Iterator[str]:
    yield _headline(group.cause, style, is_primary=is_primary)
    yield from _body(group.cause, style, "  ")
    if group.consequences and style.verbosity < 1:
        yield from _explains(group, style)
    for part in group.parts:
        yield _headline(part.cause, style, is_primary=False)
        yield from _body(part.cause, style, "  ")
        if part.consequences and style.verbosity < 1:
            yield from _explains(part, style)
    yield from _help(group.cause, style, "  ", of_several=bool(group.parts))
    if style.verbosity >= 1:
        for finding in (*group.consequences, *(item for part in group.parts for item in part.consequences)):
            yield f"  which causes {_headline(finding, style, is_primary=False)}"
            yield from _body(finding, style, "    ")
            yield from _help(finding, style, "    ")


def _headline(finding: Finding, style: Style, *, is_primary: bool) -> str:
    tag = f"{finding.severity}[{finding.code}]:"
    text = printable(finding.title)
    column = min(style.width, _PRIMARY_COLUMN) - len("PRIMARY") - len(tag) - 1
    mark = "  " + style.paint("strong", "PRIMARY") if is_primary else ""
    return f"{style.paint(finding.severity, tag)} {text.ljust(column - 2) if is_primary else text}{mark}"


def _body(finding: Finding, style: Style, indent: str) -> Iterator[str]:
    for line in finding.evidence:
        yield from style.wrap(line, indent, indent + "  ")
    if finding.confidence != "high":
        yield f"{indent}confidence: {finding.confidence}"


def _explains(group: CauseGroup, style: Style) -> Iterator[str]:
    subjects: dict[tuple[str, str], list[str]] = {}
    for finding in group.consequences:
        subjects.setdefault((finding.code, finding.name), []).append(finding.subject)
    first = "  explains: "
    for (code, name), named in subjects.items():
        shown = ", ".join(named[:_SUBJECTS_SHOWN])
        more = f" and {len(named) - _SUBJECTS_SHOWN} more" if len(named) > _SUBJECTS_SHOWN else ""
        yield from style.wrap(f"{code} {name}: {shown}{more}", first, " " * 14)
        first = " " * 12


def _help(finding: Finding, style: Style, indent: str, *, of_several: bool = False) -> Iterator[str]:
    remedy = finding.remediation
    lead = f"{indent}help: "
    # What fixes the first of several by hand says nothing of the others.
    text = remedy.text.partition(BY_HAND)[0] if of_several else remedy.text
    yield from style.wrap(text, lead, " " * len(lead))
    # A command is data to paste: it is never wrapped, whatever the width.
    yield from (" " * len(lead) + style.paint("command", printable(command)) for command in remedy.commands)
    if remedy.by_hand and not of_several:
        yield " " * len(lead) + "or, by hand:"
    yield from (
        " " * len(lead) + style.paint("command", printable(command)) for command in remedy.by_hand if not of_several
    )


def _could_not_tell(verdict: Verdict, style: Style) -> Iterator[str]:
    skipped = [skip for skip in verdict.skipped if skip.matters]
    if skipped:
        yield style.paint("unknown", "could not tell:")
    for reason, skips in _by_reason(skipped).items():
        first, *more = skips
        if not more:
            yield from style.wrap(f"{first.code} {first.name}: {first.reason}", "  ", "    ")
            yield from _traceback(skips, style)
            continue
        limit = len(skips) if style.verbosity >= 1 else _CODES_SHOWN
        left = f" and {len(skips) - limit} more" if len(skips) > limit else ""
        codes = ", ".join(skip.code for skip in skips[:limit])
        yield from style.wrap(f"{len(skips)} checks ({codes}{left}): {reason}", "  ", "    ")
        yield from _traceback(skips, style)
    beside = [skip for skip in verdict.skipped if not skip.matters and style.verbosity >= 1]
    if beside:
        yield style.paint("dim", "does not apply:")
    for skip in beside:
        yield from style.wrap(f"{skip.code} {skip.name}: {skip.reason}", "  ", "    ")


def _traceback(skips: list[Skipped], style: Style) -> Iterator[str]:
    """Yield the traceback of a check, or of a probe, that crashed; without `-v`, how to see it."""
    traceback = next((skip.traceback for skip in skips if skip.traceback), "")
    if not traceback:
        return
    if style.verbosity < 1:
        yield "    this is a bug of envdoctor: report it with the traceback that `-v` shows"
        return
    yield from (f"    {printable(line)}".rstrip() for line in traceback.splitlines())


def _by_reason(skipped: list[Skipped]) -> dict[str, list[Skipped]]:
    """Return reason -> checks: one unreadable file keeps many checks from telling, through several kinds of facts."""
    found: dict[str, list[Skipped]] = {}
    for skip in skipped:
        section, _, rest = skip.reason.partition(": ")
        found.setdefault(rest if rest and section.isidentifier() else skip.reason, []).append(skip)
    return found


def _waived(verdict: Verdict, style: Style) -> Iterator[str]:
    if verdict.waived:
        yield style.paint("dim", "waived:")
    for waived in verdict.waived:
        finding = waived.finding
        text = f"{finding.severity}[{finding.code}] {finding.title} ({finding.subject})"
        yield from style.wrap(f"{text}, because: {waived.reason}", "  ", "    ")


def _closing(verdict: Verdict, groups: tuple[CauseGroup, ...], style: Style, fail_on: Severity) -> Iterator[str]:
    code = int(verdict.exit_code(fail_on))
    gaps = sum(skip.matters for skip in verdict.skipped)
    parts = [_found(verdict, groups)]
    if gaps:
        parts.append(f"{_count(gaps, 'check')} could not tell")
    if verdict.waived:
        parts.append(f"{len(verdict.waived)} waived")
    parts += verdict.not_checked
    yield f"{style.paint('strong', '; '.join(parts))}.   exit {code}"
    if groups and style.verbosity >= 0:
        yield style.paint("dim", f"For more about a finding, run `envdoctor explain {groups[0].cause.code}`.")


def _found(verdict: Verdict, groups: tuple[CauseGroup, ...]) -> str:
    counts = [
        _count(number, severity)
        for severity in ("error", "warning", "note")
        if (number := sum(finding.severity == severity for finding in verdict.findings))
    ]
    commands, fixed = shared(groups)
    together = f"; {_count(commands, 'command')} {'fixes' if commands == 1 else 'fix'} {fixed} of them" if fixed else ""
    return f"Found {', '.join(counts)} ({_count(len(groups), 'cause')}{together})" if counts else "Nothing found"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
