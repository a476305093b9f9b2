"""`bisect`: the change at fault is named, in few copies, whatever kind it is; both ends stay as they are."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import uv

from envdoctor import __version__
from tests.factories.bisected import Ends, make_ends, names
from tests.factories.make_cuda_stack import CudaWheels, make_cuda_wheels
from tests.factories.make_profile import make_profile
from tests.factories.make_venv import Venv, install, make_venv, rewrite, run_uv, tree_state, uninstall
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import COMMAND, answering, environment, run_behind, run_envdoctor

IMPORT = ("--", "python", "-c", "import torch")
CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"
# Fails in a venv in which a module says so.
CHECK = """\
import importlib, pkgutil, sys
found = {info.name for info in pkgutil.iter_modules() if info.name.startswith("part")}
state = {name: importlib.import_module(name).VERSION for name in sorted(found)}
"""


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> CudaWheels:
    return make_cuda_wheels(tmp_path_factory.mktemp("wheels"))


def _parts(root: Path, numbers: range, version: str, requires: dict[int, list[str]] | None = None) -> list[Path]:
    return [
        make_wheel(
            root / "wheels",
            f"part{number:02}",
            version,
            files={f"part{number:02}.py": f"VERSION = {version!r}\n"},
            requires=(requires or {}).get(number, ()),
        )
        for number in numbers
    ]


def _many(root: Path, count: int = 12, requires: dict[int, list[str]] | None = None) -> Ends:
    """Make two ends of that many distributions, each of another version."""
    numbers = range(count)
    return make_ends(root, _parts(root, numbers, "1.0"), _parts(root, numbers, "2.0", requires))


def _as_from_an_index(venv: Venv, name: str) -> None:
    told = venv.dist_info(name) / "direct_url.json"
    told.unlink()
    record = told.with_name("RECORD")
    rows = record.read_text().splitlines(keepends=True)
    rewrite(record, "".join(row for row in rows if told.name not in row))


def _script(root: Path, condition: str, more: str = "") -> str:
    (root / "job.py").write_text(f"{CHECK}{more}sys.exit({condition})\n")
    return "job.py"


def test_the_incident(tmp_path: Path, cuda: CudaWheels) -> None:
    ends = make_ends(tmp_path, cuda.all(), cuda.all())
    install(ends.bad, cuda.foreign)
    uninstall(ends.bad, "nvidia-nccl-cu13")
    before = tree_state(ends.good.prefix), tree_state(ends.bad.prefix)
    outcome = ends.run("good", "bad", *IMPORT)
    assert (outcome.code, _timeless(outcome.out)) == (
        0,
        """\
envdoctor bisect  good good  bad bad   `python -c 'import torch'`

cause: files of nvidia-nccl-cu12 12.8; 1 missing: libnccl.so.2

1 change between the ends
    1  good  none of the changes: exit code 0   [SECONDS]
    2  bad   nvidia-nccl-cu12: ImportError: libnccl.so.2: cannot open shared object file: No such file or directory \
(from its files; not run)   [SECONDS]
a copy of the bad end without the causes is good
output of every run: [TMP]/.envdoctor/bad/bisect/output.log
help: to undo it, with the copy that was found good:
      envdoctor bisect --undo --venv [TMP]/bad
