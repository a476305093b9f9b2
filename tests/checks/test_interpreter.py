"""ED101, ED105, ED205, ED412, ED604 over real venvs: what Python itself does, what is said, and that the fix fixes."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.facts.target import resolve
from envdoctor.model.finding import Remediation
from envdoctor.model.verdict import BREAKS_IMPORT
from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_venv import Venv, make_venv, rewrite
from tests.factories.make_wheel import make_wheel

BASE = Path(sys.executable).resolve()
MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1"))


def _imports(venv: Venv) -> bool:
    """Tell whether the venv's interpreter starts and finds what is installed in it."""
    try:
        done = subprocess.run([venv.python, "-c", "import thing"], capture_output=True, check=False, cwd="/")
    except OSError:
        return False
    return done.returncode == 0


def _mend(venv: Venv, tmp_path: Path) -> None:
    mend(verdict_of(venv.prefix).findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")


def _a_folder(venv: Venv) -> None:
    venv.python.unlink()
    venv.python.mkdir()


def _no_program(venv: Venv) -> None:
    venv.python.unlink()
    venv.python.write_text("no program")
    venv.python.chmod(0o755)


def _empty(venv: Venv) -> None:
    venv.python.unlink()
    venv.python.touch(0o644)


def _not_executable(venv: Venv) -> None:
    venv.python.unlink()
    venv.python.write_bytes(BASE.read_bytes())
    venv.python.chmod(0o644)


@pytest.mark.parametrize(
    ("damage", "evidence"),
    [
        (_a_folder, "is a folder"),
        (_no_program, "is neither a program (ELF) nor a script (#!)"),
        (_empty, "is neither a program (ELF) nor a script (#!)"),
        (_not_executable, "may not be executed by anybody (chmod +x)"),
    ],
)
def test_an_interpreter_that_is_nothing_to_start(
    venv: Venv, tmp_path: Path, damage: Callable[[Venv], None], evidence: str
) -> None:
    assert _imports(venv)
    damage(venv)
    assert not _imports(venv)
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == ["error ED101 the interpreter of this venv cannot start"]
    assert verdict.findings[0].evidence == (f"{venv.python} {evidence}",)
    _mend(venv, tmp_path)
    assert _imports(venv)
    assert verdict_of(venv.prefix).findings == ()


def _set_home(venv: Venv, home: Path) -> None:
    config = venv.prefix / "pyvenv.cfg"
    rewrite(config, re.sub("(?m)^home = .*$", f"home = {home}", config.read_text()))


def test_a_home_that_is_gone_is_no_error_while_python_starts(venv: Venv, tmp_path: Path) -> None:
    _set_home(venv, tmp_path / "gone/bin")
    assert _imports(venv)
    verdict = verdict_of(venv.prefix)
    title = "pyvenv.cfg names a base folder that is gone; the interpreter starts all the same"
    assert outline(verdict, tmp_path) == [f"note ED101 {title}"]
    _mend(venv, tmp_path)
    assert _imports(venv)
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("module", ["os.py", "encodings/__init__.py"])
def test_a_base_whose_library_is_damaged(venv: Venv, tmp_path: Path, module: str) -> None:
    base = tmp_path / "base"
    standard = base / "lib" / f"python{MINOR}"
    (standard / "encodings").mkdir(parents=True)
    for name in ("os.py", "encodings/__init__.py"):
        (standard / name).touch()
    (base / "bin").mkdir()
    _set_home(venv, base / "bin")
    assert verdict_of(venv.prefix).findings == ()
    (standard / module).unlink()
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.code, finding.evidence[0]) == (
        "ED101",
        f"{standard / module} is missing: no Python starts without it",
    )
    assert commands_of(finding, tmp_path) == [
        f"uv python install --reinstall {MINOR}",
        f"uv venv --allow-existing --managed-python --python {MINOR} [TMP]/venv",
    ]


def test_finds_ed105_an_interpreter_of_another_minor_version(venv: Venv, tmp_path: Path) -> None:
    upgraded = tmp_path / "upgraded/bin/python3.9"
    upgraded.parent.mkdir(parents=True)
    upgraded.write_bytes(BASE.read_bytes())
    upgraded.chmod(0o755)
    venv.python.unlink()
    venv.python.symlink_to(upgraded)
    title = f"bin/python is CPython 3.9 and sees none of this venv's packages: they are for {MINOR}"
    assert outline(verdict_of(venv.prefix), tmp_path) == [f"error ED105 {title}"]
    _mend(venv, tmp_path)
    assert _imports(venv)
    assert verdict_of(venv.prefix).findings == ()


