"""LD_LIBRARY_PATH points at an older toolkit: __nvJitLinkComplete_12_4 is undefined (pytorch issue 134929)."""

from dataclasses import replace
from pathlib import Path

from tests.factories.examine_venv import commands_of, environment_after, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_library, make_linked_torch, real_error
from tests.factories.make_elf import make_shared
from tests.factories.make_venv import make_venv

NAME = "libnvJitLink.so.12"
OLD = "__nvJitLinkAddData_12_1"
NEW = "__nvJitLinkComplete_12_4"


def test_br09_the_entry_of_the_variable_is_named(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    venv = make_venv(
        tmp_path / "venv",
        make_library(
            wheels, "nvidia-nvjitlink-cu12", "12.4.127", f"nvidia/nvjitlink/lib/{NAME}",
            exports=[OLD, NEW], version=NAME,
        ),
        make_library(
            wheels, "nvidia-cusparse-cu12", "12.3.1.170", "nvidia/cusparse/lib/libcusparse.so.12",
            stubs={NAME: (f"{NEW}@{NAME}",)}, runpath="$ORIGIN/../../nvjitlink/lib:$ORIGIN",
        ),
        make_linked_torch(wheels, "2.5.1+cu124", "12.4", needs={"libcusparse.so.12": ()}),
    )  # fmt: skip
    toolkit = tmp_path / "cuda-12.1/lib64"
    make_shared(toolkit / NAME, exports=[OLD], version=NAME)
    host = host_without_cache(tmp_path / "home")
    assert verdict_of(venv.prefix, host).findings == ()

    # As it was reported, with the colon at the end.
    shadowed = replace(host, environ={**host.environ, "LD_LIBRARY_PATH": f"{toolkit}:"})
    error = f"undefined symbol: {NEW}, version {NAME}"
    raised = f"ImportError: {venv.site_packages}/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: {error}"
    assert real_error(venv, "import torch", shadowed) == raised
    verdict = verdict_of(venv.prefix, shadowed)
    assert outline(verdict, tmp_path) == [
        "error ED602 libnvJitLink.so.12 is taken from LD_LIBRARY_PATH ([TMP]/cuda-12.1/lib64/libnvJitLink.so.12) "
        "instead of this environment",
        raised.replace("ImportError: ", "  error ED305 `import torch` fails: ").replace(str(tmp_path), "[TMP]"),
    ]
    cause, symbol = verdict.findings
    assert cause.subject == str(toolkit)
    assert cause.evidence[-1] == "an empty element means the current folder"
    assert symbol.evidence == (
        "nvidia/cusparse/lib/libcusparse.so.12 asks for it (nvidia-cusparse-cu12)",
        f"{toolkit}/{NAME} lacks it: found via LD_LIBRARY_PATH, of no distribution",
        f"has it: nvidia/nvjitlink/lib/{NAME} (nvidia-nvjitlink-cu12 12.4.127)",
    )
    # Reinstalling torch would change nothing.
    assert commands_of(cause, tmp_path) == ["unset LD_LIBRARY_PATH"]
    mended = environment_after(shadowed, *cause.remediation.commands)
    assert real_error(venv, "import torch", mended) == ""
    assert verdict_of(venv.prefix, mended).findings == ()
