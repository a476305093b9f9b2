"""Each rule of ld.so as a small case, put to the real loader and to the model: the answers must be equal."""

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.factories.make_elf import (
    add_dynamic,
    dynamic_slots,
    make_opener,
    make_program,
    make_shared,
    make_stub,
    patched,
)
from tests.unit.loader.real_loader import Step, ask_model, ask_real, cpu_flags

NOT_FOUND = "cannot open shared object file: No such file or directory"


@dataclass(frozen=True)
class Scene:
    """What a case asks, and what must come out: None is success, a text the error; names of files mapped at the end."""

    steps: Sequence[Step | str | Path]
    errors: Sequence[str | None]
    mapped: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "."


Build = Callable[[Path], Scene]
CASES: list[Build] = []


def case(build: Build) -> Build:
    CASES.append(build)
    return build


@case
def runpath_leads_to_a_direct_need(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/deep")
    return Scene([top], [None], ["libtop.so", "deep/libleaf.so"])


@case
def rpath_leads_to_a_direct_need(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], rpath="$ORIGIN/deep")
    return Scene([top], [None], ["libtop.so", "deep/libleaf.so"])


@case
def rpath_is_inherited_by_what_it_loaded(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    middle = make_shared(at / "deep/libmiddle.so", needed=[leaf])
    top = make_shared(at / "libtop.so", needed=[middle], rpath="$ORIGIN/deep")
    return Scene([top], [None], ["libtop.so", "deep/libmiddle.so", "deep/libleaf.so"])


@case
def runpath_is_not_inherited(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    middle = make_shared(at / "deep/libmiddle.so", needed=[leaf])
    top = make_shared(at / "libtop.so", needed=[middle], runpath="$ORIGIN/deep")
    return Scene([top], [f"libleaf.so: {NOT_FOUND}"], [])


@case
def a_runpath_in_between_switches_the_rpath_above_off(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    middle = make_shared(at / "deep/libmiddle.so", needed=[leaf], runpath="$ORIGIN/elsewhere")
    top = make_shared(at / "libtop.so", needed=[middle], rpath="$ORIGIN/deep")
    return Scene([top], [f"libleaf.so: {NOT_FOUND}"], [])


@case
def an_rpath_two_levels_up_is_used(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    lower = make_shared(at / "deep/liblower.so", needed=[leaf])
    middle = make_shared(at / "deep/libmiddle.so", needed=[lower], rpath="$ORIGIN/nothing")
    top = make_shared(at / "libtop.so", needed=[middle], rpath="$ORIGIN/deep")
    names = ["libtop.so", "deep/libmiddle.so", "deep/liblower.so", "deep/libleaf.so"]
    return Scene([top], [None], names)


@case
def the_middle_objects_runpath_hides_only_its_own_rpath_from_below(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    lower = make_shared(at / "mid/liblower.so", needed=[leaf])
    middle = make_shared(at / "deep/libmiddle.so", needed=[lower], runpath="$ORIGIN/../mid")
    top = make_shared(at / "libtop.so", needed=[middle], rpath="$ORIGIN/deep")
    names = ["libtop.so", "deep/libmiddle.so", "mid/liblower.so", "deep/libleaf.so"]
    return Scene([top], [None], names)


@case
def with_both_tags_runpath_wins(at: Path) -> Scene:
    leaf = make_shared(at / "one/libleaf.so")
    make_shared(at / "two/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], rpath="$ORIGIN/one:$ORIGIN/two")
    rpath = next(value for _, tag, value in dynamic_slots(top) if tag == 15)
    add_dynamic(top, 29, rpath + len("$ORIGIN/one:"))
    return Scene([top], [None], ["libtop.so", "two/libleaf.so"])


@case
def an_empty_runpath_names_nothing_and_still_switches_rpath_off(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    middle = make_shared(at / "deep/libmiddle.so", needed=[leaf], runpath="/zzz")
    data = middle.read_bytes()
    patched(middle, middle, {data.index(b"/zzz\0"): b"\0"})
    top = make_shared(at / "libtop.so", needed=[middle], rpath="$ORIGIN/deep")
    return Scene([top], [f"libleaf.so: {NOT_FOUND}"], [])


@case
def library_path_beats_runpath(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    make_shared(at / "other/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/deep")
    return Scene([top], [None], ["libtop.so", "other/libleaf.so"], env={"LD_LIBRARY_PATH": f"{at}/other"})


@case
def rpath_beats_library_path(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    make_shared(at / "other/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], rpath="$ORIGIN/deep")
    return Scene([top], [None], ["libtop.so", "deep/libleaf.so"], env={"LD_LIBRARY_PATH": f"{at}/other"})


@case
def a_trailing_colon_in_library_path_is_the_current_directory(at: Path) -> Scene:
    leaf = make_shared(at / "here/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf])
    env = {"LD_LIBRARY_PATH": f"{at}/nothing:"}
    return Scene([top], [None], ["libtop.so", "here/libleaf.so"], env=env, cwd="here")


@case
def a_semicolon_separates_library_path_too(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf])
    return Scene([top], [None], ["libtop.so", "deep/libleaf.so"], env={"LD_LIBRARY_PATH": f"{at}/no;{at}/deep"})


@case
def an_empty_library_path_is_not_the_current_directory(at: Path) -> Scene:
    leaf = make_shared(at / "here/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf])
    return Scene([top], [f"libleaf.so: {NOT_FOUND}"], [], env={"LD_LIBRARY_PATH": ""}, cwd="here")


@case
def a_relative_library_path_counts_from_the_current_directory(at: Path) -> Scene:
    leaf = make_shared(at / "here/deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf])
    env = {"LD_LIBRARY_PATH": "deep"}
    return Scene([top], [None], ["libtop.so", "here/deep/libleaf.so"], env=env, cwd="here")


@case
def a_trailing_colon_in_runpath_is_the_current_directory(at: Path) -> Scene:
    leaf = make_shared(at / "here/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN:")
    return Scene([top], [None], ["libtop.so", "here/libleaf.so"], cwd="here")


@case
def origin_is_the_folder_of_the_path_as_opened(at: Path) -> Scene:
    leaf = make_shared(at / "store/libleaf.so")
    make_shared(at / "venv/libleaf.so")
    top = make_shared(at / "store/libtop.so", needed=[leaf], runpath="$ORIGIN")
    (at / "venv/libtop.so").symlink_to(top)
    return Scene([at / "venv/libtop.so"], [None], ["store/libtop.so", "venv/libleaf.so"])


@case
def origin_in_braces_and_with_dots(at: Path) -> Scene:
    leaf = make_shared(at / "a/libleaf.so")
    top = make_shared(at / "b/libtop.so", needed=[leaf], rpath="${ORIGIN}/../a")
    return Scene([top], [None], ["b/libtop.so", "a/libleaf.so"])


@case
def lib_and_platform_are_expanded(at: Path) -> Scene:
    lib = "lib/x86_64-linux-gnu" if Path("/lib/x86_64-linux-gnu").is_dir() else "lib64"
    platform = "haswell" if {"GenuineIntel", "avx2", "bmi2", "fma", "movbe", "abm"} <= cpu_flags() else "x86_64"
    one = make_shared(at / lib / "libone.so")
    two = make_shared(at / platform / "libtwo.so")
    top = make_shared(at / "libtop.so", needed=[one, two], runpath="$ORIGIN/$LIB:$ORIGIN/$PLATFORM")
    return Scene([top], [None], ["libtop.so", f"{lib}/libone.so", f"{platform}/libtwo.so"])


@case
def a_token_is_a_whole_word(at: Path) -> Scene:
    leaf = make_shared(at / "$LIBRARY/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/$LIBRARY")
    return Scene([top], [None], ["libtop.so", "$LIBRARY/libleaf.so"])


@case
def the_best_hardware_subdirectory_comes_first(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    make_shared(at / "deep/glibc-hwcaps/x86-64-v2/libleaf.so")
    make_shared(at / "deep/glibc-hwcaps/x86-64-v3/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], rpath="$ORIGIN/deep")
    best = "x86-64-v3" if {"avx2", "bmi2", "fma", "movbe", "abm"} <= cpu_flags() else "x86-64-v2"
    return Scene([top], [None], ["libtop.so", f"deep/glibc-hwcaps/{best}/libleaf.so"])


@case
def an_unknown_hardware_subdirectory_is_not_searched(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    make_shared(at / "deep/glibc-hwcaps/x86-64-v9/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], rpath="$ORIGIN/deep")
    return Scene([top], [None], ["libtop.so", "deep/libleaf.so"])


@case
def what_is_loaded_under_that_soname_wins_over_every_path(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so.1")
    first = make_shared(at / "other/renamed.so", soname="libleaf.so.1")
    top = make_shared(at / "libtop.so", needed=[leaf], rpath="$ORIGIN/deep")
    return Scene([first, top], [None, None], ["other/renamed.so", "libtop.so"])


@case
def an_object_without_soname_is_not_known_by_its_file_name(at: Path) -> Scene:
    first = make_shared(at / "other/libleaf.so", soname=None)
    leaf = make_shared(at / "deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], rpath="$ORIGIN/deep")
    return Scene([first, top], [None, None], ["other/libleaf.so", "deep/libleaf.so", "libtop.so"])


@case
def the_name_it_was_found_by_is_remembered(at: Path) -> Scene:
    stub = make_stub(at, "libasked.so")
    make_shared(at / "deep/libasked.so", soname="libother.so")
    make_shared(at / "second/libasked.so")
    first = make_shared(at / "libfirst.so", needed=[stub], rpath="$ORIGIN/deep")
    second = make_shared(at / "libsecond.so", needed=[stub], rpath="$ORIGIN/second")
    return Scene([first, second], [None, None], ["libfirst.so", "libsecond.so", "deep/libasked.so"])


@case
def two_names_of_one_inode_are_one_object(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so", soname=None)
    (at / "linked").mkdir()
    os.link(leaf, at / "linked/libhard.so")
    (at / "linked/libsoft.so").symlink_to(leaf)
    needs = [make_stub(at, "libhard.so"), make_stub(at, "libsoft.so")]
    top = make_shared(at / "libtop.so", needed=needs, rpath="$ORIGIN/linked")
    return Scene([leaf, top], [None, None], ["deep/libleaf.so", "libtop.so"])


@case
def a_failed_dlopen_unmaps_what_it_brought_in(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf, make_stub(at, "libgone.so")], rpath="$ORIGIN/deep")
    again = make_shared(at / "libagain.so", needed=[leaf])
    return Scene([top, again], [f"libgone.so: {NOT_FOUND}", f"libleaf.so: {NOT_FOUND}"], [])


@case
def what_was_there_before_a_failed_dlopen_stays(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf, make_stub(at, "libgone.so")], rpath="$ORIGIN/deep")
    again = make_shared(at / "libagain.so", needed=[leaf])
    return Scene([leaf, top, again], [None, f"libgone.so: {NOT_FOUND}", None], ["deep/libleaf.so", "libagain.so"])


@case
def the_first_missing_name_is_the_first_breadth_first(at: Path) -> Scene:
    left = make_shared(at / "libleft.so", needed=[make_stub(at, "libdeepgone.so")])
    right = make_stub(at, "libneargone.so")
    top = make_shared(at / "libtop.so", needed=[left, right], rpath="$ORIGIN")
    return Scene([top], [f"libneargone.so: {NOT_FOUND}"], [])


@case
def a_missing_file_by_path(at: Path) -> Scene:
    return Scene([at / "libgone.so"], [f"{at}/libgone.so: {NOT_FOUND}"], [])


@case
def a_relative_path_counts_from_the_current_directory(at: Path) -> Scene:
    leaf = make_shared(at / "here/deep/libleaf.so")
    make_shared(at / "here/libtop.so", needed=[leaf], runpath="$ORIGIN/deep")
    return Scene(["./libtop.so"], [None], ["here/libtop.so", "here/deep/libleaf.so"], cwd="here")


@case
def a_need_with_a_slash_is_a_path(at: Path) -> Scene:
    make_shared(at / "here/sub/libplain.so", soname="sub/libplain.so")
    top = make_shared(at / "libtop.so", needed=[at / "here/sub/libplain.so"])
    return Scene([top], [None], ["libtop.so", "here/sub/libplain.so"], cwd="here")


@case
def a_need_with_a_slash_and_origin(at: Path) -> Scene:
    plain = make_shared(at / "sub/libplain.so", soname="$ORIGIN/sub/libplain.so")
    top = make_shared(at / "libtop.so", needed=[plain])
    return Scene([top], [None], ["libtop.so", "sub/libplain.so"])


@case
def a_file_of_the_other_class_is_passed_over(at: Path) -> Scene:
    leaf = make_shared(at / "two/libleaf.so")
    patched(leaf, at / "one/libleaf.so", {4: b"\x01"})
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/one:$ORIGIN/two")
    return Scene([top], [None], ["libtop.so", "two/libleaf.so"])


@case
def only_a_file_of_the_other_class_is_there(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/deep")
    patched(leaf, leaf, {4: b"\x01"})
    return Scene([top, leaf], ["libleaf.so: wrong ELF class: ELFCLASS32", f"{leaf}: wrong ELF class: ELFCLASS32"], [])


@case
def a_file_for_another_machine_is_passed_over(at: Path) -> Scene:
    leaf = make_shared(at / "two/libleaf.so")
    patched(leaf, at / "one/libleaf.so", {18: struct.pack("<H", 183)})
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/one:$ORIGIN/two")
    return Scene([top], [None], ["libtop.so", "two/libleaf.so"])


@case
def only_a_file_for_another_machine_is_there(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/deep")
    patched(leaf, leaf, {18: struct.pack("<H", 183)})
    return Scene([top, leaf], [f"libleaf.so: {NOT_FOUND}", f"{leaf}: {NOT_FOUND}"], [])


@case
def a_linker_script_ends_the_search(at: Path) -> Scene:
    leaf = make_shared(at / "two/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/one:$ORIGIN/two")
    (at / "one").mkdir()
    (at / "one/libleaf.so").write_text("INPUT(libleaf.so.1)\n" + "/* a linker script */\n" * 8)
    return Scene([top], [f"{at}/one/libleaf.so: invalid ELF header"], [])


@case
def an_empty_file_ends_the_search(at: Path) -> Scene:
    leaf = make_shared(at / "two/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/one:$ORIGIN/two")
    (at / "one").mkdir()
    (at / "one/libleaf.so").touch()
    return Scene([top], [f"{at}/one/libleaf.so: file too short"], [])


@case
def a_directory_of_that_name_ends_the_search(at: Path) -> Scene:
    leaf = make_shared(at / "two/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/one:$ORIGIN/two")
    (at / "one/libleaf.so").mkdir(parents=True)
    return Scene([top], [f"{at}/one/libleaf.so: cannot read file data: Is a directory"], [])


@case
def a_dangling_symlink_is_passed_over(at: Path) -> Scene:
    leaf = make_shared(at / "two/libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], runpath="$ORIGIN/one:$ORIGIN/two")
    (at / "one").mkdir()
    (at / "one/libleaf.so").symlink_to(at / "gone")
    return Scene([top], [None], ["libtop.so", "two/libleaf.so"])


@case
def programs_are_not_loaded(at: Path) -> Scene:
    pie = make_program(at / "pie", flags=["-pie", "-fPIE"])
    fixed = make_program(at / "fixed", flags=["-no-pie"])
    errors = [
        f"{pie}: cannot dynamically load position-independent executable",
        f"{fixed}: cannot dynamically load executable",
    ]
    return Scene([pie, fixed], errors, [])


@case
def a_relocatable_file_is_not_loaded(at: Path) -> Scene:
    leaf = make_shared(at / "libleaf.so")
    patched(leaf, leaf, {16: struct.pack("<H", 1)})
    return Scene([leaf], [f"{leaf}: only ET_DYN and ET_EXEC can be loaded"], [])


@case
def a_version_that_the_found_file_lacks(at: Path) -> Scene:
    new = make_shared(at / "new/libleaf.so", exports=["feature"], version="LEAF_2")
    make_shared(at / "old/libleaf.so", exports=["feature"], version="LEAF_1")
    top = make_shared(at / "libtop.so", needed=[new], undefined=["feature"], runpath="$ORIGIN/old")
    message = f"{at}/old/libleaf.so: version `LEAF_2' not found (required by {at}/libtop.so)"
    return Scene([top], [message], [])


@case
def a_file_without_any_version_is_accepted(at: Path) -> Scene:
    new = make_shared(at / "new/libleaf.so", exports=["feature"], version="LEAF_2")
    make_shared(at / "old/libleaf.so", exports=["feature"])
    top = make_shared(at / "libtop.so", needed=[new], undefined=["feature"], runpath="$ORIGIN/old")
    return Scene([top], [None], ["libtop.so", "old/libleaf.so"])


@case
def names_come_before_versions(at: Path) -> Scene:
    new = make_shared(at / "new/libleaf.so", exports=["feature"], version="LEAF_2")
    make_shared(at / "old/libleaf.so", exports=["feature"], version="LEAF_1")
    low = make_shared(at / "old/liblow.so", needed=[make_stub(at, "libgone.so")])
    top = make_shared(at / "libtop.so", needed=[new, low], undefined=["feature"], runpath="$ORIGIN/old")
    return Scene([top], [f"libgone.so: {NOT_FOUND}"], [])


@case
def a_caller_of_dlopen_lends_its_own_runpath(at: Path) -> Scene:
    make_shared(at / "deep/libpart.so")
    shim = make_opener(at / "libshim.so", runpath="$ORIGIN/deep")
    steps = [shim, Step("libpart.so", opener=str(shim)), Step("libpart.so")]
    return Scene(steps, [None, None, None], ["libshim.so", "deep/libpart.so"])


@case
def dlopen_by_name_from_elsewhere_does_not_see_that_runpath(at: Path) -> Scene:
    make_shared(at / "deep/libpart.so")
    shim = make_opener(at / "libshim.so", runpath="$ORIGIN/deep")
    return Scene([shim, Step("libpart.so")], [None, f"libpart.so: {NOT_FOUND}"], ["libshim.so"])


@case
def library_path_beats_the_callers_runpath_in_dlopen(at: Path) -> Scene:
    make_shared(at / "deep/libpart.so")
    make_shared(at / "other/libpart.so")
    shim = make_opener(at / "libshim.so", runpath="$ORIGIN/deep")
    steps = [shim, Step("libpart.so", opener=str(shim))]
    return Scene(steps, [None, None], ["libshim.so", "other/libpart.so"], env={"LD_LIBRARY_PATH": f"{at}/other"})


@case
def what_dlopen_opened_does_not_inherit_the_callers_rpath(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    make_shared(at / "deep/libpart.so", needed=[leaf])
    shim = make_opener(at / "libshim.so", rpath="$ORIGIN/deep")
    steps = [shim, Step("libpart.so", opener=str(shim))]
    return Scene(steps, [None, f"libleaf.so: {NOT_FOUND}"], ["libshim.so"])


@case
def the_rpath_up_the_callers_chain_serves_dlopen_too(at: Path) -> Scene:
    make_shared(at / "deep/libpart.so")
    shim = make_opener(at / "deep/libshim.so")
    top = make_shared(at / "libtop.so", needed=[shim], rpath="$ORIGIN/deep")
    steps = [top, Step("libpart.so", opener=str(shim))]
    return Scene(steps, [None, None], ["libtop.so", "deep/libshim.so", "deep/libpart.so"])


@case
def preloaded_objects_are_known_by_soname(at: Path) -> Scene:
    leaf = make_shared(at / "deep/libleaf.so")
    hook = make_shared(at / "hook/anything.so", soname="libleaf.so")
    top = make_shared(at / "libtop.so", needed=[leaf], rpath="$ORIGIN/deep")
    return Scene([top], [None], ["hook/anything.so", "libtop.so"], env={"LD_PRELOAD": str(hook)})


@case
def a_preload_that_is_not_there_is_ignored(at: Path) -> Scene:
    top = make_shared(at / "libtop.so")
    hook = make_shared(at / "hook.so")
    env = {"LD_PRELOAD": f"{at}/gone.so:libalsogone.so {hook}"}
    return Scene([top], [None], ["hook.so", "libtop.so"], env=env)


@case
def default_directories_can_be_switched_off(at: Path) -> Scene:
    stub = make_stub(at, "libz.so.1")
    top = make_shared(at / "libtop.so", needed=[stub], flags=["-nostdlib", "-Wl,-z,nodefaultlib"])
    return Scene([top], ["libz.so.1: cannot open shared object file"], [])


@case
def default_directories_switched_off_leave_the_others(at: Path) -> Scene:
    stub = make_stub(at, "libz.so.1")
    (at / "deep").mkdir()
    flags = ["-nostdlib", "-Wl,-z,nodefaultlib"]
    top = make_shared(at / "libtop.so", needed=[stub], flags=flags, runpath="$ORIGIN/deep")
    return Scene([top], [f"libz.so.1: {NOT_FOUND}"], [])


@case
def a_cycle_of_needs_ends(at: Path) -> Scene:
    make_shared(at / "libb.so")
    make_shared(at / "liba.so", needed=[at / "libb.so"], runpath="$ORIGIN")
    make_shared(at / "libb.so", needed=[at / "liba.so"], runpath="$ORIGIN")
    return Scene([at / "liba.so"], [None], ["liba.so", "libb.so"])


@case
def an_undefined_symbol_ends_the_load(at: Path) -> Scene:
    stub = make_stub(at, "libleaf.so", exports=["lost"])
    leaf = make_shared(at / "libleaf.so")
    top = make_shared(at / "libtop.so", needed=[stub], undefined=["lost"], runpath="$ORIGIN")
    return Scene([top, leaf], [f"{top}: undefined symbol: lost", None], ["libleaf.so"])


@case
def an_undefined_symbol_with_a_version(at: Path) -> Scene:
    stub = make_stub(at, "libleaf.so", exports=["kept", "lost"], version="LEAF_1")
    make_shared(at / "libleaf.so", exports=["kept"], version="LEAF_1")
    top = make_shared(at / "libtop.so", needed=[stub], undefined=["kept", "lost"], runpath="$ORIGIN")
    return Scene([top], [f"{top}: undefined symbol: lost, version LEAF_1"], [])


@case
def a_weak_symbol_may_stay_undefined(at: Path) -> Scene:
    top = make_shared(at / "libtop.so", weak=["nowhere"])
    return Scene([top], [None], ["libtop.so"])


@case
def a_symbol_may_come_from_another_object_in_scope(at: Path) -> Scene:
    make_shared(at / "libleaf.so")
    other = make_shared(at / "libother.so", exports=["moved"])
    stub = make_stub(at, "libleaf.so", exports=["moved"])
    top = make_shared(at / "libtop.so", needed=[stub, other], undefined=["moved"], runpath="$ORIGIN")
    return Scene([top], [None], ["libtop.so", "libleaf.so", "libother.so"])


@case
def an_object_opened_globally_lends_its_symbols(at: Path) -> Scene:
    helper = make_shared(at / "libhelper.so", exports=["lent"])
    top = make_shared(at / "libtop.so", undefined=["lent"])
    steps = [Step(str(helper), global_=True), top]
    return Scene(steps, [None, None], ["libhelper.so", "libtop.so"])


@case
def an_object_opened_locally_does_not(at: Path) -> Scene:
    helper = make_shared(at / "libhelper.so", exports=["lent"])
    top = make_shared(at / "libtop.so", undefined=["lent"])
    return Scene([helper, top], [None, f"{top}: undefined symbol: lent"], ["libhelper.so"])


@case
def opening_it_again_globally_lends_them_after_all(at: Path) -> Scene:
    helper = make_shared(at / "libhelper.so", exports=["lent"])
    top = make_shared(at / "libtop.so", undefined=["lent"])
    return Scene([helper, Step(str(helper), global_=True), top], [None, None, None], ["libhelper.so", "libtop.so"])


@case
def a_preloaded_object_lends_its_symbols(at: Path) -> Scene:
    hook = make_shared(at / "hook.so", exports=["lent"])
    top = make_shared(at / "libtop.so", undefined=["lent"])
    return Scene([top], [None], ["hook.so", "libtop.so"], env={"LD_PRELOAD": str(hook)})


@case
def dependencies_are_bound_before_what_needs_them(at: Path) -> Scene:
    low = make_shared(at / "liblow.so", undefined=["lost_below"])
    top = make_shared(at / "libtop.so", needed=[low], undefined=["lost_above"], runpath="$ORIGIN")
    return Scene([top], [f"{at}/liblow.so: undefined symbol: lost_below"], [])


@case
def of_two_siblings_the_later_is_bound_first(at: Path) -> Scene:
    one = make_shared(at / "libone.so", undefined=["lost_one"])
    two = make_shared(at / "libtwo.so", undefined=["lost_two"])
    top = make_shared(at / "libtop.so", needed=[one, two], runpath="$ORIGIN")
    return Scene([top], [f"{at}/libtwo.so: undefined symbol: lost_two"], [])


@case
def a_sibling_that_the_later_one_needs_is_bound_before_it(at: Path) -> Scene:
    one = make_shared(at / "libone.so", undefined=["lost_one"])
    two = make_shared(at / "libtwo.so", needed=[one], undefined=["lost_two"], runpath="$ORIGIN")
    top = make_shared(at / "libtop.so", needed=[one, two], runpath="$ORIGIN")
    return Scene([top], [f"{at}/libone.so: undefined symbol: lost_one"], [])


@case
def versions_are_checked_before_symbols(at: Path) -> Scene:
    stub = make_stub(at, "libleaf.so", exports=["f"], version="LEAF_2")
    make_shared(at / "libleaf.so", exports=["f"], version="LEAF_1")
    low = make_shared(at / "liblow.so", undefined=["lost"])
    top = make_shared(at / "libtop.so", needed=[low, stub], undefined=["f"], runpath="$ORIGIN")
    return Scene([top], [f"{at}/libleaf.so: version `LEAF_2' not found (required by {top})"], [])


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_the_model_answers_as_the_loader_does(build: Build, tmp_path: Path) -> None:
    scene = build(tmp_path)
    steps = [step if isinstance(step, Step) else Step(str(step)) for step in scene.steps]
    cwd = tmp_path / scene.cwd
    real = ask_real(tmp_path, steps, scene.env, cwd)
    expected = frozenset(str((tmp_path / name).resolve()) for name in scene.mapped)
    # The case itself is checked first: a rule that the real loader does not follow would make the comparison worthless.
    assert [answer.error for answer in real] == list(scene.errors)
    assert real[-1].mapped == expected
    assert ask_model(tmp_path, steps, scene.env, cwd) == real
