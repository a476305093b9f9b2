"""The catalogue of CUDA libraries: invariants over every entry, the wheels' own RECORDs, and NVIDIA's own catalogue."""

import re

import pytest
from cuda.pathfinder._dynamic_libs.descriptor_catalog import DESCRIPTOR_CATALOG

from envdoctor.catalog.cudalibs import (
    LIBRARIES,
    MAJORS,
    Build,
    CudaLibrary,
    expected_owner,
    library_of,
    majors_of,
    owner_major,
)

BUILDS = [(library, build) for library in LIBRARIES for build in library.builds]
PATHFINDER = {entry.name: entry for entry in DESCRIPTOR_CATALOG}
# What the RECORDs of the wheels list (shared objects whose names start with "lib").
RECORDS = {
    "nvidia-cublas-cu12": "nvidia/cublas/lib: libcublas.so.12 libcublasLt.so.12 libnvblas.so.12",
    "nvidia-cuda-cupti-cu12": "nvidia/cuda_cupti/lib: libcupti.so.12",
    "nvidia-cuda-nvrtc-cu12": "nvidia/cuda_nvrtc/lib: libnvrtc-builtins.so.12.8 libnvrtc.so.12",
    "nvidia-cuda-runtime-cu12": "nvidia/cuda_runtime/lib: libcudart.so.12",
    "nvidia-cudnn-cu12": "nvidia/cudnn/lib: libcudnn.so.9 libcudnn_adv.so.9 libcudnn_cnn.so.9 "
    "libcudnn_engines_precompiled.so.9 libcudnn_engines_runtime_compiled.so.9 libcudnn_graph.so.9 "
    "libcudnn_heuristic.so.9 libcudnn_ops.so.9",
    "nvidia-cufft-cu12": "nvidia/cufft/lib: libcufft.so.11 libcufftw.so.11",
    "nvidia-cufile-cu12": "nvidia/cufile/lib: libcufile.so.0 libcufile_rdma.so.1",
    "nvidia-curand-cu12": "nvidia/curand/lib: libcurand.so.10",
    "nvidia-cusolver-cu12": "nvidia/cusolver/lib: libcusolver.so.11 libcusolverMg.so.11",
    "nvidia-cusparse-cu12": "nvidia/cusparse/lib: libcusparse.so.12",
    "nvidia-cusparselt-cu12": "nvidia/cusparselt/lib: libcusparseLt.so.0",
    "nvidia-nccl-cu12": "nvidia/nccl/lib: libnccl.so.2",
    "nvidia-nvjitlink-cu12": "nvidia/nvjitlink/lib: libnvJitLink.so.12",
    "nvidia-nvshmem-cu12": "nvidia/nvshmem/lib: libnvshmem_host.so.3",
    "nvidia-nvtx-cu12": "nvidia/nvtx/lib: libnvToolsExt.so.1",
    "nvidia-cublas": "nvidia/cu13/lib: libcublas.so.13 libcublasLt.so.13 libnvblas.so.13",
    "nvidia-cuda-cupti": "nvidia/cu13/lib: libcupti.so.13",
    "nvidia-cuda-nvrtc": "nvidia/cu13/lib: libnvrtc-builtins.so.13.0 libnvrtc.so.13",
    "nvidia-cuda-runtime": "nvidia/cu13/lib: libcudart.so.13",
    "nvidia-cudnn-cu13": "nvidia/cudnn/lib: libcudnn.so.9 libcudnn_adv.so.9 libcudnn_cnn.so.9 "
    "libcudnn_engines_precompiled.so.9 libcudnn_engines_runtime_compiled.so.9 libcudnn_graph.so.9 "
    "libcudnn_heuristic.so.9 libcudnn_ops.so.9",
    "nvidia-cufft": "nvidia/cu13/lib: libcufft.so.12 libcufftw.so.12",
    "nvidia-cufile": "nvidia/cu13/lib: libcufile.so.0 libcufile_rdma.so.1",
    "nvidia-curand": "nvidia/cu13/lib: libcurand.so.10",
    "nvidia-cusolver": "nvidia/cu13/lib: libcusolver.so.12 libcusolverMg.so.12",
    "nvidia-cusparse": "nvidia/cu13/lib: libcusparse.so.12",
    "nvidia-cusparselt-cu13": "nvidia/cusparselt/lib: libcusparseLt.so.0",
    "nvidia-nccl-cu13": "nvidia/nccl/lib: libnccl.so.2",
    "nvidia-nvjitlink": "nvidia/cu13/lib: libnvJitLink.so.13",
    "nvidia-nvshmem-cu13": "nvidia/nvshmem/lib: libnvshmem_host.so.3",
    "nvidia-nvtx": "nvidia/cu13/lib: libnvtx3interop.so.1",
}


def test_names_and_majors_are_unique() -> None:
    assert len({library.name for library in LIBRARIES}) == len(LIBRARIES)
    for library in LIBRARIES:
        majors = [build.major for build in library.builds]
        assert majors == sorted(set(majors)), library.name


@pytest.mark.parametrize(("library", "build"), BUILDS, ids=lambda item: getattr(item, "name", None) or item.major)
def test_every_build_is_well_formed(library: CudaLibrary, build: Build) -> None:
    assert build.major in MAJORS
    assert all(re.fullmatch(r"lib[\w-]+\.so(\.\d+)*", soname) for soname in build.sonames)
    assert len(set(build.sonames)) == len(build.sonames) > 0
    assert re.fullmatch(r"nvidia(/\w+)+/lib(64)?", build.folder)
    assert build.owner == build.owner.lower().replace("_", "-")
    assert owner_major(build.owner, "99.9") == build.major
    assert all(library_of(soname) is library for soname in build.sonames)
    assert all(build.major in majors_of(soname) for soname in build.sonames)
    assert all(expected_owner(soname, build.major) == build.owner for soname in build.sonames)


