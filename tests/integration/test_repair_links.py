"""A venv whose folders are links out of it: a change of a copy would reach the venv itself, and is refused."""

from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import Venv, make_venv, run_uv, tree_state
from tests.factories.make_wheel import make_wheel


def _made(stack: Stack, *more: Path) -> Venv:
    return make_venv(stack.venv, *stack.wheels, *more, cache=stack.cache)


def _linked_out(stack: Stack, inner: Path) -> Path:
    outside = stack.folder / "elsewhere"
    inner.rename(outside)
    inner.symlink_to(outside)
    return outside


@pytest.mark.parametrize("levels", [0, 1, 2], ids=["site-packages", "lib/python3.X", "lib"])
def test_packages_behind_a_link_out_of_the_venv(tmp_path: Path, levels: int) -> None:
    stack = make_stack(tmp_path)
    venv = _made(stack)
    inner = (venv.site_packages, *venv.site_packages.parents)[levels]
    outside = _linked_out(stack, inner)
    (venv.site_packages / "plain/__init__.py").unlink()
    before = tree_state(outside), tree_state(venv.prefix)
    answer = stack.run("repair", "--venv", "venv", "--yes")
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.endswith(
        f"error: {stack.plain(str(inner))} is a link out of the venv, to FOLDER/elsewhere: a change of a copy would "
        "change what is behind it for this venv too\n\nhint: fix it by hand, as `envdoctor check FOLDER/venv` says, "
        "or replace the link by the folder\n"
    )
    assert (tree_state(outside), tree_state(venv.prefix)) == before
    inner.unlink()
    outside.rename(inner)
    assert stack.run("repair", "--venv", "venv", "--yes").code == 0
    assert (venv.site_packages / "plain/__init__.py").is_file()


def test_data_of_a_package_behind_a_link_out_of_the_venv(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    data = {"shared/__init__.py": "", "shared-1.data/data/share/shared/table": "rows\n"}
    shared = make_wheel(tmp_path / "wheels", "shared", "1", files=data)
    venv = _made(stack, shared)
    outside = _linked_out(stack, venv.prefix / "share")
    (venv.site_packages / "plain/__init__.py").unlink()
    assert stack.run("repair", "--venv", "venv", "--yes").code == 0  # plain has nothing behind that link
    (venv.site_packages / "shared/__init__.py").unlink()
    before = tree_state(outside)
    answer = stack.run("repair", "--venv", "venv", "--yes")
    assert (answer.code, answer.out) == (4, "")
    assert "error: FOLDER/venv/share is a link out of the venv, to FOLDER/elsewhere: a change of a copy" in answer.err
    assert tree_state(outside) == before


def test_packages_that_a_relative_line_of_a_pth_file_brings(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    asking = make_wheel(tmp_path / "wheels", "asking", "1", files={"asking.py": ""}, requires=["outer"])
    outer = make_wheel(tmp_path / "wheels", "outer", "1", files={"outer.py": ""})
    venv = _made(stack, asking)
    run_uv("pip", "install", "--no-deps", "--target", stack.folder / "outside", outer, cache=stack.cache)
    (venv.site_packages / "outer.pth").write_text("../../../../outside\n")
    (venv.site_packages / "plain/__init__.py").unlink()
    answer = stack.run("repair", "--venv", "venv", "--yes")
    assert answer.code == 0, answer.err
    assert (venv.site_packages / "outer.pth").read_text() == "../../../../outside\n"
