"""A target and a drafter on every device, one process each: only the gradient sums go between them.

The layout of choice where both models fit on one device: no device waits for features, and what all drafters exchange a
step is one fp32 gradient. On CUDA the sums are made while the next batch's features are.

A target that is too large for one device is held by `target.tensor_parallel` of them together, each with a drafter of
its own: they run the batches of all of them one after the other, each its share of the layers, and each keeps the
features of its own batch. So every device is busy, and the work is the same.
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from trainer.assemble import Parts
from trainer.compile.state import prepare_thread
from trainer.runtime.inline import learn
from trainer.runtime.loop import Outcome
from trainer.runtime.meetings import PATIENCE, between_workers, meet, part, require_kept_elsewhere
from trainer.runtime.processes import GroupExchange, World, join
from trainer.runtime.session import Session
from trainer.target.model import Target
from trainer.target.tensor_parallel import TensorGroup, members


def run(parts: Parts, session: Session) -> Outcome | None:
    """Be this process's worker; the lead returns the outcome, the others None."""
    prepare_thread()
    with between_workers():
        world = join(parts)
        group = holders(world, parts.config.target.tensor_parallel)
        mine = [number for number in session.numbers() if world.shape.drafter_of(number) == world.role.index]
        devices = world.shape.world if world.device.type == "cuda" else 1
        exchange = GroupExchange(world.drafters)
        held = session.load_target(world.device, group)
        meet()
        outcome, masters, target = learn(parts, session, held, mine, exchange, devices, meet)
        failed = part(session.unkept)
        if group is not None and not any(failed):
            _judge_together(session, outcome, masters, target, group)
    dist.destroy_process_group()
    session.require_kept()
    require_kept_elsewhere(failed)
    if group is None and session.lead and not outcome.interrupted:
        session.trained(masters, target)
    return outcome if session.lead else None


def holders(world: World, size: int) -> TensorGroup | None:
    """Return the group of `size` processes that holds this one's target; None where each has one of its own."""
    if size == 1:
        return None
    rank, made = dist.get_rank(), None
    for ranks in members(world.shape.world, size):
        # Every process has to make every group.
        group = dist.new_group(list(ranks), timeout=PATIENCE)
        if rank in ranks:
            mesh = DeviceMesh.from_group(group, world.device.type, mesh_dim_names=("tp",))
            made = TensorGroup(size=size, place=rank - ranks[0], leads=ranks[0] == 0, group=group, mesh=mesh)
    return made


def _judge_together(
    session: Session, outcome: Outcome, masters: dict[str, torch.Tensor], target: Target, group: TensorGroup
) -> None:
    """Export and evaluate with the processes that hold the lead's target; the others wait, as they end together."""
    if group.leads and not outcome.interrupted:
        session.trained(masters, target)
    part(None)