def test_a_family_names_a_library_of_the_same_owners() -> None:
    by_name = {library.name: library for library in LIBRARIES}
    for library in LIBRARIES:
        if library.family:
            parent = by_name[library.family]
            owners = {build.owner for build in library.builds}
            assert owners <= {build.owner for build in parent.builds}, library.name
            assert not parent.family, library.name


@pytest.mark.parametrize("owner", RECORDS)
def test_the_table_is_what_the_wheels_hold(owner: str) -> None:
    folder, _, names = RECORDS[owner].partition(": ")
    for soname in names.split():
        library = library_of(soname)
        assert library is not None, soname
        build = next(build for build in library.builds if build.owner == owner)
        assert (build.folder, soname in build.sonames) == (folder, True)


def test_the_libraries_of_which_one_major_deletes_the_other() -> None:
    owners: dict[str, set[str]] = {}
    for library in LIBRARIES:
        for build in library.builds:
            for soname in build.sonames:
                owners.setdefault(f"{build.folder}/{soname}", set()).add(build.owner)
    assert owners["nvidia/nccl/lib/libnccl.so.2"] == {"nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13"}
    by_major = {path: {owner[-4:] for owner in found} for path, found in owners.items()}
    between_12_and_13 = {path.split("/")[1] for path, found in by_major.items() if found >= {"cu12", "cu13"}}
    assert between_12_and_13 == {"cudnn", "cusparselt", "nccl", "nvshmem"}
    between_11_and_12 = {path.split("/")[1] for path, found in by_major.items() if found >= {"cu11", "cu12"}}
    assert between_11_and_12 >= {"curand", "cusolver", "nvtx"}


@pytest.mark.parametrize(
    ("name", "version", "major"),
    [
        ("nvidia-cublas-cu12", "12.8.4.1", "12"),
        ("nvidia_cudnn_cu13", "9.19.0.56", "13"),
        ("nvidia-nccl-cu11", "2.21.5", "11"),
        ("nvidia-cublas", "13.1.0.3", "13"),
        ("nvidia-cufft", "12.0.0.61", "13"),
        ("nvidia-curand", "10.4.0.35", "13"),
        ("nvidia-cufile", "1.15.1.6", "13"),
        ("nvidia-cublas", "0.0.1.dev5", None),
        ("cuda-toolkit", "12.8.1", "12"),
        ("cuda-bindings", "13.0.3", "13"),
        ("cuda-python", "13.2.0", "13"),
        ("cuda-pathfinder", "1.9.1", None),
        ("cupy-cuda12x", "13.6.0", "12"),
        ("jax-cuda12-plugin", "0.8.0", "12"),
        ("nvidia-dali-cuda120", "1.50.0", "12"),
        ("nvidia-cutlass-dsl-libs-cu13", "4.8.1", "13"),
        ("nvidia-ml-py", "13.615.71", None),
        ("cuttlefish-cu1", "1.0", None),
        ("torch", "2.11.0+cu128", None),
    ],
)
def test_owner_major(name: str, version: str, major: str | None) -> None:
    assert owner_major(name, version) == major


@pytest.mark.parametrize(
    ("soname", "major", "owner"),
    [
        ("libcudnn.so.9", "12", "nvidia-cudnn-cu12"),
        ("libcudnn.so.9", "13", "nvidia-cudnn-cu13"),
        ("libcudnn_graph.so.9", "12", "nvidia-cudnn-cu12"),
        ("libcudnn_some_future_part.so.9", "13", "nvidia-cudnn-cu13"),
        ("libcusparse.so.12", "12", "nvidia-cusparse-cu12"),
        ("libcusparse.so.12", "13", "nvidia-cusparse"),
        ("libcudart.so.13", "13", "nvidia-cuda-runtime"),
        ("libcudart.so.13", "12", "nvidia-cuda-runtime"),
        ("libcudart.so.12", "13", "nvidia-cuda-runtime-cu12"),
        ("libnvshmem_host.so.3", "12", "nvidia-nvshmem-cu12"),
        ("libnvrtc-builtins.so.13.9", "13", "nvidia-cuda-nvrtc"),
        ("libc10.so", "12", None),
        ("libcuda.so.1", "12", None),
        ("libcufile.so.0", "11", "nvidia-cufile"),
    ],
)
def test_expected_owner(soname: str, major: str, owner: str | None) -> None:
    assert expected_owner(soname, major) == owner


@pytest.mark.parametrize(
    "library", [library for library in LIBRARIES if library.name in PATHFINDER], ids=lambda library: library.name
)
def test_the_table_agrees_with_cuda_pathfinder(library: CudaLibrary) -> None:
    theirs = PATHFINDER[library.name]
    ours = {soname for build in library.builds if build.major != "11" for soname in build.sonames}
    # They list one version of cuDNN, and no CUDA 11.
    assert set(theirs.linux_sonames) == ours - {"libcudnn.so.8"}
    folders = {build.folder for build in library.builds}
    # They allow for a CUDA 13 cuSPARSELt in the common folder; no wheel so far has put it there.
    assert set(theirs.site_packages_linux) - folders <= ({"nvidia/cu13/lib"} if library.name == "cusparseLt" else set())
    assert folders <= set(theirs.site_packages_linux)


def test_every_toolkit_library_of_cuda_pathfinder_is_here() -> None:
    ours = {library.name for library in LIBRARIES}
    toolkit = {entry.name for entry in DESCRIPTOR_CATALOG if entry.packaged_with == "ctk" and entry.linux_sonames}
    # cuDLA is for Tegra boards; there is no x86-64 wheel of it.
    assert toolkit - ours == {"cudla"}
