"""Versions that only fit together, as data, where metadata does not say so.

Sources: Requires-Dist of the wheels (torchvision 0.15.0 to 0.29.1, torchaudio 2.0.0 to 2.11.1) and the compatibility
table in pytorch/vision's README; flashinfer/jit/env.py (0.6.13, 0.7.4), which compares its companions' versions at
import; transformers/utils/import_utils.py and transformers/dependency_versions_table.py (5.6.0).
"""

from envdoctor.model.frozen import frozen

TORCHVISION_OFFSET = 15
"""torchvision 0.N was built for torch 2.(N - 15): its minor versions are one to one."""
TORCHVISION_EXACT = range(15, 29)
"""Minors of torchvision whose wheels work with one torch minor; 0.29.1 asks only for torch 2.14 or newer."""
TORCHAUDIO_EXACT = range(11)
"""Minors of torchaudio 2.N that belong to torch 2.N; 2.11 works with every later torch."""

FLASHINFER = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")
"""Distributions that must have one public version; jit-cache adds a local part (+cu129)."""

EQUAL_FAMILIES = {
    "transformer-engine": "transformer_engine/common/__init__.py compares the versions of its parts at import",
}
"""Distribution whose parts (extras pin them) must have its own version -> where its code compares them
(transformer-engine 2.9.0, `sanity_checks_for_pypi_installation`)."""


@frozen
class RuntimeNeed:
    """A requirement that code states when it is called, and metadata only in an extra."""

    requirer: str
    name: str
    minimum: str
    """Where the installed requirer's own table does not say another."""
    published: str
    """The newest release on the index when this was written. Code may ask for one that is not out yet (transformers
    5.24.0 asks for peft 0.22.0, and 0.21.2 was the newest)."""
    when: str
    """What raises without it."""
    source: str
    expected: bool
    """True when most training code calls that; its absence is then worth a note."""


RUNTIME_NEEDS = (
    RuntimeNeed(
        requirer="transformers",
        name="accelerate",
        minimum="1.1.0",
        published="1.15.0",
        when="`device_map`, `low_cpu_mem_usage` or `tp_plan` in from_pretrained()",
        source="transformers/utils/import_utils.py, ACCELERATE_MIN_VERSION; an extra in its metadata",
        expected=True,
    ),
    RuntimeNeed(
        requirer="transformers",
        name="peft",
        minimum="0.18.0",
        published="0.21.2",
        when="load_adapter() and add_adapter()",
        source="transformers/integrations/peft.py, check_peft_version(); not in its metadata",
        expected=False,
    ),
)


def torchvision_for(torch_minor: int) -> str:
    """Return the torchvision series for torch 2.N ("0.26" for 11), or empty where no one belongs to it alone."""
    minor = torch_minor + TORCHVISION_OFFSET
    return f"0.{minor}" if minor in TORCHVISION_EXACT else ""


def torchaudio_for(torch_minor: int) -> str:
    """Return the torchaudio series for torch 2.N: its own, or the last one, which works with every later torch."""
    return f"2.{min(torch_minor, TORCHAUDIO_EXACT.stop)}"


def torch_for_torchvision(version: str) -> str:
    """Return the torch series a torchvision needs ("2.11" for 0.26.0), or empty where several will do."""
    major, minor = _series(version)
    return f"2.{minor - TORCHVISION_OFFSET}" if major == 0 and minor in TORCHVISION_EXACT else ""


def torch_for_torchaudio(version: str) -> str:
    """Return the torch series a torchaudio needs ("2.8" for 2.8.0), or empty where several will do."""
    major, minor = _series(version)
    return f"2.{minor}" if major == 2 and minor in TORCHAUDIO_EXACT else ""


def _series(version: str) -> tuple[int, int]:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return -1, -1
    return int(parts[0]), int(parts[1])


def fits_torch(name: str, version: str, series: str) -> bool:
    """Tell whether that version of torchvision or torchaudio works with a torch of that series ("2.11")."""
    wanted = (torch_for_torchvision if name == "torchvision" else torch_for_torchaudio)(version)
    if wanted:
        return wanted == series
    last = TORCHVISION_EXACT.stop if name == "torchvision" else TORCHAUDIO_EXACT.stop
    first = (2, last - TORCHVISION_OFFSET if name == "torchvision" else last)
    # One behind the table works with the first torch behind it and with later ones.
    behind = _series(version) >= ((0, last) if name == "torchvision" else first)
    return not behind or _series(series) >= first


def series_for(name: str, torch: str) -> str:
    """Return the companion's series for that torch ("0.26" for 2.11.0), or empty where no one belongs to it alone."""
    series, _, minor = ".".join(torch.split(".")[:2]).partition(".")
    if series != "2" or not minor.isdecimal():
        return ""
    return torchvision_for(int(minor)) if name == "torchvision" else torchaudio_for(int(minor))
