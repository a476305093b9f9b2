"""What a repair is asked for, and what its plan hands to those who carry it out (repair_copy) and show it."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.facts.host import Host
from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen
from envdoctor.model.profile import Profile
from envdoctor.stack.bundles import LongerBundle
from envdoctor.stack.hidden_errors import Hidden
from envdoctor.stack.record_audit import Proven
from envdoctor.stack.repair_plan import RepairPlan
from envdoctor.stack.verify import Verified
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import BackupStore
from envdoctor.swap.verdicts import KeptVerdict
from envdoctor.wheels.index_config import IndexConfig


@frozen
class RepairRequest:
    """What is to be repaired, towards what."""

    target: Path
    file: ProfileRef | None = None
    lock: Lock | None = None
    offline: bool = False

    @property
    def profile(self) -> Profile | None:
        """Return the profile that was named."""
        return self.file.profile if self.file else None

    @property
    def profile_asked(self) -> str:
        """Return what follows `--profile` in a command to paste: the profile as it was named, quoted; else P."""
        return shlex.quote(self.file.asked) if self.file else "P"


@frozen
class PreparedRepair:
    """A plan and what is needed to carry it out."""

    request: RepairRequest
    host: Host
    store: BackupStore
    plan: RepairPlan
    pins: Mapping[str, LockedPackage]
    expected: Mapping[str, str]
    """Name -> version of every distribution afterwards."""
    sources: IndexConfig
    proven: Proven
    """Files that were as recorded: their links in the copy need no second reading."""
    torn: Mapping[str, tuple[str, ...]]
    """Distributions whose own metadata is damaged, and its folders, relative to the venv."""
    misnamed: tuple[str, ...]
    """Metadata folders of what is changed, relative to the venv, that no uninstall takes away: their RECORD lists
    another one."""
    bundles: tuple[LongerBundle, ...]
    """Bundles of certificates whose added ones are carried over."""
    in_the_way: tuple[str, ...]
    """Files, links and folders, relative to the venv, where others of what is uninstalled should be."""
    before: tuple[Finding, ...]
    """Errors that the checks find in the venv as it is."""
    hidden: Hidden
    """What fails or is not known as it is: errors that are behind it are not the repair's."""
    shown: ShownVenv
    """The venv that the plan was made of."""
    verified: Verified
    """The venv as it is."""
    verdict: KeptVerdict
    """What the checks find in it without a profile, for the record of the backup."""
