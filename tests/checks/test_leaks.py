"""ED103, ED104, ED205, ED206, ED409, ED410, ED412, ED602 to ED605: what leaks in, shadows, or was left behind."""

import subprocess
from codecs import BOM_UTF8
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import (
    another_python,
    conda_beside_pip,
    contested_module,
    damaged_distribution,
    duplicate_distribution,
    editable_install,
    half_removed,
    import_path_leak,
    incomplete_metadata,
    library_path_leak,
    shadowed_module,
    stale_launcher,
    startup_hook,
)
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.loading.extension_modules import ExtensionModules, ForeignExtension, Witness, any_fits
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.machine.library_path import LibraryFolder, Preload
from envdoctor.probes.venv import shadowing
from envdoctor.probes.venv.conda import Conda, CondaPackage
from envdoctor.probes.venv.distributions import Leftover
from envdoctor.probes.venv.launchers import Launcher, Launchers, StrayScript
from envdoctor.probes.venv.search_path import PathEntry, SearchPath
from envdoctor.probes.venv.shadowing import Shadow, Shadowing
from envdoctor.probes.venv.startup_hooks import Hook, StartupHooks
from tests.factories import make_facts as facts
from tests.factories.examine_venv import verdict_of
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import make_wheel

PREFIX = f"uv pip install --python {facts.PREFIX}/bin/python"


def _launchers(*commands: Launcher, stray: tuple[StrayScript, ...] = ()) -> Launchers:
    return Launchers(on_path=True, commands=commands, scripts=9, stray=stray)


def test_finds_ed103_torchrun_of_another_environment() -> None:
    command = Launcher(command="torchrun", path="/u/bin/torchrun", interpreter="/opt/python3.12", inside=False)
    (finding,) = stale_launcher.run(facts.case(_launchers(command)))
    assert finding.severity == "error"
    assert finding.title == (
        "torchrun on PATH is /u/bin/torchrun, which starts /opt/python3.12, not this environment's"
    )
    assert finding.remediation.commands == (f'export PATH={facts.PREFIX}/bin:"$PATH"',)


def test_finds_ed103_scripts_that_point_elsewhere() -> None:
    stray = tuple(
        StrayScript(name=name, interpreter="/old/venv/bin/python", exists=False, owner="torch") for name in "abcdefgh"
    )
    (finding,) = stale_launcher.run(facts.case(replace(_launchers(stray=stray), activates="/old/venv")))
    assert finding.title == (
        "8 scripts start /old/venv/bin/python, which does not exist: this venv was moved or copied"
    )
    assert finding.evidence[-2:] == ("and 2 more of 9 scripts", "bin/activate: VIRTUAL_ENV=/old/venv")
    assert finding.remediation.commands == (
        f"uv venv --allow-existing --python /usr/bin/python3.12 {facts.PREFIX}",
        f"{PREFIX} --no-deps --reinstall-package torch torch===2.10.0",
    )


def test_finds_ed103_what_is_written_again_where_only_scripts_point_elsewhere() -> None:
    stray = [StrayScript(name=name, interpreter="/old/bin/python", exists=True, owner="torch") for name in "abcde"]
    reinstall = (f"{PREFIX} --no-deps --reinstall-package torch torch===2.10.0",)
    for count, title in (
        (1, "1 script starts /old/bin/python, which is another environment's"),
        (4, "4 scripts start /old/bin/python, which is another environment's"),
        (5, "5 scripts start /old/bin/python, which is another environment's"),
    ):
        # bin/activate names this folder: that the venv was moved is not known, however many scripts there are.
        (finding,) = stale_launcher.run(facts.case(_launchers(stray=tuple(stray[:count]))))
        assert (finding.title, finding.remediation) == (
            title,
            Remediation(text="write the owners' scripts again", commands=reinstall, safe=False),
        )


def test_finds_ed103_a_stale_activate_script_beside_scripts_of_a_third_folder() -> None:
    stray = (StrayScript(name="a", interpreter="/third/bin/python", exists=False, owner="torch"),)
    found = list(stale_launcher.run(facts.case(replace(_launchers(stray=stray), activates="/old/venv"))))
    assert [(item.subject, item.title, item.remediation.commands) for item in found] == [
        (
            "bin/activate",
            "bin/activate puts /old/venv/bin first on PATH, not this venv's: this venv was moved or copied",
            (f"uv venv --allow-existing --python /usr/bin/python3.12 {facts.PREFIX}",),
        ),
        (
            "bin: /third/bin/python",
            "1 script starts /third/bin/python, which does not exist",
            (f"{PREFIX} --no-deps --reinstall-package torch torch===2.10.0",),
        ),
    ]


