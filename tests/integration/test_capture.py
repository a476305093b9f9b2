"""Capturing a small venv: what is pinned, what is kept as a wheel, what is refused, and that it comes back the same."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envdoctor.compare.identity import digest_of
from envdoctor.doctor.examine import take_fingerprint
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.standards.lock import parse
from tests.factories.make_index import Index, make_index
from tests.factories.make_stack import TORCH, Stack, make_stack
from tests.factories.make_venv import Venv, install, make_venv, rewrite, tree_state
from tests.factories.make_wheel import make_wheel, record_hash, sha256
from tests.factories.served import serve

DATA = {
    "odd/__init__.py": "x = 1\n",
    "odd-1.0.data/scripts/odd-tool": "#!python\nprint('odd')\n",
    "odd-1.0.data/scripts/odd-shell": "#!/bin/sh\necho odd\n",
    "odd-1.0.data/data/share/odd/data.txt": "data\n",
    "odd-1.0.data/headers/odd.h": "int odd;\n",
    "odd-1.0.data/purelib/odd_pure.py": "y = 2\n",
}


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Make a stack whose venv holds its three packages and one with scripts, data and headers."""
    made = make_stack(tmp_path, make_wheel(tmp_path / "wheels", "odd", "1.0", files=DATA))
    make_venv(made.venv, *made.wheels, cache=made.cache)
    # Where the compile caches of this user are by default.
    (tmp_path / "tmp").mkdir()
    made.environment["TMPDIR"] = str(tmp_path / "tmp")
    return made


