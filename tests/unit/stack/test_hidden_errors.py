"""Which new errors of a repaired copy were there before, and which a repair may not swap in."""

from dataclasses import replace

import pytest

from envdoctor.analysis.hidden_errors import broken
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.probes.venv.installed_files import FileFault
from tests.factories import make_facts as facts

ITEMS = facts.distributions(
    facts.distribution("torch", requires=("nvidia-nccl-cu12==2",)),
    facts.distribution("nvidia-nccl-cu12"),
    facts.distribution("torchvision", requires=("torch==2.10.0", "pillow; extra == 'x'")),
    facts.distribution("audio", requires=("torchvision>=0.1",)),
    facts.distribution("pillow"),
)


def _finding(code: str, subject: str, *causes: str) -> Finding:
    remedy = Remediation(text="")
    return Finding(
        code=code, name="", severity="error", confidence="high", title="", subject=subject, evidence=(),
        remediation=remedy, causes=causes,
    )  # fmt: skip


def _resized(name: str, path: str, **changes: object) -> FileFault:
    return replace(facts.missing(name, path), kind="resized", size=50, **changes)


IMPORT = _finding("ED301", "libnccl.so.2", BREAKS_IMPORT)
VISION, AUDIO, PILLOW = (_finding("ED408", name) for name in ("torchvision", "audio", "pillow"))
UNMET = _finding("ED406", "absent")


@pytest.mark.parametrize(
    ("faults", "before", "torn", "revealed"),
    [
        ((), (), (), []),
        ((facts.missing("torch", "torch/_C.so"),), (), (), [IMPORT, VISION, AUDIO]),
        ((facts.missing("torch", "torch/include/a.h"),), (), (), []),
        # Somebody's edit may be what makes it work.
        ((_resized("torch", "torch/__init__.py"),), (), (), []),
        ((_resized("torch", "torch/__init__.py", unparsable=True),), (), (), [IMPORT, VISION, AUDIO]),
        ((_resized("torch", "torch/lib/libc10.so"),), (), (), [IMPORT, VISION, AUDIO]),
        # The import of torch was played to its end all the same.
        ((facts.missing("nvidia-nccl-cu12", "nvidia/nccl/lib/libnccl.so.2"),), (), (), [VISION, AUDIO]),
        ((), (_finding("ED301", "libc10.so", BREAKS_IMPORT),), (), [IMPORT, VISION, AUDIO]),
        ((facts.missing("torchvision", "torchvision/__init__.py"),), (), (), [VISION, AUDIO]),
        ((), (), ("torchvision",), [VISION, AUDIO, UNMET]),
        ((facts.missing("pillow", "PIL/Image.py"),), (), (), [PILLOW]),
    ],
)
def test_what_was_hidden(
    faults: tuple[FileFault, ...], before: tuple[Finding, ...], torn: tuple[str, ...], revealed: list[Finding]
) -> None:
    case = facts.case(ITEMS, replace(facts.FILES, faults=faults))
    found = broken(case, before, torn)
    new = [IMPORT, VISION, AUDIO, PILLOW, UNMET]
    assert [item for item in new if found.reveals(item, case.facts, ())] == revealed


def test_what_the_change_took_away_was_not_hidden() -> None:
    case = facts.case(ITEMS, replace(facts.FILES, faults=(facts.missing("torch", "torch/_C.so"),)))
    found = broken(case, (), ("torch",))
    for removed, finding in (("libnccl.so.2", IMPORT), ("torchvision", VISION), ("absent", UNMET)):
        assert found.reveals(finding, case.facts, ())
        assert not found.reveals(finding, case.facts, {removed})
    # What is not installed cannot be told to have failed before.
    assert not found.reveals(_finding("ED408", "elsewhere"), case.facts, ())
