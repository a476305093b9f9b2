"""Locks that uv, Poetry, PDM, conda-lock and PEP 751 tools wrote: restored elsewhere, and compared with venvs."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import envdoctor
from tests.factories.make_conda_lock import make_conda_lock
from tests.factories.make_index import Index, make_index
from tests.factories.make_project import VERSIONS, Project, make_offers, make_project, make_tools
from tests.factories.make_venv import run_uv

pytestmark = pytest.mark.index
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
FULL = ".".join(map(str, sys.version_info[:3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One index, the tools, and a project of each tool, locked."""

    root: Path
    index: Index
    projects: dict[str, Project]

    def envdoctor(self, project: Project, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run envdoctor as the project's people would."""
        return subprocess.run(
            [sys.executable, "-m", "envdoctor", *words],
            cwd=folder or project.folder,
            env=project.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("locks")
    make_offers(root / "wheels")
    tools = make_tools(root / "tools")
    with make_index(root / "wheels") as index:
        projects = {tool: make_project(root / tool, index, tool, tools=tools) for tool in ("uv", "poetry", "pdm")}
        for tool, project in projects.items():
            project.run(tool, "lock")
        # Exported by uv, as a person would: PEP 751, and pins with a folder and an sdist among them.
        uv = projects["uv"]
        uv.run("uv", "export", "--frozen", "--quiet", "--format", "pylock.toml", "--output-file", "pylock.toml")
        (uv.folder / "requirements.txt").write_text("torch==2.13.0+cpu\nplain==3.0\nfrom-source==1.4\n./member\n")
        uv.run("uv", "export", "--frozen", "--quiet", "--no-emit-workspace", "--no-emit-package", "from-source",
               "--format", "requirements.txt", "--output-file", "hashed.txt")  # fmt: skip
        pins = {"torch": "==2.13.0+cpu", "plain": "*"}
        make_conda_lock(uv.folder / "conda-lock.yml", index, root / "tools/conda-lock", pins)
        yield World(root=root, index=index, projects=projects)


BUILT = ["from-source", "member"]
LOCKS = {
    "uv.lock": ("uv", BUILT),
    "poetry.lock": ("poetry", BUILT),
    "pdm.lock": ("pdm", BUILT),
    "pylock.toml": ("uv", BUILT),
    "requirements.txt": ("uv", BUILT),
    "hashed.txt": ("uv", []),
    "conda-lock.yml": ("uv", []),
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_becomes_a_profile_that_is_restored_elsewhere(world: World, tmp_path: Path, lock: str) -> None:
    tool, built = LOCKS[lock]
    project = world.projects[tool]
    before = sorted(path.name for path in project.folder.iterdir())
    made = world.envdoctor(project, "profile", "new", "mine", "--from", lock, "--project", str(tmp_path), "--yes")
    assert made.returncode == 0, made.stderr
    held = [*built, "plain", "torch"]
    place = tmp_path / "lockfiles"
    assert made.stdout == (
        f"made mine of {lock}: {len(held)} packages, {len(built)} kept as wheels\n"
        f"  torch    2.13.0+cpu\n  python   CPython {FULL} ({python_of(made.stdout)})\n"
        f"  profile  {tmp_path}/profiles/mine.toml\n  lock     {place}/mine.txt\n"
        + (f"  wheels   {place}/mine.wheels, to go wherever the lock goes\n" if built else "")
        + ("\nnote: conda's own packages are not compared: openssl, pip, python\n" if "conda" in lock else "")
    )
    assert "127.0.0.1" not in (place / "mine.txt").read_text()  # a lock names no host
    assert sorted(path.name for path in project.folder.iterdir()) == before
    elsewhere = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-elsewhere")
    restored = world.envdoctor(project, "restore", "-p", "mine", "--venv", "venv", "--yes", folder=elsewhere)
    assert restored.returncode == 0, restored.stderr
    venv = elsewhere / "venv"
    assert {name: version for name, version in VERSIONS.items() if name in held} == installed(venv)
    verdict = envdoctor.check(venv, elsewhere / "profiles/mine.toml")
    assert [finding.code for finding in verdict.findings if finding.severity != "note"] == []


def python_of(printed: str) -> str:
    return printed.partition("CPython ")[2].partition("(")[2].partition(")")[0]


def installed(venv: Path) -> dict[str, str]:
    site = next((venv / "lib").glob("python3*/site-packages"))
    pairs = [path.name.removesuffix(".dist-info").split("-") for path in site.glob("*.dist-info")]
    return {name.replace("_", "-"): version for name, version in pairs}


@pytest.fixture(scope="module")
def drifted(world: World) -> Path:
    """Make a venv in which `plain` is older than every lock says, and `member` is absent."""
    venv, cache = world.root / "drifted", world.root / "uv" / "closed" / "uv-cache"
    run_uv("venv", "--quiet", "--python", sys.executable, venv, cache=cache)
    reach = {"UV_OFFLINE": "0", "UV_DEFAULT_INDEX": world.index.url}
    pins = ("torch==2.13.0+cpu", "plain==2.0", "from-source==1.4")
    run_uv("pip", "install", "--quiet", "--python", venv, *pins, cache=cache, extra=reach)
    return venv


@pytest.mark.parametrize("lock", [name for name in LOCKS if name not in ("hashed.txt", "conda-lock.yml")])
def test_the_printed_command_brings_a_venv_to_the_lock(world: World, drifted: Path, tmp_path: Path, lock: str) -> None:
    project = world.projects[LOCKS[lock][0]]
    venv = tmp_path / "venv"
    shutil.copytree(drifted, venv, symlinks=True)
    found = world.envdoctor(project, "check", str(venv), "--lock", lock)
    assert found.returncode == 1, found.stderr
    assert f"lock {project.folder / lock}" in found.stdout.splitlines()[0]
    missing = "member 0.3" if lock == "pdm.lock" else "member"
    assert f"error[ED402]: {missing} is locked and not installed" in found.stdout
    assert (
        "error[ED401]: 1 distribution has another version than the lock pins: plain 2.0 instead of 3.0" in found.stdout
    )
    doing = ("uv sync ", "uv pip install ", "pdm sync ", "poetry install ")
    command = next(line.strip() for line in found.stdout.splitlines() if any(words in line for words in doing))
    project.run("bash", "-c", command)
    assert installed(venv) == VERSIONS
    healed = world.envdoctor(project, "check", str(venv), "--lock", lock)
    assert healed.returncode == 0, healed.stdout


def test_what_is_built_is_shown_and_asked_for(world: World, tmp_path: Path) -> None:
    project = world.projects["uv"]
    asked = world.envdoctor(project, "profile", "new", "mine", "--from", "uv.lock", "--project", str(tmp_path))
    assert (asked.returncode, asked.stdout) == (2, "")
    sdist = f"{world.index.url.removesuffix('simple/')}files/from_source-1.4.tar.gz"
    assert asked.stderr == (
        f"uv.lock for CPython {FULL} ({python_of(asked.stderr)}): 2 packages as wheels by hash\n\n"
        "built from source, which runs their build backends, and kept as wheels:\n"
        f"  from-source 1.4: the sdist {sdist}\n"
        f"  member: the folder {project.folder}/member\n"
        "error: confirmation needed, but stdin is not a terminal\n\nhint: check the plan, then add `--yes`\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_another_python_is_refused(world: World, tmp_path: Path) -> None:
    project = world.projects["uv"]
    text = (
        (project.folder / "pylock.toml").read_text().replace('requires-python = ">=3.11"', 'requires-python = ">=3.99"')
    )
    (tmp_path / "pylock.toml").write_text(text)
    refused = world.envdoctor(project, "profile", "new", "mine", "--from", "pylock.toml", folder=tmp_path)
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        2,
        "",
        f"error: {tmp_path}/pylock.toml does not fit CPython {FULL} on x86_64: python_full_version {FULL!r} in "
        "provided environment does not satisfy the Python version requirement '>=3.99'\n\n"
        "hint: name an interpreter or a venv that it was locked for, and extras and groups that it has\n",
    )


@pytest.mark.parametrize(
    ("tool", "title", "plugins", "by_hand"),
    [
        ("poetry", "Poetry", ".poetry/plugins", "poetry export --format pylock.toml --output pylock.toml"),
        ("pdm", "PDM", ".pdm-plugins", "pdm export --format pylock --output pylock.toml"),
    ],
)
def test_no_code_of_a_project_is_run(
    world: World, drifted: Path, tmp_path: Path, tool: str, title: str, plugins: str, by_hand: str
) -> None:
    folder = tmp_path / "project"
    shutil.copytree(world.projects[tool].folder, folder, ignore=shutil.ignore_patterns("closed", ".venv"))
    project = Project(folder=folder, environment=world.projects[tool].environment)
    mark, python = tmp_path / "mark", folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho ran >> {mark}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (folder / ".venv/pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\nversion = {FULL}\n")
    (folder / ".pdm-python").write_text(str(python))
    compared = world.envdoctor(project, "check", str(drifted), "--lock", f"{tool}.lock")
    assert compared.returncode == 1, compared.stderr
    assert "error[ED401]" in compared.stdout
    assert not mark.exists()
    assert (folder / ".pdm-python").read_text() == str(python)

    (folder / plugins).mkdir(parents=True)
    refused = world.envdoctor(project, "check", str(drifted), "--lock", f"{tool}.lock")
    assert (refused.returncode, refused.stderr) == (
        2,
        f"error: {folder}/{tool}.lock: {title} would run the plugins of this project ({folder}/{plugins}), and "
        f"envdoctor runs no code of it\n\nhint: if you trust them, run `{by_hand}`, and name that file\n",
    )
    (folder / plugins).rmdir()
    if tool == "pdm":
        pyproject = folder / "pyproject.toml"
        pyproject.write_text(pyproject.read_text().replace(">=3.11", ">=3.99"))
        other = world.envdoctor(project, "check", str(drifted), "--lock", "pdm.lock")
        assert (other.returncode, other.stderr) == (
            2,
            f"error: {folder}/pdm.lock: PDM would start the interpreter of the project, since that of envdoctor, "
            f"{FULL}, is none for >=3.99\n\nhint: if you trust it, run `{by_hand}`, and name that file\n",
        )
    assert not mark.exists()


def test_a_wheel_file_in_a_lock_of_pdm_keeps_the_local_part_of_its_version(world: World, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", world.index, "pdm", tools=world.root / "tools" / "bin")
    wheel = next((world.root / "wheels").glob("torch-*.whl"))
    pyproject = project.folder / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('"torch==2.13.0+cpu"', f'"torch @ {wheel.as_uri()}"'))
    project.run("pdm", "lock")
    (tmp_path / "out").mkdir()
    words = ("profile", "new", "mine", "--from", "pdm.lock", "--project", str(tmp_path / "out"), "--yes")
    made = world.envdoctor(project, *words)
    assert made.returncode == 0, made.stderr
    assert "  torch    2.13.0+cpu\n" in made.stdout
    assert "\ntorch==2.13.0+cpu " in (tmp_path / "out/lockfiles/mine.txt").read_text()


@pytest.mark.parametrize("form", ["requirements", "pylock"])
def test_wheels_beside_a_lock_come_with_its_profile(world: World, tmp_path: Path, form: str) -> None:
    project = world.projects["uv"]
    (tmp_path / "asked.in").write_text("torch==2.13.0+cpu\nplain==3.0\n")
    lock, wheels = ("reqs.txt", "reqs.wheels") if form == "requirements" else ("pylock.reqs.toml", "reqs.wheels")
    words = ("asked.in", "--python", PYTHON, "--format", form, "--with-gate", "--output", lock)
    locked = world.envdoctor(project, "lock", *words, folder=tmp_path)
    assert locked.returncode == 0, locked.stderr
    gate = next((tmp_path / wheels).glob("*.whl"))
    (tmp_path / wheels / "other-1.0-py3-none-any.whl").write_bytes(b"of no entry")
    (tmp_path / "out").mkdir()
    new = ("profile", "new", "mine", "--from", lock, "--project", "out")
    made = world.envdoctor(project, *new, folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout == (
        f"made mine of {lock}: 3 packages, 1 kept as wheels\n"
        f"  torch    2.13.0+cpu\n  python   CPython {FULL} ({python_of(made.stdout)})\n"
        "  profile  out/profiles/mine.toml\n  lock     out/lockfiles/mine.txt\n"
        "  wheels   out/lockfiles/mine.wheels, to go wherever the lock goes\n"
    )
    assert [path.name for path in (tmp_path / "out/lockfiles/mine.wheels").iterdir()] == [gate.name]
    restore = ("restore", "-p", "mine", "--venv", "venv", "--yes")
    restored = world.envdoctor(project, *restore, folder=tmp_path / "out")
    assert restored.returncode == 0, restored.stderr
    assert "envdoctor-gate" in installed(tmp_path / "out/venv")

    # Without the wheel: said at once, said again by the restore, and the command that is named helps.
    gate.unlink()
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").mkdir()
    version = gate.name.split("-")[1]
    add = "envdoctor gate add --profile"
    lacking = world.envdoctor(project, *new, folder=tmp_path)
    assert lacking.returncode == 0, lacking.stderr
    assert lacking.stdout.endswith(
        f"\nnote: the wheel of envdoctor-gate {version} was not beside the lock, and no index has it; it comes with "
        f"envdoctor: `{add} {tmp_path}/out/profiles/mine.toml` puts it beside the lock\n"
    )
    refused = world.envdoctor(project, *restore, folder=tmp_path / "out")
    assert (refused.returncode, refused.stderr.removeprefix("planning: looking for the wheels of mine\n")) == (
        4,
        f"error: envdoctor-gate {version} was not found: no configured source has it\n"
        f"{tmp_path}/out/venv was not created\n\n"
        f"hint: it comes with envdoctor: `{add} mine` puts it beside the lock\n",
    )
    fetched = world.envdoctor(project, "fetch", "-p", "mine", "--wheelhouse", "house", folder=tmp_path / "out")
    assert f"it comes with envdoctor: `{add} mine` puts it beside the lock" in fetched.stderr
    planned = world.envdoctor(project, *restore[:-1], "--dry-run", folder=tmp_path / "out")
    assert planned.stdout.endswith(
        f"\n\nerror: envdoctor-gate {version} was not found: no configured source has it\n"
        f"  hint: it comes with envdoctor: `{add} mine` puts it beside the lock\n\n"
        "  nothing is restored until that wheel is there; `--rehearse` builds and verifies the others\n"
    )
    for command in (("gate", "add", "--profile", "mine"), restore):
        done = world.envdoctor(project, *command, folder=tmp_path / "out")
        assert done.returncode == 0, done.stderr