""",
    )
    assert (tree_state(ends.good.prefix), tree_state(ends.bad.prefix)) == before
    assert sorted(path.name for path in ends.work.iterdir()) == ["journal.jsonl", "lock", "output.log"]
    undone = ends.run("--undo", "--venv", ends.bad.prefix, "--yes")
    assert (undone.code, undone.err) == (0, undone.err)
    assert ends.run("bad", "good", *IMPORT).code == 2, "both ends are good now"


def _timeless(text: str) -> str:
    return "\n".join(
        f"{line.rpartition('   ')[0]}   [SECONDS]" if line.endswith(" s") else line for line in text.split("\n")
    )


def test_files_that_another_wheel_overwrote(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    own = make_wheel(wheels, "nvidia-cudnn-cu12", "9.10", files={CUDNN: b"twelve"})
    foreign = make_wheel(wheels, "nvidia-cudnn-cu13", "9.19", files={CUDNN: b"thirteen"})
    ends = make_ends(tmp_path, [own, *_parts(tmp_path, range(4), "1.0")], [own, *_parts(tmp_path, range(4), "2.0")])
    install(ends.bad, foreign)
    (tmp_path / "job.py").write_text(
        "import pathlib, sys, sysconfig\n"
        f"sys.exit((pathlib.Path(sysconfig.get_path('purelib')) / {CUDNN!r}).read_bytes() != b'twelve')\n"
    )
    found = ends.answer("good", "bad", "--", "python", "job.py")
    assert names(found) == [["nvidia-cudnn-cu13"]]
    assert found["causes"][0][0]["note"] == "it writes files of nvidia-cudnn-cu12"
    # From anywhere: what was named relative to a folder is looked for there.
    elsewhere = tmp_path / "home"
    document = run_envdoctor("bisect", "--undo", "--venv", ends.bad.prefix, "--yes", "--json", folder=elsewhere)
    assert document.code == 0, document.err
    assert json.loads(document.out)["kept"] == str(ends.work.parent / "generations/0001")
    assert (ends.bad.site_packages / CUDNN).read_bytes() == b"twelve"
    assert not list(ends.bad.site_packages.glob("nvidia_cudnn_cu13*"))
    assert "VERSION = '2.0'" in (ends.bad.site_packages / "part03.py").read_text(), "only the cause is undone"
    again = run_envdoctor("bisect", "--undo", "--venv", ends.bad.prefix, "--yes", folder=elsewhere)
    assert again.code == 2
    assert again.err.splitlines()[1] == (
        "error: bad is not as when it was bisected (no longer a change: distribution nvidia-cudnn-cu13): "
        "what was found may not hold"
    )
    # The backup is an end too.
    found = ends.answer("bad", "bad@1", "--", "python", "job.py")
    assert (names(found), found["venv"]) == ([["nvidia-cudnn-cu13"]], "[TMP]/bad")


def test_one_of_sixty_that_is_slow(tmp_path: Path) -> None:
    numbers = range(60)
    good, bad = _parts(tmp_path, numbers, "1.0"), _parts(tmp_path, numbers, "2.0")
    body = "import time\nVERSION = '2.0'\ntime.sleep(1.5)\n"
    bad[37] = make_wheel(tmp_path / "wheels", "part37", "2.0", files={"part37.py": body})
    ends = make_ends(tmp_path, good, bad)
    # By the seconds that are slept: what a busy machine adds says nothing about the packages.
    (tmp_path / "job.py").write_text(
        "import importlib, pkgutil, time\nslept = []\nsleep = time.sleep\n"
        "time.sleep = lambda seconds: (slept.append(seconds), sleep(seconds))\n"
        "for info in [info for info in pkgutil.iter_modules() if info.name.startswith('part')]:\n"
        "    importlib.import_module(info.name)\n"
        "print(f'steps/s={1 / (0.25 + sum(slept)):.3f}')\n"
    )
    found = ends.answer("good", "bad", "--measure", r"steps/s=([\d.]+)", "--drop", "70%", "--", "python", "job.py")
    assert names(found) == [["part37"]]
    assert found["verified"] is True
    assert len(found["copies"]) <= 10
    assert all(copy["number"] for copy in found["copies"])


def test_two_that_fail_only_together(tmp_path: Path) -> None:
    ends = _many(tmp_path)
    job = _script(tmp_path, "state['part03'] == state['part09'] == '2.0'")
    found = ends.answer("good", "bad", "--", "python", job)
    assert names(found) == [["part03", "part09"]]
    assert [change["name"] for change in found["undone"]] == ["part03", "part09"]


def test_two_that_each_break_it(tmp_path: Path) -> None:
    ends = _many(tmp_path)
    job = _script(tmp_path, "state['part03'] == '2.0' or state['part09'] == '2.0'")
    found = ends.answer("good", "bad", "--", "python", job)
    assert sorted(names(found)) == [["part03"], ["part09"]]
    assert found["verified"] is True


def test_one_that_fails_three_times_in_ten(tmp_path: Path) -> None:
    ends = _many(tmp_path, 4)
    (tmp_path / "count").write_text("0")
    draw = (
        "import pathlib, random\ncount = pathlib.Path('count')\nnumber = int(count.read_text())\n"
        "count.write_text(str(number + 1))\nunlucky = random.Random(number).random() < 0.3\n"
    )
    job = _script(tmp_path, "state['part02'] == '2.0' and unlucky", draw)
    found = ends.answer("good", "bad", "--runs", "12", "--", "python", job)
    assert names(found) == [["part02"]]


def test_what_requires_another_release_brings_it_along(tmp_path: Path) -> None:
    ends = _many(tmp_path, 4, {0: ["part02==2.0"]})
    for venv in (ends.good, ends.bad):
        for name in ("part00", "part02"):
            _as_from_an_index(venv, name)
    ends = replace(ends, more={"PIP_EXTRA_INDEX_URL": "https://u:tok@private.invalid/simple"})
    job = _script(tmp_path, "state['part02'] == '2.0' or (state['part00'], state['part02']) == ('2.0', '1.0')")
    found = ends.answer("good", "bad", "--", "python", job)
    assert names(found) == [["part02"]]
    assert [change["name"] for change in found["undone"]] == ["part00", "part02"]
    assert found["by_hand"] == [
        "uv pip install --python [TMP]/bad/bin/python --no-index --find-links [TMP]/wheels --index-strategy "
        "unsafe-best-match --no-deps --reinstall-package part00 --reinstall-package part02 part00==1.0 part02==1.0"
    ]
    assert found["notes"] == ["uv does not read pip's configuration: what may be a secret is not printed: set UV_INDEX"]
    for copy in found["copies"]:
        assert ("distribution part00" not in copy["changes"]) or "distribution part02" in copy["changes"]


def test_what_requires_each_other_is_one_change(tmp_path: Path) -> None:
    numbers = range(3)
    old = _parts(tmp_path, numbers, "1.0", {0: ["part01==1.0"]})
    ends = make_ends(tmp_path, old, _parts(tmp_path, numbers, "2.0", {0: ["part01==2.0"]}))
    found = ends.answer("good", "bad", "--", "python", _script(tmp_path, "state['part01'] == '2.0'"))
    assert [cause[0]["distributions"] for cause in found["causes"]] == [["part00", "part01"]]
    assert found["causes"][0][0]["note"] == "with part01 1.0 -> 2.0, which it needs or which need it"


def test_a_copy_that_cannot_be_judged_is_skipped(tmp_path: Path) -> None:
    ends = _many(tmp_path, 8)
    job = _script(
        tmp_path, "125 if (state['part03'] == '2.0') != (state['part04'] == '2.0') else state['part06'] == '2.0'"
    )
    found = ends.answer("good", "bad", "--", "python", job)
    assert names(found) == [["part06"]]
    assert "skip" in {copy["outcome"] for copy in found["copies"]}


def test_a_file_that_nobody_owns_and_one_that_was_edited(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    rewrite(ends.bad.site_packages / "extra.pth", "import sys; sys.flag = 1\n")
    found = ends.answer("good", "bad", "--", "python", _script(tmp_path, "hasattr(sys, 'flag')"))
    assert [change["key"] for change in found["causes"][0]] == [
        f"file lib/{ends.bad.site_packages.parent.name}/site-packages/extra.pth"
    ]
    (ends.bad.site_packages / "extra.pth").unlink()
    install(ends.bad, *_parts(tmp_path, range(2), "1.0"))
    rewrite(ends.bad.site_packages / "part01.py", "VERSION = 'odd'\n")
    found = ends.answer("good", "bad", "--", "python", _script(tmp_path, "state['part01'] == 'odd'"))
    assert [change["key"] for change in found["causes"][0]] == ["files part01"]


def test_uv_is_not_named_for_what_is_behind_a_link_out_of_the_venv(tmp_path: Path) -> None:
    files = {"linked/__init__.py": "x = 1\n"}
    old, new = (make_wheel(tmp_path / "wheels", "linked", at, files=files) for at in ("1.0", "2.0"))
    ends = _many(tmp_path, 1)
    install(ends.good, old)
    install(ends.bad, new, _parts(tmp_path, range(1), "1.0")[0])
    for venv in (ends.good, ends.bad):
        _as_from_an_index(venv, "linked")
    package = ends.bad.site_packages / "linked"
    package.rename(tmp_path / "disk")
    package.symlink_to(tmp_path / "disk")
    (tmp_path / "disk/__init__.py").rename(tmp_path / "disk/other.py")
    before = tree_state(tmp_path / "disk")
    job = _script(tmp_path, "version('linked') == '2.0'", "from importlib.metadata import version\n")
    found = ends.answer("good", "bad", "--", "python", job)
    assert names(found) == [["linked"]]
    assert (found["commands"], found["by_hand"]) == (["envdoctor bisect --undo --venv [TMP]/bad"], [])
    assert tree_state(tmp_path / "disk") == before


def test_profiles_are_built_and_their_variables_are_changes(tmp_path: Path) -> None:
    ends = _many(tmp_path, 4)
    make_profile(tmp_path, "old", _parts(tmp_path, range(4), "1.0"), environment={"MODE": "slow", "SAME": "1"})
    make_profile(tmp_path, "new", _parts(tmp_path, range(4), "2.0"), environment={"MODE": "fast", "SAME": "1"})
    job = _script(tmp_path, "os.environ['MODE'] == 'fast' or os.environ['SAME'] != '1'", "import os\n")
    found = ends.answer("old", "new", "--venv", "bad", "--", "python", job)
    assert [change["key"] for change in found["causes"][0]] == ["variable MODE"]
    assert (found["commands"], found["by_hand"]) == ([], [])


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("0", "bad is not BAD: `python job.py` in a copy of it: exit code 0"),
        ("3", "good is not GOOD: `python job.py` in a copy of it: exit code 3"),
        ("125", "good cannot be judged, and must be GOOD: `python job.py` in a copy of it: exit code 125"),
        (
            "os.execvp('sh', ['sh', '-c', 'nosuch'])",
            "good is not GOOD: `python job.py` in a copy of it: a program cannot be started (exit code 127): "
            "sh: 1: nosuch: not found",
        ),
    ],
)
def test_an_end_that_is_not_as_said(tmp_path: Path, condition: str, message: str) -> None:
    ends = _many(tmp_path, 2)
    outcome = ends.run("good", "bad", "--", "python", _script(tmp_path, condition, "import os\n"))
    assert (outcome.code, outcome.out) == (2, "")
    assert f"error: {message} (output in [TMP]/.envdoctor/bad/bisect/output.log)\n" in outcome.err


def test_ends_that_do_not_differ(tmp_path: Path) -> None:
    wheels = _parts(tmp_path, range(2), "1.0")
    ends = make_ends(tmp_path, wheels, wheels)
    outcome = ends.run("good", "bad", *IMPORT)
    assert outcome.code == 2
    assert "error: good and bad do not differ in anything that a copy can have\n" in outcome.err
    (tmp_path / "again").symlink_to("bad")
    outcome = ends.run("bad", "again", *IMPORT)
    assert (outcome.code, outcome.out) == (2, "")
    assert "error: bad and again are the same venv, [TMP]/bad\n" in outcome.err
    ends.bad.python.unlink()
    ends.bad.python.symlink_to("gone")
    found = ends.answer("good", "bad", "--", "python", "-c", "1")
    assert [change["key"] for change in found["causes"][0]] == ["interpreter base interpreter"]
    assert found["copies"][1]["why"] == (
        "a program cannot be started (exit code 127): "
        "[TMP]/.envdoctor/bad/bisect/copies/bad/bin/python: No such file or directory"
    )
    outcome = ends.run("good", "bad", "--cache", "bisect", "--", "nosuch")
    assert "in a copy of it: a program cannot be started (exit code 127): nosuch: No such file or directory" in (
        outcome.err
    )


def test_a_command_that_names_the_venvs_own_python_is_run_in_the_copy(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    job = _script(tmp_path, "state['part01'] == '2.0'")
    (tmp_path / "current").symlink_to("bad")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.11"\n')
    rewrite(tmp_path / "own.py", f"#!{ends.bad.python} -u\n" + (tmp_path / job).read_text())
    (tmp_path / "own.py").chmod(0o755)
    for good, bad, *command in (
        ("good", "bad", "bad/bin/python", job),
        ("good", "current", "bad/bin/python", job),
        ("good", "bad", "current/bin/python", job),
        ("good", "bad", "sh", "-c", f"exec ./bad/bin/python {job}"),
        ("good", "bad", "env", "A=1", ends.good.python, job),
        ("good", "bad", "./own.py"),
        ("good", "bad", uv.find_uv_bin(), "run", "python", job),
    ):
        assert names(ends.answer(good, bad, "--", *command)) == [["part01"]], command
    extra = ends.settings | {"PYTHONPATH": f"{tmp_path}:{ends.bad.site_packages}"}
    outcome = run_envdoctor("bisect", "good", "bad", "--json", "--", "python", job, folder=tmp_path, extra=extra)
    assert (outcome.code, names(json.loads(outcome.out))) == (0, [["part01"]])


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    job = _script(tmp_path, "0", "import time\ntime.sleep(60 * (state['part00'] == '2.0'))\n")
    found = ends.answer("good", "bad", "--timeout", "1.5", "--", "python", job)
    assert names(found) == [["part00"]]
    assert "did not end within 1.5 s" in [copy["why"] for copy in found["copies"]]


def test_a_command_that_writes_into_installed_files_is_stopped(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    job = _script(tmp_path, "0", "import part00\nopen(part00.__file__, 'a').write('#')\n")
    outcome = ends.run("good", "bad", "--", "python", job)
    assert outcome.code == 4
    assert "changed while the command ran: lib/" in outcome.err


def test_killed_after_every_copy_it_goes_on_there(tmp_path: Path) -> None:
    ends = _many(tmp_path, 6)
    job = _script(tmp_path, "state['part01'] == state['part04'] == '2.0'")
    before = tree_state(ends.good.prefix), tree_state(ends.bad.prefix)
    words = ("good", "bad", "--", "python", job)
    lines = 1
    while (code := ends.killed_after(lines, *words)) != 0:
        assert code == -signal.SIGKILL
        lines += 1
        assert (tree_state(ends.good.prefix), tree_state(ends.bad.prefix)) == before
    assert lines > 5
    document = json.loads(ends.run("--log", "--venv", "bad", "--json").out)
    kept = [tuple(copy["changes"]) for copy in document["copies"]]
    assert len(set(kept)) == len(kept), "no copy was judged twice"
    resumed = run_envdoctor("bisect", "--resume", "--venv", ends.bad.prefix, "--json", folder=tmp_path / "home")
    found = json.loads(resumed.out)
    assert names(found) == [["part01", "part04"]]
    assert found["resumed"] == len(found["copies"]) == len(kept)
    assert (tree_state(ends.good.prefix), tree_state(ends.bad.prefix)) == before


def test_a_compile_cache_is_a_change_and_the_users_is_not_touched(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    cache = tmp_path / "inductor"
    (cache / "fxgraph").mkdir(parents=True)
    (cache / "fxgraph/graph").write_bytes(b"poison" * 20_000)
    (cache / "fxgraph/small.best_config").write_text("poison")
    before = tree_state(cache)
    job = _script(
        tmp_path,
        "os.path.exists(graph)",
        "import os\nfolder = os.environ['TORCHINDUCTOR_CACHE_DIR'] + '/fxgraph'\nos.makedirs(folder, exist_ok=True)\n"
        "graph = folder + '/graph'\nopen(folder + '/small.best_config', 'w').write('other')\n",
    )
    extra = {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
    outcome = run_envdoctor(
        "bisect", "good", "bad", "--cache", "bisect", "--json", "--", "python", job,
        folder=tmp_path, extra=ends.settings | extra,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert [change["key"] for change in found["causes"][0]] == ["cache compile cache"]
    assert tree_state(cache) == before


def test_a_fingerprint_is_built_and_must_be_what_it_describes(tmp_path: Path) -> None:
    ends = _many(tmp_path, 3)
    was = make_venv(tmp_path / "was")
    pins = [f"part{number:02}==1.0" for number in range(3)]
    places = ("--no-index", "--find-links", tmp_path / "wheels", "--python", was.python)
    run_uv("pip", "install", "--quiet", *places, *pins, cache=tmp_path / ".uv-cache")
    taken = run_envdoctor("fingerprint", "was", "-o", "was.json", folder=tmp_path, extra=ends.settings)
    assert taken.code == 0, taken.err
    job = _script(tmp_path, "state['part01'] == '2.0'")
    assert names(ends.answer("was.json", "bad", "--", "python", job)) == [["part01"]]
    make_wheel(tmp_path / "wheels", "part02", "1.0", files={"part02.py": "VERSION = '1.0'  # rebuilt\n"})
    other = ends.settings | {"UV_CACHE_DIR": str(tmp_path / "other-cache")}
    outcome = run_envdoctor("bisect", "was.json", "bad", "--", "python", job, folder=tmp_path, extra=other)
    assert outcome.code == 2
    assert "error: was.json cannot be built: what the sources have of part02 has other files\n" in outcome.err, (
        outcome.err
    )


def test_a_second_bisection_of_one_venv_waits_for_nobody(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    (tmp_path / "ready").unlink(missing_ok=True)
    job = _script(tmp_path, "0", "import pathlib, time\npathlib.Path('ready').touch()\ntime.sleep(60)\n")
    command = [*COMMAND, "bisect", "good", "bad", "--", "python", job]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path, ends.settings), stderr=subprocess.PIPE, text=True
    ) as process:
        while not (tmp_path / "ready").exists():
            assert process.poll() is None
        outcome = ends.run("good", "bad", "--", "python", job)
        process.terminate()
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 130
        again = f"envdoctor bisect --resume --venv {ends.bad.prefix}"
        assert f"error: interrupted\n{ends.bad.prefix} is as it was; `{again}` goes on\n" in told
    assert (outcome.code, outcome.err) == (
        4,
        "error: another bisect is at work on [TMP]/bad\n\nhint: wait until it is done, then run this again\n",
    )
    assert not list((ends.work / "copies").glob("*")), "what was interrupted is tidied up"


def test_a_commit_of_the_training_code(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    code = tmp_path / "code"
    (code / "src").mkdir(parents=True)

    def git(*words: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
        return subprocess.run(["git", *named, *words], cwd=code, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    commits = []
    for number in range(6):
        (code / "src/job.py").write_text(f"import sys, part01\nprint(part01.VERSION)\nsys.exit({number} > 2)\n")
        git("add", ".")
        git("commit", "-qm", f"step {number}")
        commits.append(git("rev-parse", "HEAD").strip())
    make_profile(
        code, "old", _parts(tmp_path, range(2), "1.0"), lines=["[git]", f'commit = "{commits[0]}"', "changed = []"]
    )
    outcome = run_envdoctor(
        "bisect", "old", "../../bad", "--sources", "--json", "--", "python", "job.py",
        folder=code / "src", extra=ends.settings,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert [[change["name"], change["after"]] for change in found["causes"][0]] == [[commits[3], "step 3"]]
    assert [change["name"] for change in found["undone"]] == commits[3:]
    (code / "src/job.py").write_text("edited\n")
    refused = run_envdoctor(
        "bisect", "old", "../../bad", "--sources", "--", "python", "job.py", folder=code / "src", extra=ends.settings
    )
    assert refused.err.endswith(
        "error: the working tree has changes that no commit has\n\nhint: commit or stash them first\n"
    )


def test_a_script_is_started_by_the_copys_python_whatever_it_names(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    made = [
        make_wheel(wheels, "tool", version, files={"tool.py": f"def main(): raise SystemExit({code})\n"},
                   scripts={"tool": "tool:main"})
        for version, code in (("1.0", 0), ("2.0", 5))
    ]  # fmt: skip
    ends = make_ends(tmp_path, made[:1], made[1:])
    # As in a venv that somebody copied: its script starts the other one's Python.
    script = ends.bad.prefix / "bin/tool"
    rewrite(script, script.read_text().replace(str(ends.bad.prefix), str(ends.good.prefix)))
    script.chmod(0o755)
    assert names(ends.answer("good", "bad", "--", "tool")) == [["tool"]]
    assert ends.run("--undo", "--venv", "bad", "--yes").code == 0
    assert script.read_text().startswith(f"#!{ends.bad.prefix}/bin/python")
    checked = run_envdoctor("check", "--deep", "bad", "--json", folder=tmp_path)
    assert json.loads(checked.out)["findings"] == []


def test_what_a_command_leaves_running_is_ended_with_its_copy(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    # A daemon: another session, no parent, and it goes on making files in the copy.
    daemon = (
        "import itertools, os, pathlib, sys, time\n"
        "for number in itertools.count():\n"
        "    folder = pathlib.Path(sys.prefix, 'made', str(number)); folder.mkdir(parents=True)\n"
        "    time.sleep(0.001)\n"
    )
    (tmp_path / "daemon.py").write_text(daemon)
    start = (
        "import os, subprocess, pathlib, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n    subprocess.Popen([sys.executable, 'daemon.py']); os._exit(0)\n"
        "while not pathlib.Path(sys.prefix, 'made').exists(): time.sleep(0.01)\n"
    )
    found = ends.answer("good", "bad", "--", "python", _script(tmp_path, "state['part01'] == '2.0'", start))
    assert names(found) == [["part01"]]
    assert sorted(path.name for path in ends.work.iterdir()) == ["journal.jsonl", "lock", "output.log"]
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if b"daemon.py" in line and str(tmp_path).encode() in line]


def test_what_leads_out_of_the_venv_and_what_is_empty_is_as_it_was(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.py").write_text("WHERE = __file__\n")
    site = ends.bad.site_packages
    for end in (ends.good, ends.bad):
        rewrite(end.site_packages / "mine.pth", "../../../../outside\n")
        (end.site_packages / "link.py").symlink_to("../../../../outside/mine.py")
        (end.prefix / "inner").symlink_to(f"../{end.prefix.name}/lib")
        (end.prefix / "bin/mine").write_text(f"#!{os.path.realpath(sys.executable)}\n")
    git = ends.bad.prefix / "src/tool/.git"
    for folder in ("refs/heads", "refs/tags", "objects/info"):
        (git / folder).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs").chmod(0o750)
    (site / "part01.py").chmod(0o640)
    job = _script(
        tmp_path,
        "state['part01'] == '2.0'",
        "import os, mine, link\nassert os.path.samefile(mine.__file__, 'outside/mine.py')\n"
        "assert os.path.samefile(os.path.join(sys.prefix, 'inner'), os.path.join(sys.prefix, 'lib'))\n",
    )
    before = tree_state(ends.bad.prefix)
    assert names(ends.answer("good", "bad", "--", "python", job)) == [["part01"]]
    assert ends.run("--undo", "--venv", "bad", "--yes").code == 0
    after = tree_state(ends.bad.prefix)
    python = f"lib/{site.parent.name}/site-packages"
    cause = {path for path in before.keys() | after.keys() if path.startswith(f"{python}/part01")}
    cause |= {f"{python}/__pycache__", *(path for path in after if path.startswith(f"{python}/__pycache__/"))}
    for state in (before, after):
        for path in cause:
            state.pop(path, None)
    assert after == before


def test_what_is_changed_while_the_question_is_open_is_not_lost(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    job = _script(tmp_path, "state['part01'] == '2.0'")
    assert ends.run("good", "bad", "--", "python", job).code == 0
    mine = ends.bad.site_packages / "mine.py"
    person = answering(f"pathlib.Path({str(mine)!r}).write_text('X = 1')")
    outcome = run_behind(person, "bisect", "--undo", "--venv", "bad", folder=tmp_path, extra=ends.settings)
    assert outcome.code == 4, outcome.err
    site = mine.relative_to(ends.bad.prefix)
    assert f"error: 1 file of [TMP]/bad changed since it was read: {site}\n" in outcome.err
    assert mine.read_text() == "X = 1"


def test_the_folder_that_it_was_started_in_is_gone(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    folder = tmp_path / "sub"
    folder.mkdir()
    job = _script(tmp_path, "state['part01'] == '2.0'")
    words = ("bisect", "../good", "../bad", "--", "python", f"../{job}")
    assert run_envdoctor(*words, folder=folder, extra=ends.settings).code == 0
    for name in ("home", "tmp"):
        (folder / name).rename(tmp_path / f"{name}-of-sub")
    folder.rmdir()
    for wanted in ("--resume", "--undo"):
        outcome = ends.run(wanted, "--venv", "bad")
        assert (outcome.code, outcome.err) == (
            2,
            "error: the last bisection was started in [TMP]/sub, which is no longer there\n\n"
            "hint: start it over where its command finds its files: "
            f"`envdoctor bisect [TMP]/good [TMP]/bad -- python ../{job}`\n",
        )


def test_an_end_that_changed_meanwhile_is_said_and_what_is_unfinished_is_not_undone(tmp_path: Path) -> None:
    ends = _many(tmp_path, 4)
    job = _script(tmp_path, "state['part01'] == '2.0'")
    words = ("good", "bad", "--", "python", job)
    assert ends.killed_after(3, *words) == -signal.SIGKILL
    before = tree_state(ends.bad.prefix)
    early = ends.run("--undo", "--venv", "bad", "--yes")
    assert (early.code, early.out, tree_state(ends.bad.prefix)) == (2, "", before)
    known = len((ends.work / "journal.jsonl").read_text().splitlines()) - 1
    assert early.err.endswith(
        f"error: the bisection is not finished ({known} verdicts so far), so what is to be undone is not known\n\n"
        "hint: `envdoctor bisect --resume --venv [TMP]/bad` finishes it; then `--undo` swaps in what it found\n"
    )
    # Nothing had to be built.
    assert not (ends.work / "ends").exists()
    (ends.bad.site_packages / "mine.py").write_text("X = 1")
    resumed = ends.run("--resume", "--venv", "bad")
    assert (resumed.code, resumed.err.partition("error: ")[2]) == (
        2,
        "bad is not as when it was bisected (now a change: file lib/"
        f"{ends.bad.site_packages.relative_to(ends.bad.prefix / 'lib')}/mine.py): what was judged may not hold\n\n"
        f"hint: bisect again: `cd [TMP] && envdoctor bisect good bad -- python {job}`\n",
    )
    # One that another version began digests otherwise: nothing is said of the ends then.
    journal = ends.work / "journal.jsonl"
    first, *rest = journal.read_text().splitlines(keepends=True)
    for spoilt, by in (
        ({"version": "0.2.9"}, "envdoctor 0.2.9"),
        ({"version": ""}, "another version of envdoctor"),
        ({"states": []}, "another version of envdoctor"),
        ({"states": ["one"]}, "another version of envdoctor"),
    ):
        journal.write_text(json.dumps(json.loads(first) | spoilt) + "\n" + "".join(rest))
        older = ends.run("--resume", "--venv", "bad")
        assert (older.code, older.err.partition("error: ")[2].partition("\n")[0]) == (
            2,
            f"the bisection was begun by {by}, and this is {__version__}: what was judged may not hold",
        )
    journal.write_text("".join((first, *rest)))
    again = ends.run(*words)
    assert again.code == 0
    assert f"mine.py): it starts over, without its {known} verdicts\n" in again.err


def test_what_is_no_file_is_kept_when_it_is_undone(tmp_path: Path) -> None:
    ends = _many(tmp_path, 2)
    job = _script(tmp_path, "state['part01'] == '2.0'")
    pipe = ends.bad.prefix / "run/jobs.fifo"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(ends.bad.prefix):
        server.bind("run/ready")
    there = [path.stat().st_ino for path in (pipe, pipe.with_name("ready"))]
    assert ends.run("good", "bad", "--", "python", job).code == 0
    assert ends.run("--undo", "--venv", "bad", "--yes").code == 0
    assert "VERSION = '1.0'" in (ends.bad.site_packages / "part01.py").read_text()
    assert [path.stat().st_ino for path in (pipe, pipe.with_name("ready"))] == there
