"""JUnit XML as Jenkins, GitLab and GitHub's reporters read it (the XSD of jenkinsci/xunit-plugin, junit-10).

A test case is one area that was looked at, or one cause that was found. What could not be determined is an error and
what does not apply is skipped: nothing is green that was not looked at.
"""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from envdoctor.report.formats.legal import legal
from envdoctor.report.formats.outline import LEVELS, Outline, OutlineEntry, OutlineRow


def render(outline: Outline) -> str:
    """Return the document, ending in a newline."""
    suite = ET.Element("testsuite", name=f"envdoctor {outline.command}", time="0")
    properties = ET.SubElement(suite, "properties")
    for name, value in (("subject", outline.subject), *outline.context, ("conclusion", outline.conclusion)):
        ET.SubElement(properties, "property", name=name, value=legal(value))
    suite.extend(_cases(outline))
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(1 for _ in suite.iter(tag))))
    whole = ET.Element("testsuites")
    whole.append(suite)
    ET.indent(whole)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(whole, encoding="unicode")}\n'


def _cases(outline: Outline) -> Iterator[ET.Element]:
    kind = f"envdoctor.{outline.command.replace(' ', '-')}"
    # An area with findings stands in them.
    for row in outline.rows:
        if row.state in ("ok", "not-applicable", "note"):
            yield _area(row, kind)
    for entry, others in outline.causes:
        yield _finding(entry, others, outline, kind)
    for gap in outline.gaps:
        case = ET.Element("testcase", classname=kind, name=legal(f"{gap.code} {gap.name}"), time="0")
        ET.SubElement(case, "error", type="could not tell", message=legal(gap.reason)).text = legal(gap.reason)
        yield case
    for item in outline.waived:
        name = f"{item.entry.code} {item.entry.name}: {item.entry.subject}"
        case = ET.Element("testcase", classname=kind, name=legal(name), time="0")
        ET.SubElement(case, "skipped", message=legal(f"waived, because: {item.reason}"))
        yield case


def _area(row: OutlineRow, kind: str) -> ET.Element:
    case = ET.Element("testcase", classname=kind, name=legal(row.area), time="0")
    if row.state == "not-applicable":
        ET.SubElement(case, "skipped", message=legal(row.summary))
    else:
        ET.SubElement(case, "system-out").text = legal(row.summary)
    return case


def _finding(entry: OutlineEntry, others: tuple[OutlineEntry, ...], outline: Outline, kind: str) -> ET.Element:
    name = f"{entry.code} {entry.name}: {entry.subject}"
    case = ET.Element("testcase", classname=kind, name=legal(name), time="0")
    if entry.place:
        case.set("file", legal(entry.place.file))
        case.set("line", str(entry.place.line))
    lines = [f"{entry.level}: {entry.title}", *entry.evidence]
    lines += [f"explains {other.code} {other.name}: {other.subject}" for other in others]
    lines += [f"fix: {entry.remedy}"] if entry.remedy else []
    text = legal("\n".join([*lines, *entry.commands]))
    if min(LEVELS[item.level] for item in (entry, *others)) <= LEVELS[outline.fail_on]:
        ET.SubElement(case, "failure", type=entry.code, message=legal(entry.title)).text = text
    else:
        ET.SubElement(case, "system-out").text = text
    return case
