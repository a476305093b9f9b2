"""The nodes beside each other: what most have, who has something else, and who could not be asked. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from envdoctor.compare.majority import Agreement, ComparedFact, compare_all
from envdoctor.compare.sheet import StackSheet, family_of
from envdoctor.exitcodes import ExitCode
from envdoctor.fleet.answer import NodeAnswer, NodeReport
from envdoctor.model.frozen import field, frozen

NodeState = Literal["same", "differs", "tied", "broken", "unknown"]
"""`differs`: from what most have. `tied`: it differs from others, and no value has a majority: it is not called wrong.
`broken`: its own check finds errors, whatever the others have. `unknown`: it said nothing, or not all that matters."""
_FINDING = "finding "
_STACK = "stack"
"""The digest of all: what it lacks is named by itself."""


@frozen
class FleetView:
    """A fleet as it answered."""

    engine: str
    """How it was asked: "ssh", "slurm", "ray", "files"."""
    nodes: tuple[NodeReport, ...]
    agreement: Agreement | None
    """Of the nodes that answered, by name; None where none did."""
    odd: frozenset[str] = frozenset()
    """Names of nodes that have something else than most."""
    tied: frozenset[str] = frozenset()
    """Names of nodes that differ in a fact of which no value has a majority."""
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node -> what could not be read there and is therefore not compared, with the reasons."""

    def state(self, node: NodeReport) -> NodeState:
        """Return the state of one of the nodes."""
        if node.answer is None:
            return "unknown"
        if any(finding.severity == "error" for finding in node.answer.findings):
            return "broken"
        if node.name in self.odd:
            return "differs"
        if node.name in self.tied:
            return "tied"
        return "unknown" if self.could_not_tell(node) else "same"

    def could_not_tell(self, node: NodeReport) -> tuple[str, ...]:
        """Return what is not known of a node that answered: checks that could not tell, and facts not compared."""
        return (*node.answer.unknown, *self.unread.get(node.name, ())) if node.answer else ()

    @property
    def exit_code(self) -> ExitCode:
        """Return FINDINGS where nodes differ or one is broken, else UNKNOWN where one could not tell, else OK."""
        states = {self.state(node) for node in self.nodes}
        differs = self.agreement is not None and self.agreement.differs
        if differs or "broken" in states:
            return ExitCode.FINDINGS
        return ExitCode.UNKNOWN if "unknown" in states else ExitCode.OK


def beside_each_other(engine: str, nodes: Sequence[NodeReport]) -> FleetView:
    """Compare what the nodes said. What their checks find is a fact among others: a damaged file is in no RECORD."""
    sheets = {node.name: _with_findings(node.answer) for node in nodes if node.answer is not None}
    agreement = compare_all(sheets) if sheets else None
    rows = agreement.rows if agreement else ()
    return FleetView(
        engine=engine,
        nodes=tuple(nodes),
        agreement=agreement,
        odd=frozenset(name for row in rows if row.settled for other in row.others for name in other.who),
        tied=frozenset(name for row in rows if not row.settled for name in _apart(row)),
        unread=_unread(rows),
    )


def _apart(row: ComparedFact) -> Iterator[str]:
    """Yield who is a side of a tie: not those who are without a finding that others have."""
    for stated in (row.usual, *row.others):
        if stated.value or not row.fact.startswith(_FINDING):
            yield from stated.who


def _unread(rows: Sequence[ComparedFact]) -> dict[str, tuple[str, ...]]:
    told: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        # Facts of a family ("package numpy") are in the family's row.
        for gap in row.unread if row.fact == family_of(row.fact) else ():
            for name in gap.who:
                told.setdefault(name, {}).setdefault(gap.value, []).append(row.fact)
    return {
        name: tuple(f"{', '.join(facts)}: {reason}" for reason, facts in reasons.items() if facts != [_STACK])
        or tuple(f"{_STACK}: {reason}" for reason in reasons)
        for name, reasons in told.items()
    }


def _with_findings(answer: NodeAnswer) -> StackSheet:
    found: Mapping[str, str] = {
        f"{_FINDING}{one.code} {_same_anywhere(one.subject, answer.prefix)}": one.severity for one in answer.findings
    }
    return StackSheet(facts={**answer.sheet.facts, **found}, unread=answer.sheet.unread)


def _same_anywhere(text: str, prefix: str) -> str:
    return text.replace(prefix, "{venv}") if prefix else text
