"""ED406, ED407, ED408: what metadata declares, what code demands, what only fits together."""

from dataclasses import replace

import pytest

from envdoctor.checks import companion_mismatch, runtime_requirement, unmet_requirement
from envdoctor.model.finding import Finding
from envdoctor.model.profile import CompileWanted
from envdoctor.model.verdict import order_by_cause
from envdoctor.probes.venv.companions import CompanionBuild, Companions, Window
from tests.factories import make_facts as facts

TOOLKIT = facts.distribution(
    "cuda-toolkit",
    "12.8.1",
    requires=(
        'nvidia-cublas-cu12==12.8.4.1; (sys_platform == "linux") and extra == "cublas"',
        'nvidia-cufft-cu12==11.3.3.83; extra == "cufft"',
        'nvidia-npp-cu12==12.3.3.100; extra == "npp"',
    ),
)
TORCH = facts.distribution("torch", "2.11.0", requires=("cuda-toolkit[cublas,cufft]==12.8.1", "triton==3.6.0"))
CUBLAS = facts.distribution("nvidia-cublas-cu12", "12.8.4.1")
CUFFT = facts.distribution("nvidia-cufft-cu12", "11.3.3.83")
TRITON = facts.distribution("triton", "3.6.0")
PREFIX = f"uv pip install --python {facts.PREFIX}/bin/python"


def _unmet(*items: object, **options: object) -> list[Finding]:
    return list(unmet_requirement.run(facts.case(facts.distributions(*items), **options)))  # type: ignore[arg-type]


def test_passes_ed406_when_the_extras_that_are_asked_for_are_there() -> None:
    assert _unmet(TORCH, TOOLKIT, CUBLAS, CUFFT, TRITON) == []


def test_finds_ed406_a_library_behind_an_extra() -> None:
    (finding,) = _unmet(TORCH, TOOLKIT, CUBLAS, TRITON)
    assert finding.severity == "error"
    assert finding.title == (
        "nvidia-cufft-cu12 is not installed; cuda-toolkit[cufft] 12.8.1 requires nvidia-cufft-cu12==11.3.3.83"
    )
    assert finding.evidence == ("cuda-toolkit[cufft] 12.8.1 requires nvidia-cufft-cu12==11.3.3.83; not installed",)
    assert finding.remediation.commands == (f"{PREFIX} --no-deps nvidia-cufft-cu12==11.3.3.83",)


def test_finds_ed406_another_version_behind_an_extra() -> None:
    (finding,) = _unmet(TORCH, TOOLKIT, CUBLAS, replace(CUFFT, version="11.4"), TRITON)
    assert (finding.severity, finding.title) == (
        "warning",
        "cuda-toolkit[cufft] 12.8.1 requires nvidia-cufft-cu12==11.3.3.83, and 11.4 is installed",
    )


def test_ed406_extras_are_followed_in_any_order_and_through_several() -> None:
    outer = facts.distribution("outer", "1", requires=("middle[all]",))
    middle = facts.distribution("middle", "1", requires=('inner[deep]; extra == "all"',))
    inner = facts.distribution("inner", "1", requires=('leaf>=2; extra == "deep"',))
    for items in ((outer, middle, inner), (inner, middle, outer)):
        (finding,) = _unmet(*items)
        assert finding.title == "leaf is not installed; inner[deep] 1 requires leaf>=2"
        assert finding.remediation.commands == (f"{PREFIX} 'leaf>=2'",)


def test_ed406_all_requirers_of_a_missing_one_are_heard() -> None:
    one = facts.distribution("one", "1", requires=("leaf>=2,<9", "bare"))
    two = facts.distribution("two", "1", requires=("leaf!=2.5", "leaf>=2,<9", "bare"))
    (finding,) = _unmet(two, one)
    assert finding.remediation.commands == (f"{PREFIX} bare 'leaf!=2.5,<9,>=2'",)
    exact = facts.distribution("exact", "1", requires=("leaf==2.4",))
    (finding,) = _unmet(exact, facts.distribution("two", "1", requires=("leaf!=2.5",)))
    assert finding.remediation.commands == (f"{PREFIX} 'leaf!=2.5,==2.4'",)


