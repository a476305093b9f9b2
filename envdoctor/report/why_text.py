"""The answer of `envdoctor why` as text."""

from collections.abc import Iterable, Iterator

from envdoctor.model.why import (
    Answer,
    DistributionAnswer,
    FileAnswer,
    LibraryAnswer,
    ModuleAnswer,
    ModulePlace,
    Needer,
    RecordHolder,
)
from envdoctor.model.wording import counted
from envdoctor.report.style import Style, printable

_SHOWN = 8
_COLUMN = 16


def render(answer: Answer, style: Style) -> str:
    """Return the answer, ending in a newline: one block for each thing the name stands for."""
    blocks = [[style.paint("strong", printable(f"envdoctor why {answer.asked}  {answer.target}"))]]
    if answer.library:
        blocks.append(list(_library(answer.library)))
    if answer.file:
        blocks.append(list(_file(answer.file)))
    if answer.module:
        blocks.append(list(_module(answer.module)))
    if answer.distribution:
        blocks.append(list(_distribution(answer.distribution)))
    return "\n\n".join("\n".join(map(printable, block)) for block in blocks) + "\n"


def _library(library: LibraryAnswer) -> Iterator[str]:
    yield f"library {library.soname}: {_state(library)}"
    if library.path:
        yield _line("taken from", library.path)
    yield from _lines(
        "owned by" if library.path else "recorded by",
        map(_holder, library.holders),
        nothing="no distribution" if library.path else "",
    )
    places = (f"{place.folder} ({place.via}): {place.outcome}" for place in library.places)
    yield from _lines("looked for in", places)
    yield from _lines("needed by", map(_needer, library.needed_by), nothing="no file of this environment")
    copies = (f"{copy.path} ({_holders(copy.holders)})" for copy in library.copies)
    yield from _lines("also there", copies)


def _state(library: LibraryAnswer) -> str:
    for_torch = " for `import torch`" if not library.needed_by or library.needed_by[0].imported else ""
    where = "outside this environment" if library.path.startswith("/") else "in this environment"
    return {
        "loaded": "loaded by `import torch`",
        "first use": f"opened after `import torch`, for {library.used_when}",
        "missing": f"missing{for_torch}: {library.problem}",
        "not used": f"{where}, but no part of `import torch`",
    }[library.state]


def _holder(holder: RecordHolder) -> str:
    return f"{holder.name} {holder.version}".strip() + ("" if holder.holds else " (the bytes on disk are not its own)")


def _holders(holders: Iterable[RecordHolder]) -> str:
    return ", ".join(map(_holder, holders)) or "no distribution"


def _needer(needer: Needer) -> str:
    return f"{needer.path} ({needer.owner or 'no distribution'}{'' if needer.imported else ', not in `import torch`'})"


def _file(file: FileAnswer) -> Iterator[str]:
    yield f"file {file.path}{'' if file.exists else ': missing'}"
    yield from _lines("owned by", map(_holder, file.holders), nothing="no distribution")
    yield from _lines("needs", file.needs)


def _module(module: ModuleAnswer) -> Iterator[str]:
    yield f"module {module.name}: {_article(module.taken.kind)}"
    if module.taken.path:
        yield _line("taken from", _module_place(module.taken))
    head = "further parts" if module.taken.kind == "namespace" else "behind it"
    yield from _lines(head, map(_module_place, module.also))


def _article(kind: str) -> str:
    return {
        "package": "a package",
        "module": "a source file",
        "extension": "an extension module",
        "bytecode": "a bytecode file",
        "namespace": "a namespace package",
        "built in": "built into the interpreter",
    }[kind]


def _module_place(place: ModulePlace) -> str:
    return f"{place.path} ({place.origin}; {_holders(place.holders)})"


def _distribution(found: DistributionAnswer) -> Iterator[str]:
    yield f"distribution {found.name} {found.version}"
    yield _line(
        "installed in", f"{found.folder} ({found.origin}{f', by {found.installer}' if found.installer else ''})"
    )
    if found.editable_from:
        yield _line("installed from", found.editable_from)
    problems = [f"{found.missing} missing"] if found.missing else []
    problems += [f"{found.changed} of another size"] if found.changed else []
    owned = f"{counted(found.files, 'file')}, {found.bytes / 1e6:.1f} MB"
    yield _line("owns", ", ".join([owned, *problems]))
    yield from _lines("sonames", found.sonames)
    yield from _lines("in import torch", found.libraries)
    asked = [f"{one.name} {one.version}: {one.requirement}" for one in found.required_by if one.applies]
    yield from _lines("required by", asked, nothing="no distribution")
    if idle := len(found.required_by) - len(asked):
        yield _line("", f"and {counted(idle, 'line')} for extras or markers that do not apply here")
    shared = (f"{len(item.paths)} with {item.other}: {_some(item.paths)}" for item in found.shared)
    yield from _lines("shared paths", shared)


def _some(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
    return ", ".join(paths[:2]) + more


def _line(head: str, text: str) -> str:
    return f"  {head.ljust(_COLUMN)}{text}".rstrip()


def _lines(head: str, texts: Iterable[str], nothing: str = "") -> Iterator[str]:
    listed = list(texts) or ([nothing] if nothing else [])
    more = len(listed) - _SHOWN
    # The last one is where a search ended.
    shown = [*listed[: _SHOWN - 1], f"and {more} more (`--format json` lists all)", listed[-1]] if more > 0 else listed
    for at, text in enumerate(shown):
        yield _line("" if at else head, text)
