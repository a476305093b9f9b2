"""A venv that this user may not look into."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import Venv, make_venv, rewrite, run_uv
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import environment, filtered

ROOT = Path(__file__).resolve().parents[2]
UNPRIVILEGED = ROOT / "tests" / "factories" / "unprivileged.py"


def _check(venv: Venv, folder: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Check as somebody whom permissions bind, and return what it said."""
    return subprocess.run(
        [sys.executable, UNPRIVILEGED, "check", venv.prefix, *options],
        cwd=ROOT,
        env=environment(folder) | environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    wheels = [make_wheel(tmp_path / "wheels", name, "1") for name in ("thing", "other")]
    return make_venv(tmp_path / "venv", *wheels)


def test_one_closed_metadata_folder_blinds_no_other_check(venv: Venv, tmp_path: Path) -> None:
    info = venv.dist_info("thing")
    (venv.site_packages / "other/__init__.py").unlink()
    info.chmod(0)
    try:
        done = _check(venv, tmp_path / "user")
    finally:
        info.chmod(0o755)
    # Not known to be missing: no error says that the distribution lacks its metadata.
    heads = [line for line in done.stdout.splitlines() if line.startswith(("error", "warning", "note"))]
    assert heads == [
        "error[ED202]: other 1: 1 of 8 files missing",
        "error[ED208]: the metadata folder of thing may not be read by this user",
    ]
    assert "behind that: thing-1.dist-info" in done.stdout
    assert f"{info}: d---------, owner uid {os.getuid()}" in " ".join(done.stdout.split())
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("closed", "files", "severity"),
    [("thing", 2, "error"), ("thing/__init__.py", 1, "error"), ("thing/data.txt", 1, "warning")],
)
def test_what_may_not_be_read_is_an_error_where_it_is_code(
    tmp_path: Path, closed: str, files: int, severity: str
) -> None:
    content = {"thing/__init__.py": "", "thing/data.txt": "x"}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1", files=content))
    path = venv.site_packages / closed
    path.chmod(0)
    try:
        report = json.loads(_check(venv, tmp_path / "user", "--json").stdout)
        (found,) = report["findings"]
        subprocess.run(["/bin/sh", "-c", *found["remediation"]["commands"]], check=True)
        after = _check(venv, tmp_path / "user")
    finally:
        path.chmod(0o755)
    assert (found["code"], found["severity"], found["subject"]) == ("ED208", severity, "thing")
    plural = "files" if files > 1 else "file"
    assert found["title"] == f"{files} {plural} of thing may not be read by this user"
    kind = "d" if "/" not in closed else "-"
    assert found["evidence"][0] == f"{path}: {kind}---------, owner uid {os.getuid()}"
    assert found["remediation"]["commands"] == [f"chmod u+w,a+rX {path}"]
    assert after.returncode == 0, after.stdout


@pytest.mark.parametrize(("name", "severity"), [("METADATA", "error"), ("RECORD", "warning"), ("WHEEL", "warning")])
def test_a_closed_metadata_file_is_one_finding_with_its_command(
    venv: Venv, tmp_path: Path, name: str, severity: str
) -> None:
    path = venv.dist_info("thing") / name
    path.chmod(0)
    try:
        report = json.loads(_check(venv, tmp_path / "user", "--json").stdout)
        (found,) = report["findings"]
        subprocess.run(["/bin/sh", "-c", *found["remediation"]["commands"]], check=True)
        after = _check(venv, tmp_path / "user")
    finally:
        path.chmod(0o644)
    assert (found["code"], found["severity"]) == ("ED208", severity)
    assert found["title"] == "1 file of thing may not be read by this user"
    assert found["remediation"]["commands"] == [f"chmod u+w,a+rX {path}"]
    assert after.returncode == 0, after.stdout