def test_ed406_circular_extras_come_to_an_end() -> None:
    one = facts.distribution("one", "1", requires=('two[x]; extra == "x"', "two[x]"))
    two = facts.distribution("two", "1", requires=('one[x]; extra == "x"',))
    assert _unmet(one, two) == []


@pytest.mark.parametrize(
    "line",
    [
        'pywin32; sys_platform == "win32"',
        'tomli; python_version < "3.11"',
        'pytest; extra == "test"',
        "not a requirement at all",
        "torch>=2.4",
        "Torch",
    ],
)
def test_passes_ed406_what_is_not_asked_here(line: str) -> None:
    assert _unmet(facts.distribution("thing", "1", requires=(line,)), facts.distribution("torch", "2.11.0+cu128")) == []


def test_ed406_no_command_installs_a_bare_torch() -> None:
    (finding,) = _unmet(facts.distribution("accelerate", "1.13.0", requires=("torch>=2.0",)))
    assert finding.title == "torch is not installed; accelerate 1.13.0 requires torch>=2.0"
    assert finding.remediation.commands == ()


def test_ed406_what_the_base_interpreter_holds_is_its_own_affair() -> None:
    base = facts.distribution("ancient", "1", requires=("gone",), origin="base site-packages", site="/usr/lib/x")
    assert _unmet(base) == []


def test_ed406_a_version_conflict_that_the_lock_pins_was_measured_so() -> None:
    thing = facts.distribution("thing", "1", requires=("setuptools<82",))
    tools = facts.distribution("setuptools", "84.0")
    pins = ("thing==1", "setuptools==84.0")
    assert _unmet(thing, tools, profile=facts.PROFILE, pins=pins) == []
    (finding,) = _unmet(thing, tools, profile=facts.PROFILE, pins=("thing==1", "setuptools==81.0"))
    assert finding.title == "thing 1 requires setuptools<82, and 84.0 is installed"


def test_finds_ed406_each_hole_of_a_lock_by_itself() -> None:
    thing = facts.distribution("thing", "1", requires=("absent>=2", "exact==3"))
    one, other = _unmet(thing, profile=facts.PROFILE, pins=("thing==1",))
    assert (one.severity, one.subject, one.title) == (
        "error",
        "absent",
        "absent is not installed; thing 1 requires absent>=2",
    )
    assert one.evidence == ("thing 1 requires absent>=2; not installed", "good.txt does not have it either")
    assert one.remediation.text == (
        "Install it, then add it to good.txt: a restore leaves it out again. If the stack does without it on purpose, "
        "say so in a waiver of the profile: code ED406, subject absent, and the reason"
    )
    assert one.remediation.commands == (f"{PREFIX} 'absent>=2'",)
    assert other.remediation.commands == (f"{PREFIX} --no-deps exact==3",)


def test_ed406_a_missing_torch_leaves_the_others_their_command() -> None:
    accelerate = facts.distribution("accelerate", "1.13.0", requires=("torch>=2.0", "psutil", "safetensors>=0.4.3"))
    torch, others = _unmet(accelerate)
    assert torch.title == "torch is not installed; accelerate 1.13.0 requires torch>=2.0"
    assert torch.remediation.commands == ()
    assert others.title == "2 required distributions are not installed: psutil, safetensors"
    assert others.remediation.commands == (f"{PREFIX} --no-deps psutil 'safetensors>=0.4.3'",)


