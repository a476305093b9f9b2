"""Which printed commands run on a copy, and with which words; everything else is left to the user, with the reason."""

from pathlib import Path

import pytest

from envdoctor.stack.fix_commands import NotOnACopyError, on_a_copy, touched


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    (tmp_path / "v env/bin").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "v env/out").symlink_to(tmp_path / "elsewhere")
    return str(tmp_path / "v env")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "uv pip install --python '{}/bin/python' --no-deps 'numpy<2'",
            (("uv", "pip", "install", "--python", "/c/bin/python", "--no-deps", "numpy<2"),),
        ),
        (
            "rm '{0}/a' '{0}/b' && uv pip uninstall --python '{0}/bin/python' six",
            (("rm", "/c/a", "/c/b"), ("uv", "pip", "uninstall", "--python", "/c/bin/python", "six")),
        ),
        ("rm -r '{0}/~orch [1] $x'", (("rm", "-r", "/c/~orch [1] $x"),)),
        ("mv '{0}/a' '{0}/a.aside'", (("mv", "/c/a", "/c/a.aside"),)),
    ],
)
def test_what_is_done_on_a_copy(prefix: str, command: str, words: tuple[tuple[str, ...], ...]) -> None:
    assert on_a_copy(command.format(prefix), prefix, "/c") == words


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("unset LD_LIBRARY_PATH", "it is about your shell"),
        ("sudo apt-get install --yes x", "only `uv pip`, `rm` and `mv` are carried out on a copy"),
        ("ln -s x '{}/lib/y'", "only `uv pip`, `rm` and `mv` are carried out on a copy"),
        ("chmod a+x '{}/bin/x'", "it changes permissions, which a copy shares with the venv"),
        ("sudo chmod u+w,a+rX '{}/x.py'", "it changes permissions, which a copy shares with the venv"),
        ("uv cache clean torch", "it is about more than the packages of the environment"),
        ("uv pip install --python /usr/bin/python3 x", "it is about another environment"),
        ("uv pip install x", "it is about another environment"),
        ("rm /etc/passwd", "/etc/passwd is outside of the environment"),
        ("rm '{}/../x'", "{}/../x is outside of the environment"),
        ("rm '{}/out/x'", "{}/out/x is outside of the environment"),
        ("rm '{}/a' ; rm /x", "a shell has to read its `;`"),
        ("rm '{}/a' > /x", "a shell has to read its `>`"),
        ("rm '{}'/*.so", "a shell has to expand it"),
        ("rm $HOME/x", "a shell has to expand it"),
        ("rm '{}/a", "No closing quotation"),
    ],
)
def test_what_is_not(prefix: str, command: str, why: str) -> None:
    with pytest.raises(NotOnACopyError) as caught:
        on_a_copy(command.format(prefix), prefix, "/c")
    assert caught.value.message == why.format(prefix)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("uv pip uninstall --python /v/bin/python A.b c", {"a-b", "c"}),
        ("uv pip install --python /v/bin/python --no-deps --reinstall-package c absent==1 c==2", {"c"}),
        ("uv pip install --python /v/bin/python c<2 kept===1+cpu", {"a-b", "c"}),
        ("uv pip install --python /v/bin/python c<2 kept===1", {"a-b", "c", "kept"}),
        ("uv pip install --python /v/bin/python --no-deps /w/c.whl", {"a-b", "c", "kept"}),
        ("uv pip install --python /v/bin/python --find-links /w --no-deps --reinstall-package c --editable /c", {"c"}),
        ("uv pip install --dry-run --python /v/bin/python c<2", set()),
    ],
)
def test_what_a_line_of_uv_may_replace(command: str, names: set[str]) -> None:
    assert touched(command.split(), {"a-b": "1", "c": "2", "kept": "1+cpu"}) == names