def test_finds_ed103_each_interpreter_by_itself() -> None:
    def script(name: str, interpreter: str, *, exists: bool = False, foreign: bool = False) -> StrayScript:
        return StrayScript(name=name, interpreter=interpreter, exists=exists, owner="torch", foreign=foreign)

    stray = (
        script("a", "/opt/other/bin/python", exists=True),
        script("b", "/gone/bin/python"),
        script("c", "/usr/bin/perl", foreign=True),
        script("d", "/opt/other/bin/python", exists=True),
    )
    found = list(stale_launcher.run(facts.case(_launchers(stray=stray))))
    reinstall = (f"{PREFIX} --no-deps --reinstall-package torch torch===2.10.0",)
    assert [(item.severity, item.title, item.subject, item.remediation.commands) for item in found] == [
        ("error", "1 script starts /gone/bin/python, which does not exist", "bin: /gone/bin/python", reinstall),
        (
            "error",
            "2 scripts start /opt/other/bin/python, which is another environment's",
            "bin: /opt/other/bin/python",
            reinstall,
        ),
        ("warning", "1 script starts /usr/bin/perl, which does not exist", "bin: /usr/bin/perl", ()),
    ]
    assert found[2].remediation.text == (
        "Install perl on this machine if you use it: a reinstall writes the same line again"
    )


def test_finds_ed103_a_stale_activate_script_beside_scripts_of_other_programs() -> None:
    stray = (StrayScript(name="c", interpreter="/usr/bin/perl", exists=False, owner="", foreign=True),)
    found = list(stale_launcher.run(facts.case(replace(_launchers(stray=stray), activates="/old/venv"))))
    assert [(item.severity, item.subject, item.remediation.commands) for item in found] == [
        ("warning", "bin/activate", (f"uv venv --allow-existing --python /usr/bin/python3.12 {facts.PREFIX}",)),
        ("warning", "bin: /usr/bin/perl", ()),
    ]


def test_finds_ed103_no_command_for_scripts_that_start_with_the_venvs_own_interpreter() -> None:
    python = f"{facts.PREFIX}/bin/python"
    stray = tuple(StrayScript(name=name, interpreter=python, exists=False, owner="", own=True) for name in "abcdefgh")
    (finding,) = stale_launcher.run(facts.case(_launchers(stray=stray)))
    assert finding.title == f"8 scripts start {python}, which does not exist"
    assert finding.remediation == Remediation(
        text=f"bring back {python}, or delete the scripts that start it", safe=False
    )


def test_passes_ed103_the_environments_own_and_a_launcher_it_has_no_use_for() -> None:
    own = Launcher(command="torchrun", path=f"{facts.PREFIX}/bin/torchrun", interpreter="", inside=True)
    assert list(stale_launcher.run(facts.case(_launchers(own)))) == []
    other = replace(own, inside=False, path="/usr/local/bin/torchrun")
    without_torch = replace(facts.TORCH, present=False)
    assert list(stale_launcher.run(facts.case(_launchers(other), without_torch))) == []


def _tagged(*tags: str, **changes: object) -> object:
    return facts.distributions(facts.distribution("thing", "1.0", tags=tags, **changes))


@pytest.mark.parametrize(
    "tags",
    [
        ("py3-none-any",),
        ("py2-none-any", "py3-none-any"),
        ("py2.py3-none-any",),
        ("cp312-cp312-manylinux_2_28_x86_64",),
        ("cp38-abi3-manylinux_2_17_x86_64", "cp38-abi3-manylinux2014_x86_64"),
        ("cp37-none-linux_x86_64",),
        ("py3-none-manylinux_2_27_x86_64",),
        ("py312-none-any",),
        ("cp312-cp312-musllinux_1_2_x86_64",),
        (),
    ],
)
def test_passes_ed104_tags_that_fit(tags: tuple[str, ...]) -> None:
    assert list(another_python.run(facts.case(_tagged(*tags)))) == []
    assert not tags or any_fits(tags, facts.PYTHON)


