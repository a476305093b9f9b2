"""ED202, ED205, ED406, ED417, ED603: venvs that were copied, packed, made smaller, or installed into by setup.py."""

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from envdoctor.model.finding import Remediation
from envdoctor.model.verdict import Verdict
from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_venv import Venv, install, make_venv, rewrite, run_uv
from tests.factories.make_wheel import make_wheel


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    tool = make_wheel(
        tmp_path / "wheels",
        "tool",
        "1",
        files={"tool.py": "def main(): print('hello')\n"},
        scripts={"tool": "tool:main"},
    )
    return make_venv(tmp_path / "venv", tool, make_wheel(tmp_path / "wheels", "thing", "2"))


def test_finds_ed417_modules_without_metadata(venv: Venv, tmp_path: Path) -> None:
    for info in venv.site_packages.glob("*.dist-info"):
        shutil.rmtree(info)
    verdict = verdict_of(venv.prefix)
    title = "site-packages holds 2 modules and no metadata: what they are is not known"
    assert outline(verdict, tmp_path) == [f"warning ED417 {title}"]
    assert verdict.findings[0].evidence[0] == "thing, tool"
    assert verdict.not_checked == ("no metadata here: only the interpreter was checked",)


def test_finds_ed417_a_package_whose_installation_was_killed(venv: Venv, tmp_path: Path) -> None:
    (venv.site_packages / "halfway/linalg").mkdir(parents=True)
    (venv.site_packages / "halfway/__init__.py").write_text("from halfway import never_unpacked\n")
    # Neither is a package: what an uninstall leaves of one, and a module that somebody copied.
    (venv.site_packages / "left/__pycache__").mkdir(parents=True)
    (venv.site_packages / "copied.py").write_text("")
    verdict = verdict_of(venv.prefix)
    title = "site-packages holds halfway without metadata: no RECORD lists a file of it"
    assert outline(verdict, tmp_path) == [f"warning ED417 {title}"]
    assert verdict.findings[0].subject == "halfway"
    wheel = make_wheel(tmp_path / "wheels", "half-way", "1", files={"halfway/__init__.py": ""})
    run_uv("pip", "install", "-q", "--python", venv.python, wheel, cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_passes_ed417_a_package_that_may_be_of_a_distribution_without_record(venv: Venv, tmp_path: Path) -> None:
    (venv.site_packages / "halfway").mkdir()
    (venv.site_packages / "halfway/__init__.py").write_text("")
    (venv.dist_info("thing") / "RECORD").unlink()
    assert {item.code for item in verdict_of(venv.prefix).findings} == {"ED205"}


def test_finds_ed417_a_package_whose_metadata_is_in_another_folder(venv: Venv, tmp_path: Path) -> None:
    other = tmp_path / "behind"
    (other / "halfway-1.dist-info").mkdir(parents=True)
    (other / "halfway-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: halfway\nVersion: 1\n")
    (other / "halfway-1.dist-info/RECORD").write_text("halfway-1.dist-info/METADATA,,\n")
    (venv.site_packages / "behind.pth").write_text(f"{other}\n")
    (venv.site_packages / "halfway").mkdir()
    (venv.site_packages / "halfway/__init__.py").write_text("")
    title = "site-packages holds halfway without metadata: no RECORD lists a file of it"
    assert outline(verdict_of(venv.prefix), tmp_path) == [f"warning ED417 {title}"]


def test_passes_ed417_a_package_of_a_distribution_whose_record_is_empty(venv: Venv) -> None:
    rewrite(venv.dist_info("thing") / "RECORD", "")
    assert {item.code for item in verdict_of(venv.prefix).findings} == {"ED205"}


def test_passes_ed417_a_package_that_is_half_uninstalled(venv: Venv) -> None:
    folder = venv.dist_info("thing")
    folder.rename(folder.with_name(f"~{folder.name[1:]}"))
    assert {item.code for item in verdict_of(venv.prefix).findings} == {"ED206"}


def test_passes_ed417_an_empty_venv_and_one_with_metadata(venv: Venv, tmp_path: Path) -> None:
    empty = make_venv(tmp_path / "empty")
    (empty.site_packages / "sitecustomize.py").write_text("")
    assert "ED417" not in {item.code for item in verdict_of(empty.prefix).findings}
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize(("text", "what"), [("", "is empty"), ("Metadata-Version: 2.1\n", "names no distribution")])
def test_finds_ed205_a_metadata_file_that_says_nothing(venv: Venv, tmp_path: Path, text: str, what: str) -> None:
    rewrite(venv.dist_info("thing") / "METADATA", text)
    verdict = verdict_of(venv.prefix)
    title = f"thing 2 was installed incompletely: the METADATA of its dist-info {what}"
    assert f"error ED205 {title}" in outline(verdict, tmp_path)
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_a_metadata_file_that_was_not_read_is_not_said_to_be_wrong(venv: Venv, tmp_path: Path) -> None:
    path = venv.dist_info("thing") / "METADATA"
    whole = path.read_bytes()
    rewrite(path, whole.replace(b"\n\n", b"\n", 1) + b"Classifier: x\n" * 40_000)
    (record, found) = sorted(verdict_of(venv.prefix).findings, key=lambda item: item.code)
    assert (record.code, record.title) == ("ED202", "thing 2: 1 of 8 files changed")
    assert (found.code, found.title, found.remediation.commands) == (
        "ED208",
        "1 thing of the environment could not be read",
        (),
    )
    size = len(path.read_bytes())
    assert found.evidence == (f"{path}: not read, its headers have {size} bytes",)
    (venv.dist_info("thing") / "RECORD").unlink()
    title = "thing 2 was installed incompletely: the METADATA of its dist-info was not read, and it has no RECORD"
    assert f"error ED205 {title}" in outline(verdict_of(venv.prefix), tmp_path)


def test_finds_ed205_a_metadata_file_that_is_empty_beside_no_record(venv: Venv, tmp_path: Path) -> None:
    rewrite(venv.dist_info("thing") / "METADATA", "")
    (venv.dist_info("thing") / "RECORD").unlink()
    title = "thing 2 was installed incompletely: the METADATA of its dist-info is empty, and it has no RECORD"
    assert outline(verdict_of(venv.prefix), tmp_path) == [f"error ED205 {title}"]


def _scripts(venv: Venv, *names: str, line: str) -> None:
    for name in names:
        path = venv.prefix / "bin" / name
        rewrite(path, "\n".join([line, *path.read_text().split("\n")[1:]]))
        path.chmod(0o755)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("#!/opt/gone/bin/python", "/opt/gone/bin/python"),
        ("#!/opt/gone/bin/python3\t-E", "/opt/gone/bin/python3"),
        ("#!{venv}/bin/snake", "[TMP]/venv/bin/snake"),
        ("#!{venv}/bin/python\r", "[TMP]/venv/bin/python\\r"),
    ],
)
def test_finds_ed103_one_script_that_starts_nothing(tmp_path: Path, line: str, shown: str) -> None:
    files = {"tool.py": "def main(): print('hello')\n"}
    scripts = {"tool": "tool:main", "second": "tool:main"}
    tool = make_wheel(tmp_path / "wheels", "tool", "1", files=files, scripts=scripts)
    venv = make_venv(tmp_path / "venv", tool)
    _scripts(venv, "tool", line=line.format(venv=venv.prefix))
    with pytest.raises(OSError, match="No such file"):
        subprocess.run([venv.prefix / "bin/tool"], check=True)
    verdict = verdict_of(venv.prefix)
    # That the script was changed is told too, where the other finding is waived.
    assert outline(verdict, tmp_path) == [
        f"error ED103 1 script starts {shown}, which does not exist",
        "  warning ED202 tool 1: 1 of 11 files changed",
    ]
    # The venv is where it was: nothing but the script is written again.
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package tool tool==1"
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    subprocess.run([venv.prefix / "bin/tool"], check=True)
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("named", ["vénv", "link"])
def test_scripts_that_name_a_file_of_their_own_venv_do_not_say_that_it_was_moved(tmp_path: Path, named: str) -> None:
    scripts = {"tool": "tool:main", "second": "tool:main"}
    tool = make_wheel(tmp_path / "wheels", "tool", "1", files={"tool.py": "def main(): pass\n"}, scripts=scripts)
    venv = make_venv(tmp_path / "vénv", tool)
    (tmp_path / "link").symlink_to(venv.prefix)
    _scripts(venv, *scripts, line=f"#!{tmp_path / named}/bin/snake")
    assert outline(verdict_of(venv.prefix), tmp_path)[0] == (
        f"error ED103 2 scripts start [TMP]/{named}/bin/snake, which does not exist"
    )


