"""The nodes beside each other: what most have, who has something else, and who could not be asked. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

from envdoctor.compare.majority import Agreement, compare_all
from envdoctor.compare.sheet import StackSheet
from envdoctor.exitcodes import ExitCode
from envdoctor.fleet.answer import NodeAnswer, NodeReport
from envdoctor.model.frozen import frozen

NodeState = Literal["same", "differs", "broken", "unknown"]
"""`broken`: its own check finds errors, whatever the others have. `unknown`: it said nothing, or could not tell."""


@frozen
class FleetView:
    """A fleet as it answered."""

    engine: str
    """How it was asked: "ssh", "slurm", "ray", "files"."""
    nodes: tuple[NodeReport, ...]
    agreement: Agreement | None
    """Of the nodes that answered, by name; None where none did."""

    def state(self, node: NodeReport) -> NodeState:
        """Return the state of one of the nodes."""
        if node.answer is None:
            return "unknown"
        if any(finding.severity == "error" for finding in node.answer.findings):
            return "broken"
        if self.agreement is not None and node.name in self.agreement.odd:
            return "differs"
        return "unknown" if node.answer.unknown else "same"

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
    known: dict[int, StackSheet] = {}
    sheets: dict[str, StackSheet] = {}
    for node in nodes:
        if node.answer is not None:
            # Equal answers of a parser that keeps them apart cost a comparison each: 1,000 nodes have few stacks.
            sheets[node.name] = known.setdefault(id(node.answer), _with_findings(node.answer))
    return FleetView(engine=engine, nodes=tuple(nodes), agreement=compare_all(sheets) if sheets else None)


def _with_findings(answer: NodeAnswer) -> StackSheet:
    found: Mapping[str, str] = {
        f"finding {one.code} {_same_anywhere(one.subject, answer.prefix)}": one.severity for one in answer.findings
    }
    return StackSheet(facts={**answer.sheet.facts, **found}, unread=answer.sheet.unread)


def _same_anywhere(text: str, prefix: str) -> str:
    return text.replace(prefix, "{venv}") if prefix else text