@pytest.mark.parametrize(
    "tag",
    [
        "cp310-cp310-manylinux_2_28_x86_64",
        "cp313-cp313-manylinux_2_28_x86_64",
        "cp313-abi3-manylinux_2_28_x86_64",
        "cp312-cp312t-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux_2_28_aarch64",
        "cp312-cp312-macosx_11_0_arm64",
        "py3-none-win_amd64",
        "py2-none-any",
    ],
)
def test_finds_ed104_by_the_files_and_not_by_the_tag_alone(tag: str) -> None:
    assert not any_fits((tag,), facts.PYTHON)
    assert list(another_python.run(facts.case(_tagged(tag)))) == []

    def found(kind: Literal["machine", "module"]) -> Finding:
        witness = Witness(owner="thing", path="thing/_C.so", kind=kind)
        extensions = ExtensionModules(tagged=0, foreign=(), witnesses=(witness,))
        (finding,) = another_python.run(facts.case(_tagged(tag), extensions))
        return finding

    foreign, doubtful = found("machine"), found("module")
    assert (foreign.severity, foreign.title) == (
        "error",
        f"thing 1.0 cannot be imported by CPython 3.12 on x86_64: built for {tag}",
    )
    assert foreign.evidence == (f"thing 1.0: thing/_C.so is for another machine, as its wheel's tag says: {tag}",)
    assert foreign.remediation.commands == (f"{PREFIX} --no-deps --reinstall-package thing thing==1.0",)
    assert (doubtful.severity, doubtful.title) == (
        "warning",
        f"thing 1.0 was built for {tag}, and this is CPython 3.12 on x86_64",
    )
    assert doubtful.remediation.commands == ()


def test_finds_ed104_an_extension_of_another_python() -> None:
    path = "thing/_C.cpython-310-x86_64-linux-gnu.so"
    foreign = ForeignExtension(owner="thing", path=path, tag="cpython-310-x86_64-linux-gnu")
    extensions = ExtensionModules(tagged=1, foreign=(foreign,))
    (finding,) = another_python.run(facts.case(_tagged("py3-none-any"), extensions))
    assert finding.title == (
        "thing 1.0 cannot be imported by CPython 3.12 on x86_64: built for cpython-310-x86_64-linux-gnu"
    )
    assert finding.evidence == (f"thing 1.0: {path}, and no file of that module for this Python",)


@pytest.mark.parametrize(
    ("requires", "found"), [(">=3.13", 1), ("<3.12", 1), (">=3.9,<4", 0), ("", 0), ("nonsense", 0)]
)
def test_finds_ed104_a_distribution_that_asks_for_another_python(requires: str, found: int) -> None:
    findings = list(another_python.run(facts.case(_tagged("py3-none-any", requires_python=requires))))
    assert [(item.severity, item.title) for item in findings] == [
        ("warning", "thing 1.0 does not support CPython 3.12.1")
    ] * found


@pytest.mark.parametrize(
    ("has_metadata", "has_record", "lacks"),
    [(True, False, "no RECORD"), (False, True, "no METADATA"), (False, False, "no METADATA and no RECORD")],
)
def test_finds_ed205_what_is_lacking(has_metadata: bool, has_record: bool, lacks: str) -> None:  # noqa: FBT001
    item = facts.distribution("torch", "2.10.0", has_metadata=has_metadata, has_record=has_record)
    (finding,) = incomplete_metadata.run(facts.case(facts.distributions(item)))
    assert finding.title == f"torch 2.10.0 was installed incompletely: its dist-info has {lacks}"


def test_passes_ed205_what_other_tools_leave_without_record() -> None:
    bare = facts.distribution("thing", has_record=False)
    others = (
        replace(bare, origin="base site-packages"),
        replace(bare, folder="thing.egg-info"),
        replace(bare, shadowed=True),
    )
    for item in others:
        assert list(incomplete_metadata.run(facts.case(facts.distributions(item)))) == []
    system = replace(facts.PYTHON, is_venv=False)
    assert list(incomplete_metadata.run(facts.case(facts.distributions(bare), system))) == []


def _left(*left: Leftover, installed: tuple[object, ...] = ()) -> object:
    return replace(facts.distributions(*installed), leftovers=left)  # type: ignore[arg-type, type-var]


REMAINS = (
    Leftover(path=f"{facts.SITE}/~orch", name="", version=""),
    Leftover(path=f"{facts.SITE}/~orch-2.9.1.dist-info", name="torch", version="2.9.1"),
)


def test_finds_ed206_a_distribution_that_is_gone() -> None:
    (finding,) = half_removed.run(facts.case(_left(*REMAINS)))
    assert (finding.severity, finding.title) == (
        "error",
        "torch 2.9.1 is half uninstalled: only what pip set aside is left",
    )


