"""Two independent readers of ELF files, pyelftools and binutils' readelf, in the form of this project's facts."""

import re
import subprocess
import sysconfig
from pathlib import Path

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection, GNUVerSymSection

SITE = Path(sysconfig.get_path("purelib"))
DynamicFacts = dict[str, object]


def shared_objects() -> list[Path]:
    """Return every shared object of the environment the tests run in, and a few of the system's."""
    found = [path for path in sorted(SITE.rglob("*")) if re.search(r"\.so(\.\d+)*$", path.name) and path.is_file()]
    system = [Path("/lib64/ld-linux-x86-64.so.2"), *sorted(Path("/lib/x86_64-linux-gnu").glob("lib[cmz].so.*"))]
    return found + [path for path in system if path.exists()]


def by_pyelftools(path: Path) -> DynamicFacts:
    """Return the dynamic facts as pyelftools reads them."""
    facts: DynamicFacts = {"needed": [], "soname": None, "rpath": None, "runpath": None, "flags": 0, "flags_1": 0}
    with path.open("rb") as file:
        elf = ELFFile(file)
        facts |= {"bits": elf.elfclass, "machine": elf["e_machine"], "interpreter": None}
        for segment in elf.iter_segments():
            if segment["p_type"] == "PT_INTERP":
                facts["interpreter"] = segment.get_interp_name()
            if isinstance(segment, DynamicSegment):
                _dynamic(segment, facts)
        needs, defines = [], None
        for section in elf.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                for entry, versions in section.iter_versions():
                    needs += [(entry.name, version.name) for version in versions]
            if isinstance(section, GNUVerDefSection):
                defines = [next(iter(names)).name for _, names in section.iter_versions()]
        facts |= {"needs": needs, "defines": defines}
    return facts


def _dynamic(segment: DynamicSegment, facts: DynamicFacts) -> None:
    for tag in segment.iter_tags():
        name = tag.entry.d_tag
        if name == "DT_NEEDED":
            facts["needed"].append(tag.needed)  # type: ignore[attr-defined]
        elif name in {"DT_SONAME", "DT_RPATH", "DT_RUNPATH"}:
            facts[name[3:].lower()] = getattr(tag, name[3:].lower())
        elif name in {"DT_FLAGS", "DT_FLAGS_1"}:
            facts[name[3:].lower()] = tag.entry.d_val


def by_readelf(path: Path) -> DynamicFacts:
    """Return names and paths as readelf prints them."""
    text = subprocess.run(["readelf", "-dW", str(path)], check=True, capture_output=True, text=True).stdout
    facts: DynamicFacts = {"needed": [], "soname": None, "rpath": None, "runpath": None}
    for kind, value in re.findall(r"\((NEEDED|SONAME|RPATH|RUNPATH)\)[^\[]*\[([^\]]*)\]", text):
        if kind == "NEEDED":
            facts["needed"].append(value)  # type: ignore[attr-defined]
        else:
            facts[kind.lower()] = value
    return facts


def undefined_by_readelf(path: Path) -> list[tuple[str, str | None]]:
    """Return (name, version) of every undefined symbol as readelf prints them."""
    command = ["readelf", "--dyn-syms", "-W", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(r" (?:GLOBAL|WEAK) +DEFAULT +UND (\S+?)(?:@+(\S+?))?(?: \(\d+\))?$", text, re.MULTILINE)
    return [(name, version or None) for name, version in found]


def symbols_by_pyelftools(path: Path) -> list[tuple[str, str, str, str | None, bool]]:
    """Return (name, binding, "undefined" or "defined", version, hidden) of every named symbol of the dynamic table."""
    with path.open("rb") as file:
        sections = list(ELFFile(file).iter_sections())
        table = next(section for section in sections if section["sh_type"] == "SHT_DYNSYM")
        marks = next((section for section in sections if isinstance(section, GNUVerSymSection)), None)
        versions = _version_names(sections)
        rows = []
        for index, symbol in enumerate(table.iter_symbols()):
            number = _mark(marks, index)
            if symbol.name and symbol["st_info"]["bind"] in {"STB_GLOBAL", "STB_WEAK", "STB_LOOS"}:
                state = "undefined" if symbol["st_shndx"] == "SHN_UNDEF" else "defined"
                binding = symbol["st_info"]["bind"]
                rows.append((symbol.name, binding, state, versions.get(number & 0x7FFF), bool(number & 0x8000)))
        return rows


def _version_names(sections: list[object]) -> dict[int, str]:
    versions: dict[int, str] = {}
    for section in sections:
        if isinstance(section, GNUVerNeedSection):
            for _, needed in section.iter_versions():
                versions |= {version["vna_other"] & 0x7FFF: version.name for version in needed}
        if isinstance(section, GNUVerDefSection):
            for entry, names in section.iter_versions():
                if entry["vd_ndx"] > 1:
                    versions[entry["vd_ndx"]] = next(iter(names)).name
    return versions


def _mark(marks: GNUVerSymSection | None, index: int) -> int:
    if marks is None:
        return 1
    number = marks.get_symbol(index)["ndx"]
    named = {"VER_NDX_LOCAL": 0, "VER_NDX_GLOBAL": 1}
    return named.get(number, number) if isinstance(number, str) else number
