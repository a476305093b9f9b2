"""What a node answered, read: pure. What comes from a node is another machine's word, and is bounded."""

from envdoctor.compare.sheet import StackSheet, sheet_of
from envdoctor.model.codec import CodecError, decode
from envdoctor.model.finding import Finding, Severity
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.model.verdict import Verdict
from envdoctor.standards.bounded_json import loads

MARK = "envdoctor-node"
"""Begins the line before an answer: a login shell may print what it likes around it."""
MAXIMUM = 4 * 1024 * 1024
"""Bytes of an answer: a stack of 400 distributions has 60 kB."""
NO_PYTHON = 86
"""Exit code of the node's shell where no Python is new enough."""
_TEXT, _LIST, _FACTS = 2_000, 500, 20_000


@frozen
class NodeFinding:
    """One thing that the checks found on a node."""

    code: str
    severity: Severity
    title: str
    subject: str
    commands: tuple[str, ...] = ()


@frozen
class NodeAnswer:
    """What a node says of its environment."""

    host: str
    """As the node calls itself."""
    prefix: str
    sheet: StackSheet
    findings: tuple[NodeFinding, ...] = ()
    unknown: tuple[str, ...] = ()
    """Checks that matter and could not tell."""


@frozen
class NodeReport:
    """One node: its answer, or why there is none."""

    name: str
    """As the engine names it."""
    answer: NodeAnswer | None
    problem: str = ""


def answer_about(host: str, facts: Fingerprint, verdict: Verdict) -> NodeAnswer:
    """Return the answer that facts and a verdict make; the facts are of `Options(contents=True)`."""
    return NodeAnswer(
        host=host,
        prefix=facts.target,
        sheet=sheet_of(facts),
        findings=tuple(map(_finding, verdict.findings)),
        unknown=tuple(f"{skip.code} {skip.name}: {skip.reason}" for skip in verdict.skipped if skip.matters),
    )


def _finding(finding: Finding) -> NodeFinding:
    return NodeFinding(
        code=finding.code,
        severity=finding.severity,
        title=finding.title,
        subject=finding.subject,
        commands=finding.remediation.commands,
    )


def answer_in(name: str, mark: str, out: bytes) -> NodeReport:
    """Return what a node printed; a report with a problem where it is not an answer."""
    text, problem = framed(mark, out)
    return NodeReport(name=name, answer=None, problem=problem) if problem else answer_of_text(name, text)


def framed(mark: str, out: bytes) -> tuple[bytes, str]:
    """Return the answer among what a node printed, and what is wrong with it, empty for nothing."""
    head = f"\n{MARK} {mark} ".encode()
    at = out.rfind(head)
    if at < 0:
        return b"", f"it answered something else: {_quoted(out)}"
    length, _, rest = out[at + len(head) :].partition(b"\n")
    # Python refuses to read numbers of thousands of digits.
    size = int(length) if length.isdigit() and len(length) <= len(str(MAXIMUM)) else MAXIMUM + 1
    if size > MAXIMUM or len(rest) < size:
        return b"", "its answer is cut short"
    return rest[:size], ""


def answer_of_text(name: str, text: bytes) -> NodeReport:
    """Return the report of an answer's JSON."""
    try:
        told = loads(text)
    except ValueError as error:
        return NodeReport(name=name, answer=None, problem=f"its answer is not JSON: {error}")
    if isinstance(told, dict) and isinstance(problem := told.get("problem"), str):
        hint = told.get("hint")
        more = f"; {hint}" if isinstance(hint, str) and hint else ""
        return NodeReport(name=name, answer=None, problem=f"{problem}{more}"[:_TEXT])
    try:
        answer: NodeAnswer = decode(NodeAnswer, told)
    except CodecError as error:
        return NodeReport(name=name, answer=None, problem=f"its answer has another form: {str(error)[:200]}")
    if len(answer.sheet.facts) + len(answer.sheet.unread) > _FACTS:
        return NodeReport(name=name, answer=None, problem="its answer has too many facts")
    return NodeReport(name=name, answer=_bounded(answer))


def _bounded(answer: NodeAnswer) -> NodeAnswer:
    facts, unread = (
        {fact[:_TEXT]: value[:_TEXT] for fact, value in told.items()}
        for told in (answer.sheet.facts, answer.sheet.unread)
    )
    return NodeAnswer(
        host=answer.host[:_TEXT],
        prefix=answer.prefix[:_TEXT],
        sheet=StackSheet(facts=facts, unread=unread),
        findings=answer.findings[:_LIST],
        unknown=tuple(line[:_TEXT] for line in answer.unknown[:_LIST]),
    )


def _quoted(out: bytes) -> str:
    text = out[-200:].decode("utf-8", "replace").strip()
    return repr(text) if text else "nothing"