def test_finds_ed206_litter_beside_the_whole() -> None:
    (finding,) = half_removed.run(facts.case(_left(*REMAINS, installed=(facts.distribution("torch", "2.10.0"),))))
    assert finding.severity == "warning"
    assert finding.remediation.commands == (f"rm -r '{facts.SITE}/~orch' '{facts.SITE}/~orch-2.9.1.dist-info'",)


def test_ed206_the_locks_version_is_put_back() -> None:
    (finding,) = half_removed.run(facts.case(_left(*REMAINS), pins=("torch==2.10.0+cu128",)))
    assert finding.remediation.commands[0].startswith(f"{PREFIX} --no-deps torch==2.10.0+cu128 && rm -r ")


def test_passes_ed206_nothing_left() -> None:
    assert list(half_removed.run(facts.case())) == []


def _contest(path: str, *claims: tuple[str, str], on_disk: tuple[str, ...] = (), told_by: str = "size") -> object:
    return replace(facts.FILES, contested=(facts.contested(path, *claims, on_disk=on_disk, told_by=told_by),))


def test_finds_ed409_and_does_not_guess() -> None:
    owners = (("opencv-python", "4.12"), ("opencv-python-headless", "4.12"))
    title = "the module cv2 is installed by opencv-python 4.12 and opencv-python-headless 4.12 at once"
    (finding,) = contested_module.run(facts.case(_contest("cv2/cv2.abi3.so", *owners, told_by="not told")))
    assert finding.title == title
    assert (finding.severity, finding.confidence, finding.remediation.commands) == ("warning", "low", ())
    (finding,) = contested_module.run(facts.case(_contest("cv2/cv2.abi3.so", *owners)))
    assert finding.title == f"{title}; the one on disk is of none of them"
    assert (finding.severity, finding.confidence, finding.remediation.commands) == ("error", "high", ())


def test_finds_ed409_any_module_by_its_entry_file() -> None:
    files = _contest("attrs/__init__.py", ("one", "1"), ("two", "2"), on_disk=("two",))
    (finding,) = contested_module.run(facts.case(files, pins=("one==1",)))
    assert (finding.severity, finding.title) == (
        "error",
        "the module attrs is installed by one 1 and two 2 at once; the one on disk is two's",
    )


@pytest.mark.parametrize(
    "path", ["nvidia/nccl/lib/libnccl.so.2", "tests/__init__.py", "README.md", "LICENSE", "examples/a.py"]
)
def test_passes_ed409_what_is_no_module_of_both(path: str) -> None:
    files = _contest(path, ("one", "1"), ("two", "2"), on_disk=("two",))
    assert list(contested_module.run(facts.case(files))) == []


def test_finds_ed409_the_pynvml_shim_and_who_asks_for_it() -> None:
    hook = Hook(path=f"{facts.SITE}/_x.pth", lines=("import _x",), owner="pynvml", origin="site-packages")
    installed = facts.distributions(
        facts.distribution("pynvml", "13.0.1"), facts.distribution("old", "1", requires=("pynvml",))
    )
    (finding,) = contested_module.run(facts.case(StartupHooks(hooks=(hook,)), installed))
    assert finding.severity == "note"
    assert finding.evidence[-1] == "required by old: their requirement should be nvidia-ml-py"


def _shadow(module: str, origin: str, front: str = "/leak", behind: str = facts.SITE) -> Shadow:
    return Shadow(module=module, front=front, front_origin=origin, behind=behind, behind_origin="site-packages")


def test_finds_ed410_an_installed_package_on_pythonpath() -> None:
    shadows = Shadowing(shadows=(_shadow("numpy", "PYTHONPATH"), _shadow("torch", "PYTHONPATH")))
    installed = facts.distributions(
        facts.distribution("torch", "2.6.0", site="/leak", origin="PYTHONPATH"),
        facts.distribution("torch", "2.10.0", shadowed=True),
    )
    environment = facts.variables(PYTHONPATH="/leak/:/src")
    (finding,) = shadowed_module.run(facts.case(shadows, installed, environment))
    assert (finding.severity, finding.title) == (
        "error",
        f"torch 2.6.0 and 1 more would be imported from /leak (PYTHONPATH) instead of 2.10.0 in {facts.SITE}",
    )
    assert finding.causes == ("shadow-folder:/leak", "shadow:torch", "shadow:numpy")
    assert finding.remediation.commands == ("export PYTHONPATH=/src",)


