"""cuDNN's engine that the wheel lacks comes from the system's cuDNN (pytorch issue 188892)."""

from dataclasses import replace
from pathlib import Path

from tests.factories.examine_venv import commands_of, environment_after, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_linked_torch, object_bytes
from tests.factories.make_elf import make_shared
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import make_wheel

ENGINE = "libcudnn_engines_tensor_ir.so.9"
SHIM = 'const char *part = "libcudnn_graph.so";'
GRAPH = f'const char *engine = "{ENGINE}";'


def test_br11_one_part_comes_from_elsewhere(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    files = {
        "nvidia/cudnn/lib/libcudnn.so.9": object_bytes("libcudnn.so.9", source=SHIM, runpath="$ORIGIN"),
        "nvidia/cudnn/lib/libcudnn_graph.so.9": object_bytes("libcudnn_graph.so.9", source=GRAPH, runpath="$ORIGIN"),
        "nvidia/cu13/lib/libnvrtc.so.13": object_bytes("libnvrtc.so.13"),
        "nvidia/cu13/lib/libnvrtc-builtins.so.13.0": object_bytes("libnvrtc-builtins.so.13.0"),
    }
    cudnn = make_wheel(wheels, "nvidia-cudnn-cu13", "9.20.0.48", files=files)
    torch = make_linked_torch(wheels, "2.13.0", "13.0", needs={"libcudnn.so.9": (), "libnvrtc.so.13": ()})
    venv = make_venv(tmp_path / "venv", torch, cudnn)
    host = host_without_cache(tmp_path / "home")
    # The wheel lacks the engine, and cuDNN does without it: that alone is not a fault.
    assert verdict_of(venv.prefix, host).findings == ()

    system = tmp_path / "system"
    make_shared(system / ENGINE)
    beside = replace(host, environ={**host.environ, "LD_LIBRARY_PATH": str(system)})
    verdict = verdict_of(venv.prefix, beside)
    assert outline(verdict, tmp_path) == [
        "error ED308 libcudnn_engines_tensor_ir.so.9 is taken from [TMP]/system, the rest of cudnn from "
        "nvidia-cudnn-cu13 9.20.0.48"
    ]
    (finding,) = verdict.findings
    assert finding.evidence == (
        f"{system}/{ENGINE} is found via LD_LIBRARY_PATH, opened by nvidia/cudnn/lib/libcudnn_graph.so.9",
        "nvidia/cudnn/lib/libcudnn.so.9 is nvidia-cudnn-cu13's, found via RPATH of libtorch_cuda.so",
    )
    # Reinstalling the wheel is the trap: the part is not in it.
    assert commands_of(finding, tmp_path) == ["unset LD_LIBRARY_PATH"]
    mended = environment_after(beside, *finding.remediation.commands)
    assert verdict_of(venv.prefix, mended).findings == ()
