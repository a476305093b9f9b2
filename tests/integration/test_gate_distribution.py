"""The launch gate in the environment that it guards: in a lock, restored, imported by a train script; as a file."""

import hashlib
import io
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from envdoctor import __version__
from envdoctor.gate_package.modules import modules, renamed
from envdoctor.gate_package.shipped import PROFILES
from envdoctor.gate_package.wheel import PACKAGE, GateWheel, gate_wheel
from tests.factories.make_stack import ROOT, Stack, make_stack, make_torch
from tests.factories.make_venv import Venv, install, make_venv, tree_state
from tests.factories.run_envdoctor import without_waits

TRAIN = "import envdoctor_gate\nenvdoctor_gate.require('mine')\nimport torch\nprint('training on', torch.__version__)\n"


def _train(stack: Stack, script: str = "train.py", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a train script in the restored venv, which knows nothing of this checkout."""
    kept = {name: value for name, value in stack.environment.items() if not name.startswith("PYTHON")}
    command = [stack.folder / ".venv/bin/python", script]
    done = subprocess.run(command, cwd=stack.folder, env=kept | variables, capture_output=True, text=True, check=False)
    done.stderr = without_waits(done.stderr)
    return done


def _without_bytecode(venv: Path) -> dict[str, str]:
    return {path: state for path, state in tree_state(venv).items() if "__pycache__" not in path}


@pytest.fixture(scope="module")
def wheel() -> GateWheel:
    """Return the gate's wheel, packed once."""
    return gate_wheel()


@pytest.fixture(scope="module")
def gated(wheel: GateWheel, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """Return a venv with the gate alone."""
    folder = tmp_path_factory.mktemp("gated")
    (folder / wheel.filename).write_bytes(wheel.content)
    return make_venv(folder / "venv", folder / wheel.filename)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Capture a small venv with the gate, and restore it as `.venv`."""
    made = make_stack(tmp_path)
    make_venv(made.venv, *made.wheels, cache=made.cache)
    (tmp_path / "tmp").mkdir()
    made.environment["TMPDIR"] = str(tmp_path / "tmp")
    captured = made.run("capture", "mine", "--venv", "venv", "--with-gate")
    assert captured.code == 0, captured.err
    restored = made.run("restore", "-p", "mine", "-y")
    assert restored.code == 0, restored.err
    (tmp_path / "train.py").write_text(TRAIN)
    return made


def test_the_gate_starts_refuses_and_starts_again_after_a_restore(stack: Stack) -> None:
    venv = stack.folder / ".venv"
    before = _without_bytecode(venv)
    started = _train(stack)
    assert (started.returncode, started.stdout, started.stderr) == (0, "training on 2.13.0+cpu\n", "")
    assert _without_bytecode(venv) == before, "the gate changes nothing of the stack"

    install(Venv(prefix=venv), make_torch(stack.folder / "other", version="2.12.0+cpu"), cache=stack.cache)
    refused = _train(stack)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "error[ED404]" in refused.stderr
    assert refused.stderr.endswith(f"error: envdoctor gate: this process does not start on {venv} (profile mine)\n")
    ranked = _train(stack, RANK="3", LOCAL_RANK="3")
    report = refused.stderr.partition("error: envdoctor gate: ")[0]
    assert (ranked.returncode, ranked.stderr) == (
        1,
        f"error: envdoctor gate: rank 3 does not start on {venv} (profile mine)\n{report}",
    )

    restored = stack.run("restore", "-p", "mine", "-y")
    assert restored.code == 0, restored.err
    again = _train(stack)
    assert (again.returncode, again.stdout, again.stderr) == (0, "training on 2.13.0+cpu\n", "")


def test_with_and_without_a_profile_there_is_one_verdict(stack: Stack) -> None:
    for profile in ([], ["-p", "mine"]):
        checked = stack.run("check", ".venv", *profile)
        assert checked.code == 0, checked.out
        assert "\nNothing found" in checked.out
    compared = stack.run("diff", "mine", ".venv")
    assert compared.code == 0, compared.out


def test_a_lock_of_either_form_gets_the_gate(tmp_path: Path, wheel: GateWheel) -> None:
    stack = make_stack(tmp_path)
    sha256 = hashlib.sha256(wheel.content).hexdigest()
    for following in ("restore", "repair"):  # the second time replaces what the first one added
        added = stack.run("gate", "add", "-p", "small")
        assert (added.code, added.out, added.err) == (
            0,
            f"added envdoctor-gate {__version__} to FOLDER/lockfiles/small.txt; "
            f"its wheel is FOLDER/lockfiles/small.wheels/{wheel.filename}\n"
            f"next: `envdoctor {following} --profile small`\n",
            "",
        )
        if following == "restore":
            make_venv(tmp_path / ".venv")
    lock = (tmp_path / "lockfiles/small.txt").read_text()
    assert re.findall(r"^envdoctor-gate==.*\n.*", lock, re.MULTILINE) == [
        f"envdoctor-gate=={__version__} \\\n    --hash=sha256:{sha256}"
    ]
    assert stack.restore("--offline").code == 0
    make_venv(stack.folder / "made", *stack.wheels, cache=stack.cache)
    captured = stack.run("capture", "mine", "--venv", "made", "--with-gate", "--format", "pylock", "--offline")
    assert captured.code == 0, captured.err
    assert stack.run("gate", "add", "-p", "mine").code == 0
    assert (tmp_path / "lockfiles/pylock.mine.toml").read_text().count('name = "envdoctor-gate"') == 1
    assert stack.run("restore", "-p", "mine", "--venv", "again", "-y", "--offline").code == 0


def test_lock_adds_the_gate(tmp_path: Path, wheel: GateWheel) -> None:
    stack = make_stack(tmp_path)
    (tmp_path / "small.in").write_text("plain==3.0\n")
    arguments = ["lock", "small.in", "--python", "3.12", "--with-gate"]
    refused = stack.run(*arguments)
    assert (refused.code, refused.err) == (
        2,
        "error: --with-gate puts a wheel beside the lock, which is not a file\n\nhint: name one: `--output FILE`\n",
    )
    locked = stack.run(*arguments, "--output", "lockfiles/small.txt")
    assert locked.code == 0, locked.err
    text = (tmp_path / "lockfiles/small.txt").read_text()
    assert re.findall(r"^([\w-]+)==", text, re.MULTILINE) == ["envdoctor-gate", "plain"]
    assert (tmp_path / "lockfiles/small.wheels" / wheel.filename).read_bytes() == wheel.content


def test_the_lock_of_a_shipped_profile_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from envdoctor.gate_package import shipped  # noqa: PLC0415

    assert not shipped.is_shipped(ROOT / "lockfiles/cpu-smoke.txt")
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path)
    assert shipped.is_shipped(tmp_path / "_data/lockfiles/cpu-smoke.txt")


def test_what_is_packed_is_the_source_but_for_the_name() -> None:
    back = {PACKAGE: "envdoctor"}
    for module in modules(PACKAGE):
        source = module.origin.read_text()
        if module.name.startswith(f"{PACKAGE}.vendored."):
            assert module.text.replace(f"{PACKAGE}.vendored.packaging", "packaging") == source
        else:
            text = module.text.replace(f"{PACKAGE}.vendored.packaging", "packaging")
            assert renamed(text, back) == source, module.name


def test_the_wheel_is_the_same_each_time_and_names_what_it_ships(wheel: GateWheel) -> None:
    assert gate_wheel().content == wheel.content
    tracked = subprocess.run(
        ["git", "ls-files", "profiles", "lockfiles"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {Path(name).stem for name in tracked} == set(PROFILES)


def test_every_module_of_the_wheel_imports_without_envdoctor_and_packaging(wheel: GateWheel, gated: Venv) -> None:
    code = (
        "import importlib, sys\n"
        "for name in sys.stdin.read().split(): importlib.import_module(name)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'envdoctor', 'packaging', 'typer', 'rich'}))"
    )
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        files = [name for name in archive.namelist() if name.endswith(".py")]
        assert [name for name in archive.namelist() if name.endswith("entry_points.txt")] == []
    names = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files]
    done = subprocess.run(
        [gated.python, "-I", "-c", code], input=" ".join(names), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_importing_the_gate_loads_nothing_else(gated: Venv) -> None:
    code = "import sys; before = set(sys.modules); import envdoctor_gate; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([gated.python, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['envdoctor_gate']\n"


def test_one_file_guards_a_venv_that_has_no_gate(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    assert stack.run("restore", "-p", "small", "-y").code == 0
    written = stack.run("gate", "write", "guard.py")
    assert (written.code, written.out) == (
        0,
        'wrote guard.py; at the top of the train script: `import guard; guard.require("PROFILE")`\n',
    )
    assert written.err in ("", "putting the gate into one file\n"), "a busy machine is told what takes long"
    (tmp_path / "train.py").write_text(
        "import guard\nassert guard.require('small').profile == 'small'\nimport torch\nprint(torch.__version__)\n"
    )
    started = _train(stack)
    assert (started.returncode, started.stdout, started.stderr) == (0, "2.13.0+cpu\n", "")
    (Venv(prefix=tmp_path / ".venv").site_packages / "plain/__init__.py").unlink()
    refused = _train(stack)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert re.search(r"^error\[ED202\]: plain 3\.0: 1 of \d files missing", refused.stderr, re.MULTILINE)
    again = stack.run("gate", "write", "guard.py")
    assert (again.code, again.err) == (2, "error: guard.py exists already\n\nhint: add `--force` to replace it\n")
    nowhere = stack.run("gate", "write", "gone/guard.py")
    assert (nowhere.code, nowhere.err) == (
        2,
        "error: gone/guard.py cannot be written: FOLDER/gone is not a folder\n\nhint: make it, or name another path\n",
    )
    nameless = stack.run("gate", "write", "my-gate.txt")
    assert (nameless.code, nameless.err) == (
        2,
        "error: my-gate.txt cannot be imported\n\nhint: name a Python file: `envdoctor gate write envdoctor_gate.py`\n",
    )
