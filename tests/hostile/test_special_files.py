"""A file that a command opens is a pipe, a folder, a device, terabytes: the command answers, by a code of its own."""

from pathlib import Path

from tests.hostile.special_files import COMMANDS, KINDS, make_scene, readers

READING = (
    "check",
    "check --deep",
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


def test_every_command_answers_whatever_a_file_is(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    scene = make_scene(root)
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
        assert not fault, f"{name}, {path.relative_to(root)} is {kind}: {fault}"
