"""ED413: what `--require` asks for."""

import shlex
from dataclasses import replace

import pytest

from envdoctor.checks import required_distribution
from envdoctor.probes.loading.torch_build import ABSENT
from tests.factories import make_facts as facts


@pytest.mark.parametrize(
    ("line", "sections", "title", "command"),
    [
        (
            "torch",
            (ABSENT,),
            "torch is required and not installed",
            "uv pip install --python /srv/venv/bin/python --torch-backend auto torch",
        ),
        (
            "torch>=2.11",
            (facts.TORCH,),
            "torch 2.10.0+cu128 is installed; >=2.11 is required",
            "uv pip install --python /srv/venv/bin/python --torch-backend auto 'torch>=2.11'",
        ),
        (
            "torch==2.10.0+cu130",
            (facts.TORCH,),
            "torch 2.10.0+cu128 is installed; ==2.10.0+cu130 is required",
            "uv pip install --python /srv/venv/bin/python --torch-backend auto torch==2.10.0+cu130",
        ),
        (
            "Flash_Attn",
            (facts.distributions(facts.distribution("numpy")),),
            "flash-attn is required and not installed",
            "uv pip install --python /srv/venv/bin/python --no-deps Flash_Attn",
        ),
        (
            "peft>=0.18",
            (facts.distributions(facts.distribution("torch", "2.10.0+cpu")),),
            "peft is required and not installed",
            "uv pip install --python /srv/venv/bin/python 'peft>=0.18' torch===2.10.0+cpu",
        ),
    ],
)
def test_finds_ed413_what_was_asked_for(line: str, sections: tuple[object, ...], title: str, command: str) -> None:
    (finding,) = required_distribution.run(replace(facts.case(*sections), required=(line,)))
    assert (finding.severity, finding.title, finding.remediation.commands) == ("error", title, (command,))
    assert finding.evidence == (f"asked for by --require {shlex.quote(line)}", "examined: /srv/venv")


@pytest.mark.parametrize("line", ["torch", "torch>=2.10,<3", "torch==2.10.0", "torch==2.10.0+cu128", "numpy==1.*"])
def test_passes_ed413(line: str) -> None:
    case = facts.case(facts.TORCH, facts.distributions(facts.distribution("numpy")))
    assert list(required_distribution.run(replace(case, required=(line,)))) == []
