"""A known-good stack, as profiles/NAME.toml states it."""

from collections.abc import Mapping

from envdoctor.model.frozen import field, frozen


@frozen
class PythonWanted:
    """The interpreter: "3.12", or several that the lock fits ("3.11" to "3.14")."""

    versions: tuple[str, ...]


@frozen
class TorchWanted:
    """The torch build: `version` with its local part, as torch/version.py states it."""

    version: str
    cuda: str = ""
    """CUDA version ("12.8"); empty for a CPU build."""
    git_version: str = ""


@frozen
class LockWanted:
    """The lock file beside the profile's folder and where its torch comes from."""

    file: str
    """File name under lockfiles/."""
    torch_backend: str = ""
    """uv's `--torch-backend` value ("cu128", "cpu"), asked only for what no configured source has."""
    resolved: str = ""
    """The day the lock was resolved for (ISO date)."""
    digest: str = ""
    """Digest of the stack the lock was captured from; empty for a lock that was resolved."""


@frozen
class DriverWanted:
    """NVIDIA driver range; empty bounds are open."""

    minimum: str = ""
    below: str = ""


@frozen
class GpuWanted:
    """GPUs the launch topology needs."""

    count: int = 0
    architectures: tuple[str, ...] = ()


@frozen
class EnvironmentWanted:
    """Environment variables: what the launch sets, and what must not be set."""

    set: Mapping[str, str] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return every variable it speaks of."""
        return (*self.set, *self.forbidden)


@frozen
class CompileWanted:
    """How the training code compiles, and the cache it expects."""

    threads: int = 0
    """Threads of one process that call compiled code at the same time; 0 or 1 means no race is possible."""
    cache_minimum_entries: int = 0
    cache_bytes: tuple[int, ...] = ()
    """Expected size: (low, high); empty when nothing is expected."""
    cache_location: str = ""
    cache_key: str = ""
    """Key digest of the snapshot that belongs to this profile."""
    cache_digest: str = ""
    """Digest of the one snapshot that may be restored for this profile; empty for any of the right key."""
    warm_command: tuple[str, ...] = ()
    """What `cache warm` runs; `{python}` and `{profile}` are filled in. Empty for the trainer's own warm-up."""
    cold_minutes: float = 0.0
    """Minutes of compilation a cold start costs, from the profile's own history; 0 when unknown."""


@frozen
class ExpectedRun:
    """What a run of this stack does when all is well."""

    tokens_per_second: float = 0.0
    memory_flat_within: float = 0.0
    """Largest growth of the memory high-water after warm-up, as a fraction (0.01 is 1 %)."""


@frozen
class TrainerWanted:
    """What `python -m trainer` starts from on this stack."""

    preset: str = ""
    """Name of one of the trainer's presets; empty for its plain one. `--preset` overrides it."""


@frozen
class GitState:
    """The repository of the training code when the profile was captured."""

    commit: str = ""
    """Full hash of HEAD; empty when there was no repository."""
    changed: tuple[str, ...] = ()
    """Files that differed from that commit, relative to the profile's project root."""


@frozen
class Waiver:
    """A finding this profile accepts, with the reason."""

    code: str
    reason: str
    subject: str = ""
    """Only findings with this subject; empty for all of the code."""
    expires: str = ""
    """The last day on which it holds (2027-01-31); empty for always."""


@frozen
class Profile:
    """A known-good stack of the training code."""

    schema: int
    name: str
    summary: str
    python: PythonWanted
    torch: TorchWanted
    lock: LockWanted
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Soname -> the distribution that must provide it."""
    driver: DriverWanted = DriverWanted()
    gpu: GpuWanted = GpuWanted()
    environment: EnvironmentWanted = EnvironmentWanted()
    compile: CompileWanted = CompileWanted()
    expected: ExpectedRun = ExpectedRun()
    trainer: TrainerWanted = TrainerWanted()
    sources: Mapping[str, str] = field(default_factory=dict)
    """Source file of the training code (relative to the profile's project root) -> its sha256."""
    git: GitState = GitState()
    waivers: tuple[Waiver, ...] = ()
