"""ED201, ED202, ED203, ED204: files against their RECORDs."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import install_line, reinstall_command, uninstall_command
from envdoctor.checks import damaged_distribution, escaping_record, lost_files, overwritten_paths
from envdoctor.doctor.examine import written_down
from envdoctor.model.finding import Remediation
from envdoctor.probes.venv.installed_files import InstalledFiles
from tests.factories import make_facts as facts
from tests.factories.examine_venv import mend, verdict_of
from tests.factories.make_reading import read
from tests.factories.make_venv import Venv, make_venv, rewrite, tree_state
from tests.factories.make_wheel import make_wheel

CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"
NCCL = "nvidia/nccl/lib/libnccl.so.2"
PYTHON = f"--python {facts.PREFIX}/bin/python"


def _files(**changes: object) -> InstalledFiles:
    return replace(facts.FILES, **changes)


def test_ed201_says_both_causes_where_the_other_wheel_is_seldom_there() -> None:
    files = _files(
        owners=(facts.owner("pillow", "11.0", missing=1),), faults=(facts.missing("pillow", "PIL/Image.py"),)
    )
    (finding,) = lost_files.run(facts.case(files))
    assert finding.confidence == "medium"
    assert finding.evidence[1:] == (
        "the same paths are written by pillow-simd, not installed now",
        "an uninstall deletes every path of its RECORD, even if another package owns it too",
        "files that were deleted by hand, or not copied, leave the same",
    )


def test_ed201_one_missing_library_may_have_been_deleted_by_hand() -> None:
    files = _files(
        owners=(facts.owner("nvidia-cudnn-cu12", "9.10.2.21", files=29, missing=1),),
        faults=(facts.missing("nvidia-cudnn-cu12", CUDNN),),
    )
    (finding,) = lost_files.run(facts.case(files))
    assert (finding.confidence, finding.evidence[-1]) == (
        "medium",
        "files that were deleted by hand, or not copied, leave the same",
    )


def test_finds_ed201_one_cause_for_all_that_was_taken() -> None:
    files = _files(
        owners=(
            facts.owner("nvidia-cudnn-cu12", "9.10.2.21", files=5, missing=2),
            facts.owner("nvidia-nccl-cu12", "2.27.5", files=4, missing=1),
        ),
        faults=(
            facts.missing("nvidia-cudnn-cu12", "nvidia/cudnn/include/cudnn.h"),
            facts.missing("nvidia-cudnn-cu12", CUDNN),
            facts.missing("nvidia-nccl-cu12", NCCL),
        ),
    )
    (finding,) = lost_files.run(facts.case(files))
    assert finding.title == "files of 2 distributions are missing, each at a path that another wheel writes too"
    assert finding.subject == "nvidia-cudnn-cu12, nvidia-nccl-cu12"
    assert (finding.severity, finding.confidence) == ("error", "high")
    assert finding.evidence == (
        f"nvidia-cudnn-cu12 9.10.2.21: 2 of 5 files in its RECORD are missing: {CUDNN}, nvidia/cudnn/include/cudnn.h",
        "the same paths are written by nvidia-cudnn-cu11 and nvidia-cudnn-cu13, not installed now",
        f"nvidia-nccl-cu12 2.27.5: 1 of 4 files in its RECORD are missing: {NCCL}",
        "the same paths are written by nvidia-nccl-cu11 and nvidia-nccl-cu13, not installed now",
        "an uninstall deletes every path of its RECORD, even if another package owns it too",
    )
    assert finding.remediation == Remediation(
        text="force-reinstall the surviving owners; a plain install changes nothing, since their metadata says they "
        "are there",
        commands=(
            f"uv pip install {PYTHON} --no-deps --reinstall-package nvidia-cudnn-cu12 --reinstall-package "
            "nvidia-nccl-cu12 nvidia-cudnn-cu12==9.10.2.21 nvidia-nccl-cu12==2.27.5",
        ),
        safe=False,
    )
    assert "soname:libcudnn.so.9" in finding.causes
    assert list(damaged_distribution.run(facts.case(files))) == []


def test_passes_ed201_where_files_no_other_writes_are_gone_too_which_is_damage() -> None:
    files = _files(
        owners=(facts.owner("nvidia-ml-py", files=4, missing=2),),
        faults=(facts.missing("nvidia-ml-py", "pynvml.py"), facts.missing("nvidia-ml-py", "example.py")),
    )
    assert list(lost_files.run(facts.case(files))) == []
    (finding,) = damaged_distribution.run(facts.case(files))
    assert finding.title == "nvidia-ml-py 1.0: 2 of 4 files missing"


def test_passes_ed201_where_no_other_wheel_writes_the_path() -> None:
    files = _files(owners=(facts.owner("numpy", missing=1),), faults=(facts.missing("numpy", "numpy/__init__.py"),))
    assert list(lost_files.run(facts.case(files))) == []


def test_passes_ed201_while_the_other_writer_is_still_installed() -> None:
    files = _files(
        owners=(facts.owner("nvidia-nccl-cu12", missing=1),), faults=(facts.missing("nvidia-nccl-cu12", NCCL),)
    )
    others = facts.distributions(facts.distribution("nvidia-nccl-cu13"), facts.distribution("nvidia-nccl-cu11"))
    assert list(lost_files.run(facts.case(files, others))) == []
    (finding,) = damaged_distribution.run(facts.case(files, others))
    assert finding.title == "nvidia-nccl-cu12 1.0: 1 of 10 files missing"


def test_finds_ed202_missing_and_changed() -> None:
    files = _files(
        owners=(facts.owner("numpy", "2.4.4", files=3, missing=2, resized=1),),
        faults=(
            facts.missing("numpy", "numpy/b.py"),
            facts.missing("numpy", "numpy/a.py"),
            facts.resized("numpy", "numpy/c.so"),
        ),
    )
    (finding,) = damaged_distribution.run(facts.case(files))
    assert finding.title == "numpy 2.4.4: 2 of 3 files missing, 1 of 3 files changed"
    assert finding.evidence == (
        "missing: numpy/a.py, numpy/b.py",
        "another size than RECORD says: numpy/c.so",
        "most of it is missing, as after an interrupted install or the uninstall of another wheel with the same paths",
    )
    assert finding.remediation.commands == (
        f"uv pip install {PYTHON} --no-deps --reinstall-package numpy numpy==2.4.4",
    )


def test_passes_ed202_for_scripts_removed_by_hand() -> None:
    fault = replace(facts.missing("tqdm", "x"), path="bin/tqdm")
    files = _files(owners=(facts.owner("tqdm", missing=1),), faults=(fault,))
    assert list(damaged_distribution.run(facts.case(files))) == []


def test_finds_ed202_only_a_warning_for_rewritten_launchers() -> None:
    fault = replace(facts.resized("tqdm", "x"), path="bin/tqdm")
    (finding,) = damaged_distribution.run(facts.case(_files(owners=(facts.owner("tqdm", resized=1),), faults=(fault,))))
    assert (finding.severity, finding.title) == ("warning", "tqdm 1.0: 1 of 10 files changed")


def test_restore_is_the_remedy_when_there_is_a_profile() -> None:
    files = _files(owners=(facts.owner("numpy", missing=1),), faults=(facts.missing("numpy", "numpy/__init__.py"),))
    (finding,) = damaged_distribution.run(facts.case(files, profile=facts.PROFILE, pins=("numpy==1.0",)))
    assert finding.remediation == Remediation(
        text="Rebuild the profile's stack beside this one and swap it in; or, by hand: force-reinstall numpy; a "
        "plain install changes nothing, as its metadata says it is there",
        commands=(f"envdoctor restore --profile good --venv {facts.PREFIX}",),
        safe=True,
    )


def test_finds_ed203_whose_bytes_lie_there_and_mends_in_two_steps() -> None:
    files = _files(
        contested=(
            facts.contested(
                NCCL, ("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"), on_disk=("nvidia-nccl-cu13",)
            ),
            facts.contested(
                CUDNN, ("nvidia-cudnn-cu12", "9.10"), ("nvidia-cudnn-cu13", "9.19"), on_disk=("nvidia-cudnn-cu13",)
            ),
        )
    )
    (finding,) = overwritten_paths.run(facts.case(files))
    assert finding.title == (
        "2 files of nvidia-cudnn-cu12, nvidia-nccl-cu12 hold the bytes of nvidia-cudnn-cu13, nvidia-nccl-cu13"
    )
    assert finding.severity == "error"
    assert finding.evidence == (
        "nvidia-cudnn-cu12 9.10 is the expected owner: torch is a CUDA 12.8 build",
        f"{CUDNN}: owned by nvidia-cudnn-cu12 9.10 and nvidia-cudnn-cu13 9.19; the bytes on disk are of "
        "nvidia-cudnn-cu13 (identified by size)",
        "nvidia-nccl-cu12 2.27.5 is the expected owner: torch is a CUDA 12.8 build",
        f"{NCCL}: owned by nvidia-nccl-cu12 2.27.5 and nvidia-nccl-cu13 2.28.9; the bytes on disk are of "
        "nvidia-nccl-cu13 (identified by size)",
    )
    assert finding.remediation.commands == (f"envdoctor repair --venv {facts.PREFIX}",)
    assert finding.remediation.text == (
        "Repair it on a copy, which is verified and then swapped in; or, by hand: first uninstall the distributions "
        "that do not belong here, then force-reinstall the owners: the uninstall deletes the shared files, so "
        "the second step must follow"
    )
    assert finding.remediation.by_hand == (
        f"uv pip uninstall {PYTHON} nvidia-cudnn-cu13 nvidia-nccl-cu13",
        f"uv pip install {PYTHON} --no-deps --reinstall-package nvidia-cudnn-cu12 --reinstall-package nvidia-nccl-cu12 "
        "nvidia-cudnn-cu12==9.10 nvidia-nccl-cu12==2.27.5",
    )


def test_ed203_names_no_repair_that_would_refuse() -> None:
    fault = replace(facts.resized("thing", "thing/x.so"), published_at="/cache/thing/x.so")
    claims = (("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"))
    files = _files(contested=(facts.contested(NCCL, *claims, on_disk=("nvidia-nccl-cu13",)),), faults=(fault,))
    (finding,) = overwritten_paths.run(facts.case(files))
    assert finding.remediation.commands == (
        f"uv pip uninstall {PYTHON} nvidia-nccl-cu13",
        f"uv pip install {PYTHON} --no-deps --reinstall-package nvidia-nccl-cu12 nvidia-nccl-cu12==2.27.5",
    )


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("", f"envdoctor repair --venv {facts.PREFIX}"),
        ("file:///wheels/x-1-py3-none-any.whl", f"envdoctor repair --venv {facts.PREFIX}"),
        ("file:///src/x", f"uv pip uninstall {PYTHON} nvidia-nccl-cu13"),
        ("https://h/x.tar.gz", f"uv pip uninstall {PYTHON} nvidia-nccl-cu13"),
    ],
)
@pytest.mark.parametrize("damaged", ["thing", "nvidia-nccl-cu12"])
def test_ed203_names_no_repair_of_what_no_index_has(source: str, command: str, damaged: str) -> None:
    claims = (("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"))
    faults = (facts.resized("thing", "thing/x.so"),)
    files = _files(contested=(facts.contested(NCCL, *claims, on_disk=("nvidia-nccl-cu13",)),), faults=faults)
    installed = facts.distributions(facts.distribution(damaged, direct_url=source))
    (finding,) = overwritten_paths.run(facts.case(files, installed))
    assert finding.remediation.commands[0] == command


def test_finds_ed203_a_warning_while_the_right_bytes_lie_there() -> None:
    files = _files(
        contested=(
            facts.contested(
                NCCL, ("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"), on_disk=("nvidia-nccl-cu12",)
            ),
        )
    )
    (finding,) = overwritten_paths.run(facts.case(files))
    assert finding.severity == "warning"
    assert finding.title == (
        "1 file of nvidia-nccl-cu12 also owned by nvidia-nccl-cu13, whose uninstall would delete them"
    )


def test_finds_ed203_and_does_not_guess_which_owner_is_meant() -> None:
    files = _files(contested=(facts.contested("shared/data.bin", ("one", "1"), ("two", "2"), on_disk=("two",)),))
    (finding,) = overwritten_paths.run(facts.case(files))
    assert (finding.severity, finding.confidence) == ("warning", "low")
    assert finding.title == "1 file is owned by one and two at once"
    assert finding.remediation.commands == ()


def test_the_lock_decides_before_the_cuda_major() -> None:
    files = _files(
        contested=(
            facts.contested(
                NCCL, ("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"), on_disk=("nvidia-nccl-cu12",)
            ),
        )
    )
    (finding,) = overwritten_paths.run(facts.case(files, pins=("nvidia-nccl-cu13==2.28.9",)))
    assert finding.evidence[0] == "nvidia-nccl-cu13 2.28.9 is the expected owner: pinned by the lock"
    assert finding.severity == "error"


def test_passes_ed203_for_equal_contents() -> None:
    assert list(overwritten_paths.run(facts.case(_files(shared_equal=11)))) == []


def test_finds_ed204_rows_that_lead_out() -> None:
    files = _files(outside=(("evil", "../../../../../home/me/.bashrc"), ("evil", "/etc/passwd")))
    (finding,) = escaping_record.run(facts.case(files))
    assert finding.title == "RECORD of evil lists 2 paths outside the environment"
    assert finding.evidence == ("'../../../../../home/me/.bashrc'", "'/etc/passwd'")


def test_finds_ed204_code_that_is_missing_behind_a_link(tmp_path: Path) -> None:
    files = {"thing/__init__.py": "x = 1\n", "thing/inner.py": "y = 1\n", "thing/data.txt": "z"}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1", files=files))
    folder = tmp_path / "disk/thing"
    folder.parent.mkdir()
    (venv.site_packages / "thing").rename(folder)
    (venv.site_packages / "thing").symlink_to(folder)
    link = f"lib/{venv.site_packages.parent.name}/site-packages/thing"
    looked = f"{link} is a link to {folder}: nothing there was read, only looked for"
    (whole,) = verdict_of(venv.prefix).findings
    assert (whole.severity, whole.evidence[-1]) == ("warning", looked)
    (folder / "data.txt").unlink()
    rewrite(folder / "inner.py", "y = 2 # edited\n")
    (edited,) = verdict_of(venv.prefix).findings
    assert (edited.severity, edited.evidence[-3:]) == (
        "warning",
        (looked, "missing there: thing/data.txt", "another size than RECORD says: thing/inner.py"),
    )
    (folder / "inner.py").unlink()
    (lost,) = verdict_of(venv.prefix).findings
    assert (lost.code, lost.severity) == ("ED204", "error")
    assert lost.title == "thing 1: 2 of 3 files missing behind a link out of the environment"
    before = tree_state(folder)
    mend(lost, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
    assert tree_state(folder) == before


def _behind_one_link(tmp_path: Path, *more_rows: str) -> tuple[Venv, Path]:
    """Make three distributions with files in the folder `shared`, a link to another disk; left/inner.py is gone."""
    wheels = tmp_path / "wheels"
    made = [
        make_wheel(wheels, name, "1", files={f"shared/{name}/__init__.py": "", f"shared/{name}/inner.py": "x = 1\n"})
        for name in ("left", "right", "third")
    ]
    venv = make_venv(tmp_path / "venv", *made)
    folder = tmp_path / "disk/shared"
    folder.parent.mkdir()
    (venv.site_packages / "shared").rename(folder)
    (venv.site_packages / "shared").symlink_to(folder)
    record = venv.dist_info("left") / "RECORD"
    rewrite(record, record.read_text() + "".join(f"{row},,\n" for row in more_rows))
    (folder / "left/inner.py").unlink()
    return venv, folder


def test_a_link_that_several_share_goes_only_with_a_reinstall_of_all(tmp_path: Path) -> None:
    venv, folder = _behind_one_link(tmp_path)
    lost = verdict_of(venv.prefix).findings[0]
    assert lost.title == "left 1: 1 of 2 files missing behind a link out of the environment"
    assert lost.evidence[-1] == "files of right, third are behind the same link"
    words = (
        f"--python {venv.python} --no-deps --reinstall-package left --reinstall-package right "
        "--reinstall-package third left==1 right==1 third==1"
    )
    assert lost.remediation.commands == (
        f"uv pip install --dry-run {words} && rm {venv.site_packages}/shared && uv pip install {words}",
    )
    before = tree_state(folder)
    mend(lost, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
    code = "import shared.left.inner, shared.right.inner, shared.third.inner"
    subprocess.run([venv.python, "-c", code], check=True)
    assert tree_state(folder) == before


def test_an_uninstall_of_one_behind_a_shared_link_leaves_the_others(tmp_path: Path) -> None:
    venv, folder = _behind_one_link(tmp_path)
    context = CheckContext(facts=written_down(read(venv.prefix)))
    command = uninstall_command(context, ["left"])
    words = f"--python {venv.python} --no-deps --reinstall-package right --reinstall-package third right==1 third==1"
    assert command == (
        f"uv pip install --dry-run {words} && rm {venv.site_packages}/shared && uv pip uninstall --python "
        f"{venv.python} left && uv pip install {words}"
    )
    before = tree_state(folder)
    finding = replace(verdict_of(venv.prefix).findings[0], remediation=Remediation(text="", commands=(command,)))
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    subprocess.run([venv.python, "-c", "import shared.right.inner, shared.third.inner"], check=True)
    assert tree_state(folder) == before


def test_what_is_outside_behind_an_absolute_link_is_not_installed_into_the_venv() -> None:
    links = (("inner", "lib/x"), ("inner", "/leak/shared"), ("outer", "/leak/shared"))
    context = facts.case(_files(links_out=links))
    words = f"{PYTHON} --no-deps --reinstall-package inner inner==1"
    assert reinstall_command(context, [("inner", "1")]) == (
        f"uv pip install --dry-run {words} && rm {facts.PREFIX}/lib/x && uv pip install {words}"
    )


def _another_version_behind_a_link(tmp_path: Path) -> tuple[Venv, Path]:
    """Make a venv with left 2, right 1 and asker, which wants left<2; left and right are behind a link."""
    wheels = tmp_path / "wheels"
    made = [
        make_wheel(wheels, name, version, files={f"shared/{name}/__init__.py": f"v = {version}\n"})
        for name, version in (("left", "1"), ("left", "2"), ("right", "1"))
    ]
    asker = make_wheel(wheels, "asker", "1", files={"asker.py": ""}, requires=("left<2",))
    venv = make_venv(tmp_path / "venv", *made[1:], asker)
    folder = tmp_path / "disk/shared"
    folder.parent.mkdir()
    (venv.site_packages / "shared").rename(folder)
    (venv.site_packages / "shared").symlink_to(folder)
    return venv, folder


def _imported(venv: Venv) -> str:
    code = "import shared.left, shared.right; print(shared.left.v, shared.right.v)"
    return subprocess.run([venv.python, "-B", "-c", code], capture_output=True, text=True, check=True).stdout


def test_another_version_is_installed_beside_a_link_and_deletes_nothing_behind_it(tmp_path: Path) -> None:
    venv, folder = _another_version_behind_a_link(tmp_path)
    (finding,) = (item for item in verdict_of(venv.prefix).findings if item.code == "ED406")
    words = f"--python {venv.python} 'left<2' --reinstall-package right right==1"
    assert finding.remediation.commands == (
        f"uv pip install --dry-run {words} && rm {venv.site_packages}/shared && uv pip install {words}",
    )
    before = tree_state(folder)
    (tmp_path / "none").mkdir()
    with pytest.raises(AssertionError, match="No solution found when resolving dependencies"):
        mend(finding, wheels=tmp_path / "none", cache=tmp_path / ".empty")
    assert _imported(venv) == "2 1\n"
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert (_imported(venv), tree_state(folder)) == ("1 1\n", before)
    assert verdict_of(venv.prefix).findings == ()


def test_what_is_behind_a_link_is_kept_as_it_is_by_an_install_with_dependencies() -> None:
    link = "lib/python3.12/site-packages/x"
    installed = facts.distributions(facts.distribution("kept", "1"), facts.distribution("other", "1"))
    context = facts.case(_files(links_out=(("kept", link),)), installed)
    assert install_line(context, ["other"], "'other<1'") == f"uv pip install {PYTHON} 'other<1' kept===1"
    assert install_line(context, ["other"], "--no-deps 'other<1'") == f"uv pip install {PYTHON} --no-deps 'other<1'"


def test_no_command_installs_again_what_lists_paths_outside_beside_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "home/.bashrc"
    mine.parent.mkdir()
    mine.touch()
    venv, _ = _behind_one_link(tmp_path, "/etc/x", str(mine), "../../../../home/.bashrc")
    lost = verdict_of(venv.prefix).findings[0]
    assert lost.evidence[-1] == (
        f"RECORD lists other paths outside too: '../../../../home/.bashrc', '/etc/x', {str(mine)!r}"
    )
    assert lost.remediation == Remediation(
        text="put back what is missing there, or rebuild the venv without uninstalling left from it: an older "
        "installer may delete those paths",
        safe=False,
    )


def test_a_record_with_a_path_outside_goes_before_any_reinstall(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1", files={"thing.py": "x = 1\n"}))
    mine = tmp_path / "home/.bashrc"
    mine.parent.mkdir()
    mine.write_text("mine\n")
    record = venv.dist_info("thing") / "RECORD"
    rewrite(record, record.read_text() + f"{mine},,\n")
    (venv.site_packages / "thing.py").unlink()
    damaged = next(item for item in verdict_of(venv.prefix).findings if item.code == "ED202")
    assert damaged.remediation.commands[0].startswith(f"rm {record} && uv pip install ")
    mend(damaged, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert mine.read_text() == "mine\n"
    assert verdict_of(venv.prefix).findings == ()


def test_finds_ed203_code_of_none_of_its_owners() -> None:
    path = facts.contested("shared/core.py", ("left", "1.0"), ("right", "1.0"))
    (finding,) = overwritten_paths.run(facts.case(_files(contested=(path,))))
    assert (finding.severity, finding.confidence) == ("error", "high")
    assert finding.title == "1 file holds the bytes of none of left and right, its owners"
    assert finding.evidence == (
        "shared/core.py: owned by left 1.0 and right 1.0; the bytes on disk are of neither (identified by size)",
    )
    data = facts.contested("shared/data.json", ("left", "1.0"), ("right", "1.0"))
    (finding,) = overwritten_paths.run(facts.case(_files(contested=(data,))))
    assert (finding.severity, finding.title) == ("warning", "1 file is owned by left and right at once")


def test_passes_ed204_without_such_rows() -> None:
    assert list(escaping_record.run(facts.case())) == []


def test_what_lies_in_the_user_site_is_installed_again_by_pip() -> None:
    installed = facts.distributions(
        facts.distribution("own", "1"), facts.distribution("extra", "2", site="/u", origin="user site")
    )
    assert reinstall_command(facts.case(installed), [("own", "1"), ("extra", "2")]) == (
        f"uv pip install --python {facts.PREFIX}/bin/python --no-deps --reinstall-package own own==1"
        f" && {facts.PREFIX}/bin/python -m pip install --user --no-deps --force-reinstall extra==2"
    )