def test_metadata_that_nobody_asks_for_is_no_error(venv: Venv, tmp_path: Path) -> None:
    shadowed = tmp_path / "user/.local/lib" / venv.site_packages.parent.name / "site-packages/thing-0.9.dist-info"
    shutil.copytree(venv.dist_info("thing"), shadowed)
    rewrite(shadowed / "METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 0.9\n")
    (venv.site_packages / "leaked.pth").write_text(f"{shadowed.parent}\n")
    (shadowed / "METADATA").chmod(0)
    try:
        report = json.loads(_check(venv, tmp_path / "user", "--json").stdout)
    finally:
        (shadowed / "METADATA").chmod(0o644)
    found = [(item["severity"], item["title"]) for item in report["findings"] if item["code"] == "ED208"]
    assert found == [("warning", "1 file of thing may not be read by this user")]


@pytest.mark.parametrize("how", ["pth", "PYTHONPATH", "user site"])
def test_metadata_of_another_place_is_asked_for_where_nothing_stands_before_it(tmp_path: Path, how: str) -> None:
    other = make_venv(tmp_path / "other", make_wheel(tmp_path / "wheels", "thing", "1"))
    options = ("--system-site-packages",) if how == "user site" else ()
    run_uv("venv", "--quiet", "--python", sys.executable, *options, tmp_path / "venv", cache=tmp_path / ".uv-cache")
    venv = Venv(prefix=tmp_path / "venv")
    place, environ = tmp_path / "place", {}
    if how == "pth":
        (venv.site_packages / "leaked.pth").write_text(f"{place}\n")
    elif how == "PYTHONPATH":
        environ = {"PYTHONPATH": str(place)}
    else:
        place = tmp_path / "user/home/.local/lib" / venv.site_packages.parent.name / "site-packages"
    metadata = place / other.dist_info("thing").name / "METADATA"
    shutil.copytree(other.site_packages, place)
    metadata.chmod(0)
    try:
        report = json.loads(_check(venv, tmp_path / "user", "--json", **environ).stdout)
    finally:
        metadata.chmod(0o644)
    found = [(item["severity"], item["title"]) for item in report["findings"] if item["subject"] == "thing"]
    assert found == [("error", "1 file of thing may not be read by this user")]


