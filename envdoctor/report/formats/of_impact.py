"""The outline of an `impact` document."""

from collections.abc import Iterator, Mapping
from typing import Any

from envdoctor.model.wording import counted, size
from envdoctor.report.formats.outline import LEVELS, Level, Outline, OutlineEntry, OutlineRow

_SHOWN = 20


def outline(document: Mapping[str, Any]) -> Outline:
    """Return what the document says: an entry for each thing that would suffer."""
    entries = tuple(sorted(_entries(document), key=lambda entry: LEVELS[entry.level]))
    asked = f"{document['action']} {' '.join(document['asked'])}"
    verdict = "would break something" if document["harmful"] else "would break nothing else"
    return Outline(
        command=f"impact {document['action']}",
        subject=document["target"],
        conclusion=f"`{asked}` {verdict}",
        exit_code=int(document["harmful"]),
        tool_version=document["tool"]["version"],
        context=(("change", asked), *(("note", note) for note in document["notes"])),
        entries=entries,
        rows=tuple(_rows(document)),
    )


def _entries(document: Mapping[str, Any]) -> Iterator[OutlineEntry]:
    commands = tuple(document["commands"])
    leaving = {item["name"] for item in document["distributions"] if not item["after"]}
    broken = document["import_after"]
    if broken and broken != document["import_before"]:
        level: Level = "note" if "torch" in leaving else "error"
        yield _entry("import", "import-fails", level, "`import torch` would fail", "torch", (broken,), commands)
        commands = ()  # said once
    for item in document["losses"]:
        paths = counted(len(item["paths"]), "file")
        title = f"{item['owner']} {item['version']} would lose {paths} to the removal of {item['taken_by']}"
        more = [f"and {len(item['paths']) - _SHOWN} more"] if len(item["paths"]) > _SHOWN else []
        evidence = (*item["paths"][:_SHOWN], *more)
        yield _entry("losses", "shared-files", "error", title, item["owner"], evidence, commands)
    for item in document["stops"]:
        title = f"{item['module']} could not be imported any more"
        level = "note" if item["owner"] in leaving else "error"
        yield _entry("stops", "module-stops", level, title, item["owner"] or item["module"], (item["reason"],))
    for line in document["unmet"]:
        yield _entry("unmet", "unmet-requirement", "error", line, line.partition(" ")[0])
    for item in document["appear"]:
        yield _entry(item["code"], "would-appear", item["severity"], f"would appear: {item['title']}", item["code"])
    for item in (item for item in document["providers"] if item["used"]):
        now, then = (_provider(item, key) for key in ("before", "after"))
        title = f"{item['soname']} would come from {then}"
        yield _entry("providers", "other-provider", "warning", title, item["soname"], (f"now: {now}",))


def _provider(item: Mapping[str, Any], key: str) -> str:
    return f"{item[key]} ({item[f'{key}_owner'] or 'no owner'})" if item[key] else "nothing"


def _entry(
    code: str,
    name: str,
    level: Level,
    title: str,
    subject: str,
    evidence: tuple[str, ...] = (),
    commands: tuple[str, ...] = (),
) -> OutlineEntry:
    return OutlineEntry(
        code=code if code.startswith("ED") else f"impact/{code}",
        name=name,
        level=level,
        title=title,
        subject=subject,
        evidence=evidence,
        remedy="make the change so that nothing else suffers" if commands else "",
        commands=commands,
    )


def _rows(document: Mapping[str, Any]) -> Iterator[OutlineRow]:
    for item in document["distributions"]:
        change = f"{item['before'] or 'not installed'} -> {item['after'] or 'removed'}"
        yield OutlineRow(area=item["name"], state="note", summary=change)
    for item in document["gone"]:
        files = f"{counted(item['files'], 'file')}, {size(item['bytes'])} would be removed"
        yield OutlineRow(area=f"files of {item['owner']}", state="note", summary=files)