def test_finds_ed410_a_standard_module_on_pythonpath() -> None:
    shadow = replace(_shadow("typing", "PYTHONPATH"), behind="the standard library", behind_origin="standard library")
    (finding,) = shadowed_module.run(facts.case(Shadowing(shadows=(shadow,)), facts.variables(PYTHONPATH="/leak")))
    assert (finding.severity, finding.title) == (
        "error",
        "typing would be imported from /leak (PYTHONPATH) instead of the standard library",
    )
    assert finding.remediation.commands == ("unset PYTHONPATH",)


def test_finds_ed410_a_stale_copy_in_front_of_an_editable_source() -> None:
    shadow = replace(
        _shadow("mine", "site-packages", facts.SITE), behind="/src", behind_origin="__editable__.mine-1.pth"
    )
    installed = facts.distributions(facts.distribution("mine", "1", editable=True))
    (finding,) = shadowed_module.run(facts.case(Shadowing(shadows=(shadow,)), installed))
    assert finding.title == f"mine 1 would be imported from {facts.SITE} (site-packages) instead of /src"
    assert finding.remediation.commands == (f"rm -r {facts.SITE}/mine",)


def test_passes_ed410_no_shadow() -> None:
    assert list(shadowed_module.run(facts.case())) == []


def test_finds_ed412_editable_installs_as_one_note() -> None:
    installed = facts.distributions(
        facts.distribution("one", "1", editable=True, direct_url="file:///src/one"),
        facts.distribution("two", "2", editable=True, direct_url="file:///src/two"),
    )
    (finding,) = editable_install.run(facts.case(installed))
    assert (finding.severity, finding.title) == (
        "note",
        "2 distributions are imported from a source folder: one, two",
    )


def test_passes_ed412_wheels() -> None:
    assert list(editable_install.run(facts.case())) == []


def _library_path(*folders: LibraryFolder, **changes: object) -> object:
    return replace(facts.LIBRARY_PATH, folders=folders, **changes)


def _folder(element: str, *shadows: str) -> LibraryFolder:
    return LibraryFolder(element=element, path=element or "/cwd", present=True, shadows=shadows)


def test_finds_ed602_a_toolkit_in_front() -> None:
    facts_of = _library_path(_folder("/opt/cuda-12.1/lib64", "libnvJitLink.so.12"), _folder("/opt/mpi"), _folder(""))
    (finding,) = library_path_leak.run(facts.case(facts_of))
    assert (finding.severity, finding.title) == (
        "warning",
        "LD_LIBRARY_PATH puts /opt/cuda-12.1/lib64 in front of this environment's libnvJitLink.so.12",
    )
    assert finding.evidence[-1] == "an empty element means the current folder"
    # The empty element goes too.
    assert finding.remediation.commands == ("export LD_LIBRARY_PATH=/opt/mpi",)


def test_finds_ed602_a_library_that_is_really_taken_from_there() -> None:
    taken = facts.provider("libcudnn_graph.so.9", "", path="/opt/x/libcudnn_graph.so.9", found_via="LD_LIBRARY_PATH")
    libraries = Libraries(simulated=True, reason="", import_error="", providers=(taken,), unresolved=(), notes=())
    (finding,) = library_path_leak.run(facts.case(_library_path(_folder("/opt/x", "libcudnn_graph.so.9")), libraries))
    assert (finding.severity, finding.title) == (
        "error",
        "libcudnn_graph.so.9 is taken from LD_LIBRARY_PATH (/opt/x/libcudnn_graph.so.9) instead of this environment",
    )
    assert "path-variable:LD_LIBRARY_PATH" in finding.causes


@pytest.mark.parametrize(
    ("there", "severity", "title"),
    [
        ((), "note", "LD_LIBRARY_PATH has an empty element, which means the current folder"),
        (
            ("libcudart.so.12",),
            "warning",
            "LD_LIBRARY_PATH has an empty element, which means the current folder: "
            "libcudart.so.12 would be taken from it",
        ),
    ],
)
def test_finds_ed602_an_empty_element(there: tuple[str, ...], severity: str, title: str) -> None:
    section = _library_path(_folder("/opt/mpi"), _folder(""), current_folder_libraries=there)
    (finding,) = library_path_leak.run(facts.case(section))
    assert (finding.severity, finding.title) == (severity, title)
    assert finding.remediation.commands == ("export LD_LIBRARY_PATH=/opt/mpi",)