def test_what_may_not_be_looked_at_is_not_gone_and_fails_no_probe(venv: Venv, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    old = venv.prefix / "lib/python3.4/site-packages/package"
    (closed / "source").mkdir(parents=True)
    info = venv.dist_info("thing")
    old.mkdir(parents=True)
    (venv.prefix / "bin/other").write_text(f"#!{closed}/bin/python\n")
    (venv.prefix / "bin/program").write_text(f"#!{closed}/bin/perl\n")
    direct = {"url": f"file://{closed}/source", "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(direct))
    before = json.loads(_check(venv, tmp_path / "user", "--json").stdout)
    old.chmod(0)
    closed.chmod(0)
    try:
        report = json.loads(_check(venv, tmp_path / "user", "--json").stdout)
    finally:
        closed.chmod(0o755)
        old.chmod(0o755)
    assert [item["title"] for item in report["findings"] if item["code"] == "ED103"] == [
        f"1 script starts {closed}/bin/python, which is another environment's"
    ]
    others = [[item["title"] for item in seen["findings"] if item["code"] != "ED103"] for seen in (before, report)]
    assert others[0] == others[1]
    assert [item["code"] for item in report["could_not_tell"]] == [item["code"] for item in before["could_not_tell"]]


def test_check_fix_leaves_permissions_to_their_owner_and_says_why(venv: Venv, tmp_path: Path) -> None:
    path = venv.site_packages / "thing/__init__.py"
    path.chmod(0)
    try:
        done = _check(venv, tmp_path / "user", "--fix", "--yes")
    finally:
        path.chmod(0o644)
    assert "it changes permissions, which a copy shares with the venv" in " ".join(done.stdout.split())


def test_what_another_user_closed_is_that_users_to_open(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root can give a file away")
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1"))
    path = venv.site_packages / "thing/__init__.py"
    path.chmod(0o600)
    os.chown(path, 12345, 12345)
    text = " ".join(_check(venv, tmp_path / "user").stdout.split())
    assert "error[ED208]: 1 file of thing may not be read by this user" in text
    assert f"{path}: -rw-------, owner uid 12345" in text


def test_what_a_link_leads_to_outside_is_named_and_opened_by_nobody(tmp_path: Path) -> None:
    wheels = [make_wheel(tmp_path / "wheels", name, "1") for name in ("thing", "other")]
    venv = make_venv(tmp_path / "venv", *wheels)
    home = tmp_path / "home of another"
    home.mkdir()
    (venv.site_packages / "thing").rename(home / "thing")
    (venv.site_packages / "thing").symlink_to(home / "thing")
    # One that stays in the venv is the venv's, by the venv's own name.
    inner = venv.site_packages / "other"
    (venv.prefix / "share").mkdir()
    inner.rename(venv.prefix / "share/other")
    inner.symlink_to("../../../share/other")
    reached = tmp_path / "reached"
    reached.symlink_to(tmp_path)
    (venv.prefix / "share/other").chmod(0)
    home.chmod(0o700 if os.getuid() == 0 else 0)
    if os.getuid() == 0:
        os.chown(home, 12345, 12345)
    try:
        report = json.loads(_check(Venv(prefix=reached / "venv"), tmp_path / "user", "--json").stdout)
    finally:
        home.chmod(0o755)
        (venv.prefix / "share/other").chmod(0o755)
    found = [item for item in report["findings"] if item["code"] == "ED208"]
    assert [(item["subject"], item["evidence"][0], item["remediation"]) for item in found] == [
        (
            "other",
            f"{reached}/venv/share/other: d---------, owner uid {os.getuid()}",
            {
                "text": "let it be read again",
                "commands": [f"chmod u+w,a+rX {reached}/venv/share/other"],
                "safe": True,
                "by_hand": [],
            },
        ),
        (
            "thing",
            f"{home}: {'drwx------, owner uid 12345' if os.getuid() == 0 else f'd---------, owner uid {os.getuid()}'}",
            {
                "text": f"{home} is outside the environment, and who may read it is for its owner to say; or install "
                "thing into the environment itself",
                "commands": [],
                "safe": False,
                "by_hand": [],
            },
        ),
    ]


def test_repair_of_a_package_folder_that_may_not_be_entered_changes_nothing(tmp_path: Path) -> None:
    files = {"thing/__init__.py": "", "thing/inner/__init__.py": ""}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1", files=files))
    closed = venv.site_packages / "thing"
    closed.chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, UNPRIVILEGED, "repair", venv.prefix, "-y"],
            cwd=ROOT,
            env=environment(tmp_path / "user"),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        closed.chmod(0o755)
    assert done.returncode == 4, done.stderr
    assert done.stderr.endswith(
        f"error: Permission denied ({closed})\n{venv.prefix} is as it was\n\n"
        "hint: run it as the owner of the venv's folder\n"
    )


def test_restore_of_a_venv_with_a_closed_folder_heals_it(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    assert stack.restore().code == 0
    closed = next(stack.venv.glob("lib/python3*/site-packages/torch"))
    closed.chmod(0)
    done = subprocess.run(
        [sys.executable, UNPRIVILEGED, "restore", "--profile", "small", "--venv", "venv", "--yes", "--force"],
        cwd=stack.folder,
        env=stack.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    kept = next(stack.store.glob("generations/0001/lib/python3*/site-packages/torch"))
    mode = kept.stat().st_mode
    kept.chmod(0o755)
    assert (done.returncode, mode & 0o777) == (0, 0), done.stderr
    assert (closed / "version.py").is_file()


def test_a_closed_folder_on_the_import_path_is_passed_over_as_python_does(venv: Venv, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        done = _check(venv, tmp_path / "user", PYTHONPATH=str(closed))
    finally:
        closed.chmod(0o755)
    assert f"{closed} (PYTHONPATH): Permission denied; Python passes over it" in " ".join(done.stdout.split())
    assert "could not tell" not in done.stdout
    assert done.returncode == 0


def test_one_reason_for_many_checks_is_said_once(venv: Venv, tmp_path: Path) -> None:
    config = venv.prefix / "pyvenv.cfg"
    config.chmod(0)
    try:
        done, verbose = _check(venv, tmp_path / "user"), _check(venv, tmp_path / "user", "-v")
    finally:
        config.chmod(0o644)
    (line,) = [line for line in done.stdout.splitlines() if "checks (" in line]
    found = re.match(r"  (\d+) checks \(ED101, ED103, ED104, ED105, ED201, ED202 and (\d+) more\):", line)
    assert found is not None, line
    assert int(found[1]) == int(found[2]) + 6 > 30
    assert "ED704" in verbose.stdout
    assert done.returncode == 3


def test_a_folder_without_permission_is_said_with_its_reason(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    venv.prefix.chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, UNPRIVILEGED, "check", venv.prefix],
            cwd=ROOT,
            env=environment(tmp_path / "user"),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        venv.prefix.chmod(0o755)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"error: {venv.prefix}/pyvenv.cfg: Permission denied: this user may not enter {venv.prefix}\n\n"
        f"hint: run envdoctor as the owner of {venv.prefix}, or let this user enter it\n",
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("restore", "-p", "small", "--venv", "shut/venv", "--dry-run"), "venv"),
        (("repair", "-p", "small", "--venv", "shut/venv", "--dry-run"), "venv"),
        (("rollback", "--venv", "shut/venv"), "venv"),
        (("history", "--venv", "shut/venv"), "venv"),
        (("prune", "--keep", "1", "--venv", "shut/venv"), "venv"),
        (("try", "--venv", "shut/venv", "--", "uv", "pip", "install", "x"), "venv"),
        (("check", "shut/venv", "--fix", "-y"), "venv"),
        (("run", "-p", "small", "--venv", "shut/venv", "--", "true"), "venv"),
        (("why", "torch", "--venv", "shut/venv"), "venv"),
        (("diff", "shut/venv", "shut/f.json"), "venv"),
        (("diff", "open", "shut/f.json"), "f.json"),
        (("check", "open", "-p", "shut/p.toml"), "p.toml"),
        (("check", "open", "--lock", "shut/lock.txt"), "lock.txt"),
        (("restore", "-p", "small", "--venv", "new", "--wheelhouse", "shut/wh", "--dry-run"), "wh"),
        (("fetch", "-p", "small", "--wheelhouse", "shut/wh"), "wh"),
        (("capture", "mine", "--venv", "open", "--project", "shut/p"), "p"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else value,
)
def test_what_is_behind_a_closed_folder_is_bad_input(arguments: tuple[str, ...], named: str, shut: Stack) -> None:
    done = subprocess.run(
        [sys.executable, UNPRIVILEGED, *arguments],
        cwd=shut.folder,
        env=shut.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    folder = shut.folder / "shut"
    last = done.stderr[done.stderr.index("error: ") :] if "error: " in done.stderr else done.stderr
    assert re.fullmatch(
        rf"error: {re.escape(str(folder))}/{re.escape(named)}\S*: Permission denied: this user may not enter "
        rf"{re.escape(str(folder))}\n\n"
        rf"hint: run envdoctor as the owner of {re.escape(str(folder))}, or let this user enter it\n",
        last,
    ), done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


_SAID = """
import sys
from envdoctor.errors import closed_place
for do in (
    lambda: open("secret.txt"),
    lambda: open("kept.txt", "w"),
    lambda: open("kept/new.txt", "w"),
):
    try:
        do()
    except OSError as error:
        closed = closed_place(error)
        print(closed and f"{closed.message} | {closed.hint}")
for error in (
    OSError(13, "Permission denied", "open.txt"),
    OSError(1, "Operation not permitted", "open.txt", None, "other/open.txt"),
    OSError(13, "Permission denied", "open.txt", None, "kept/open.txt"),
    OSError(30, "Read-only file system", b"open.txt"),
    OSError(28, "No space left on device", "open.txt"),
    OSError(116, "Stale file handle", "open.txt"),
    OSError(1, "Operation not permitted"),
    OSError(2, "No such file or directory", "open.txt"),
):
    closed = closed_place(error)
    print(closed and f"{int(closed.exit_code)} {closed.message} | {closed.hint}")
"""


def test_a_place_that_cannot_be_used_is_judged_by_what_the_system_said(tmp_path: Path) -> None:
    for name, mode in {"secret.txt": 0o200, "kept.txt": 0o444, "open.txt": 0o644}.items():
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    (tmp_path / "kept").mkdir(0o555)
    (tmp_path / "other").mkdir()
    done = subprocess.run(
        [sys.executable, UNPRIVILEGED, "-c", _SAID],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    who = "run envdoctor as the owner of"
    other = (
        "not by their permissions; a sticky folder, the server of a network file system, a mount option or a security "
        "module may refuse it"
    )
    assert done.stdout.replace(str(tmp_path), "[TMP]").splitlines() == [
        "[TMP]/secret.txt: Permission denied: this user may not read [TMP]/secret.txt | "
        f"{who} [TMP]/secret.txt, or let this user read it",
        "[TMP]/kept.txt: Permission denied: this user may not write [TMP]/kept.txt | "
        f"{who} [TMP]/kept.txt, or let this user write it",
        "[TMP]/kept/new.txt: Permission denied: this user may not write [TMP]/kept | "
        f"{who} [TMP]/kept, or let this user write it",
        f"2 [TMP]/open.txt: Permission denied: {other} | {who} [TMP], or name another place",
        f"2 [TMP]/open.txt -> other/open.txt: Operation not permitted: {other} | {who} [TMP] and [TMP]/other, "
        "or name another place",
        "2 [TMP]/open.txt -> kept/open.txt: Permission denied: this user may not write [TMP]/kept | "
        f"{who} [TMP]/kept, or let this user write it",
        "2 [TMP]/open.txt: Read-only file system | name a place that can be written; this one is mounted read-only",
        "2 [TMP]/open.txt: No space left on device | make room on its file system; `df -h` says how full each is",
        "3 [TMP]/open.txt: Stale file handle | its file system fails: `dmesg` says why, and a network file system may "
        "have to be mounted again",
        "None",
        "None",
    ]


@pytest.fixture(scope="module")
def shut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Give a stack with an empty venv `open`, and a folder `shut` that this user may not enter."""
    stack = make_stack(tmp_path_factory.mktemp("shut"))
    make_venv(stack.folder / "open", cache=stack.cache)
    closed = stack.folder / "shut"
    closed.mkdir()
    closed.chmod(0)
    yield stack
    closed.chmod(0o755)


CLOSED_BASE = """\
[?] Interpreter         CPython [PYTHON], venv by uv [UV]
[✓] Distributions       2 distributions, no lock to compare with
"""


def test_a_base_that_may_not_be_entered_is_named_and_the_packages_are_read(venv: Venv, tmp_path: Path) -> None:
    home = tmp_path / "home of another"
    (home / "bin").mkdir(parents=True)
    (home / "bin/python3").symlink_to(os.path.realpath(venv.python))
    venv.python.unlink()
    venv.python.symlink_to(home / "bin/python3")
    config = venv.prefix / "pyvenv.cfg"
    text = config.read_text()
    config.unlink()
    config.write_text(re.sub("(?m)^home = .*$", f"home = {home}/bin", text))
    (venv.site_packages / "other/__init__.py").unlink()
    home.chmod(0)
    try:
        done = _check(venv, tmp_path)
    finally:
        home.chmod(0o755)
    out = filtered(done.stdout, tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert out.splitlines()[2:4] == CLOSED_BASE.splitlines()
    told = " ".join(out.partition("could not tell:")[2].split())
    assert told == (
        "ED101 missing-interpreter: Interpreter: [TMP]/venv/bin/python leads to [TMP]/home of another/bin/python3, and "
        "[TMP]/home of another may not be entered by this user ED608 program-not-on-path: Toolchain: "
        f"[TMP]/home of another/include/{venv.site_packages.parent.name}/Python.h: Permission denied "
        "Found 1 error (1 cause); 2 checks could not tell; "
        "no torch here: torch and its libraries were not checked. exit 1 "
        f"For more about a finding, run `{Path(sys.executable).with_name('envdoctor')} explain ED202`."
    )
    assert "error[ED202]: other 1: 1 of " in out
