"""Many stacks beside each other: what is usual, who differs, what could not be compared."""

from dataclasses import replace

import pytest

from envdoctor.compare.majority import Agreement, ComparedFact, Stated, compare_all
from envdoctor.compare.sheet import StackSheet, sheet_of
from envdoctor.model.fingerprint import Fingerprint, Unread
from envdoctor.probes.loading.nccl import Nccl
from envdoctor.probes.venv.distribution_digests import Content, Contents
from envdoctor.probes.venv.training_sources import SourceFile, Sources
from tests.factories import make_facts as facts

TORCH = Content(name="torch", version="2.10.0", sha256="0" * 64, editable=False)
NCCL = Nccl(path="lib/libnccl.so.2", owner="nvidia-nccl-cu12", owner_version="2.27.5", size=10, sampled="a" * 64)


def _facts(*sections: object, contents: Contents | None = None, unread: tuple[Unread, ...] = ()) -> Fingerprint:
    chosen = {type(section): section for section in (facts.variables(NCCL_PROTO="LL"), *sections)}
    made = facts.fingerprint(*chosen.values(), unread=unread)
    return replace(made, sections=(*made.sections, contents or Contents(items=(TORCH,)), *([] if unread else [NCCL])))


def _rows(*sheets: StackSheet) -> list[ComparedFact]:
    return list(compare_all({f"n{at}": sheet for at, sheet in enumerate(sheets)}).rows)


def test_a_stack_as_a_sheet() -> None:
    sheet = sheet_of(_facts(Sources(root="/s", files=(SourceFile(path="t.py", sha256="b" * 64, problem=""),))))
    digest = sheet.facts["stack"]
    assert digest.startswith("sha256:")
    assert sheet == StackSheet(
        facts={
            "torch": "2.10.0+cu128",
            "CUDA of torch": "12.8",
            "commit of torch": facts.TORCH.git_version,
            "Python": "3.12",
            "processor": "x86_64",
            "NCCL": "nvidia-nccl-cu12 2.27.5",
            "bytes of NCCL": "10 bytes, samples aaaaaaaaaaaaaaaa",
            "driver": "",
            "GPUs": "",
            "package torch": "2.10.0 (000000000000)",
            "variable NCCL_PROTO": "LL",
            "source t.py": "sha256 bbbbbbbbbbbbbbbb",
            "stack": digest,
        }
    )


def test_a_path_of_the_venv_and_what_a_launcher_sets_are_no_difference() -> None:
    made = sheet_of(
        _facts(facts.variables(PYTHONPATH="/srv/venv/x", TORCHELASTIC_RUN_ID="7", CUDA_VISIBLE_DEVICES="1"))
    )
    assert [fact for fact in made.facts.items() if fact[0].startswith("variable")] == [
        ("variable PYTHONPATH", "{venv}/x")
    ]


@pytest.mark.parametrize(
    ("section", "odd"),
    [
        (replace(facts.TORCH, version="2.10.0+cu130"), {"torch", "stack"}),
        (replace(facts.TORCH, git_version="f" * 40), {"commit of torch", "stack"}),
        (replace(facts.PYTHON, version="3.13.0"), {"Python", "stack"}),
        (replace(facts.GPU, state="driver only", module_version="570.1"), {"driver"}),
        (facts.variables(NCCL_PROTO="Simple"), {"variable NCCL_PROTO"}),
        (facts.variables(), {"variable NCCL_PROTO"}),
        (Contents(items=(replace(TORCH, sha256="1" * 64),)), {"package torch", "stack"}),
        (Nccl(path="/usr/lib/libnccl.so.2", owner="", owner_version="", size=9, sampled="b" * 64),
         {"NCCL", "bytes of NCCL"}),
    ],
)  # fmt: skip
def test_one_of_three_differs(section: object, odd: set[str]) -> None:
    usual = sheet_of(_facts())
    made = _facts(*([] if isinstance(section, Contents | Nccl) else [section]))
    kept = tuple(section if type(one) is type(section) else one for one in made.sections)
    found = compare_all({"a": usual, "b": sheet_of(replace(made, sections=kept)), "c": usual})
    assert {row.fact for row in found.rows if row.others} == odd
    assert (found.odd, found.groups, found.settled) == (("b",), (("a", "c"), ("b",)), True)


def test_equal_stacks_leave_no_row() -> None:
    sheet = sheet_of(_facts())
    assert compare_all({"a": sheet, "b": sheet}) == Agreement(members=("a", "b"), groups=(("a", "b"),), rows=())


def test_what_each_rank_may_have_for_itself_is_no_fact_but_of_the_journal() -> None:
    own = {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1", "LOCAL_WORLD_SIZE": "4", "SLURM_NNODES": "2", "TORCHX_RANK0_HOST": "n1",
        "TRITON_CACHE_DIR": "/tmp/t1", "TORCHINDUCTOR_CACHE_DIR": "/tmp/i1", "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "8",
    }  # fmt: skip
    made = _facts(facts.variables(**own))
    assert [fact for fact in sheet_of(made).facts if fact.startswith("variable ")] == []
    kept = {fact: value for fact, value in sheet_of(made, per_rank=True).facts.items() if fact.startswith("variable ")}
    assert kept == {f"variable {name}": value for name, value in own.items()}


def test_what_decides_most_comes_first_and_a_tie_accuses_nobody() -> None:
    one = StackSheet(facts={"package numpy": "1", "torch": "2", "variable NCCL_X": "1"})
    other = StackSheet(facts={"package numpy": "2", "torch": "3"})
    rows = _rows(one, other)
    assert [(row.fact, row.settled) for row in rows] == [
        ("torch", False), ("package numpy", False), ("variable NCCL_X", False)
    ]  # fmt: skip
    assert rows[2] == ComparedFact(
        fact="variable NCCL_X",
        usual=Stated(value="1", who=("n0",)),
        settled=False,
        others=(Stated(value="", who=("n1",)),),
    )


def test_what_could_not_be_read_is_named_and_is_neither_equal_nor_different() -> None:
    read, blind = StackSheet(facts={"driver": "570"}), StackSheet(facts={}, unread={"driver": "no permission"})
    assert _rows(read, blind, read) == [
        ComparedFact(
            fact="driver",
            usual=Stated(value="570", who=("n0", "n2")),
            settled=True,
            others=(),
            unread=(Stated(value="no permission", who=("n1",)),),
        )
    ]


def test_a_family_that_could_not_be_read_is_no_difference_of_its_members() -> None:
    read, other = StackSheet(facts={"package a": "1"}), StackSheet(facts={"package a": "2"})
    blind = StackSheet(facts={}, unread={"package": "gone"})
    gap = (Stated(value="gone", who=("n1",)),)
    assert [(row.fact, row.others, row.unread) for row in _rows(read, blind, other, read)] == [
        ("package", (), gap),
        ("package a", (Stated(value="2", who=("n2",)),), gap),
    ]


def test_a_section_that_was_not_read_is_a_gap() -> None:
    blind = sheet_of(_facts(unread=(Unread(section="Nccl", reason="torn"),)))
    assert {fact: why for fact, why in blind.unread.items() if fact != "stack"} == {
        "NCCL": "torn",
        "bytes of NCCL": "torn",
    }
