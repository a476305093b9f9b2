"""The answer of `envdoctor impact` as text."""

from collections.abc import Iterable, Iterator

from envdoctor.model.impact import FindingLine, Impact, Loss, ProviderChange, VersionChange
from envdoctor.model.wording import counted
from envdoctor.report.style import Style, printable

_SHOWN = 8


def render(impact: Impact, style: Style) -> str:
    """Return the answer, ending in a newline: what would change, what would suffer, what to do instead."""
    command = "try --" if impact.action == "try" else f"impact {impact.action}"
    title = f"envdoctor {command} {' '.join(impact.asked)}  {impact.target}   (nothing was changed)"
    blocks = [[style.paint("strong", printable(title))]]
    blocks.append(list(_block("distributions", map(_version, impact.distributions), "none would change")))
    blocks.append(list(_block("files that would be removed", _gone(impact), "none")))
    blocks.append(list(_block("files that others would lose", map(_loss, impact.losses), "none")))
    blocks.append(list(_block("libraries with another provider", map(_provider, impact.providers), "none")))
    blocks.append([f"`import torch`: {_import(impact)}"])
    blocks.append(list(_block("unmet requirements afterwards", impact.unmet, "none")))
    stops = (f"{item.module} ({item.owner or 'no distribution'}): {item.reason}" for item in impact.stops)
    blocks.append(list(_block("would stop loading", stops, "nothing")))
    if impact.action != "remove":
        blocks.append(list(_block("findings that would be new", map(_finding, impact.appear), "none")))
        blocks.append(list(_block("findings that would be gone", map(_finding, impact.disappear), "none")))
    if impact.notes:
        blocks.append(list(_block("note", impact.notes, "")))
    blocks.append([style.paint("strong", _verdict(impact))])
    text = "\n".join("\n".join(map(printable, block)) for block in blocks)
    commands = "".join(f"      {style.paint('command', printable(command))}\n" for command in impact.commands)
    lead = "in two steps, so that the others get their files back" if impact.losses else "to do it"
    return f"{text}\n" + (f"help: {lead}:\n{commands}" if commands else "")


def _block(head: str, lines: Iterable[str], nothing: str) -> Iterator[str]:
    listed = list(lines)
    if not listed:
        yield f"{head}: {nothing}"
        return
    yield f"{head}:"
    yield from (f"  {line}" for line in listed[:_SHOWN])
    if len(listed) > _SHOWN:
        yield f"  and {len(listed) - _SHOWN} more (`--format json` lists all)"


def _version(change: VersionChange) -> str:
    if not change.after:
        return f"- {change.name} {change.before}"
    return (
        f"+ {change.name} {change.after}" if not change.before else f"~ {change.name} {change.before} -> {change.after}"
    )


def _gone(impact: Impact) -> Iterator[str]:
    for item in impact.gone:
        yield f"{item.owner} {item.version}: {counted(item.files, 'file')}, {item.bytes / 1e6:.1f} MB"


def _loss(loss: Loss) -> str:
    more = f" and {len(loss.paths) - 2} more" if len(loss.paths) > 2 else ""
    by = f", to {loss.taken_by}" if loss.taken_by else ""
    return f"{loss.owner} {loss.version}: {counted(len(loss.paths), 'file')}{by}: {', '.join(loss.paths[:2])}{more}"


def _provider(change: ProviderChange) -> str:
    used = "" if change.used else ", no part of `import torch`"
    before = f"{change.before} ({change.before_owner or 'no distribution'})" if change.before else "nothing"
    after = f"{change.after} ({change.after_owner or 'no distribution'})" if change.after else "nothing"
    if change.before == change.after:
        before, after = change.before_owner or "no distribution", change.after_owner or "no distribution"
    return f"{change.soname}: {before} -> {after}{used}"


def _import(impact: Impact) -> str:
    if impact.import_before == impact.import_after:
        if not impact.import_after:
            return "nothing would change"
        return f"already fails, and would still fail: {impact.import_after}"
    if not impact.import_after:
        return f"would load; now it raises {impact.import_before}"
    return f"would raise {impact.import_after}"


def _finding(line: FindingLine) -> str:
    return f"{line.severity}[{line.code}] {line.title}"


def _verdict(impact: Impact) -> str:
    return "This would do harm." if impact.harmful else "Nothing else would break."
