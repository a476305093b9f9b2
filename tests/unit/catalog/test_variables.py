"""One row a variable: who reads it, who sees it, and what of it is kept."""

import ast
from pathlib import Path

import pytest

import envdoctor
from envdoctor.catalog.variables import VARIABLES, collected, given_to_uv, known, may_be_secret
from envdoctor.model.fingerprint import MissingFactError
from envdoctor.probes.machine.environment import Environment
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import make_venv

ROOT = Path(envdoctor.__file__).parent


def _literal_names() -> set[str]:
    """Return every variable that a rule asks the facts for by a name written there."""
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "value":
                found |= {
                    one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)
                }
    return found


def test_every_variable_that_a_rule_asks_for_is_collected() -> None:
    assert "PYTHONHOME" in _literal_names()
    assert {name for name in _literal_names() if not collected(name)} == set()


def test_each_row_stands_once_and_says_what_a_missing_path_costs() -> None:
    names = [row.name for row in VARIABLES]
    assert sorted(set(names)) == sorted(names)
    silent = {row.name for row in VARIABLES if row.kind not in ("", "made folder") and not row.cost}
    assert silent == set()


def test_the_row_of_its_own_comes_before_the_family() -> None:
    assert [row.name for row in map(known, ("TRITON_PTXAS_PATH", "TRITON_DEBUG", "TORCHX", "NCCL_X")) if row] == [
        "TRITON_PTXAS_PATH",
        "TRITON_*",
        "TORCH*",
        "NCCL_*",
    ]
    assert known("EDITOR") is None


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("PATH", "/usr/bin:/bin", False),
        ("PYTHONPATH", "/a:/b", False),
        ("CUDA_HOME", ":/usr/local/cuda", False),
        ("UV_PUBLISH_TOKEN", "x", True),
        ("TORCH_LICENSE_KEY", "x", True),
        ("UV_GITHUB_PAT", "x", True),
        ("PIP_PASSWD", "x", True),
        ("PYTHON_KEYRING_PW", "x", True),
        ("PIP_PROXY", "user:pw@host:3128", True),
        ("UV_INDEX_URL", "http://host/simple", True),
        ("UV_INDEX_URL", "https://:pw@host/simple", True),
    ],
)
def test_what_may_be_a_secret_is_told_by_whole_words(name: str, value: str, secret: bool) -> None:  # noqa: FBT001
    assert may_be_secret(name, value) is secret


@pytest.mark.parametrize(
    ("name", "restore", "impact"),
    [
        ("UV_CACHE_DIR", True, True),
        ("UV_NO_CACHE", True, False),
        ("UV_CONSTRAINT", False, True),
        ("UV_A_LATER_UVS", False, True),
        ("UV_PYTHON", False, False),
        ("VIRTUAL_ENV", False, False),
        ("UV_INDEX_MINE_PASSWORD", True, True),
        ("HTTPS_PROXY", True, True),
    ],
)
def test_uv_sees_what_its_row_says(name: str, restore: bool, impact: bool) -> None:  # noqa: FBT001
    assert (given_to_uv(name), given_to_uv(name, impact=True)) == (restore, impact)


def test_a_variable_that_is_not_collected_is_not_called_unset(tmp_path: Path) -> None:
    environ = {"EDITOR": "vi", "OMP_NUM_THREADS": "4", "NCCL_SECRET": "x", "MY_TOKEN": "y"}
    host = bare_host(tmp_path / "home", **environ)
    found = read(make_venv(tmp_path / "venv").prefix, host).fact(Environment)
    assert (found.value("OMP_NUM_THREADS"), found.value("NCCL_DEBUG"), found.is_set("NCCL_DEBUG")) == ("4", None, False)
    assert (found.withheld, found.is_set("NCCL_SECRET")) == (("NCCL_SECRET",), True)
    for name, reason in (
        ("EDITOR", "EDITOR was not looked for"),
        ("NCCL_SECRET", "NCCL_SECRET is set to what may be a password or an address; not kept"),
    ):
        with pytest.raises(MissingFactError) as caught:
            found.value(name)
        assert caught.value.reason == reason
