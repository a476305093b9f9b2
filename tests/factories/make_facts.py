"""Fingerprints by hand: every section healthy by default, wrong in exactly the way a test asks for."""

from dataclasses import replace

from envdoctor.analysis.context import CheckContext
from envdoctor.catalog.variables import collected
from envdoctor.model.fingerprint import Fingerprint, Unread
from envdoctor.model.profile import LockWanted, Profile, PythonWanted, TorchWanted
from envdoctor.probes.caches.compile_caches import CompileCache, CompileCaches
from envdoctor.probes.caches.compiled_objects import CompiledObjects
from envdoctor.probes.loading.extension_modules import ExtensionModules
from envdoctor.probes.loading.gpu_code import GpuCode
from envdoctor.probes.loading.libraries import Libraries, Provider, Unresolved
from envdoctor.probes.loading.load_faults import LoadFault, SymbolHolder
from envdoctor.probes.loading.symbols import NOTHING, CudaUser, Reached, Symbols
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment, Variable
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.library_path import LibraryPath
from envdoctor.probes.machine.named_paths import NamedPaths
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.machine.toolchain import Toolchain
from envdoctor.probes.venv.companions import Companions
from envdoctor.probes.venv.conda import Conda
from envdoctor.probes.venv.contested_paths import Claim, Contested
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.editables import Editables
from envdoctor.probes.venv.generated_code import GeneratedCode
from envdoctor.probes.venv.installed_files import FileFault, InstalledFiles, Owner
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.launchers import Launchers
from envdoctor.probes.venv.package_imports import PackageImports
from envdoctor.probes.venv.search_path import PathEntry, SearchPath
from envdoctor.probes.venv.shadowing import Shadowing
from envdoctor.probes.venv.startup_hooks import StartupHooks
from envdoctor.probes.venv.system_packages import SystemPackages
from envdoctor.probes.venv.training_sources import Sources
from envdoctor.standards.lock import Lock, parse

PREFIX = "/srv/venv"
SITE = f"{PREFIX}/lib/python3.12/site-packages"
DIGEST = "0" * 64

PYTHON = Interpreter(
    executable=f"{PREFIX}/bin/python",
    resolved="/usr/bin/python3.12",
    is_venv=True,
    version="3.12.1",
    version_from="pyvenv.cfg",
    base_version="3.12.1",
    home="/usr/bin",
    home_exists=True,
    system_site_packages=False,
    relocatable=False,
    created_by="uv 0.13.9",
    library=f"{PREFIX}/lib/python3.12",
    machine="x86_64",
)
TORCH = TorchBuild(
    present=True,
    folder=f"{SITE}/torch",
    origin="site-packages",
    version="2.10.0+cu128",
    cuda="12.8",
    hip="",
    git_version="449b1768410104d3ed79d3bcfe4ba1d65c7f22c0",
    distribution_version="2.10.0",
    fx_flag="process-global",
    fx_evidence=f"{SITE}/torch/fx/_symbolic_trace.py:41",
)
GPU = Gpu(
    state="absent",
    reason="no NVIDIA kernel module, device file or driver library",
    module_version="",
    library_version="",
    libcuda="",
    libcuda_version="",
    cuda_version="",
    nvml_code=0,
    devices=(),
)
FILES = InstalledFiles(owners=(), faults=(), contested=(), shared_equal=0, outside=(), malformed=())
LIBRARY_PATH = LibraryPath(
    folders=(), preloads=(), cuda_home="", cuda_home_from="", cuda_home_version="", current_folder_libraries=()
)
LIBRARIES = Libraries(simulated=True, reason="", import_error="", providers=(), unresolved=(), notes=())
SYMBOLS = replace(NOTHING, looked=True, torch_abi="cxx11")


def distribution(name: str, version: str = "1.0", **changes: object) -> Distribution:
    """Return an installed distribution."""
    made = Distribution(
        name=name,
        version=version,
        site=SITE,
        origin="site-packages",
        folder=f"{name.replace('-', '_')}-{version}.dist-info",
        has_metadata=True,
        has_record=True,
        installer="uv",
        requires=(),
        requires_python="",
        direct_url="",
        editable=False,
        tags=("py3-none-any",),
    )
    return replace(made, **changes)