def test_ed406_the_command_asks_for_what_everybody_accepts() -> None:
    new = facts.distribution("new", "1", requires=("numpy>=2.1",))
    content = facts.distribution("content", "1", requires=("numpy<2.4,>=1.20",))
    (finding,) = _unmet(new, content, facts.distribution("numpy", "2.0"))
    assert finding.remediation.commands == (f"{PREFIX} 'numpy<2.4,>=2.1'",)


def test_ed406_no_command_where_two_requirers_disagree() -> None:
    new = facts.distribution("new", "1", requires=("numpy>=2.1",))
    old = facts.distribution("old", "1", requires=("numpy<2",))
    (finding,) = _unmet(new, old, facts.distribution("numpy", "1.26.4"))
    assert finding.remediation.commands == ()
    assert finding.remediation.text == (
        "No version of numpy satisfies all who require it (new 1 wants numpy>=2.1; old 1 wants numpy<2): take another "
        "version of one of those, or uninstall the one that is not needed"
    )


def test_ed406_a_requirer_that_is_replaced_too_has_no_say() -> None:
    """Two old versions beside a new requirer of both: what the old one wants goes with it."""
    new = facts.distribution("new", "1", requires=("hub>=1.3", "tokens>=0.22"))
    tokens = facts.distribution("tokens", "0.15", requires=("hub<1.0",))
    (finding,) = _unmet(new, tokens, facts.distribution("hub", "0.20"))
    assert finding.remediation.commands == (f"{PREFIX} 'hub>=1.3' 'tokens>=0.22'",)


def test_ed406_an_extra_that_is_asked_for_is_in_the_command() -> None:
    (finding,) = _unmet(facts.distribution("new", "1", requires=("ray[default]>=2",)))
    assert finding.remediation.commands == (f"{PREFIX} 'ray[default]>=2'",)


def test_ed406_hangs_under_the_lock_that_pins_it() -> None:
    (finding,) = _unmet(TORCH, TOOLKIT, CUBLAS, TRITON, profile=facts.PROFILE, pins=("nvidia-cufft-cu12==11.3.3.83",))
    cause = replace(finding, code="ED402", causes=("dist:nvidia-cufft-cu12",), symptom_of=())
    _, consequences = order_by_cause([finding, cause])
    assert consequences == {1: 0}


@pytest.mark.parametrize(("compiles", "severity"), [(False, "warning"), (True, "error")])
def test_ed406_another_triton_is_an_error_where_something_compiles(compiles: bool, severity: str) -> None:  # noqa: FBT001
    profile = replace(facts.PROFILE, compile=CompileWanted(threads=1 if compiles else 0))
    (finding,) = _unmet(TORCH, TOOLKIT, CUBLAS, CUFFT, replace(TRITON, version="3.5.0"), profile=profile)
    assert (finding.severity, finding.title) == (
        severity,
        "torch 2.11.0 requires triton==3.6.0, and 3.5.0 is installed",
    )
    assert finding.evidence[-1] == "import torch works; torch.compile fails or miscompiles"


WINDOWS = Companions(
    windows=(Window(name="accelerate", requirement="accelerate>=1.3.0,<2"),), windows_from="/t.py", builds=()
)
TRANSFORMERS = facts.distribution("transformers", "5.9.0")
HAS = (TRANSFORMERS, facts.distribution("accelerate", "1.15.0"))


def _runtime(*items: object, windows: Companions = WINDOWS, **options: object) -> list[Finding]:
    case = facts.case(facts.distributions(*items), windows, **options)  # type: ignore[arg-type]
    return list(runtime_requirement.run(case))


def test_finds_ed407_by_the_installed_packages_own_table() -> None:
    (finding,) = _runtime(TRANSFORMERS, facts.distribution("accelerate", "1.2.0"))
    assert finding.title == (
        "accelerate 1.2.0 is too old for transformers 5.9.0: `device_map`, `low_cpu_mem_usage` or `tp_plan` in "
        "from_pretrained() will raise, asking for accelerate>=1.3.0"
    )
    assert finding.evidence[:2] == ("/t.py: accelerate>=1.3.0", "installed: accelerate 1.2.0")
    assert finding.remediation.commands == (f"{PREFIX} 'accelerate>=1.3.0'",)