def test_finds_ed105_a_venv_that_lost_its_config(venv: Venv, tmp_path: Path) -> None:
    (venv.prefix / "pyvenv.cfg").unlink()
    assert not _imports(venv)
    assert outline(verdict_of(venv.prefix), tmp_path)[0] == (
        f"error ED105 this venv has lost its pyvenv.cfg: its interpreter runs as {BASE} and sees none of its packages"
    )
    _mend(venv, tmp_path)
    assert _imports(venv)
    assert verdict_of(venv.prefix).findings == ()


def test_finds_ed105_a_venv_whose_library_folder_is_gone(venv: Venv, tmp_path: Path) -> None:
    shutil.rmtree(venv.prefix / "lib")
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED105 the library folder of this venv is gone, and every package with it: there is no "
        f"[TMP]/venv/lib/python{MINOR}"
    ]
    assert [item.code for item in verdict.skipped if item.matters] == []
    _mend(venv, tmp_path)
    assert venv.site_packages.is_dir()
    assert "ED105" not in {item.code for item in verdict_of(venv.prefix).findings}


def _upgrade(venv: Venv) -> str:
    """Do what `python3.X -m venv --upgrade` does with a newer Python: a new empty lib, and the packages in the old."""
    found = [path for path in BASE.parents[2].glob("3.*/bin/python3.*") if path.name[8:].isdecimal()]
    other = next((path for path in sorted(found) if path.name != f"python{MINOR}"), None)
    if other is None:
        pytest.skip("there is no other Python beside this one")
    for link in (venv.prefix / "bin").glob("python*"):
        link.unlink()
        link.symlink_to(other)
    rows = (venv.prefix / "pyvenv.cfg").read_text().splitlines()
    kept = [row for row in rows if not row.startswith(("home", "version"))]
    minor = other.name.removeprefix("python")
    rewrite(venv.prefix / "pyvenv.cfg", "\n".join([f"home = {other.parent}", f"version = {minor}.0", *kept]) + "\n")
    (venv.prefix / "lib" / other.name / "site-packages").mkdir(parents=True)
    return minor


def test_finds_ed105_a_venv_that_was_upgraded(venv: Venv, tmp_path: Path) -> None:
    minor = _upgrade(venv)
    assert not _imports(venv)
    title = f"this venv is for CPython {minor} and has no packages: 1 distribution of it is for {MINOR}"
    assert outline(verdict_of(venv.prefix), tmp_path) == [f"error ED105 {title}"]
    _mend(venv, tmp_path)
    assert _imports(venv)
    assert verdict_of(venv.prefix).findings == ()


def test_finds_ed105_an_upgraded_venv_whose_packages_have_no_metadata(venv: Venv, tmp_path: Path) -> None:
    shutil.rmtree(venv.dist_info("thing"))
    site = venv.site_packages
    minor = _upgrade(venv)
    title = f"this venv is for CPython {minor} and has no packages: 1 module without metadata of it is for {MINOR}"
    # One module may be anybody's, and nothing stops this Python: `repair` does not refuse for it.
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.severity, finding.confidence, finding.title, finding.causes) == ("warning", "medium", title, ())
    (site / "torch.py").touch()
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.severity, finding.confidence) == ("error", "high")
    (site / "torch.py").unlink()
    _mend(venv, tmp_path)
    assert _imports(venv)
    assert [item.code for item in verdict_of(venv.prefix).findings] == ["ED417"]


def test_finds_ed105_an_upgraded_venv_into_which_a_part_was_installed_again(tmp_path: Path) -> None:
    wheels = [make_wheel(tmp_path / "wheels", name, "1") for name in ("torch", "thing", "other", "x", "y")]
    venv = make_venv(tmp_path / "venv", *wheels)
    old = {name: (venv.dist_info(name), venv.site_packages / name) for name in ("torch", "thing", "other")}
    minor = _upgrade(venv)
    again = venv.prefix / "lib" / f"python{minor}" / "site-packages"
    for folder in old.pop("other"):
        shutil.copytree(folder, again / folder.name)
    title = f"this venv is for CPython {minor}, and 4 of its 5 distributions are for {MINOR} only"
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [f"error ED105 {title}"]
    (finding,) = verdict.findings
    assert finding.evidence[0] == f"{again} holds 1 distribution, without torch, thing, x, y"
    # This Python runs as the environment's, and a link to the other one would hide what was installed for it.
    assert (finding.causes, finding.remediation) == (
        (BREAKS_IMPORT,),
        Remediation(
            text=f"install for {minor} what is missing, and delete lib/python{MINOR}. A link to Python {MINOR} would "
            "bring back the old packages and hide those that are there now",
            safe=False,
        ),
    )
    # What torch is imported from elsewhere does not lack.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for folder in old["torch"]:
        shutil.copytree(folder, elsewhere / folder.name)
    (again / "elsewhere.pth").write_text(f"{elsewhere}\n")
    found = next(item for item in verdict_of(venv.prefix).findings if item.code == "ED105")
    assert (found.severity, found.title) == (
        "warning",
        f"this venv is for CPython {minor}, and 3 of its 5 distributions are for {MINOR} only",
    )
    (again / "elsewhere.pth").unlink()
    for folder in (folder for folders in old.values() for folder in folders):
        shutil.copytree(folder, again / folder.name)
    assert "ED105" not in {item.code for item in verdict_of(venv.prefix).findings}


