"""All probes, by the section they return."""

from collections.abc import Mapping

from envdoctor.probes import (
    companions,
    compile_caches,
    compiled_objects,
    conda,
    contents,
    deep_files,
    distributions,
    environment,
    extension_modules,
    gpu,
    gpu_code,
    installed_files,
    interpreter,
    launchers,
    libraries,
    library_path,
    platform,
    search_path,
    shadowing,
    sources,
    startup_hooks,
    symbols,
    toolchain,
    torch_build,
)
from envdoctor.probes.context import Options, Probe

PROBES: dict[type, Probe] = {
    interpreter.Interpreter: interpreter.probe,
    launchers.Launchers: launchers.probe,
    conda.Conda: conda.probe,
    search_path.SearchPath: search_path.probe,
    distributions.Distributions: distributions.probe,
    shadowing.Shadowing: shadowing.probe,
    companions.Companions: companions.probe,
    torch_build.TorchBuild: torch_build.probe,
    gpu_code.GpuCode: gpu_code.probe,
    installed_files.InstalledFiles: installed_files.probe,
    extension_modules.ExtensionModules: extension_modules.probe,
    libraries.Libraries: libraries.probe,
    symbols.Symbols: symbols.probe,
    startup_hooks.StartupHooks: startup_hooks.probe,
    environment.Environment: environment.probe,
    library_path.LibraryPath: library_path.probe,
    compile_caches.CompileCaches: compile_caches.probe,
    compiled_objects.CompiledObjects: compiled_objects.probe,
    platform.Platform: platform.probe,
    gpu.Gpu: gpu.probe,
    toolchain.Toolchain: toolchain.probe,
    sources.Sources: sources.probe,
}
"""In the order a fingerprint shows them."""
ON_REQUEST: dict[type, Probe] = {contents.Contents: contents.probe, deep_files.DeepFiles: deep_files.probe}
"""Only read when the options ask for them."""


def chosen(options: Options) -> Mapping[type, Probe]:
    """Return the probes that a reading with those options runs."""
    asked = {contents.Contents: options.contents, deep_files.DeepFiles: options.deep}
    return PROBES | {kind: probe for kind, probe in ON_REQUEST.items() if asked[kind]}