def test_ed407_no_command_asks_for_a_release_to_come() -> None:
    """As transformers 5.24.0, whose table asks for peft 0.22.0: 0.21.2 was the newest on the index."""
    coming = replace(WINDOWS, windows=(Window(name="peft", requirement="peft>=0.22.0"),))
    (finding,) = _runtime(*HAS, facts.distribution("peft", "0.21.2"), windows=coming)
    assert finding.title == (
        "peft 0.21.2 is too old for transformers 5.9.0: load_adapter() and add_adapter() will raise, asking for "
        "peft>=0.22.0"
    )
    assert finding.remediation.commands == ()
    assert finding.remediation.text == (
        "install peft>=0.22.0 if it has been published (0.21.2 is the newest that this version of envdoctor knows), "
        "otherwise an older transformers, and lock it"
    )


def test_finds_ed407_by_this_tools_data_where_there_is_no_table() -> None:
    none = Companions(windows=(), windows_from="", builds=())
    (finding,) = _runtime(TRANSFORMERS, facts.distribution("accelerate", "1.0"), windows=none)
    assert finding.title.endswith("asking for accelerate>=1.1.0")


@pytest.mark.parametrize(
    "items",
    [
        (facts.distribution("accelerate", "0.1"),),
        (TRANSFORMERS, facts.distribution("accelerate", "1.3.0")),
        (TRANSFORMERS, facts.distribution("accelerate", "9.0")),
        (TRANSFORMERS, facts.distribution("accelerate", "1.13.0"), facts.distribution("peft", "0.19.0")),
    ],
    ids=["no-transformers", "just-enough", "above-the-window", "peft-too"],
)
def test_passes_ed407(items: tuple[object, ...]) -> None:
    assert _runtime(*items) == []


def _build(name: str, version: str) -> CompanionBuild:
    return CompanionBuild(name=name, version=version, path=f"{facts.SITE}/{name}/version.py")


def _companions(torch: str, *builds: CompanionBuild, cuda: str = "12.8") -> list[Finding]:
    build = replace(facts.TORCH, version=torch, distribution_version=torch, cuda=cuda)
    section = Companions(windows=(), windows_from="", builds=builds)
    return list(companion_mismatch.run(facts.case(build, section)))


@pytest.mark.parametrize(
    ("torch", "name", "version"),
    [
        ("2.6.0+cu124", "torchvision", "0.21.0+cu124"),
        ("2.8.0+cu128", "torchvision", "0.23.0"),
        ("2.11.0+cu128", "torchvision", "0.26.0+cu126"),
        ("2.13.0+cpu", "torchvision", "0.28.0+cpu"),
        ("2.14.1", "torchvision", "0.29.1"),
        ("2.15.0", "torchvision", "0.29.1"),
        ("2.8.0", "torchaudio", "2.8.0"),
        ("2.14.1+cu130", "torchaudio", "2.11.0+cu130"),
        ("2.8.0.dev20250601+cu128", "torchvision", "0.23.0.dev20250601+cu128"),
    ],
)
def test_passes_ed408_the_pairs_of_one_release(torch: str, name: str, version: str) -> None:
    assert _companions(torch, _build(name, version)) == []


