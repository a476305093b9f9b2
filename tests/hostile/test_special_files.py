"""A file that a command opens is a pipe, a folder, a device, terabytes: the command answers, by a code of its own."""

from pathlib import Path

from tests.hostile.special_files import COMMANDS, KINDS, make_scene, readers

ONE_IN = 3
"""Of all pairs of a file and a command that opens it; each kind takes its turn."""


def _uvs(path: Path, name: str) -> bool:
    """Tell what uv reads in these commands, without a limit."""
    return (name == "try" and path.name in ("pyproject.toml", "uv.toml")) or (
        name in ("try", "profile new", "lock", "fetch") and path.suffix == ".whl"
    )


def test_every_command_answers_whatever_a_file_is(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    scene = make_scene(root)
    for name, words in COMMANDS.items():
        assert not scene.run(*words).fault, name
    found = readers(scene)
    pairs = [(path, name) for path, names in sorted(found.items()) for name in names if not _uvs(path, name)]
    assert len(pairs) > 300, "the files are found by what the commands open"
    kinds = list(KINDS)
    for at, (path, name) in enumerate(pairs[::ONE_IN]):
        kind = kinds[at % len(kinds)]
        with scene.replaced(path, kind):
            fault = scene.run(*COMMANDS[name]).fault
        assert not fault, f"{name}, {path.relative_to(root)} is {kind}: {fault}"
