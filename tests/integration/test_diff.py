"""`envdoctor diff` over everything it takes: venvs, fingerprints, profiles, former venvs."""

import json
from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import Venv, install, make_venv
from tests.factories.make_wheel import make_wheel


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """Make a stack with a venv restored over one that had an older package, and another that was damaged."""
    made = make_stack(tmp_path_factory.mktemp("stack"))
    made.environment |= {"TMPDIR": str(made.folder), "PYTHONPATH": made.environment["PYTHONPATH"]}
    make_venv(made.venv, *made.wheels[:2], make_wheel(made.folder / "old", "plain", "2.0"), cache=made.cache)
    answer = made.restore()
    assert answer.code == 0, answer.err
    more = make_wheel(made.folder / "old", "additional", "1.0")
    other = make_venv(made.folder / "other", *made.wheels, more, cache=made.cache)
    (other.site_packages / "some_tool.py").unlink()
    assert made.run("fingerprint", "venv", "-o", "good.json").code == 0
    return made


def _diff(stack: Stack, *arguments: str) -> tuple[int, str]:
    answer = stack.run("diff", *arguments)
    assert answer.err == ""
    return answer.code, answer.out


def test_a_venv_and_its_fingerprint_are_equal(stack: Stack) -> None:
    assert _diff(stack, "venv", "good.json") == (
        0,
        "A  venv  (venv)\nB  good.json  (fingerprint)\n\nno difference; the digests are equal\n",
    )


def test_a_former_venv(stack: Stack) -> None:
    assert _diff(stack, "venv@1", "venv/bin/python") == (
        1,
        "A  venv@1  (generation)\nB  venv/bin/python  (venv)\n"
        "\npackages (1)\n  ~ plain  2.0 -> 3.0\n"
        "\n1 difference; the digests differ\n",
    )


def test_a_profile_and_a_venv_that_lost_a_file(stack: Stack) -> None:
    code, out = _diff(stack, "small", "other")
    files = out.partition(" of ")[2].partition(" ")[0]
    assert (code, out) == (
        1,
        "A  small  (profile)\nB  other  (venv)\n"
        f"\nfiles (1)\n  ~ some-tool  as recorded -> 1 missing of {files} files\n"
        "\npackages (1)\n  + additional  1.0\n"
        "\n2 differences; the digest of one is not known\n",
    )


def test_the_document(stack: Stack) -> None:
    code, out = _diff(stack, "small", "other", "--json")
    document = json.loads(out)
    digest = document["b"].pop("digest")
    assert digest.startswith("sha256:")
    version = document["tool"].pop("version")
    assert version
    files = document["differences"][0]["b"].split(" ")[3]
    assert (code, document) == (
        1,
        {
            "schema_version": 1,
            "tool": {"name": "envdoctor"},
            "a": {"label": "small", "kind": "profile", "digest": None},
            "b": {"label": "other", "kind": "venv"},
            "equal": False,
            "digests": "unknown",
            "differences": [
                {
                    "area": "files",
                    "kind": "changed",
                    "subject": "some-tool",
                    "a": "as recorded",
                    "b": f"1 missing of {files} files",
                },
                {"area": "packages", "kind": "only in B", "subject": "additional", "a": "", "b": "1.0"},
            ],
            "not_compared": {},
        },
    )


def test_long_lists_are_cut_unless_verbose(stack: Stack, tmp_path: Path) -> None:
    many = [make_wheel(tmp_path, f"many{number:02}", "1") for number in range(23)]
    install(make_venv(stack.folder / "many", *stack.wheels, cache=stack.cache), *many, cache=stack.cache)
    out = _diff(stack, "venv", "many")[1]
    assert "\npackages (23)\n  + many00  1\n" in out
    assert "\n  + many19  1\n    … and 3 more (-v lists all)\n" in out
    assert "\n  + many22  1\n" in _diff(stack, "venv", "many", "-v")[1]


def test_what_a_file_cannot_say_is_exit_3(stack: Stack) -> None:
    document = json.loads((stack.folder / "good.json").read_text())
    del document["sections"]["Contents"]
    document["unread"]["InstalledFiles"] = "denied"
    del document["sections"]["InstalledFiles"]
    (stack.folder / "partly.json").write_text(json.dumps(document))
    assert _diff(stack, "venv", "partly.json") == (
        3,
        "A  venv  (venv)\nB  partly.json  (fingerprint)\n"
        "\nfiles  could not be compared: B: Contents: not probed\n"
        "\nno difference in what could be compared; the digest of one is not known\n",
    )


@pytest.mark.parametrize(
    ("side", "message", "hint"),
    [
        (
            "nothing",
            "`nothing` is not a folder, a fingerprint or a profile",
            "`envdoctor profiles` lists the profiles; name a venv by its folder, a fingerprint by its file (.json)",
        ),
        ("no/where", "there is no no/where", "name a venv's folder, a fingerprint (.json), a profile, or VENV@N"),
        ("x.json", "there is no x.json", "name a venv's folder, a fingerprint (.json), a profile, or VENV@N"),
        ("venv@7", "FOLDER/venv has no backup 7", "kept are: 1"),
        ("wheels", "FOLDER/wheels is not a Python environment: it has neither pyvenv.cfg nor bin/python", None),
    ],
)
def test_bad_input(stack: Stack, side: str, message: str, hint: str | None) -> None:
    answer = stack.run("diff", side, "venv")
    error, _, told = answer.err.partition("\n\nhint: ")
    assert (answer.code, answer.out, error) == (2, "", f"error: {message}")
    assert hint is None or told == f"{hint}\n"


def test_a_damaged_venv_has_another_digest(stack: Stack) -> None:
    venv = Venv(prefix=make_venv(stack.folder / "twin", *stack.wheels, cache=stack.cache).prefix)
    assert _diff(stack, "venv", "twin")[0] == 0
    path = venv.site_packages / "plain/__init__.py"
    path.unlink()
    path.write_text("other = 'size'\n")
    assert _diff(stack, "venv", "twin")[1].endswith("\n1 difference; the digests differ\n")
