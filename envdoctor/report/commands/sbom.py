"""`envdoctor sbom`: an inventory as CycloneDX 1.6, written by cyclonedx-python-lib."""

import importlib.util
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from envdoctor.app.sbom import MaterialsResult
from envdoctor.errors import UsageError
from envdoctor.report.style import Style
from envdoctor.stack.inventory import Inventory, InventoryFile, InventoryItem
from envdoctor.standards.names import normalized

if TYPE_CHECKING:
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component

_NAMESPACE = uuid.UUID("5bd1d9b4-6a39-4a0a-9f0c-0d1f2b7b9d51")
"""Of the serial numbers: the same stack at the same place has the same one."""


def refuse_without_library() -> None:
    """Raise UsageError where the library is not installed: before anything is hashed."""
    if importlib.util.find_spec("cyclonedx") is None:
        raise UsageError(
            "an SBOM is written by cyclonedx-python-lib, which is not installed",
            "install envdoctor with it, from its checkout: `uv tool install '.[sbom]'`",
        )


def text(data: MaterialsResult, style: Style) -> str:
    """Return the CycloneDX document as JSON, ending in a newline."""
    from cyclonedx.output.json import JsonV1Dot6  # noqa: PLC0415 - an extra

    del style
    return JsonV1Dot6(bom_of(data.inventory, every_file=data.every_file)).output_as_string(indent=1) + "\n"


def _written_out(text: str) -> str:
    """Return a text with the bytes of a name that are not UTF-8 written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def bom_of(found: Inventory, *, every_file: bool) -> "Bom":
    """Return the document. Components are distributions, with their files below them."""
    from cyclonedx.model.bom import Bom, BomMetaData  # noqa: PLC0415
    from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415
    from cyclonedx.model.tool import ToolRepository  # noqa: PLC0415

    from envdoctor import __version__  # noqa: PLC0415

    whole = Component(
        type=ComponentType.APPLICATION,
        name=found.target,
        bom_ref="environment",
        properties=_properties(
            ("python", found.python),
            ("torch", found.torch),
            ("digest", found.digest),
            *(("foreign-file", file.path) for file in found.foreign),
            *(("not-hashed", f"{file.path}: {file.problem}") for file in found.foreign if not file.sha256),
        ),
        components=[_file(file, "environment") for file in found.foreign],
    )
    tool = Component(type=ComponentType.APPLICATION, name="envdoctor", version=__version__)
    bom = Bom(
        serial_number=uuid.uuid5(_NAMESPACE, f"{_written_out(found.target)} {found.digest}"),
        metadata=BomMetaData(
            component=whole, timestamp=datetime.fromisoformat(found.taken_at), tools=ToolRepository(components=[tool])
        ),
    )
    made = [_component(item, every_file=every_file) for item in found.items]
    # Of two with one name, the other ones require the one that Python finds.
    active = {item.name: one for item, one in zip(found.items, made, strict=True) if not item.shadowed}
    bom.components.update(made)
    for item, one in zip(found.items, made, strict=True):
        bom.register_dependency(one, [active[name] for name in item.requires if name in active])
    bom.register_dependency(whole, made)
    return bom


def _component(item: InventoryItem, *, every_file: bool) -> "Component":
    from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    listed = item.files if every_file else item.faults
    files = [*([item.record] if item.record else []), *listed]
    # A folder of this machine is not where somebody else finds it.
    origin = {} if item.direct_url.startswith("file:") or not item.direct_url else {"download_url": item.direct_url}
    reference = f"{item.name}@{item.version}" + (f":{item.folder}" if item.shadowed else "")
    return Component(
        type=ComponentType.LIBRARY,
        name=item.name,
        version=item.version or None,
        bom_ref=reference,
        purl=PackageURL(type="pypi", name=normalized(item.name), version=item.version or None, qualifiers=origin),
        components=[_file(file, reference) for file in files if file.sha256],
        properties=_properties(
            ("files", str(len(item.files))),
            *([("shadowed", item.folder)] if item.shadowed else []),
            *([("editable", item.direct_url)] if item.editable else []),
            *(("file-conflict", text) for text in item.conflicts),
            *(("differs-from-record", f"{file.path} {file.problem}") for file in item.faults),
        ),
    )


def _file(file: InventoryFile, owner: str) -> "Component":
    from cyclonedx.model import HashAlgorithm, HashType  # noqa: PLC0415
    from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415

    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)] if file.sha256 else []
    return Component(type=ComponentType.FILE, name=file.path, bom_ref=f"{owner}:{file.path}", hashes=hashes)


def _properties(*pairs: tuple[str, str]) -> Iterator["Property"]:
    from cyclonedx.model import Property  # noqa: PLC0415

    return (Property(name=f"envdoctor:{name}", value=value) for name, value in pairs if value)
