"""A target and a drafter on every device, one process each: only the gradient sums go between them.

The layout of choice where both models fit on one device: no device waits for features, and what all drafters exchange a
step is one fp32 gradient. On CUDA the sums are made while the next batch's features are.
"""

import torch.distributed as dist

from trainer.assemble import Parts
from trainer.runtime.compile_state import prepare_thread
from trainer.runtime.inline import learn
from trainer.runtime.loop import Outcome
from trainer.runtime.meetings import meet, part, require_kept_elsewhere
from trainer.runtime.processes import GroupExchange, between_workers, join
from trainer.runtime.session import Session


def run(parts: Parts, session: Session) -> Outcome | None:
    """Be this process's worker; the lead returns the outcome, the others None."""
    prepare_thread()
    with between_workers():
        world = join(parts)
        mine = [number for number in session.numbers() if world.shape.drafter_of(number) == world.role.index]
        devices = world.shape.world if world.device.type == "cuda" else 1
        exchange = GroupExchange(world.drafters)
        outcome, masters, target = learn(parts, session, world.device, mine, exchange, devices, meet)
        failed = part(session.unkept)
    dist.destroy_process_group()
    session.require_kept()
    require_kept_elsewhere(failed)
    if session.lead and not outcome.interrupted:
        session.trained(masters, target)
    return outcome if session.lead else None