def test_finds_ed602_a_preload_that_is_gone() -> None:
    section = _library_path(preloads=(Preload(element="/opt/libjemalloc.so", problem="does not exist"),))
    (finding,) = library_path_leak.run(facts.case(section))
    assert finding.title == "LD_PRELOAD names /opt/libjemalloc.so, which does not exist"
    assert finding.remediation.commands == ("unset LD_PRELOAD",)
    value = "/lib/libm.so.6:/opt/libjemalloc.so libtcmalloc.so $LIB/x.so"
    (finding,) = library_path_leak.run(facts.case(section, facts.variables(LD_PRELOAD=value)))
    assert finding.remediation.commands == ("export LD_PRELOAD='/lib/libm.so.6:libtcmalloc.so:$LIB/x.so'",)


def test_finds_ed602_a_toolkit_of_another_major() -> None:
    section = _library_path(cuda_home="/usr/local/cuda", cuda_home_from="CUDA_HOME", cuda_home_version="13.0")
    (finding,) = library_path_leak.run(facts.case(section))
    assert (finding.severity, finding.title) == (
        "note",
        "CUDA_HOME is a CUDA 13.0 toolkit; torch 2.10.0+cu128 is a CUDA 12.8 build, and extensions compiled with it "
        "will be refused",
    )


@pytest.mark.parametrize(
    "section",
    [
        _library_path(_folder("/usr/local/nvidia/lib64"), _folder("/opt/mpi")),
        _library_path(cuda_home="/usr/local/cuda", cuda_home_from="CUDA_HOME", cuda_home_version="12.1"),
        _library_path(cuda_home="/opt/x", cuda_home_from="CUDA_HOME", cuda_home_version=""),
        _library_path(preloads=(Preload(element="libtcmalloc.so.4", problem=""),)),
    ],
    ids=["driver-folder", "same-major", "unknown-toolkit", "bare-preload"],
)
def test_passes_ed602_what_is_in_nobodys_way(section: object) -> None:
    assert list(library_path_leak.run(facts.case(section))) == []


def test_finds_ed603_packages_on_pythonpath() -> None:
    installed = facts.distributions(facts.distribution("extra", site="/leak", origin="PYTHONPATH"))
    (finding,) = import_path_leak.run(facts.case(installed, facts.variables(PYTHONPATH="/leak")))
    assert (finding.severity, finding.title) == ("warning", "1 distribution comes from /leak (PYTHONPATH)")
    assert finding.remediation.commands == ("unset PYTHONPATH",)


@pytest.mark.parametrize(("with_profile", "severity"), [(False, "note"), (True, "warning")])
def test_finds_ed603_the_user_site(with_profile: bool, severity: str) -> None:  # noqa: FBT001
    installed = facts.distributions(facts.distribution("extra", site="/u", origin="user site"))
    profile = facts.PROFILE if with_profile else None
    (finding,) = import_path_leak.run(facts.case(installed, profile=profile))
    assert (finding.severity, finding.title) == (severity, "1 distribution comes from /u (user site)")
    assert finding.remediation.commands == ("export PYTHONNOUSERSITE=1",)


@pytest.mark.parametrize(
    ("folder", "line", "added", "commands"),
    [
        ("/u", "../o.[1]", "", ("export PYTHONNOUSERSITE=1",)),
        ("/base", "/o", ": /base/x.pth adds it by the line '/o'", ()),
        (facts.SITE, "/o\x85", f": {facts.SITE}/x.pth adds it by the line '/o\\x85'", ()),
        (
            facts.SITE,
            "../o.[1]",
            "",
            (rf"sed -i '\#^\(\xEF\xBB\xBF\)\?\.\./o\.\[1\][[:space:]]*$#d' {facts.SITE}/x.pth",),
        ),
    ],
)
def test_finds_ed603_the_line_of_a_pth_file_where_it_is(
    folder: str, line: str, added: str, commands: tuple[str, ...]
) -> None:
    sites = {facts.SITE: "site-packages", "/u": "user site", "/base": "base site-packages"}
    entries = (
        *(PathEntry(path=path, origin=origin) for path, origin in sites.items()),
        PathEntry(path="/o", origin="x.pth", pth=f"{folder}/x.pth", line=line),
    )
    foreign = ForeignExtension(path="m.so", tag="cpython-310", owner="extra")
    (finding,) = import_path_leak.run(
        facts.case(
            facts.distributions(facts.distribution("extra", site="/o", origin="x.pth")),
            SearchPath(entries=entries),
            ExtensionModules(tagged=1, foreign=(foreign,)),
        )
    )
    keep = "Keep that folder out, or install what is needed into the environment"
    assert finding.remediation.text == keep + added
    assert finding.remediation.commands == commands


