"""The document of `fleet check` as an outline: one entry for nodes that differ in the same facts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envdoctor.model.wording import counted
from envdoctor.report.commands.fleet_check import TIED
from envdoctor.report.formats.outline import Outline, OutlineEntry, OutlineGap, OutlineRow

_NAMED = 8
_VERBS = {
    "differs": ("differs from most nodes", "differ from most nodes"),
    "tied": ("differs from others without a majority", "differ from others without a majority"),
    "broken": ("has errors", "have errors"),
}
"""State -> verb for one node and for several."""


def outline(document: Mapping[str, Any]) -> Outline:
    """Return what the formats show."""
    nodes = document["nodes"]
    same = [node["name"] for node in nodes if node["state"] == "same"]
    number = len(document["facts"])
    rows = [OutlineRow(area="Nodes as most", state="ok", summary=_named(same))] if same else []
    if same and not number:
        rows.append(OutlineRow(area="Facts", state="ok", summary="all nodes that answered agree in all"))
    return Outline(
        command="fleet check",
        subject=f"{counted(len(nodes), 'node')} over {document['engine']}",
        conclusion=document["conclusion"],
        exit_code=document["exit_code"],
        tool_version=document["tool"]["version"],
        entries=tuple(_entries(document)),
        rows=tuple(rows),
        gaps=tuple(_gaps(nodes)),
    )


def _entries(document: Mapping[str, Any]) -> Iterator[OutlineEntry]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    differences = _differences(document["facts"])
    for node in document["nodes"]:
        if node["state"] in ("differs", "tied", "broken"):
            errors = [f"{one['code']}: {one['title']}" for one in node["findings"] if one["severity"] == "error"]
            told = {f"finding {error.partition(':')[0]} " for error in errors}
            others = [line for line in differences.get(node["name"], ()) if not line.startswith(tuple(told))]
            key = (node["state"], *others, *errors)
            groups.setdefault(key, []).append(node)
    for (state, *evidence), nodes in groups.items():
        names = _named([node["name"] for node in nodes])
        verb = _VERBS[state]
        remedies = tuple(dict.fromkeys(line for node in nodes for line in node["remedies"]))
        yield OutlineEntry(
            code=f"fleet/{state}",
            name=state,
            level="error",
            title=f"{names} {verb[len(nodes) > 1]}",
            subject=names,
            evidence=tuple(evidence),
            remedy=_remedy(names, remedies) if remedies else TIED if state == "tied" else "",
            commands=tuple(line.strip("`") for line in remedies if _is_command(line)),
        )


def _is_command(remedy: str) -> bool:
    return remedy.startswith("`") and remedy.find("`", 1) == len(remedy) - 1


def _remedy(names: str, remedies: Sequence[str]) -> str:
    """Return what to do as a sentence; commands that are nothing else follow it by themselves."""
    told = [line for line in remedies if not _is_command(line)]
    lines = [f"on {names}: {'; '.join(told)}"] if told else []
    return "; then ".join([*lines, *([f"on {names}, run"] if len(told) < len(remedies) else [])])


def _differences(facts: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for fact in facts:
        usual = fact["usual"]
        sides = [(other, usual) for other in fact["others"]]
        sides += [] if fact["settled"] else [(usual, other) for other in fact["others"][:1]]
        for side, other in sides:
            whom = "most" if fact["settled"] else "others"
            line = f"{fact['fact']}: {side['value'] or 'none'}; {whom} have {other['value'] or 'none'}"
            for name in side["nodes"]:
                found.setdefault(name, []).append(line)
    return found


def _gaps(nodes: Sequence[Mapping[str, Any]]) -> Iterator[OutlineGap]:
    for node in nodes:
        for reason in [node["problem"]] if node["problem"] else node["could_not_tell"]:
            yield OutlineGap(code="fleet/unknown", name=node["name"], reason=reason)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