def test_one_module_in_the_new_library_folder_hides_no_old_one(tmp_path: Path) -> None:
    wheels = [make_wheel(tmp_path / "wheels", name, "1") for name in ("torch", "thing", "other")]
    venv = make_venv(tmp_path / "venv", *wheels)
    minor = _upgrade(venv)
    again = venv.prefix / "lib" / f"python{minor}" / "site-packages"
    (again / "mine.py").touch()
    finding = next(item for item in verdict_of(venv.prefix).findings if item.code == "ED105")
    assert (finding.severity, finding.title, finding.evidence[0]) == (
        "error",
        f"this venv is for CPython {minor}, and 3 of its 3 distributions are for {MINOR} only",
        f"{again} holds 1 module without metadata, without torch, other, thing",
    )


def test_modules_without_metadata_stand_for_the_packages_of_their_names_and_none_for_torch(tmp_path: Path) -> None:
    wheels = [make_wheel(tmp_path / "wheels", name, "1") for name in ("torch", "thing", "other-one")]
    venv = make_venv(tmp_path / "venv", *wheels)
    minor = _upgrade(venv)
    again = venv.prefix / "lib" / f"python{minor}" / "site-packages"
    for name in ("thing", "other_one", "mine"):
        (again / f"{name}.py").touch()
    finding = next(item for item in verdict_of(venv.prefix).findings if item.code == "ED105")
    assert (finding.severity, finding.title, finding.evidence[0]) == (
        "error",
        f"this venv is for CPython {minor}, and 1 of its 3 distributions is for {MINOR} only",
        f"{again} holds 3 modules without metadata, without torch",
    )
    (again / "torch.py").touch()
    assert "ED105" not in {item.code for item in verdict_of(venv.prefix).findings}


def test_a_library_folder_that_was_renamed_gets_its_name_back(venv: Venv, tmp_path: Path) -> None:
    library = venv.site_packages.parent
    library.rename(library.with_name("python3.99"))
    assert not _imports(venv)
    title = f"this venv is for CPython {MINOR}, and its library folder is called python3.99"
    assert outline(verdict_of(venv.prefix), tmp_path) == [f"error ED105 {title}"]
    _mend(venv, tmp_path)
    assert _imports(venv)
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("content", [b"/opt/caf\xe9\n", b"\0\xff", b"\n\0\xe9\n"])
def test_a_pth_file_that_is_no_text_stops_python(venv: Venv, tmp_path: Path, content: bytes) -> None:
    (venv.site_packages / "cafe.pth").write_bytes(content)
    assert not _imports(venv)
    title = "cafe.pth stops this interpreter when it starts: it is not text in UTF-8"
    assert outline(verdict_of(venv.prefix), tmp_path) == [f"error ED604 {title}"]
    _mend(venv, tmp_path)
    assert _imports(venv)
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("content", [b"", b"\x00\x01garbage\n", b"one field\n"])
def test_a_record_without_rows_is_as_bad_as_none(venv: Venv, tmp_path: Path, content: bytes) -> None:
    rewrite(venv.dist_info("thing") / "RECORD", content)
    assert outline(verdict_of(venv.prefix), tmp_path)[0] == (
        "error ED205 thing 1 was installed incompletely: the RECORD of its dist-info lists no file"
    )
    _mend(venv, tmp_path)
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize(
    ("name", "harm"),
    [("thing-99.0", "take it for another version"), ("Thing-1", "leave it there when they install another version")],
)
def test_a_renamed_metadata_folder_gets_its_name_back(venv: Venv, tmp_path: Path, name: str, harm: str) -> None:
    """The second: a copy through a file system, or an archiver, with its own idea of case."""
    info = venv.dist_info("thing")
    info.rename(info.with_name(f"{name}.dist-info"))
    title = f"the metadata folder of thing 1 was renamed: pip and uv {harm}"
    assert outline(verdict_of(venv.prefix), tmp_path) == [f"error ED205 {title}"]
    _mend(venv, tmp_path)
    assert info.is_dir()
    assert verdict_of(venv.prefix).findings == ()


