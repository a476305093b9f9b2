"""`envdoctor lock` with real uv against a local index."""

from pathlib import Path

from tests.factories.make_index import make_index
from tests.factories.make_stack import make_stack
from tests.factories.make_wheel import make_wheel, sha256


def test_requirements_become_a_lock_that_names_no_host(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    needed = make_wheel(tmp_path / "served", "needed", "2.0")
    served = make_wheel(tmp_path / "served", "asked-for", "1.5", requires=["needed>=1"])
    make_wheel(tmp_path / "served", "asked-for", "1.5", tag="cp312-cp312-win_amd64", requires=["needed>=1"])
    (tmp_path / "direct.in").write_text("asked-for==1.5\n")
    (tmp_path / "direct.txt").write_text("# Kept head.\n# Second line.\nold==1 --hash=sha256:00\n")
    with make_index(tmp_path / "served") as index:
        online = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": index.url}
        options = ("--exclude-newer", "2026-02-01T00:00:00Z")
        answer = stack.run("lock", "direct.in", "-o", "direct.txt", *options, extra=online)
        too_early = stack.run("lock", "direct.in", "--exclude-newer", "2026-01-01T00:00:00Z", extra=online)
    assert (answer.code, answer.out, answer.err) == (0, "", "locked 2 packages in direct.txt\n")
    assert (tmp_path / "direct.txt").read_text() == (
        "# Kept head.\n# Second line.\n"
        f"asked-for==1.5 \\\n    --hash=sha256:{sha256(served)}\n"
        f"needed==2.0 \\\n    --hash=sha256:{sha256(needed)}\n"
    )
    assert too_early.code == 4


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    answer = make_stack(tmp_path).run("lock", "absent.in")
    assert (answer.code, answer.err) == (
        2,
        "error: absent.in cannot be read: [Errno 2] No such file or directory: 'absent.in'\n\n"
        "hint: name a file of direct requirements\n",
    )