@pytest.mark.parametrize(
    ("torch", "name", "version", "title", "command"),
    [
        (
            "2.11.0+cu128",
            "torchvision",
            "0.25.0",
            "torchvision 0.25.0 was built for torch 2.10; torch 2.11.0+cu128 is imported",
            f"{PREFIX} --no-deps --torch-backend cu128 'torchvision==0.26.*'",
        ),
        (
            "2.9.1",
            "torchaudio",
            "2.8.0",
            "torchaudio 2.8.0 was built for torch 2.8; torch 2.9.1 is imported",
            f"{PREFIX} --no-deps 'torchaudio==2.9.*'",
        ),
        # There is no torchaudio 2.12 or 2.13: the last series works with every later torch.
        (
            "2.13.0",
            "torchaudio",
            "2.10.0",
            "torchaudio 2.10.0 was built for torch 2.10; torch 2.13.0 is imported",
            f"{PREFIX} --no-deps 'torchaudio==2.11.*'",
        ),
        (
            "2.13.0+cpu",
            "torchaudio",
            "2.11.1+cu132",
            "torchaudio 2.11.1+cu132 was built for another CUDA major than torch 2.13.0+cpu",
            f"{PREFIX} --no-deps --torch-backend cpu --reinstall-package torchaudio 'torchaudio==2.11.*'",
        ),
        (
            "2.11.0+cu128",
            "torchvision",
            "0.26.0+cu130",
            "torchvision 0.26.0+cu130 was built for another CUDA major than torch 2.11.0+cu128",
            f"{PREFIX} --no-deps --torch-backend cu128 --reinstall-package torchvision 'torchvision==0.26.*'",
        ),
        (
            "2.11.0+cu128",
            "torchvision",
            "0.26.0+cpu",
            "torchvision 0.26.0+cpu was built for another CUDA major than torch 2.11.0+cu128",
            f"{PREFIX} --no-deps --torch-backend cu128 --reinstall-package torchvision 'torchvision==0.26.*'",
        ),
    ],
)
def test_finds_ed408_another_release_or_flavour(torch: str, name: str, version: str, title: str, command: str) -> None:
    (finding,) = _companions(torch, _build(name, version))
    assert (finding.severity, finding.title) == ("error", title)
    assert finding.remediation.commands == (command,)


def test_finds_ed408_another_flavour_from_an_index_that_has_one_of_each_release() -> None:
    build = replace(facts.TORCH, version="2.10.0+cu128", distribution_version="2.10.0")
    section = Companions(windows=(), windows_from="", builds=(_build("torchaudio", "2.11.0+cu130"),))
    (finding,) = companion_mismatch.run(facts.case(build, section))
    assert finding.title == "torchaudio 2.11.0+cu130 was built for another CUDA major than torch 2.10.0+cu128"
    assert finding.remediation.commands == (f"{PREFIX} --no-deps --reinstall-package torchaudio 'torchaudio==2.10.*'",)


def test_finds_ed408_flashinfers_companions_of_another_version() -> None:
    items = [
        facts.distribution("flashinfer-python", "0.6.13"),
        facts.distribution("flashinfer-cubin", "0.6.12"),
        facts.distribution("flashinfer-jit-cache", "0.6.13+cu129"),
    ]
    (finding,) = companion_mismatch.run(facts.case(facts.distributions(*items)))
    assert finding.title == (
        "flashinfer-cubin 0.6.12 does not match flashinfer-python 0.6.13: `import flashinfer` will raise"
    )
    assert finding.remediation.commands == (f"{PREFIX} --no-deps flashinfer-cubin==0.6.13",)
    off = facts.variables(FLASHINFER_DISABLE_VERSION_CHECK="1")
    assert list(companion_mismatch.run(facts.case(facts.distributions(*items), off))) == []


def test_ed406_asks_for_the_range_where_no_one_version_is_asked_for() -> None:
    items = [
        facts.distribution("numpy", "1.24.4"),
        facts.distribution("pandas", "3.0.2", requires=("numpy>=1.26.0",)),
        facts.distribution("scipy", "1.17", requires=("numpy<2.7,>=1.26.4",)),
    ]
    (finding,) = unmet_requirement.run(facts.case(facts.distributions(*items)))
    assert finding.remediation.commands == (
        f"uv pip install --python {facts.PREFIX}/bin/python 'numpy<2.7,>=1.26.0,>=1.26.4'",
    )
