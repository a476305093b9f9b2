"""A file that a command opens is a pipe, a folder, a device, terabytes: the command answers, by a code of its own."""

import pytest

from tests.hostile.special_files import COMMANDS, KINDS, Scene, make_scene, readers

READING = (
    "check",
    "check --deep",
    "check --fix",
    "cache restore",
    "cache export",
    "cache import",
    "why",
    "impact remove",
    "diff",
    "fingerprint",
    "history",
    "prune",
    "sbom",
    "run",
    "config",
)
"""The whole sweep is `python -m tests.hostile.special_files`: the others start uv, which reads without a limit."""
ONE_IN = 3
"""Of all pairs of a file and a command that opens it; each kind takes its turn."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    root = tmp_path_factory.mktemp("special") / "project"
    root.mkdir()
    return make_scene(root)


def test_every_command_answers_whatever_a_file_is(scene: Scene) -> None:
    for name, words in COMMANDS.items():
        assert not scene.run(*words).fault, name
    found = readers(scene)
    pairs = [(path, name) for path, names in sorted(found.items()) for name in names if name in READING]
    assert len(pairs) > 100, "the files are found by what the commands open"
    kinds = list(KINDS)
    for at, (path, name) in enumerate(pairs[::ONE_IN]):
        kind = kinds[at % len(kinds)]
        with scene.replaced(path, kind):
            fault = scene.run(*COMMANDS[name]).fault
        assert not fault, f"{name}, {path.relative_to(scene.root)} is {kind}: {fault}"


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "terminal"])
def test_a_wheel_that_is_no_file_is_named_before_uv_waits_for_it(scene: Scene, kind: str) -> None:
    wheel = next((scene.root / "wheels").glob("torch*"))
    with scene.replaced(wheel, kind):
        ran = scene.run(*COMMANDS["profile new, wheels"])
    assert (ran.code, ran.said.removeprefix("reading wheels.txt\n")) == (  # said where it takes a moment
        2,
        f"error: {scene.root}/wheels.txt: {wheel} is not a regular file\n\n"
        "hint: name the wheel, or the folder of the project\n",
    )


def test_a_wheel_of_another_lock_that_is_no_file_is_named(scene: Scene) -> None:
    wheel = next((scene.root / "wheels").glob("torch*"))
    (scene.root / "pylock.piped.toml").write_text(
        'lock-version = "1.0"\ncreated-by = "a test"\n[[packages]]\nname = "torch"\nversion = "2.11.0+cu128"\n'
        f'archive = {{ path = "wheels/{wheel.name}", hashes = {{ sha256 = "{"0" * 64}" }} }}\n'
    )
    with scene.replaced(wheel, "pipe"):
        ran = scene.run("profile", "new", "piped", "--from", "pylock.piped.toml", "--force", "-y")
    assert ran.code == 1
    assert ran.said.endswith(
        f"error: {wheel} is not a regular file\nnothing was written\n\nhint: correct the lock, or lock again\n"
    )


def test_a_sparse_file_of_requirements_or_of_torchs_cache_is_not_read(scene: Scene) -> None:
    with scene.replaced(scene.root / "wheels.txt", "sparse"):
        ran = scene.run(*COMMANDS["profile new, wheels"])
    assert (ran.code, ran.fault) == (2, "")
    assert ran.said.endswith(
        f"error: {scene.root}/wheels.txt: {1 << 40} bytes, more than the {64 << 20} it can hold\n\n"
        "hint: the lock must be a readable UTF-8 text file\n"
    )
    with scene.replaced(scene.root / "portable.bin", "sparse"):
        ran = scene.run(*COMMANDS["cache import"])
    assert (ran.code, ran.said) == (
        2,
        "error: portable.bin is larger than 8 GB\n\nhint: load it with torch itself\n",
    )