def test_a_record_of_another_version_does_not_rename_the_folder(venv: Venv, tmp_path: Path) -> None:
    info = venv.dist_info("thing")
    record = info / "RECORD"
    rewrite(record, record.read_text().replace(info.name, "thing-0.9.dist-info"))
    (line,) = outline(verdict_of(venv.prefix), tmp_path)
    assert line.startswith("error ED202 thing 1: ")
    _mend(venv, tmp_path)
    assert info.is_dir()
    assert verdict_of(venv.prefix).findings == ()


def test_an_editable_install_whose_source_is_gone(venv: Venv, tmp_path: Path) -> None:
    source = tmp_path / "share/a source"
    source.mkdir(parents=True)
    url = source.as_uri()
    info = venv.dist_info("thing")
    rewrite(info / "direct_url.json", json.dumps({"url": url, "dir_info": {"editable": True}}))
    rows = (info / "RECORD").read_text().splitlines(keepends=True)
    kept = [row for row in rows if "direct_url.json" not in row]
    rewrite(info / "RECORD", "".join([*kept, f"{info.name}/direct_url.json,,\n"]))
    note = "note ED412 1 distribution is imported from a source folder: thing"
    assert outline(verdict_of(venv.prefix), tmp_path) == [note]
    shutil.rmtree(tmp_path / "share")
    (tmp_path / "share").mkdir()
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.evidence, finding.remediation.commands) == (
        (f"thing 1: {url} does not exist", f"{tmp_path}/share is all that is there of its path"),
        (),
    )
    assert finding.remediation.text == (
        f"If it is on a share, mount it (below {tmp_path}/share), and nothing else is to be done. Otherwise install "
        f"from where it is now: `uv pip install --python {venv.python} --editable FOLDER`; or, if it is not needed any "
        f"more, `uv pip uninstall --python {venv.python} thing`"
    )
    (tmp_path / "share").rmdir()
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.severity, finding.title, finding.evidence) == (
        "error",
        "thing cannot be imported: installed from a source folder that is gone",
        (f"thing 1: {url} does not exist",),
    )
    _mend(venv, tmp_path)
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("links", ["--symlinks", "--copies"])
def test_passes_ed105_what_the_venv_module_makes(tmp_path: Path, links: str) -> None:
    """A copied interpreter is named `python`: its version is told by other files, or not at all."""
    prefix = tmp_path / "venv"
    subprocess.run([BASE, "-m", "venv", "--without-pip", links, prefix], check=True)
    assert verdict_of(prefix).findings == ()


@pytest.mark.parametrize("kind", ["file", "loop", "dangling"])
def test_what_stands_in_a_metadata_folders_place_goes_first(venv: Venv, tmp_path: Path, kind: str) -> None:
    info = venv.dist_info("thing")
    shutil.rmtree(info)
    if kind == "file":
        info.write_text("not a folder")
    else:
        info.symlink_to(info.name if kind == "loop" else "nowhere")
    (finding, *_) = verdict_of(venv.prefix).findings
    assert finding.title == "thing 1 was installed incompletely: its dist-info is not a directory"
    # uv alone ends with "File exists".
    assert finding.remediation.commands[0] == f"rm {info}"
    _mend(venv, tmp_path)
    assert info.is_dir()
    assert verdict_of(venv.prefix).findings == ()


def test_rows_that_are_none_hide_no_other_row_and_no_installer_can_read_them(venv: Venv, tmp_path: Path) -> None:
    record = venv.dist_info("thing") / "RECORD"
    text = record.read_text()
    rewrite(record, '"never closed,\n' + text)
    (venv.site_packages / "thing/__init__.py").unlink()
    damaged, unread = verdict_of(venv.prefix).findings
    assert (damaged.code, damaged.title) == ("ED202", "thing 1: 1 of 8 files missing")
    assert unread.evidence == (f"thing: {record}:1: not a RECORD row",)
    (command,) = damaged.remediation.commands
    assert command.startswith(f"rm {record} && uv pip install ")
    assert unread.remediation.commands == (command,)
    _mend(venv, tmp_path)
    assert verdict_of(venv.prefix).findings == ()