def test_finds_ed603_pythonhome() -> None:
    (finding,) = import_path_leak.run(facts.case(facts.variables(PYTHONHOME="/opt/other")))
    assert finding.title == "PYTHONHOME is /opt/other: the interpreter takes its standard library from there"


def test_passes_ed603_the_base_and_a_source_folder() -> None:
    installed = facts.distributions(
        facts.distribution("pip", site="/usr/lib", origin="base site-packages"),
        facts.distribution("mine", site="/src", origin="__editable__.mine.pth"),
    )
    environment = facts.variables(PYTHONPATH="/src", PYTHONHOME="/usr")
    assert list(import_path_leak.run(facts.case(installed, environment))) == []


def _hook(line: str = "", owner: str = "", origin: str = "site-packages") -> StartupHooks:
    lines = (line,) if line else ()
    return StartupHooks(hooks=(Hook(path=f"{facts.SITE}/x.pth", lines=lines, owner=owner, origin=origin),))


def test_finds_ed604_code_that_nobody_owns() -> None:
    (finding,) = startup_hook.run(facts.case(_hook("import debug_patch")))
    assert (finding.severity, finding.title) == (
        "warning",
        "x.pth runs code at every start of this interpreter; it is owned by no distribution",
    )
    assert finding.remediation.commands == (f"mv {facts.SITE}/x.pth {facts.SITE}/x.pth.aside",)


def test_finds_ed604_code_that_hides_itself_even_if_owned() -> None:
    line = "import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import base64; exec(...)'])"
    (finding,) = startup_hook.run(facts.case(_hook(line, owner="thing")))
    assert finding.title == (
        "x.pth decodes or fetches code and runs it at every start of this interpreter; it is owned by thing"
    )
    assert finding.remediation.commands == ()


@pytest.mark.parametrize(
    "hooks",
    [
        _hook("import _virtualenv"),
        _hook("import sys; sys.__plen = len(sys.path)"),
        _hook("import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = True", owner="setuptools"),
        _hook("import __editable___mine_finder; __editable___mine_finder.install()", owner="mine"),
        _hook(origin="standard library"),
    ],
)
def test_passes_ed604_hooks_with_an_owner(hooks: StartupHooks) -> None:
    assert list(startup_hook.run(facts.case(hooks))) == []


def test_finds_ed604_a_hook_of_the_base_and_leaves_it_alone() -> None:
    (finding,) = startup_hook.run(facts.case(_hook("import site_wide", origin="base site-packages")))
    assert finding.title == "x.pth runs code at every start of this interpreter; it is owned by no distribution"
    assert finding.remediation == Remediation(
        text="Read it before anything else: it runs in every process. It is the base interpreter's, and other "
        "environments start with it too; a venv made without --system-site-packages does not"
    )


CONDA = Conda(packages=(CondaPackage(name="torch", version="2.5.1", build="py312_0"),), base="", active="")


def test_finds_ed605_pip_over_conda() -> None:
    installed = facts.distributions(facts.distribution("torch", "2.8.0", installer="pip"))
    (finding,) = conda_beside_pip.run(facts.case(CONDA, installed))
    assert finding.title == "pip installed torch 2.8.0 over conda's torch 2.5.1"
    assert finding.remediation.commands == (
        f"uv pip uninstall --python {facts.PREFIX}/bin/python torch",
        f"conda install --prefix {facts.PREFIX} --force-reinstall --no-deps pytorch=2.5.1",
    )


def test_passes_ed605_what_conda_installed_itself() -> None:
    installed = facts.distributions(facts.distribution("torch", "2.5.1", installer="conda"))
    assert list(conda_beside_pip.run(facts.case(CONDA, installed))) == []
    with pytest.raises(DoesNotApplyError, match="^this is not a conda environment$"):
        list(conda_beside_pip.run(facts.case()))


@pytest.mark.parametrize(
    "others",
    [
        [facts.distribution("torch", "2.9.0", site="/usr/lib/x", origin="base site-packages", shadowed=True)],
        [facts.distribution("torch", "2.9.0", site="/u", origin="user site", shadowed=True)],
        [facts.distribution("torch", "2.10.0", folder="torch.egg-info", has_record=False, shadowed=True)],
        [facts.distribution("torch", "2.9.0", site="/usr/lib/python3/dist-packages", shadowed=True)],
    ],
    ids=["base", "user-site", "debians-egg-info", "dpkgs-own"],
)
def test_passes_ed405_what_stands_behind_by_design(others: list[object]) -> None:
    installed = facts.distributions(facts.distribution("torch", "2.10.0"), *others)  # type: ignore[arg-type]
    assert list(duplicate_distribution.run(facts.case(installed))) == []


