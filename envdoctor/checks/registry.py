"""Every check, found by walking the package, and running them over a case."""

import importlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from envdoctor import checks
from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.checks.areas import AREAS, not_checked, reads_well, summarize
from envdoctor.checks.former_names import FORMER_NAMES
from envdoctor.errors import ProfileError, internal_error, traceback_of
from envdoctor.model.finding import SEVERITY_ORDER, Finding
from envdoctor.model.fingerprint import MissingFactError
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.model.verdict import AreaLine, AreaState, Skipped, Verdict, Waived, order_by_cause
from envdoctor.model.wording import counted

if TYPE_CHECKING:  # as in context.py
    import re

    from envdoctor.model.profile import Waiver


class CheckFunction(Protocol):
    """The function of a check."""

    def __call__(self, case: CheckContext) -> Iterator[Finding]:
        """Yield the findings of one case."""
        ...


@frozen
class Check:
    """One rule."""

    code: str
    name: str
    area: str
    documentation: str
    """Docstring of its module: What it finds, Why it matters, Example, Fix."""
    run: CheckFunction


_BREAK = pattern("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = pattern("[\x00-\x1f\x7f\udc80-\udcff]")


@cache
def all_checks() -> tuple[Check, ...]:
    """Return every check of the package, by code."""
    found = []
    for name in _module_names():
        module = importlib.import_module(f"{checks.__name__}.{name}")
        if hasattr(module, "CODE"):
            found.append(
                Check(
                    code=module.CODE,
                    name=module.NAME,
                    area=module.AREA,
                    documentation=module.__doc__ or "",
                    run=module.run,
                )
            )
    return tuple(sorted(found, key=lambda check: check.code))


def _module_names() -> list[str]:
    try:
        files = [file for folder in checks.__path__ for file in Path(folder).iterdir()]
    except OSError:
        # The package is inside an archive, or in the single file of the gate.
        import pkgutil  # noqa: PLC0415 - it brings `inspect` along, a twentieth of a check

        return [info.name for info in pkgutil.iter_modules(checks.__path__)]
    return [file.stem for file in files if file.suffix == ".py" and file.stem != "__init__"]


def judge(case: CheckContext, waivers: "Iterable[Waiver]" = ()) -> Verdict:
    """Run every check over the case. The profile's waivers and the given ones take findings out, with their reason.

    Raises ProfileError for a waiver of the profile that names no check: it would accept nothing.
    """
    if case.profile is not None:
        refuse_unknown(f"profile {case.profile.name}: ", case.profile.waivers)
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    areas_in_doubt: set[str] = set()
    for check in all_checks():
        try:
            findings += map(_on_one_line, check.run(case))
        except DoesNotApplyError as error:
            skipped.append(Skipped(code=check.code, name=check.name, reason=str(error), matters=False))
        except MissingFactError as error:
            skipped.append(Skipped(code=check.code, name=check.name, reason=str(error), traceback=error.traceback))
            areas_in_doubt.add(check.area)
        except Exception as error:  # noqa: BLE001 - a rule of ours that crashes must not silence all the others
            skipped.append(_crashed(check, error))
            areas_in_doubt.add(check.area)
    today = case.facts.taken_at[:10]
    accepted: list[Waiver] = []
    for one in (*(case.profile.waivers if case.profile else ()), *waivers):
        if one.expires and one.expires < today:
            findings = [_expired(one, finding) if _waives(one, finding) else finding for finding in findings]
        else:
            accepted.append(one)
    waived = tuple(
        Waived(finding=finding, reason=waiver.reason)
        for finding in findings
        if (waiver := next((waiver for waiver in accepted if _waives(waiver, finding)), None))
    )
    taken_out = [entry.finding for entry in waived]
    ordered, consequences = order_by_cause(finding for finding in findings if finding not in taken_out)
    return Verdict(
        findings=ordered,
        consequences=consequences,
        skipped=tuple(skipped),
        waived=waived,
        areas=_areas(case, ordered, taken_out, areas_in_doubt),
        not_checked=not_checked(case),
    )


def _on_one_line(finding: Finding) -> Finding:
    """Return a finding none of whose texts has a line that a file's name begins; in a log of CI that may be a command.

    In a command the name was quoted, and is written as bash writes it.
    """
    told = finding.remediation
    texts = (finding.title, finding.subject, *finding.evidence, told.text, *told.commands, *told.by_hand)
    if all(map(str.isprintable, texts)):
        return finding
    told = replace(
        told,
        text=_BREAK.sub(_written_out, told.text),
        commands=tuple(_CONTROL.sub(_as_bash_writes_it, command) for command in told.commands),
        by_hand=tuple(_CONTROL.sub(_as_bash_writes_it, command) for command in told.by_hand),
    )
    return replace(
        finding,
        title=_BREAK.sub(_written_out, finding.title),
        subject=_BREAK.sub(_written_out, finding.subject),
        evidence=tuple(_BREAK.sub(_written_out, line) for line in finding.evidence),
        remediation=told,
    )


def _written_out(match: "re.Match[str]") -> str:
    return f"\\x{ord(match[0]):02x}"


def _as_bash_writes_it(match: "re.Match[str]") -> str:
    return f"'$'\\x{ord(match[0]) & 0xFF:02x}''"


def _expired(waiver: "Waiver", finding: Finding) -> Finding:
    """Return the finding with the waiver that no longer holds among its evidence."""
    line = f"it was waived until {waiver.expires}, because: {waiver.reason}"
    return replace(finding, evidence=(*finding.evidence, line))


def _crashed(check: Check, error: Exception) -> Skipped:
    return Skipped(code=check.code, name=check.name, reason=internal_error(error), traceback=traceback_of(error))


def refuse_unknown(where: str, waivers: "Iterable[Waiver]") -> None:
    """Raise ProfileError for a waiver that names no check: it would accept nothing."""
    known = FORMER_NAMES | {key: check.code for check in all_checks() for key in (check.code, check.name)}
    for at, waiver in enumerate(waivers):
        if waiver.code not in known:
            import difflib  # noqa: PLC0415 - for the message alone

            near = difflib.get_close_matches(waiver.code, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ProfileError(
                f"{where}waivers[{at}].code: there is no check `{waiver.code}`",
                f"{hint}`envdoctor checks` lists the codes",
            )


def _waives(waiver: "Waiver", finding: Finding) -> bool:
    named = FORMER_NAMES.get(waiver.code, waiver.code)
    return named in (finding.code, finding.name) and waiver.subject in ("", finding.subject)


def _areas(
    case: CheckContext, findings: Iterable[Finding], waived: Iterable[Finding], in_doubt: set[str]
) -> tuple[AreaLine, ...]:
    area_of: Mapping[str, str] = {check.code: check.area for check in all_checks()}
    worst: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[area_of[finding.code]] += 1
        area = area_of[finding.code]
        if area not in worst or SEVERITY_ORDER[finding.severity] < SEVERITY_ORDER[worst[area]]:  # type: ignore[index]
            worst[area] = finding.severity
    # What was waived is still so: its area is not as good as one without a finding.
    for finding in waived:
        worst.setdefault(area_of[finding.code], "note")
    lines = []
    for area in AREAS:
        unfound, summary = summarize(area, case)
        # "all 42 libraries resolve" reads well, and is not all that was looked at.
        harmed = worst.get(area) in ("error", "warning") and reads_well(summary)
        if counts[area] and (unfound == "not-applicable" or harmed):
            summary = f"{counted(counts[area], 'finding')}; {summary}"
        state: AreaState = worst.get(area, "unknown" if area in in_doubt else unfound)  # type: ignore[assignment]
        lines.append(AreaLine(area=area, state=state, summary=summary))
    return tuple(lines)
