"""Which GPU architectures an object holds code for, by the headers of its fat binaries."""

from pathlib import Path

import pytest

from envdoctor.elf.fatbin import architectures
from envdoctor.errors import ElfError
from tests.factories.make_elf import make_shared
from tests.factories.make_fatbin import PTX, SM, binary, entry, make_fat, make_with_section

TORCH = [(SM, 70), (SM, 90), (SM, 100), (PTX, 120)]


def test_what_most_fat_binaries_hold_is_told(tmp_path: Path) -> None:
    # As in torch 2.10.0+cu128: one kernel has code for sm_89 besides; an unknown kind of entry says nothing.
    made = make_fat(tmp_path / "libfat.so", [TORCH, [*TORCH, (SM, 89)], [*TORCH, (0x40, 75)]])
    assert architectures(str(made)) == ("sm_70", "sm_90", "sm_100", "compute_120")


def test_what_only_half_of_them_hold_is_not(tmp_path: Path) -> None:
    assert architectures(str(make_fat(tmp_path / "libfat.so", [[(SM, 90)], [(SM, 90), (SM, 100)]]))) == ("sm_90",)


def test_a_header_that_a_later_toolkit_made_longer_is_read(tmp_path: Path) -> None:
    longer = WHOLE[:6] + (24).to_bytes(2, "little") + WHOLE[8:16] + b"\0" * 8 + WHOLE[16:]
    assert architectures(str(make_with_section(tmp_path / "libfat.so", longer))) == architectures(
        str(make_with_section(tmp_path / "libplain.so", WHOLE))
    )


@pytest.mark.parametrize("content", [None, b"", b"\0" * 64], ids=["no section", "an empty one", "another's"])
def test_an_object_without_any(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "libplain.so"
    made = make_shared(path) if content is None else make_with_section(path, content)
    assert architectures(str(made)) == ()


def test_of_thousands_the_first_are_read(tmp_path: Path) -> None:
    made = make_with_section(tmp_path / "libfat.so", binary([(SM, 90)]) * 512 + b"\xff" * 64)
    assert architectures(str(made)) == ("sm_90",)


WHOLE = binary(TORCH)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (WHOLE + b"\xff" * 16, "no fat binary at offset"),
        (WHOLE[:8] + (1 << 60).to_bytes(8, "little") + WHOLE[16:], "no fat binary at offset"),
        (WHOLE[:6] + b"\0\0" + WHOLE[8:], "no fat binary at offset"),
        (WHOLE[:16] + entry(SM, 90, header=64).replace(b"\x40", b"\0", 1) + WHOLE[88:], "does not fit into it"),
        (WHOLE[:24] + b"\xff" * 8 + WHOLE[32:], "does not fit into it"),
    ],
    ids=["noise behind it", "longer than the section", "no header", "an entry without a header", "an endless payload"],
)
def test_a_contradiction_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    made = make_with_section(tmp_path / "libfat.so", content)
    with pytest.raises(ElfError) as caught:
        architectures(str(made))
    assert caught.value.message.startswith(f"{made}: ")
    assert problem in caught.value.message


def test_a_file_cut_short_is_refused_or_says_that_it_holds_none(tmp_path: Path) -> None:
    data = make_fat(tmp_path / "libfat.so", [TORCH]).read_bytes()
    cut = tmp_path / "libcut.so"
    told: list[tuple[str, ...]] = []
    refused: list[str] = []
    for end in range(0, len(data), 64):
        cut.write_bytes(data[:end])
        try:
            told.append(architectures(str(cut)))
        except ElfError as error:
            refused.append(error.message)
    # The section table is at the end: without it there is no section.
    assert set(told) == {()}
    assert {message.partition(": ")[0] for message in refused} == {str(cut)}
