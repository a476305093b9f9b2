"""All probes, by the section they return."""

from collections.abc import Mapping

from envdoctor.probes import (
    compile_caches,
    deep_files,
    distributions,
    environment,
    gpu,
    installed_files,
    interpreter,
    libraries,
    search_path,
    sources,
    startup_hooks,
    toolchain,
    torch_build,
)
from envdoctor.probes.context import Options, Probe

PROBES: dict[type, Probe] = {
    interpreter.Interpreter: interpreter.probe,
    search_path.SearchPath: search_path.probe,
    distributions.Distributions: distributions.probe,
    torch_build.TorchBuild: torch_build.probe,
    installed_files.InstalledFiles: installed_files.probe,
    libraries.Libraries: libraries.probe,
    startup_hooks.StartupHooks: startup_hooks.probe,
    environment.Environment: environment.probe,
    compile_caches.CompileCaches: compile_caches.probe,
    gpu.Gpu: gpu.probe,
    toolchain.Toolchain: toolchain.probe,
    sources.Sources: sources.probe,
}
"""In the order a fingerprint shows them."""
ON_REQUEST: dict[type, Probe] = {deep_files.DeepFiles: deep_files.probe}
"""Only read when the options ask for them."""


def chosen(options: Options) -> Mapping[type, Probe]:
    """Return the probes that a reading with those options runs."""
    return PROBES | ON_REQUEST if options.deep else PROBES