@pytest.fixture
def index(stack: Stack) -> Iterator[Index]:
    """Serve the stack's wheels over HTTP, with nothing else configured."""
    with make_index(stack.folder / "wheels") as made:
        stack.environment |= {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": made.url}
        yield made


def _digest(stack: Stack, venv: str) -> str | None:
    options = Options(contents=True, ask_nvml=False)
    return digest_of(take_fingerprint(resolve(stack.folder / venv), Host.current(), options))


def _refusal(stack: Stack, *options: str) -> str:
    answer = stack.run("capture", "mine", "--venv", "venv", *options)
    assert (answer.code, answer.out) == (1, ""), answer.err
    assert not (stack.folder / "profiles" / "mine.toml").exists()
    assert not (stack.folder / "lockfiles" / "mine.txt").exists()
    assert not (stack.folder / "lockfiles" / "mine.wheels").exists()
    return answer.err[answer.err.index("error: ") :]


def test_every_package_is_pinned_to_the_wheel_that_it_is(stack: Stack, index: Index) -> None:
    answer = stack.run("capture", "mine", "--venv", "venv")
    assert answer.code == 0, answer.err
    digest = _digest(stack, "venv")
    # direct_url.json names a temporary folder, whose length is not ours.
    assert re.sub(r"\(\d+ kB\)", "(SIZE)", answer.out) == (
        "captured FOLDER/venv as mine: 4 packages pinned, 0 kept\n"
        "  verified 40 files (SIZE) by sha256\n"
        "  profile  profiles/mine.toml\n"
        "  lock     lockfiles/mine.txt\n"
        f"  digest   {digest}\n"
        "\n"
        "note: set here, and able to change what is loaded, but not captured: PYTHONPATH\n"
        "\n"
        "note: the compile caches are cold, so the profile expects nothing of them\n"
    )
    lock = parse((stack.folder / "lockfiles" / "mine.txt").read_text(), "mine")
    assert {package.name: package.hashes for package in lock.packages} == {
        wheel.name.split("-")[0].replace("_", "-"): (sha256(wheel),) for wheel in stack.wheels
    }
    # The wheels themselves were not fetched: their tables of contents were.
    assert index.downloads() == []


@pytest.mark.parametrize("form", ["requirements", "pylock"])
def test_what_was_captured_comes_back_at_another_path_with_an_equal_digest(
    stack: Stack, index: Index, form: str
) -> None:
    assert stack.run("capture", "mine", "--venv", "venv", "--format", form).code == 0
    before = _digest(stack, "venv")
    (stack.folder / "else where").mkdir()
    answer = stack.run("restore", "-p", "mine", "--venv", "else where/other", "--yes")
    assert answer.code == 0, answer.err
    assert _digest(stack, "else where/other") == before
    compared = stack.run("diff", "mine", "else where/other")
    assert (compared.code, compared.out) == (
        0,
        "A  mine  (profile)\nB  else where/other  (venv)\n\nno difference; the digests are equal\n",
    )
    tool = stack.folder / "else where/other/bin/odd-tool"
    assert subprocess.run([tool], capture_output=True, text=True, check=True).stdout == "odd\n"


def _unshared() -> bool:
    done = subprocess.run(["unshare", "--user", "--map-user=65534", "true"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.skipif(not _unshared(), reason="this system lets nobody be another user in a namespace of their own")
def test_another_user_gets_an_equal_digest(stack: Stack) -> None:
    assert stack.run("capture", "mine", "--venv", "venv").code == 0
    home = stack.folder / "other-home"
    home.mkdir()
    own = {"HOME": str(home), "USER": "somebody", "UV_CACHE_DIR": str(home / "cache")}
    command = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
    for arguments in (["restore", "-p", "mine", "--venv", str(home / "v"), "-y"], ["fingerprint", str(home / "v")]):
        done = subprocess.run(
            [*command, *stack.command(*arguments)],
            cwd=stack.folder,
            env=stack.environment | own,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == _digest(stack, "venv")


def test_the_profile_says_what_the_venv_is(stack: Stack) -> None:
    (stack.folder / "train.py").write_text("print('train')\n")
    (stack.folder / "notes.txt").write_text("mine\n")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(stack.folder)]
    for arguments in (["init", "-q"], ["add", "train.py"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    (stack.folder / "train.py").write_text("print('changed')\n")
    launch = {"TORCHINDUCTOR_MAX_AUTOTUNE": "1", "OMP_NUM_THREADS": "4", "TRITON_CACHE_DIR": "/fast", "RANK": "3"}
    answer = stack.run("capture", "mine", "--venv", "venv", "--summary", "the good one", extra=launch)
    assert answer.code == 0, answer.err
    text = (stack.folder / "profiles" / "mine.toml").read_text()
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    day = text.split('resolved = "')[1][:10]
    assert text == (
        'schema = 1\nname = "mine"\nsummary = "the good one"\n\n'
        f'[python]\nversions = [\n    "{python}",\n]\n\n'
        '[torch]\nversion = "2.13.0+cpu"\ngit_version = "none"\n\n'
        f'[lock]\nfile = "mine.txt"\nresolved = "{day}"\ndigest = "{_digest(stack, "venv")}"\n\n'
        '[environment]\nforbidden = [\n    "LD_LIBRARY_PATH",\n    "LD_PRELOAD",\n]\n\n'
        '[environment.set]\nOMP_NUM_THREADS = "4"\nTORCHINDUCTOR_MAX_AUTOTUNE = "1"\n\n'
        f'[sources]\n"train.py" = "{sha256(stack.folder / "train.py")}"\n\n'
        f'[git]\ncommit = "{commit}"\nchanged = [\n    "train.py",\n]\n'
    )
    assert "note: set here, but naming a place of this machine, so not captured: TRITON_CACHE_DIR\n" in answer.out


def test_source_files_can_be_named(stack: Stack) -> None:
    for name in ("a.py", "sub/b.py", "sub/c.txt"):
        path = stack.folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    answer = stack.run(
        "capture", "mine", "--venv", "venv", "--source", "src/**/*.py", "--source", "src/sub/c.txt", "--json"
    )
    assert answer.code == 0, answer.err
    text = (stack.folder / "profiles" / "mine.toml").read_text()
    listed = text.split("[sources]\n")[1].split("\n\n")[0].splitlines()
    assert [line.split('"')[1] for line in listed] == ["src/a.py", "src/sub/b.py", "src/sub/c.txt"]
    none = stack.run("capture", "other", "--venv", "venv", "--source", "no/*.py")
    assert (none.code, none.err[none.err.index("error") :]) == (
        2,
        "error: --source no/*.py matches no file of FOLDER\n\nhint: give a file, or a pattern such as `src/**/*.py`\n",
    )


def test_what_no_index_has_is_kept_as_a_wheel(stack: Stack) -> None:
    for wheel in (stack.folder / "wheels").glob("odd-*"):
        wheel.unlink()
    answer = stack.run("capture", "mine", "--venv", "venv", "--json")
    assert answer.code == 0, answer.err
    kept = [wheel for wheel in json.loads(answer.out)["wheels"] if wheel["kept_because"]]
    made = stack.folder / "lockfiles" / "mine.wheels" / "odd-1.0-py3-none-any.whl"
    assert [(wheel["name"], wheel["sha256"], wheel["path"], wheel["kept_because"]) for wheel in kept] == [
        (
            "odd",
            sha256(made),
            "mine.wheels/odd-1.0-py3-none-any.whl",
            "installed from file://FOLDER/wheels/odd-1.0-py3-none-any.whl; no configured place has a wheel of it",
        )
    ]
    before, first = _digest(stack, "venv"), made.read_bytes()
    # It is found beside the lock, without being named, and gives the same stack.
    assert stack.run("restore", "-p", "mine", "--venv", "other", "-y", "--offline").code == 0
    assert _digest(stack, "other") == before
    tool = subprocess.run([stack.folder / "other/bin/odd-tool"], capture_output=True, text=True, check=True)
    assert tool.stdout == "odd\n"
    header = f"include/site/python{sys.version_info[0]}.{sys.version_info[1]}/odd/odd.h"
    assert (stack.folder / "other" / header).read_text() == "int odd;\n"
    # A repair finds it there too.
    (stack.folder / "other" / header).unlink()
    mended = stack.run("repair", "-p", "mine", "--venv", "other", "--yes", "--offline")
    assert (mended.code, (stack.folder / "other" / header).read_text()) == (0, "int odd;\n"), mended.err
    assert _digest(stack, "other") == before
    # Made again, and from the restored venv, it is the same file.
    assert stack.run("capture", "mine", "--venv", "other", "--force").code == 0
    assert made.read_bytes() == first


def test_offline_every_package_becomes_a_wheel(stack: Stack) -> None:
    shutil.rmtree(stack.folder / "wheels")
    answer = stack.run("capture", "mine", "--venv", "venv", "--offline")
    assert answer.code == 0, answer.err
    names = sorted(path.name.split("-")[0] for path in (stack.folder / "lockfiles" / "mine.wheels").iterdir())
    assert names == ["odd", "plain", "some_tool", "torch"]
    fresh = {"UV_CACHE_DIR": str(stack.folder / "fresh"), "PIP_FIND_LINKS": ""}
    assert stack.run("restore", "-p", "mine", "--venv", "other", "-y", "--offline", extra=fresh).code == 0
    assert _digest(stack, "other") == _digest(stack, "venv")


def test_killed_at_every_point_it_leaves_no_profile_or_a_whole_one(stack: Stack, tmp_path: Path) -> None:
    shutil.rmtree(stack.folder / "wheels")
    command = ("capture", "mine", "--venv", "venv", "--offline", "--json")
    written = [stack.folder / name for name in ("profiles/mine.toml", "lockfiles/mine.txt", "lockfiles/mine.wheels")]
    events = tmp_path / "events"

    def run(at: int) -> int:
        watched = {"kill_at": at, "events": str(events), "begins": f"{stack.folder}/lockfiles"}
        return serve(command, stack.environment, stack.folder, watch=watched)[0]

    venv = tree_state(stack.venv)
    assert run(0) == 0
    whole = [path.read_text() for path in written[:2]]
    points = len(events.read_text().splitlines())
    assert points >= 12
    for at in range(1, points + 1):
        for path in written:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert run(at) == -signal.SIGKILL, at
        if written[0].exists():
            assert [path.read_text() for path in written[:2]] == whole, at
        else:
            for path in written:
                assert not path.is_file() or path.read_text() == whole[1], at
        assert tree_state(stack.venv) == venv
        answer = stack.run(*command, "--force")
        assert answer.code == 0, answer.err
        assert [path.read_text() for path in written[:2]] == whole, at
        assert list(stack.folder.rglob("*.part")) == [], at


def test_of_two_builds_of_one_version_the_installed_one_is_pinned(stack: Stack, index: Index) -> None:
    other = make_wheel(stack.folder / "wheels", "plain", "3.0", build_tag="7", files={"plain/__init__.py": "z = 0\n"})
    assert stack.run("capture", "mine", "--venv", "venv").code == 0
    lock = parse((stack.folder / "lockfiles" / "mine.txt").read_text(), "mine")
    plain = next(package for package in lock.packages if package.name == "plain")
    assert plain.hashes == (sha256(stack.folder / "wheels" / "plain-3.0-py3-none-any.whl"),)
    assert plain.hashes != (sha256(other),)


def test_a_changed_file_is_refused(stack: Stack) -> None:
    plain = Venv(prefix=stack.venv).site_packages / "plain/__init__.py"
    text = plain.read_text()
    plain.unlink()
    plain.write_text(text + "patched = True\n")
    assert _refusal(stack) == (
        "error: 1 distribution cannot be captured:\n"
        "  plain 3.0: plain/__init__.py has 35 bytes, not the recorded 20\n"
        "nothing was written\n\n"
        "hint: fix them, or leave them out of the lock knowingly: `--without plain`\n"
    )
    answer = stack.run("capture", "mine", "--venv", "venv", "--without", "Plain")
    assert answer.code == 0, answer.err
    assert "\nnote: left out of the lock: plain\n" in answer.out
    assert "plain" not in (stack.folder / "lockfiles" / "mine.txt").read_text()


def test_an_editable_is_refused_and_a_repository_is_kept(stack: Stack) -> None:
    venv = Venv(prefix=stack.venv)
    _say_installed_from(venv, "plain", {"url": "file:///srv/plain", "dir_info": {"editable": True}})
    told = {"url": "https://git.invalid/odd.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}}
    _say_installed_from(venv, "odd", told)
    (stack.folder / "wheels" / "odd-1.0-py3-none-any.whl").unlink()
    assert _refusal(stack) == (
        "error: 1 distribution cannot be captured:\n"
        "  plain 3.0: it is editable, from file:///srv/plain: its files are outside the venv\n"
        "nothing was written\n\n"
        "hint: fix them, or leave them out of the lock knowingly: `--without plain`\n"
    )
    answer = stack.run("capture", "mine", "--venv", "venv", "--without", "plain")
    assert answer.code == 0, answer.err
    assert (
        "kept as wheels in lockfiles/mine.wheels, to go wherever the lock goes:\n"
        "  odd 1.0: installed from https://git.invalid/odd.git; no configured place has a wheel of it\n"
    ) in answer.out


def _say_installed_from(venv: Venv, name: str, told: dict[str, object]) -> None:
    """Give a distribution a direct_url.json that an installer would have written, RECORD row included."""
    info = venv.dist_info(name)
    path = info / "direct_url.json"
    path.unlink(missing_ok=True)
    path.write_text(json.dumps(told))
    record = (info / "RECORD").read_text()
    rows = [line for line in record.splitlines() if "direct_url.json" not in line]
    (info / "RECORD").unlink()
    row = f"{info.name}/direct_url.json,{record_hash(path.read_bytes())},{path.stat().st_size}"
    (info / "RECORD").write_text("\n".join([*rows, row, ""]))


def test_what_has_no_record_is_refused(stack: Stack) -> None:
    (Venv(prefix=stack.venv).dist_info("plain") / "RECORD").unlink()
    assert "\n  plain 3.0: plain-3.0.dist-info has no RECORD, so its files are not known\n" in _refusal(stack)


def test_an_index_that_does_not_answer_is_no_reason_to_keep_a_wheel(stack: Stack, index: Index) -> None:
    index.faults["plain-3.0-py3-none-any.whl"] = "forbidden"
    refused = _refusal(stack)
    assert refused.replace(index.url.removesuffix("simple/"), "BASE/") == (
        "error: 1 distribution cannot be captured:\n"
        "  plain 3.0: BASE/simple/ has plain-3.0-py3-none-any.whl, which cannot be looked into "
        "(BASE/files/plain-3.0-py3-none-any.whl: it answered 403 Forbidden); "
        "try again, or keep every distribution as a wheel with `--offline`\n"
        "nothing was written\n\n"
        "hint: fix them, or leave them out of the lock knowingly: `--without plain`\n"
    )


def test_a_venv_that_does_not_pass_the_checks_is_refused(stack: Stack) -> None:
    python = stack.venv / "bin/python"
    python.unlink()
    python.symlink_to("/gone/python3")
    told = re.sub("(?<=ED101 ).*", "TITLE", _refusal(stack))
    assert told == (
        "error: the venv does not pass the checks, and neither would one rebuilt from it:\n"
        "  ED101 TITLE\n"
        "  ED103 2 scripts start FOLDER/venv/bin/python, which does not exist (bin: FOLDER/venv/bin/python)\n"
        "nothing was written\n\n"
        "hint: `envdoctor check FOLDER/venv` says how to fix it; accept a finding with `--ignore CODE=REASON`\n"
    )


def test_files_of_no_distribution_are_named(stack: Stack) -> None:
    site = Venv(prefix=stack.venv).site_packages
    for name in ("a.py", "b.py", "c.py", "d.py"):
        (site / name).write_text("")
    answer = stack.run("capture", "mine", "--venv", "venv")
    assert (
        "\nnote: 4 files belong to no distribution, so a restore will not bring them back: "
        "a.py, b.py, c.py, … and 1 more\n"
    ) in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.b"], "`a.b` cannot name a profile"),
        (["small"], "FOLDER/profiles/small.toml exists already"),
        (["mine", "--project", "nowhere"], "FOLDER/nowhere is not a directory"),
        (["mine", "--without", "nothing"], "--without nothing: it is not installed"),
        (["mine", "--venv", "nowhere"], "FOLDER/nowhere does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input(stack: Stack, arguments: list[str], message: str) -> None:
    before = tree_state(stack.folder / "profiles")
    answer = stack.run("capture", *(["--venv", "venv"] if "--venv" not in arguments else []), *arguments)
    assert answer.code in (1, 2)
    assert answer.err[answer.err.index("error: ") :].startswith(f"error: {message}\n\nhint: ")
    assert tree_state(stack.folder / "profiles") == before


def test_a_venv_without_torch_is_refused(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    make_venv(stack.venv, stack.wheels[2], cache=stack.cache)
    assert _refusal(stack) == (
        "error: a profile names a torch build, and there is no torch to capture\n\nhint: name a venv that has it\n"
    )


BASE = os.path.realpath(sys.executable)


def _base_has_pip() -> bool:
    return subprocess.run([BASE, "-I", "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _base_has_pip(), reason="the base interpreter has no pip")
def test_pip_and_uv_venvs_of_the_same_wheels_have_one_digest(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    odd = make_wheel(tmp_path / "wheels", "odd", "1.0", files=DATA, scripts={"o": "odd:x"})
    make_venv(tmp_path / "uv-made", stack.wheels[0], odd, cache=stack.cache)
    subprocess.run([BASE, "-m", "venv", "--without-pip", tmp_path / "pip-made"], check=True)
    pip = [BASE, "-m", "pip", "--python", tmp_path / "pip-made/bin/python"]
    quiet = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", stack.wheels[0], odd], check=True, env=quiet)
    assert (tmp_path / "pip-made/bin/o").read_text() != (tmp_path / "uv-made/bin/o").read_text()
    assert _digest(stack, "pip-made") == _digest(stack, "uv-made")


def test_a_wheel_renamed_to_another_platform_after_its_build_is_pinned(stack: Stack, index: Index) -> None:
    # torchvision, ray, vllm: built as linux_x86_64, which stays inside, and renamed to manylinux.
    machine = os.uname().machine
    built = make_wheel(stack.folder / "built", "renamed", "1.0", tag=f"py3-none-linux_{machine}")
    wheel = stack.folder / "wheels" / f"renamed-1.0-py3-none-manylinux_2_17_{machine}.whl"
    shutil.move(built, wheel)
    install(Venv(prefix=stack.venv), wheel, cache=stack.cache)
    answer = stack.run("capture", "mine", "--venv", "venv")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("captured FOLDER/venv as mine: 5 packages pinned, 0 kept\n")
    lock = parse((stack.folder / "lockfiles" / "mine.txt").read_text(), "mine")
    assert {package.name: package.hashes for package in lock.packages}["renamed"] == (sha256(wheel),)
    restored = stack.run("restore", "-p", "mine", "--venv", "other", "--yes")
    assert restored.code == 0, restored.err


def test_a_wheel_whose_published_record_is_wrong_is_pinned_by_its_bytes(stack: Stack, index: Index) -> None:
    # As decord and PyNvVideoCodec are published: RECORD states another size and another hash.
    files = {"wrong/__init__.py": "", "wrong/lib.so": "stripped after RECORD was written"}
    wheel = make_wheel(
        stack.folder / "wheels", "wrong", "1.0",
        files=files, record_says={"wrong/lib.so": "sha256=" + "A" * 43}, record_sizes={"wrong/lib.so": 999},
    )  # fmt: skip
    venv = Venv(prefix=stack.venv)
    install(venv, wheel, cache=stack.cache)
    answer = stack.run("capture", "mine", "--venv", "venv")
    assert answer.code == 0, answer.err
    lock = parse((stack.folder / "lockfiles" / "mine.txt").read_text(), "mine")
    assert {package.name: package.hashes for package in lock.packages}["wrong"] == (sha256(wheel),)
    restored = stack.run("restore", "-p", "mine", "--venv", "other", "--yes")
    assert restored.code == 0, restored.err
    # Other bytes than the wheel's are refused as before.
    library = venv.site_packages / "wrong/lib.so"
    library.unlink()
    library.write_text("patched")
    again = stack.run("capture", "again", "--venv", "venv")
    assert again.code == 1
    assert again.err[again.err.index("error: ") :] == (
        "error: 1 distribution cannot be captured:\n"
        "  wrong 1.0: wrong/lib.so has 7 bytes, not the recorded 999\n"
        "nothing was written\n\n"
        "hint: fix them, or leave them out of the lock knowingly: `--without wrong`\n"
    )


def test_the_size_of_a_shared_compile_cache_is_not_written(stack: Stack) -> None:
    cache = stack.folder / "shared"
    (cache / "fxgraph" / "ab").mkdir(parents=True)
    (cache / "fxgraph" / "ab" / "graph").write_bytes(b"x" * 3_000_000)
    answer = stack.run("capture", "mine", "--venv", "venv", extra={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
    assert answer.code == 0, answer.err
    assert answer.out.endswith(
        "note: the compile caches may be other stacks' too, so the profile states no size; `envdoctor cache status` "
        "says what they hold: add "
        "compile.cache_bytes where the folder is this stack's own\n"
    )
    assert "cache_bytes" not in (stack.folder / "profiles" / "mine.toml").read_text()


def test_a_requirement_that_only_the_base_meets_is_refused_and_its_command_heals(stack: Stack, index: Index) -> None:
    # As pip leaves it in a venv with --system-site-packages: what the base has is not installed again.
    needed = make_wheel(stack.folder / "wheels", "needed", "2.0")
    needy = make_wheel(stack.folder / "wheels", "needy", "1.0", requires=["needed>=1", "absent; python_version < '3'"])
    base = make_venv(stack.folder / "base", needed, cache=stack.cache)
    venv = Venv(prefix=stack.venv)
    install(venv, needy, cache=stack.cache)
    (venv.site_packages / "base.pth").write_text(f"{base.site_packages}\n")
    told = base.dist_info("needed") / "direct_url.json"
    local, folder = told.read_text(), {"url": "file:///srv/needed", "dir_info": {}}
    rewrite(told, json.dumps(folder))
    assert _refusal(stack).endswith(" --no-deps 'needed @ file:///srv/needed'`\n")
    rewrite(told, local)
    command = f"uv pip install --python FOLDER/venv/bin/python --default-index {index.url} --no-deps needed==2.0"
    assert _refusal(stack) == (
        "error: a venv restored from this lock could not import all of it, since a part is outside:\n"
        f"  needed 2.0, which needy requires, is in FOLDER/base/lib/{base.site_packages.parent.name}/site-packages\n"
        "nothing was written\n\n"
        "hint: pin what the venv takes from there as well: `--with-outside`; or install it into the venv, then capture "
        f"again: `{command}`\n"
    )
    stack.environment["PIP_INDEX_URL"] = index.url.replace("://", "://me:secret@")
    assert _refusal(stack).endswith(
        "again: `uv pip install --python FOLDER/venv/bin/python --no-deps needed==2.0`; uv does not read pip's "
        "configuration: what may be a secret is not printed: set UV_DEFAULT_INDEX\n"
    )
    install(venv, needed, cache=stack.cache)
    answer = stack.run("capture", "mine", "--venv", "venv")
    assert answer.code == 0, answer.err
    restored = stack.run("restore", "-p", "mine", "--venv", "other", "--yes")
    assert restored.code == 0, restored.err
    told = subprocess.run(
        [stack.folder / "other/bin/python", "-c", "import needy, needed; print(needed.__version__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == "2.0\n"


@pytest.mark.parametrize("way", ["pth", "PYTHONPATH", "user site", "user site behind its own"])
def test_what_a_venv_takes_from_outside_is_pinned_and_comes_back(stack: Stack, index: Index, way: str) -> None:
    wheels = stack.folder / "wheels"
    deeper = make_wheel(wheels, "deeper", "3.0")
    needed = make_wheel(wheels, "needed", "2.0", requires=["deeper"])
    needy = make_wheel(wheels, "needy", "1.0", requires=["needed>=1"])
    unasked = make_wheel(wheels, "unasked", "1.0")
    torch = stack.wheels[0]
    outer = make_venv(stack.folder / "outer", needed, deeper, unasked, torch, cache=stack.cache)
    own = [wheel for wheel in (*stack.wheels, needy) if wheel != torch]
    shutil.rmtree(stack.venv)
    venv = make_venv(stack.venv, *own, cache=stack.cache)
    extra: dict[str, str] = {}
    if way == "pth":
        (venv.site_packages / "outer.pth").write_text(f"{outer.site_packages}\n")
    elif way == "PYTHONPATH":
        extra["PYTHONPATH"] = f"{outer.site_packages}:{stack.environment['PYTHONPATH']}"
    else:
        config = venv.prefix / "pyvenv.cfg"
        text = config.read_text().replace("include-system-site-packages = false", "include-system-site-packages = true")
        rewrite(config, text)
        assert "include-system-site-packages = true" in text
        extra["PYTHONUSERBASE"] = str(outer.prefix)
    if way == "user site behind its own":
        install(venv, deeper, cache=stack.cache)
    refused = stack.run("capture", "mine", "--venv", "venv", extra=extra)
    assert refused.code == 1
    assert not (stack.folder / "lockfiles/mine.txt").exists()
    answer = stack.run("capture", "mine", "--venv", "venv", "--with-outside", extra=extra)
    assert answer.code == 0, answer.err
    lock = parse((stack.folder / "lockfiles" / "mine.txt").read_text(), "mine")
    assert {package.name: package.hashes for package in lock.packages} == {
        wheel.name.split("-")[0].replace("_", "-"): (sha256(wheel),) for wheel in (*own, torch, needed, deeper)
    }
    taken = ["needed 2.0", f"torch {TORCH}"] if "own" in way else ["deeper 3.0", "needed 2.0", f"torch {TORCH}"]
    told = ", ".join(f"{one} (FOLDER/outer/lib/{outer.site_packages.parent.name}/site-packages)" for one in taken)
    assert f"note: taken from outside the venv, and in the lock: {told}\n" in answer.out
    # In front of it in that list is what the base interpreter has.
    assert ("not captured: unasked\n" in answer.out) == (way in ("pth", "PYTHONPATH"))
    restored = stack.run("restore", "-p", "mine", "--venv", "else/where", "--yes")
    assert restored.code == 0, restored.err
    checked = stack.run("check", "else/where", "-p", "mine")
    assert checked.code == 0, checked.out
    assert "error" not in checked.out
    compared = stack.run("diff", "mine", "else/where")
    assert (compared.code, compared.out.splitlines()[-1]) == (0, "no difference; the digests are equal")
    code = "import needy, needed, deeper, torch; print(needed.__version__)"
    python = stack.folder / "else/where/bin/python"
    assert subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout == "2.0\n"


def test_what_hides_a_package_of_the_venv_is_what_is_captured(stack: Stack, index: Index) -> None:
    front = make_wheel(stack.folder / "wheels", "odd", "2.0")
    outer = make_venv(stack.folder / "outer", front, cache=stack.cache)
    extra = {"PYTHONPATH": f"{outer.site_packages}:{stack.environment['PYTHONPATH']}"}
    answer = stack.run("capture", "mine", "--venv", "venv", "--with-outside", extra=extra)
    assert answer.code == 0, answer.err
    lock = parse((stack.folder / "lockfiles" / "mine.txt").read_text(), "mine")
    assert {package.name: package.version for package in lock.packages}["odd"] == "2.0"
    assert stack.run("restore", "-p", "mine", "--venv", "other", "--yes").code == 0
    assert stack.run("diff", "mine", "other").out.splitlines()[-1] == "no difference; the digests are equal"


def test_what_hides_a_module_of_another_package_is_refused(stack: Stack, index: Index) -> None:
    # `odd` is captured from outside, with a module that the venv's own plain has too: a rebuilt venv would have both.
    files = {"odd/__init__.py": "", "plain/__init__.py": "hidden = 1\n"}
    outer = make_venv(
        stack.folder / "outer", make_wheel(stack.folder / "wheels", "odd", "2.0", files=files), cache=stack.cache
    )
    extra = {"PYTHONPATH": f"{outer.site_packages}:{stack.environment['PYTHONPATH']}"}
    answer = stack.run("capture", "mine", "--venv", "venv", "--with-outside", extra=extra)
    assert (answer.code, "ED410" in answer.err) == (1, True), answer.err


def test_a_damaged_file_outside_is_refused(stack: Stack, index: Index) -> None:
    needed = make_wheel(stack.folder / "wheels", "needed", "2.0", files={"needed/__init__.py": "a = 1\n"})
    needy = make_wheel(stack.folder / "wheels", "needy", "1.0", requires=["needed"])
    outer = make_venv(stack.folder / "outer", needed, cache=stack.cache)
    venv = Venv(prefix=stack.venv)
    install(venv, needy, cache=stack.cache)
    (venv.site_packages / "outer.pth").write_text(f"{outer.site_packages}\n")
    rewrite(outer.site_packages / "needed/__init__.py", "a = 2\n")
    assert _refusal(stack, "--with-outside") == (
        "error: 1 distribution cannot be captured:\n"
        "  needed 2.0: needed/__init__.py does not have the recorded hash\n"
        "nothing was written\n\n"
        "hint: fix them, or leave them out of the lock knowingly: `--without needed`\n"
    )


def test_a_hole_takes_a_reason_which_the_profile_keeps(stack: Stack, index: Index) -> None:
    needy = make_wheel(stack.folder / "wheels", "needy", "1.0", requires=["plain>=1"])
    install(Venv(prefix=stack.venv), needy, cache=stack.cache)
    refused = stack.run("capture", "mine", "--venv", "venv", "--without", "plain")
    assert (refused.code, refused.err) == (
        1,
        "error: a venv restored from this lock would lack what its packages require:\n"
        "  plain, which needy requires\n"
        "nothing was written\n"
        "\n"
        "hint: capture them too, or say why they may be missing, which the profile then keeps as a waiver: "
        '`--without plain="why it is not needed"`\n',
    )
    assert not (stack.folder / "lockfiles/mine.txt").exists()
    answer = stack.run("capture", "mine", "--venv", "venv", "--without", "plain=only its plots are used")
    assert answer.code == 0, answer.err
    profile = (stack.folder / "profiles/mine.toml").read_text()
    assert 'code = "ED406"' in profile
    assert 'reason = "only its plots are used"' in profile
    assert 'subject = "plain"' in profile
    restored = stack.run("restore", "-p", "mine", "--venv", "other", "--yes")
    assert restored.code == 0, restored.err
    assert stack.run("check", "other", "-p", "mine").code == 0


@pytest.mark.parametrize(
    ("option", "message"),
    [("plain=", "`--without plain=` names no reason"), ("=x", "`--without =x` names no distribution")],
)
def test_a_reason_and_a_name_are_not_empty(stack: Stack, option: str, message: str) -> None:
    answer = stack.run("capture", "mine", "--venv", "venv", "--without", option)
    assert (answer.code, answer.err.splitlines()[0]) == (2, f"error: {message}")
