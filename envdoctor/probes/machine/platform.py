"""What kind of machine this is: bare, a container, WSL."""

import os
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen

# How each engine is told to hand GPUs in: Docker's and Podman's manuals (CDI names), Kubernetes' device plugin,
# Apptainer's `--nv`, LXC's `nvidia.runtime`.
_GPU_OPTIONS = {
    "docker": "GPUs need `--gpus all`",
    "podman": "GPUs need `--device nvidia.com/gpu=all`",
    "kubernetes": "GPUs need `nvidia.com/gpu` in resources.limits",
    "singularity": "GPUs need `--nv`",
    "lxc": "GPUs need nvidia.runtime=true",
}


@frozen
class Platform:
    """The kernel and what stands between it and this process."""

    kernel: str
    """As /proc/sys/kernel/osrelease says it; empty when unreadable."""
    container: str
    """docker, podman, kubernetes, singularity, lxc or "container"; empty outside of one."""
    wsl: bool
    """Windows Subsystem for Linux: the driver lives in Windows, libcuda in /usr/lib/wsl/lib."""

    musl: bool = False
    """The C library is musl, as on Alpine: wheels for glibc (manylinux) cannot be loaded."""
    debian: bool = False
    """Debian or one of its children: apt-get is the package manager."""
    glibc: str = ""
    """The version of the C library ("2.36"); empty where it is another one, or not known."""

    @property
    def container_name(self) -> str:
        """Return "docker container"; only for a container."""
        return self.container if self.container == "container" else f"{self.container} container"

    @property
    def gpu_option(self) -> str:
        """Return how this kind of container is started with GPUs, as a clause."""
        return _GPU_OPTIONS.get(self.container, "start it with its engine's GPU option")


def probe(reading: Reading) -> Platform:
    """Look at the marker files and variables that container engines document."""
    kernel = _text(reading.host, "sys/kernel/osrelease")
    return Platform(
        kernel=kernel,
        container=_container(reading.host),
        wsl="microsoft" in kernel.lower(),
        # A glibc system with musl beside it has glibc's loader cache, and Alpine has none.
        musl=(reading.host.root / f"lib/ld-musl-{reading.host.machine}.so.1").exists()
        and not reading.host.ld_so_cache.exists(),
        debian=(reading.host.root / "etc/debian_version").is_file(),
        glibc=_glibc(reading.host),
    )


def _glibc(host: Host) -> str:
    """Return the version of the one that this process runs on, where that is the machine that is looked at."""
    try:
        library, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return ""  # musl has no such name
    return version if library == "glibc" and host.root == Path("/") else ""


def _container(host: Host) -> str:
    environ = host.environ
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"):
        return "singularity"
    if (host.root / ".dockerenv").exists():
        return "docker"
    if (host.root / "run/.containerenv").exists():
        return "podman"
    # systemd-nspawn and lxc set `container` for their first process; it reaches ours only inside.
    return environ.get("container", "") and ("lxc" if environ["container"] == "lxc" else "container")


def _text(host: Host, name: str) -> str:
    try:
        return (host.proc / name).read_text(errors="replace").strip()
    except OSError:
        return ""