def distributions(*items: Distribution) -> Distributions:
    """Return the section."""
    return Distributions(items=items, leftovers=(), unreadable=())


def owner(name: str, version: str = "1.0", *, files: int = 10, missing: int = 0, resized: int = 0) -> Owner:
    """Return how one RECORD fared."""
    return Owner(
        name=name, version=version, files=files, bytes=1000, missing=missing, resized=resized, record_sha256=DIGEST
    )


def missing(name: str, path: str, size: int = 100) -> FileFault:
    """Return the fault of a file that is gone; `path` is below site-packages."""
    return FileFault(
        path=f"lib/python3.12/site-packages/{path}", owner=name, kind="missing", recorded_size=size, size=-1
    )


def resized(name: str, path: str, size: int = 100, actual: int = 90) -> FileFault:
    """Return the fault of a file of another size; `path` is below site-packages."""
    return replace(missing(name, path, size), kind="resized", size=actual)


def contested(
    path: str,
    *claims: tuple[str, str],
    on_disk: tuple[str, ...] = (),
    told_by: str = "size",
    sizes: tuple[int, ...] = (),
) -> Contested:
    """Return a contested path; `path` is below site-packages, claims are (owner, version)."""
    sizes = sizes or tuple(100 + at for at in range(len(claims)))
    return Contested(
        path=f"lib/python3.12/site-packages/{path}",
        claims=tuple(
            Claim(owner=name, version=version, hash=f"sha256={name}", size=size)
            for (name, version), size in zip(claims, sizes, strict=True)
        ),
        on_disk=on_disk,
        told_by=told_by,  # type: ignore[arg-type]
    )


def provider(soname: str, owner_name: str, major: str = "", **changes: object) -> Provider:
    """Return a library found through torch's RPATH."""
    made = Provider(
        soname=soname,
        path=f"lib/python3.12/site-packages/nvidia/x/lib/{soname}",
        found_via="RPATH of libtorch_cuda.so",
        needed_by="libtorch_cuda.so",
        stage="import",
        owner=owner_name,
        owner_version="1.0" if owner_name else "",
        cuda_major=major,
    )
    return replace(made, **changes)


def unresolved(soname: str, **changes: object) -> Unresolved:
    """Return a library nothing provides."""
    made = Unresolved(
        soname=soname,
        problem=f"{soname}: cannot open shared object file: No such file or directory",
        needed_by="libtorch_cuda.so",
        stage="import",
        used_when="",
        searched=("/a", "/b"),
    )
    return replace(made, **changes)


def load_fault(name: str, **changes: object) -> LoadFault:
    """Return a symbol that flash-attn's module asks for and nothing in scope has."""
    made = LoadFault(
        path="lib/python3.12/site-packages/flash_attn_2_cuda.so",
        owner="flash-attn",
        owner_version="2.7.4",
        module=True,
        first=False,
        kind="undefined symbol",
        message=f"{SITE}/flash_attn_2_cuda.so: undefined symbol: {name}",
        name=name,
        declaration=name,
        version="",
        requester="",
        requester_owner="flash-attn",
        provider="",
        provider_owner="",
        provider_version="",
        provider_via="",
        provider_offers="",
        has_it=(),
        preloader="",
    )
    return replace(made, **changes)


def holder(path: str, owner_name: str, version: str = "1.0") -> SymbolHolder:
    """Return a file that has what is missing; `path` is below site-packages."""
    return SymbolHolder(path=f"lib/python3.12/site-packages/{path}", owner=owner_name, owner_version=version)


def cuda_user(owner_name: str, major: str, **changes: object) -> CudaUser:
    """Return an extension module that is linked against torch and that CUDA major."""
    made = CudaUser(
        path=f"lib/python3.12/site-packages/{owner_name}/_C.abi3.so",
        owner=owner_name,
        owner_version="1.0",
        major=major,
        needed=(f"libcudart.so.{major}",),
        links_torch=True,
        module=True,
    )
    return replace(made, **changes)