def test_a_script_for_a_program_that_this_machine_lacks_is_worth_a_warning(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1"))
    (venv.prefix / "bin/own").write_text("#!/opt/gone/bin/tclsh\n")
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.severity, finding.title) == (
        "warning",
        "1 script starts /opt/gone/bin/tclsh, which does not exist",
    )
    assert finding.remediation == Remediation(
        text="Install tclsh on this machine if you use it: a reinstall writes the same line again", safe=True
    )


def test_a_changed_script_that_starts_no_python_is_its_owners_to_write(tmp_path: Path) -> None:
    tool = make_wheel(
        tmp_path / "wheels", "tool", "1", files={"tool.py": "def main(): print(1)\n"}, scripts={"tool": "tool:main"}
    )
    venv = make_venv(tmp_path / "venv", tool)
    _scripts(venv, "tool", line="#!/opt/gone/bin/interpreter -E")
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "warning ED202 tool 1: 1 of 10 files changed",
        "  warning ED103 1 script starts /opt/gone/bin/interpreter, which does not exist",
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_links_into_a_cache_that_is_gone(tmp_path: Path) -> None:
    """RECORD and direct_url.json are written by uv itself; all the rest are links."""
    made = [make_wheel(tmp_path / "wheels", name, "1", files={f"{name}.py": ""}) for name in ("own", "thing", "tool")]
    own = tmp_path / "own"
    own.mkdir()
    (own / "pyproject.toml").write_text(
        '[project]\nname = "own"\nversion = "1"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (own / "backend.py").write_text(
        "import shutil\ndef build_wheel(into, settings=None, metadata=None):\n"
        f"    shutil.copy({str(made[0])!r}, into)\n    return {made[0].name!r}\n"
    )
    venv = make_venv(tmp_path / "venv")
    install(venv, own, *made[1:], cache=tmp_path / "cache", link_mode="symlink")
    shutil.rmtree(tmp_path / "cache/archive-v0")
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED205 3 distributions are links to files that are gone",
        *(f"  error ED202 {name} 1: 3 of {of} files missing" for name, of in (("own", 9), ("thing", 8), ("tool", 8))),
    ]
    site = "[TMP]/venv/" + str(venv.site_packages.relative_to(venv.prefix))
    assert commands_of(verdict.findings[0], tmp_path) == [
        f"find {site} -xtype l -lname '[TMP]/cache/archive-v0/*' -delete",
        "uv pip install --python [TMP]/venv/bin/python --no-deps --link-mode copy --reinstall-package own "
        "--reinstall-package thing --reinstall-package tool 'own @ file://[TMP]/own' thing==1 tool==1",
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    subprocess.run([venv.python, "-c", "import own, thing, tool"], check=True, cwd="/")
    assert verdict_of(venv.prefix).findings == ()


def test_a_script_that_lost_its_mode(venv: Venv, tmp_path: Path) -> None:
    script = venv.prefix / "bin/tool"
    rewrite(script, script.read_text())
    script.chmod(0o644)
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == ["warning ED202 tool 1: 1 program of it may not be executed by anybody"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert subprocess.run([script], check=True, capture_output=True, text=True).stdout == "hello\n"
    assert verdict_of(venv.prefix).findings == ()


def test_scripts_of_several_that_lost_their_modes_are_one_finding(venv: Venv, tmp_path: Path) -> None:
    other = make_wheel(tmp_path / "wheels", "other", "1", files={"other.py": ""}, scripts={"other": "other:main"})
    run_uv("pip", "install", "-q", "--python", venv.python, other, cache=tmp_path / ".uv-cache")
    for name in ("tool", "other"):
        rewrite(venv.prefix / "bin" / name, (venv.prefix / "bin" / name).read_text())
        (venv.prefix / "bin" / name).chmod(0o644)
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == ["warning ED202 2 programs of 2 distributions may not be executed by anybody"]
    assert verdict.findings[0].extent == {"locked:bin/other", "locked:bin/tool"}
    assert commands_of(verdict.findings[0], tmp_path) == ["chmod a+x [TMP]/venv/bin/other [TMP]/venv/bin/tool"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_passes_ed202_a_row_of_the_wheel_that_uv_leaves(tmp_path: Path) -> None:
    files = {"twice.py": "def main(): pass\n", "twice-1.data/scripts/twice": "#!/bin/sh\n"}
    wheel = make_wheel(tmp_path / "wheels", "twice", "1", files=files, scripts={"twice": "twice:main"})
    venv = make_venv(tmp_path / "venv", wheel)
    assert "twice-1.data/scripts/twice," in (venv.dist_info("twice") / "RECORD").read_text()
    assert verdict_of(venv.prefix).findings == ()


def test_passes_ed202_a_script_that_pip_left_as_the_wheel_had_it(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "odd", "1", files={"odd-1.data/scripts/odd": "#!/bin/sh\n"})
    base = Path(sys.base_prefix) / "bin/python3"
    subprocess.run([base, "-m", "venv", tmp_path / "venv"], check=True)
    pip = [tmp_path / "venv/bin/python", "-m", "pip", "install", "-q", "--no-index", wheel]
    subprocess.run(pip, check=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})
    assert not os.access(tmp_path / "venv/bin/odd", os.X_OK)
    assert verdict_of(tmp_path / "venv").findings == ()


def test_passes_ed406_what_setup_py_installed_as_an_egg(venv: Venv, tmp_path: Path) -> None:
    user = make_wheel(tmp_path / "wheels", "user-of", "1", requires=["mylib>=1.0"])
    venv = make_venv(tmp_path / "other", user)
    assert [item.code for item in verdict_of(venv.prefix).findings] == ["ED406"]
    egg = venv.site_packages / "mylib-1.0-py3.11.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    (egg / "mylib.py").write_text("")
    (egg / "EGG-INFO/PKG-INFO").write_text("Metadata-Version: 2.1\nName: mylib\nVersion: 1.0\n")
    (venv.site_packages / "easy-install.pth").write_text(f"./{egg.name}\n")
    code = "import mylib, importlib.metadata as m; print(m.version('mylib'))"
    done = subprocess.run([venv.python, "-c", code], check=True, capture_output=True, text=True, cwd="/")
    assert done.stdout == "1.0\n"
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("upgrade", [True, False])
def test_what_only_the_record_of_another_version_lists_is_not_missing(tmp_path: Path, *, upgrade: bool) -> None:
    """`pip install --target site-packages` leaves the old metadata there; without --upgrade, the old files as well."""
    wheels = tmp_path / "wheels"
    two, three = (
        make_wheel(wheels, "thing", version, files={"thing/__init__.py": f"v = {version!r}\n", f"thing/{only}.py": ""})
        for version, only in (("2", "old"), ("3.0", "new"))
    )
    venv = make_venv(tmp_path / "venv", two)
    with zipfile.ZipFile(three) as wheel:
        if upgrade:
            shutil.rmtree(venv.site_packages / "thing")
        wanted = [name for name in wheel.namelist() if upgrade or name.startswith("thing-")]
        wheel.extractall(venv.site_packages, wanted)
    verdict, meant = verdict_of(venv.prefix), "3.0" if upgrade else "2"
    assert outline(verdict, tmp_path) == ["error ED405 thing has 2 metadata folders"]
    assert [line.summary for line in verdict.areas if line.area == "Installed files"] == [
        "14 files as their RECORDs say, by size, but for 2 that no import needs"
    ]
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
    assert [path.name for path in venv.site_packages.glob("*.dist-info")] == [f"thing-{meant}.dist-info"]


def test_many_damaged_distributions_have_one_command(tmp_path: Path) -> None:
    """An interrupted copy, an `rsync` without the compiled files: one thing happened, to all of them."""
    made = [make_wheel(tmp_path / "wheels", name, "1", files={f"{name}.so": "x"}) for name in ("one", "two", "three")]
    venv = make_venv(tmp_path / "venv", *made)
    libraries = list(venv.site_packages.glob("*.so"))
    for path in libraries[:2]:
        path.unlink()
    by_hand = [item.remediation.commands[0].split()[1:3] for item in verdict_of(venv.prefix).findings]
    assert by_hand == [["pip", "install"], ["pip", "install"]]
    libraries[2].unlink()
    found = verdict_of(venv.prefix).findings
    assert [item.subject for item in found] == ["one", "three", "two"]
    assert {item.remediation.commands for item in found} == {(f"envdoctor repair --venv {venv.prefix}",)}
    own = [item.remediation.by_hand[0].rpartition(" --no-deps ")[2] for item in found]
    assert own == [f"--reinstall-package {name} {name}==1" for name in ("one", "three", "two")]


def test_shared_paths_among_many_damaged_distributions_have_the_same_command(tmp_path: Path) -> None:
    """Pillow-simd writes PIL too, and was never there: pillow is repaired with the others."""
    names = {"pillow": "PIL", "one": "one", "two": "two"}
    made = [make_wheel(tmp_path / "wheels", name, "1", files={f"{at}/a.py": ""}) for name, at in names.items()]
    venv = make_venv(tmp_path / "venv", *made)
    for folder in names.values():
        (venv.site_packages / folder / "a.py").unlink()
    found = verdict_of(venv.prefix).findings
    assert [(item.code, item.subject) for item in found] == [("ED202", "one"), ("ED202", "pillow"), ("ED202", "two")]
    assert {item.remediation.commands for item in found} == {(f"envdoctor repair --venv {venv.prefix}",)}


@pytest.mark.parametrize("cut", [False, True])
def test_an_upgrade_over_the_old_metadata_with_a_cut_file(tmp_path: Path, *, cut: bool) -> None:
    """What the old RECORD has more of is its own metadata; the bytes at the paths of both are the new one's."""
    wheels = tmp_path / "wheels"
    two, three = (
        make_wheel(wheels, "thing", version, files={"thing/__init__.py": f"v = {version!r}\n", "thing/big.py": text})
        for version, text in (("2", "x = 1\n"), ("3.0", "x = 1\n" * 9))
    )
    venv = make_venv(tmp_path / "venv", two)
    with zipfile.ZipFile(three) as wheel:
        wheel.extractall(venv.site_packages)
    if cut:
        (venv.site_packages / "thing/big.py").write_text("x = (")
    found = next(item for item in verdict_of(venv.prefix).findings if item.code == "ED405")
    mend(found, wheels=wheels, cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
    assert [path.name for path in venv.site_packages.glob("*.dist-info")] == ["thing-3.0.dist-info"]


def test_finds_ed405_and_does_not_guess_which_version_is_meant(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    two, three = (
        make_wheel(wheels, "thing", version, files={"thing/__init__.py": "x = 1\n"}) for version in ("2", "3.0")
    )
    venv = make_venv(tmp_path / "venv")
    for path in (two, three):
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(venv.site_packages)
    # Of one name the module has two forms; that is of one cause.
    for name in ("thing-2", "thing-3.0"):
        path = venv.site_packages / f"{name}.dist-info/RECORD"
        module = "form.py" if name == "thing-2" else "form/__init__.py"
        rewrite(path, f"{path.read_text()}{module},,\n")
        (venv.site_packages / module).parent.mkdir(exist_ok=True)
        (venv.site_packages / module).touch()
    verdict = verdict_of(venv.prefix)
    assert [item.code for item in verdict.findings] == ["ED405"]
    (found,) = verdict.findings
    command = f"uv pip install --python {venv.python} --no-deps --reinstall-package thing thing=="
    assert found.remediation == Remediation(
        text="nothing tells which version is the right one: force-reinstall the one that you want, by "
        f"`{command}2` or `{command}3.0`"
    )


def test_finds_ed205_folders_that_one_copy_renamed(tmp_path: Path) -> None:
    """A file system that folds case: one thing happened to all of them."""
    made = [make_wheel(tmp_path / "wheels", name, "1") for name in ("one", "two")]
    venv = make_venv(tmp_path / "venv", *made)
    for info in venv.site_packages.glob("*.dist-info"):
        info.rename(info.with_name(info.name.replace("one", "One").replace("two", "Two")))
    verdict = verdict_of(venv.prefix)
    title = "the metadata folders of 2 distributions were renamed: pip and uv leave them there when they install"
    assert outline(verdict, tmp_path) == [f"error ED205 {title} other versions"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def _without_source(venv: Venv, *names: str) -> None:
    """Leave the bytecode of these files in their place."""
    paths = [venv.site_packages / name for name in names]
    subprocess.run([venv.python, "-m", "compileall", "-q", "-b", *paths], check=True)
    for path in paths:
        path.unlink()


def _files(verdict: Verdict) -> list[str]:
    return [line.summary for line in verdict.areas if line.area == "Installed files"]


def test_modules_without_sources_are_not_missing(tmp_path: Path) -> None:
    """`compileall -b`, then the sources deleted: an image made smaller. Bytecode of another Python is not imported."""
    wheels = tmp_path / "wheels"
    venv = make_venv(tmp_path / "venv", make_wheel(wheels, "thing", "2"), make_wheel(wheels, "other", "1"))
    _without_source(venv, "thing/__init__.py", "other/__init__.py")
    subprocess.run([venv.python, "-B", "-c", "import thing, other"], check=True)
    verdict = verdict_of(venv.prefix)
    told = "without source: what is imported is bytecode that nothing verifies"
    assert outline(verdict, tmp_path) == [f"warning ED202 2 modules of 2 distributions {told}"]
    assert _files(verdict) == ["16 files: 2 modules without source"]
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()

    _without_source(venv, "thing/__init__.py")
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [f"warning ED202 1 module of thing 2 {told}"]
    site = venv.site_packages.relative_to(venv.prefix)
    assert verdict.findings[0].extent == {f"bytecode:{site}/thing/__init__.py"}
    compiled = venv.site_packages / "thing/__init__.pyc"
    whole = compiled.read_bytes()
    for damaged, error in ((b"\0\0" + whole[2:], "ImportError: bad magic number in 'thing'"), (whole[:16], "EOFError")):
        compiled.write_bytes(damaged)
        done = subprocess.run([venv.python, "-c", "import thing"], capture_output=True, text=True, check=False)
        assert done.stderr.splitlines()[-1].startswith(error)
        assert outline(verdict_of(venv.prefix), tmp_path) == ["error ED202 thing 2: 1 of 7 files missing"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("thing", "import inspect\ntext = inspect.getsource(inspect.currentframe())\n"),
        ("thing", "import triton\n@triton.jit\ndef kernel(x):\n    pass\n"),
        ("thing", "import triton.language as tl\n"),
        ("thing", "from torch.jit import script\n"),
        ("triton", "value = 1\n"),
    ],
)
def test_modules_that_read_their_source_need_it(tmp_path: Path, name: str, text: str) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", name, "2", files={f"{name}/__init__.py": text}))
    _without_source(venv, f"{name}/__init__.py")
    lost = "error ED201 files of 1 distribution are missing, each at a path that another wheel writes too"
    told = lost if name == "triton" else "error ED202 thing 2: 1 of 8 files missing"
    assert outline(verdict_of(venv.prefix), tmp_path) == [told]


def test_finds_ed603_another_venv_that_a_pth_file_adds(tmp_path: Path) -> None:
    minor = sys.version_info.minor - 1
    suffix = f".cpython-3{minor}-{platform.machine()}-linux-gnu.so"
    for name, file in {"mine": "mine.py", "twin": "twin.py", "theirs": f"theirs/_core{suffix}"}.items():
        make_wheel(tmp_path / "wheels", name, "1", files={file: ""})
    # Hidden by the one of the venv itself, and of no interest.
    make_wheel(tmp_path / "wheels", "twin", "2", files={f"twin/_core{suffix}": ""})
    wheels = tmp_path / "wheels"
    other = make_venv(tmp_path / "o[t]her", wheels / "theirs-1-py3-none-any.whl", wheels / "twin-2-py3-none-any.whl")
    venv = make_venv(tmp_path / "venv", wheels / "mine-1-py3-none-any.whl", wheels / "twin-1-py3-none-any.whl")
    relative = os.path.relpath(other.site_packages, venv.site_packages)
    roundabout = f"{other.prefix}/../{other.site_packages.relative_to(tmp_path)}/ \t"
    for line in (str(other.site_packages), relative, roundabout):
        (venv.site_packages / "more.pth").write_text(f"# kept\n{line}\n")
        (finding,) = verdict_of(venv.prefix).findings
        assert (finding.code, finding.severity, finding.title) == (
            "ED603",
            "error",
            f"1 distribution comes from {other.site_packages} (more.pth), built for {suffix[1:-3]}",
        )
        mend(finding, wheels=wheels, cache=tmp_path / ".uv-cache")
        assert (venv.site_packages / "more.pth").read_text() == "# kept\n"
        assert verdict_of(venv.prefix).findings == ()
    # As pipx shares pip: what this Python can import is there on purpose.
    make_wheel(wheels, "shared", "1", files={"shared.py": ""})
    shared = make_venv(tmp_path / "shared", wheels / "shared-1-py3-none-any.whl")
    (venv.site_packages / "pipx_shared.pth").write_text(f"{shared.site_packages}\n")
    assert verdict_of(venv.prefix).findings == ()