def test_passes_ed405_an_editable_install_beside_its_sources_egg_info() -> None:
    installed = facts.distributions(
        facts.distribution("mine", "1", editable=True),
        facts.distribution("mine", "0.9", site="/src", origin="__editable__.mine-1.pth", folder="mine.egg-info"),
    )
    assert list(duplicate_distribution.run(facts.case(installed))) == []


@pytest.mark.parametrize("path", ["certifi/cacert.pem", "pip/_vendor/certifi/cacert.pem"])
def test_passes_ed202_a_ca_bundle_with_an_authority_more(path: str) -> None:
    files = replace(facts.FILES, owners=(facts.owner("certifi"),), faults=(facts.resized("certifi", path, 100, 120),))
    assert list(damaged_distribution.run(facts.case(files))) == []


def test_finds_ed202_a_ca_bundle_that_is_gone_or_shorter() -> None:
    for fault in (facts.missing("certifi", "certifi/cacert.pem"), facts.resized("certifi", "certifi/cacert.pem")):
        files = replace(facts.FILES, owners=(facts.owner("certifi", missing=1),), faults=(fault,))
        (finding,) = damaged_distribution.run(facts.case(files))
        assert finding.subject == "certifi"


def test_finds_ed410_the_one_module_of_a_distribution_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`yaml.py` of a project in front of PyYAML's; in front of `tests` that a wheel brings by mistake it is meant."""
    yaml = make_wheel(tmp_path / "wheels", "PyYAML", "6", files={"yaml/__init__.py": "", "_yaml/__init__.py": ""})
    many = make_wheel(tmp_path / "wheels", "many", "1", files={"many/__init__.py": "", "tests/__init__.py": ""})
    venv = make_venv(tmp_path / "venv", yaml, many)
    project = tmp_path / "project"
    project.mkdir()
    for name in ("yaml.py", "tests.py", "own.py"):
        (project / name).write_text("")
    asked: list[str] = []
    wins = shadowing._wins
    monkeypatch.setattr(shadowing, "_wins", lambda at, name: asked.append(name) or wins(at, name))
    host = replace(bare_host(tmp_path / "home"), cwd=project)
    (finding,) = verdict_of(venv.prefix, host).findings
    assert finding.title == f"yaml would be imported from {project} (current folder) instead of {venv.site_packages}"
    assert "yaml" in asked
    assert "own" not in asked  # there may be 30,000


def test_finds_ed410_two_distributions_with_one_modules_name(tmp_path: Path) -> None:
    """python-magic brings magic/, file-magic magic.py: no path has two owners, and one of them is never imported."""
    made = [
        make_wheel(tmp_path / "wheels", "python-magic", "0.4.27", files={"magic/__init__.py": ""}),
        make_wheel(tmp_path / "wheels", "file-magic", "0.4.1", files={"magic.py": ""}),
    ]
    venv = make_venv(tmp_path / "venv", *made)
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.code, finding.severity, finding.title) == (
        "ED410",
        "warning",
        "magic is imported from magic/__init__.py of python-magic 0.4.27, and never from magic.py of file-magic 0.4.1",
    )
    assert finding.remediation == Remediation(
        text="Decide which of python-magic and file-magic this environment needs, and uninstall the other one: they "
        "share the name of the module, and no file"
    )


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
def test_a_pth_line_is_read_as_the_interpreter_reads_it(tmp_path: Path, mark: bytes) -> None:
    """Python 3.13 takes a byte order mark off."""
    venv = make_venv(tmp_path / "venv")
    (tmp_path / "more").mkdir()
    pth = venv.site_packages / "more.pth"
    pth.write_bytes(mark + f"{tmp_path}/more\n".encode())
    done = subprocess.run(
        [venv.python, "-c", "import sys; print(*sys.path, sep='\\n')"],
        env={"LC_ALL": "C.UTF-8"},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    entries = [entry.path for entry in read(venv.prefix).fact(SearchPath).entries]
    assert (str(tmp_path / "more") in entries) == (str(tmp_path / "more") in done.stdout.splitlines())
    # As ED603 prints it.
    subprocess.run(["sed", "-i", rf"\#^\(\xEF\xBB\xBF\)\?{tmp_path}/more[[:space:]]*$#d", pth], check=True)
    assert pth.read_bytes() == b""
