"""Who does what: the role of each worker, and which target and drafter a batch belongs to."""

from dataclasses import dataclass
from typing import Literal

from trainer.errors import ConfigError
from trainer.settings.config import TrainConfig

Kind = Literal["target", "drafter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One worker's place."""

    kind: Kind
    index: int
    """Counted within its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """T targets and D drafters; batch i is made by target i % T and learnt from by drafter i % D.

    Both are fixed by the batch's number, so every worker knows without a message who is at the other end. In a
    data-parallel run T is 0: each drafter has a target of its own in its process.
    """

    targets: int
    drafters: int
    nodes: int = 1

    @property
    def world(self) -> int:
        """All workers."""
        return self.targets + self.drafters

    def target_of(self, batch: int) -> int:
        """Return the target that makes this batch's features."""
        return batch % self.targets

    def drafter_of(self, batch: int) -> int:
        """Return the drafter that learns from this batch."""
        return batch % self.drafters

    def role(self, rank: int) -> Role:
        """Return the role of a rank.

        Rank 0 is drafter 0, which leads. When both counts divide by the nodes, every node gets its share of
        both, so that most features stay inside a node.
        """
        nodes = self.nodes if self.targets % self.nodes == 0 and self.drafters % self.nodes == 0 else 1
        node, place = divmod(rank, self.world // nodes)
        drafters, targets = self.drafters // nodes, self.targets // nodes
        if place < drafters:
            return Role(kind="drafter", index=node * drafters + place)
        return Role(kind="target", index=node * targets + place - drafters)

    def rank(self, role: Role) -> int:
        """Return the rank that has this role."""
        return next(rank for rank in range(self.world) if self.role(rank) == role)


def topology(config: TrainConfig, world: int | None = None, nodes: int = 1) -> Topology:
    """Return the topology; raises ConfigError when the launcher started another number of processes."""
    asked, together = config.topology, config.runtime == "data-parallel"
    made = Topology(targets=0 if together else asked.targets, drafters=asked.drafters, nodes=nodes)
    if world is not None and world != made.world:
        workers = (
            f"{asked.drafters} data-parallel drafters"
            if together
            else (f"{asked.targets} targets + {asked.drafters} drafters")
        )
        raise ConfigError(
            f"topology: {workers} are {made.world} workers, and {world} processes were started",
            "start as many processes as workers, or change --targets and --drafters",
        )
    return made