def reached(soname: str, owner_name: str) -> Reached:
    """Return a library that is found through LD_LIBRARY_PATH alone."""
    site = "lib/python3.12/site-packages"
    return Reached(
        path=f"{site}/{owner_name}/_cpp.so",
        owner=owner_name,
        owner_version="1.0",
        soname=soname,
        file=f"{site}/nvidia/cu13/lib/{soname}",
    )


def symbols(*faults: LoadFault, **changes: object) -> Symbols:
    """Return the section with those failed loads."""
    return replace(SYMBOLS, faults=faults, **changes)


def cache_folder(kind: str, entries: int = 0, size: int = 0) -> CompileCache:
    """Return a cache folder."""
    return CompileCache(
        kind=kind,
        path=f"/tmp/{kind}",
        found_via="default",
        present=entries > 0,
        entries=entries,
        bytes=size,
        counted_all=True,
        oldest=0,
        newest=0,
        filesystem="ext4",
        writable=True,
        owner_uid=0,
        graphs=min(entries, 1),
        kernels=max(entries - 1, 0),
    )


def variables(*looked_for: str, **values: str) -> Environment:
    """Return the section; `looked_for`: variables of a profile that are not set."""
    return Environment(
        variables=tuple(Variable(name=name, value=value) for name, value in sorted(values.items())),
        asked=tuple(sorted(name for name in (*values, *looked_for) if not collected(name))),
    )


HEALTHY: tuple[object, ...] = (
    PYTHON,
    SearchPath(entries=(PathEntry(path=SITE, origin="site-packages"),)),
    distributions(distribution("torch", "2.10.0")),
    TORCH,
    FILES,
    LIBRARIES,
    SYMBOLS,
    StartupHooks(hooks=()),
    Environment(variables=()),
    CompileCaches(caches=()),
    GPU,
    Toolchain(cxx="/usr/bin/g++", cc="/usr/bin/gcc", python_header="/usr/include/python3.12/Python.h"),
    Sources(root="", files=()),
    Launchers(on_path=False, commands=(), scripts=0, stray=()),
    Conda(packages=(), base="", active=""),
    SystemPackages(on_path=False, files=0, damaged=()),
    Editables(items=()),
    GeneratedCode(groups=(), same_major=False),
    PackageImports(modules=(), names=()),
    Shadowing(shadows=()),
    Companions(windows=(), windows_from="", builds=()),
    GpuCode(architectures=("sm_80", "sm_90"), told_from=f"{SITE}/torch/lib/libtorch_python.so"),
    ExtensionModules(tagged=0, foreign=()),
    LIBRARY_PATH,
    NamedPaths(wrong=()),
    CompiledObjects(objects=(), unreadable=(), read_all=True),
    Platform(kernel="6.1.0", container="", wsl=False),
)


def fingerprint(*sections: object, unread: tuple[Unread, ...] = ()) -> Fingerprint:
    """Return a healthy fingerprint with these sections in place of the healthy ones; unread ones are left out."""
    given = {type(section): section for section in sections}
    gone = {gap.section for gap in unread}
    # A section that is only there on request is not part of a healthy fingerprint.
    kept = [*({type(section): section for section in HEALTHY} | given).values()]
    return Fingerprint(
        target=PREFIX,
        taken_at="2026-11-29T00:00:00Z",
        tool_version="0.1.0",
        sections=tuple(section for section in kept if type(section).__name__ not in gone),
        unread=unread,
    )


PROFILE = Profile(
    schema=1,
    name="good",
    summary="",
    python=PythonWanted(versions=("3.12",)),
    torch=TorchWanted(version="2.10.0+cu128", cuda="12.8"),
    lock=LockWanted(file="good.txt"),
)


def lock(*pins: str) -> Lock:
    """Return a lock of "name==version" pins."""
    return parse("".join(f"{pin} --hash=sha256:{DIGEST}\n" for pin in pins), "good.txt")


def case(*sections: object, profile: Profile | None = None, pins: tuple[str, ...] | None = None) -> CheckContext:
    """Return a case: healthy but for these sections."""
    return CheckContext(facts=fingerprint(*sections), profile=profile, lock=None if pins is None else lock(*pins))
