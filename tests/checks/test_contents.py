"""ED207, ED208: contents against RECORD, and what could not be read."""

from dataclasses import replace

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import altered_contents, damaged_distribution, not_read
from envdoctor.checks.registry import judge
from envdoctor.model.finding import Remediation
from envdoctor.model.fingerprint import MissingFactError, Unread
from envdoctor.probes.venv.deep_files import AlteredFile, DeepFiles, Unverified
from tests.factories import make_facts as facts

PYTHON = f"--python {facts.PREFIX}/bin/python"
CACHED = "/home/me/.cache/uv/archive-v0/abc/torch/fx/_symbolic_trace.py"
CLEAN = DeepFiles(files=10, without_hash=1, bytecode=0, altered=(), unverified=(), notes=())


def _altered(path: str, owner: str = "torch", cached_at: str = "", links: int = 1) -> AlteredFile:
    return AlteredFile(
        path=path, owner=owner, recorded="sha256=AA", found="sha256=BB", links=links, cached_at=cached_at
    )


def _site(path: str) -> str:
    return f"lib/python3.12/site-packages/{path}"


def _deep(*altered: AlteredFile, unverified: tuple[Unverified, ...] = ()) -> DeepFiles:
    return replace(CLEAN, altered=altered, unverified=unverified)


def test_finds_ed207_a_poisoned_cache_and_cleans_it_first() -> None:
    deep = _deep(_altered(_site("torch/fx/_symbolic_trace.py"), cached_at=CACHED, links=3))
    (finding,) = altered_contents.run(facts.case(deep))
    assert finding.title == (
        "torch 2.10.0: 1 file holds other bytes than RECORD says, at the recorded size, and so do those in uv's cache"
    )
    assert (finding.severity, finding.confidence, finding.subject) == ("error", "high", "torch")
    assert finding.evidence == (
        "altered: torch/fx/_symbolic_trace.py",
        f"{_site('torch/fx/_symbolic_trace.py')}: RECORD says sha256=AA, the file has sha256=BB",
        f"the same file as {CACHED} (3 links): edited in place",
    )
    assert finding.remediation == Remediation(
        text="clean torch out of uv's cache first: a reinstall alone links the same bytes again. Every other venv "
        "linked from that cache has them too",
        commands=(
            "uv cache clean torch",
            f"uv pip install {PYTHON} --no-deps --reinstall-package torch torch===2.10.0",
        ),
        safe=False,
    )
    assert f"file:{_site('torch/fx/_symbolic_trace.py')}" in finding.causes


def test_finds_ed207_a_plain_edit_and_reinstalls() -> None:
    deep = _deep(_altered(_site("torch/a.py")), _altered(_site("torch/b.so"), links=2))
    (finding,) = altered_contents.run(facts.case(deep))
    assert finding.title == "torch 2.10.0: 2 files hold other bytes than RECORD says, at the recorded size"
    assert finding.remediation.commands == (
        f"uv pip install {PYTHON} --no-deps --reinstall-package torch torch===2.10.0",
    )


def test_finds_ed207_a_link_to_somewhere_unknown() -> None:
    (finding,) = altered_contents.run(facts.case(_deep(_altered(_site("torch/a.py"), links=2))))
    assert finding.evidence[-1] == "the file has 2 links: whatever shares it holds the altered bytes too"


def test_finds_ed207_only_a_warning_for_launchers() -> None:
    (finding,) = altered_contents.run(facts.case(_deep(_altered("bin/torchrun"))))
    assert finding.severity == "warning"


def test_finds_ed207_one_for_each_distribution() -> None:
    deep = _deep(_altered(_site("torch/a.py")), _altered(_site("numpy/a.py"), owner="numpy"))
    assert [finding.subject for finding in altered_contents.run(facts.case(deep))] == ["numpy", "torch"]


def test_the_restore_of_a_profile_comes_after_the_clean() -> None:
    deep = _deep(_altered(_site("torch/a.py"), cached_at=CACHED))
    (finding,) = altered_contents.run(facts.case(deep, profile=facts.PROFILE, pins=("torch==2.10.0",)))
    assert finding.remediation.commands == (
        "uv cache clean torch",
        f"envdoctor restore --profile good --venv {facts.PREFIX}",
    )


def test_an_edit_that_changed_the_size_cleans_the_cache_too() -> None:
    fault = replace(facts.resized("torch", "torch/a.py"), cached_at=CACHED)
    files = replace(facts.FILES, owners=(facts.owner("torch", "2.10.0", resized=1),), faults=(fault,))
    (finding,) = damaged_distribution.run(facts.case(files))
    assert finding.evidence[-1] == (
        f"the same bytes are in uv's cache: an edit in place, or a wheel whose own RECORD is wrong: {CACHED}"
    )
    assert finding.remediation.commands == (
        "uv cache clean torch",
        f"uv pip install {PYTHON} --no-deps --reinstall-package torch torch===2.10.0",
    )


def test_passes_ed207_where_all_is_as_recorded() -> None:
    assert list(altered_contents.run(facts.case(CLEAN))) == []


def test_passes_ed207_and_says_so_where_nothing_was_hashed() -> None:
    with pytest.raises(DoesNotApplyError, match=r"^contents were not hashed; `--deep` does it$"):
        list(altered_contents.run(facts.case()))
    verdict = judge(facts.case())
    skipped = {skip.code: (skip.reason, skip.matters) for skip in verdict.skipped}
    assert skipped["ED207"] == ("contents were not hashed; `--deep` does it", False)
    assert verdict.exit_code() == 0


def test_hashing_that_failed_is_could_not_tell() -> None:
    case = facts.case()
    gap = Unread(section="DeepFiles", reason="/srv/venv: Input/output error")
    case = replace(case, facts=replace(case.facts, unread=(gap,)))
    with pytest.raises(MissingFactError, match=r"^DeepFiles: /srv/venv: Input/output error$"):
        list(altered_contents.run(case))
    assert judge(case).exit_code() == 3


def test_finds_ed208_everything_that_could_not_be_read() -> None:
    fault = replace(facts.missing("numpy", "numpy/a.py"), kind="unreadable")
    files = replace(
        facts.FILES, owners=(facts.owner("numpy"),), faults=(fault,), malformed=("numpy: RECORD:3: no row",)
    )
    installed = replace(
        facts.distributions(facts.distribution("numpy")), unreadable=("/x/METADATA: not a regular file",)
    )
    deep = _deep(unverified=(Unverified(path=_site("numpy/b.py"), owner="numpy", reason="Permission denied"),))
    (finding,) = not_read.run(facts.case(files, installed, deep))
    assert finding.title == "4 things of the environment could not be read"
    assert finding.evidence == (
        "/x/METADATA: not a regular file",
        "numpy: RECORD:3: no row",
        f"numpy: {_site('numpy/a.py')}: no access",
        f"numpy: {_site('numpy/b.py')}: Permission denied",
    )
    assert list(damaged_distribution.run(facts.case(files))) == []


def test_finds_ed208_and_counts_what_it_does_not_list() -> None:
    files = replace(facts.FILES, malformed=tuple(f"row {number}" for number in range(9)))
    (finding,) = not_read.run(facts.case(files))
    assert finding.evidence == (*(f"row {number}" for number in range(6)), "and 3 more")


def test_passes_ed208_where_everything_was_read() -> None:
    assert list(not_read.run(facts.case())) == []
    assert list(not_read.run(facts.case(CLEAN))) == []