def test_a_venv_without_its_config_named_by_its_interpreter_is_not_taken_for_its_base(venv: Venv) -> None:
    (venv.prefix / "pyvenv.cfg").unlink()
    assert resolve(venv.python) == resolve(venv.prefix)
    (venv.prefix / "bin/activate").unlink()
    assert resolve(venv.python).prefix != venv.prefix, "a link beside no activate script is somebody's own"


def test_a_metadata_that_names_another_distribution_is_not_believed(venv: Venv, tmp_path: Path) -> None:
    metadata = venv.dist_info("thing") / "METADATA"
    text = metadata.read_text().replace("Name: thing", "Name: another")
    rewrite(metadata, text.replace("Version: 1\n", "Version: 99\nRequires-Dist: absent\n"))
    damaged, unread = verdict_of(venv.prefix).findings
    assert (damaged.title, unread.code) == ("thing 1: 1 of 8 files changed", "ED208")
    # Reinstalling `another` would bring somebody else's package.
    assert damaged.remediation.commands[0].endswith("--reinstall-package thing thing==1")
    assert unread.evidence == (
        f"{metadata.parent}: its METADATA names 'another', its folder 'thing'; the folder is believed",
    )
    _mend(venv, tmp_path)
    assert verdict_of(venv.prefix).findings == ()


def test_who_installed_it_is_nobodys_damage(venv: Venv) -> None:
    rewrite(venv.dist_info("thing") / "INSTALLER", "another installer\n")
    assert verdict_of(venv.prefix).findings == ()


def test_the_names_of_its_modules_are_read_by_no_import(tmp_path: Path) -> None:
    """As decord 0.6.0, whose RECORD is wrong about top_level.txt: a reinstall brings the same file."""
    note = "thing-1.dist-info/top_level.txt"
    made = make_wheel(tmp_path / "w", "thing", "1", files={"thing.py": "", note: "thing\n"}, record_sizes={note: 99})
    assert verdict_of(make_venv(tmp_path / "venv", made).prefix).findings == ()


@pytest.mark.parametrize("kind", ["file", "link out to nowhere", "link inside to nowhere"])
def test_what_is_in_a_packages_place_goes_before_the_reinstall(venv: Venv, tmp_path: Path, kind: str) -> None:
    at = venv.site_packages / "thing"
    shutil.rmtree(at)
    if kind == "file":
        at.write_text("not a folder")
    else:
        at.symlink_to(tmp_path / "gone" if "out" in kind else "gone")
    (finding,) = verdict_of(venv.prefix).findings
    assert "a file or a link to nowhere is where a folder should be: thing" in finding.evidence
    # uv alone ends with "Not a directory".
    assert finding.remediation.commands[0].startswith(f"rm {at} && uv pip install ")
    _mend(venv, tmp_path)
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("conda", [True, False])
def test_an_interpreter_that_is_no_venvs_and_only_lost_its_execute_permission(tmp_path: Path, *, conda: bool) -> None:
    prefix = tmp_path / "prefix"
    standard = prefix / "lib" / f"python{MINOR}"
    (standard / "encodings").mkdir(parents=True)
    (prefix / "bin").mkdir()
    for name in ("os.py", "encodings/__init__.py"):
        (standard / name).touch()
    if conda:
        (prefix / "conda-meta").mkdir()
        (prefix / "conda-meta/history").touch()
    executable = prefix / f"bin/python{MINOR}"
    executable.write_bytes(BASE.read_bytes())
    (prefix / "bin/python").symlink_to(executable.name)
    (finding,) = verdict_of(prefix).findings
    assert (finding.code, finding.title) == ("ED101", "the interpreter of this prefix cannot start")
    assert commands_of(finding, tmp_path) == [f"chmod a+x [TMP]/prefix/bin/python{MINOR}"]
    executable.chmod(0o755)
    assert "ED101" not in {found.code for found in verdict_of(prefix).findings}


@pytest.mark.parametrize("written", ["mine-py3", "'mine-py3'", '"mine-py3"'], ids=["uv", "venv", "virtualenv"])
def test_a_prompt_keeps_its_name_without_its_quotes(venv: Venv, written: str) -> None:
    config = venv.prefix / "pyvenv.cfg"
    rewrite(config, f"{config.read_text()}\nprompt = {written}\n")
    venv.python.unlink()
    (finding,) = verdict_of(venv.prefix).findings
    assert "--prompt mine-py3 " in finding.remediation.commands[0]
