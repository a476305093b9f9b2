"""All probes, by the section they return."""

from collections.abc import Mapping

from envdoctor.facts.context import Options, Probe
from envdoctor.probes.caches import compile_caches, compiled_objects
from envdoctor.probes.loading import extension_modules, gpu_code, libraries, nccl, symbols, torch_build
from envdoctor.probes.machine import environment, gpu, library_path, named_paths, platform, toolchain
from envdoctor.probes.venv import (
    companions,
    conda,
    deep_files,
    distribution_digests,
    distributions,
    editables,
    generated_code,
    installed_files,
    interpreter,
    launchers,
    package_imports,
    search_path,
    shadowing,
    startup_hooks,
    system_packages,
    training_sources,
)

PROBES: dict[type, Probe] = {
    interpreter.Interpreter: interpreter.probe,
    launchers.Launchers: launchers.probe,
    conda.Conda: conda.probe,
    search_path.SearchPath: search_path.probe,
    distributions.Distributions: distributions.probe,
    editables.Editables: editables.probe,
    generated_code.GeneratedCode: generated_code.probe,
    package_imports.PackageImports: package_imports.probe,
    shadowing.Shadowing: shadowing.probe,
    companions.Companions: companions.probe,
    torch_build.TorchBuild: torch_build.probe,
    gpu_code.GpuCode: gpu_code.probe,
    installed_files.InstalledFiles: installed_files.probe,
    system_packages.SystemPackages: system_packages.probe,
    extension_modules.ExtensionModules: extension_modules.probe,
    libraries.Libraries: libraries.probe,
    symbols.Symbols: symbols.probe,
    startup_hooks.StartupHooks: startup_hooks.probe,
    environment.Environment: environment.probe,
    library_path.LibraryPath: library_path.probe,
    named_paths.NamedPaths: named_paths.probe,
    compile_caches.CompileCaches: compile_caches.probe,
    compiled_objects.CompiledObjects: compiled_objects.probe,
    platform.Platform: platform.probe,
    gpu.Gpu: gpu.probe,
    toolchain.Toolchain: toolchain.probe,
    training_sources.Sources: training_sources.probe,
}
"""In the order a fingerprint shows them."""
ON_REQUEST: dict[type, Probe] = {
    distribution_digests.Contents: distribution_digests.probe,
    nccl.Nccl: nccl.probe,
    deep_files.DeepFiles: deep_files.probe,
}
"""Only read when the options ask for them."""


def chosen(options: Options) -> Mapping[type, Probe]:
    """Return the probes that a reading with those options runs."""
    asked = {
        distribution_digests.Contents: options.contents,
        nccl.Nccl: options.contents,
        deep_files.DeepFiles: options.deep,
    }
    return PROBES | {kind: probe for kind, probe in ON_REQUEST.items() if asked[kind]}
