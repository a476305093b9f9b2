"""One process a worker on torch.distributed: no process ever compiles beside another thread that calls compiled code.

Features go from a target to a drafter as one message, device to device (NCCL on CUDA, gloo on CPU). A drafter
grants each of its batches to the batch's target before it is made, at most `topology.queue` ahead: that is the
back-pressure, and the way to stop, because a grant of STOP ends the target's work for this drafter after exactly
the batches granted before it. Grants travel over gloo, so a target waits for them on the host.

With a feature cache the targets keep and read the features, and answer each grant with a word on gloo: whether the
features are made or read, which the FLOP count needs, and whether the disk took what was made before.
"""

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from trainer.assemble import Parts, flops_of
from trainer.compile.state import prepare_thread
from trainer.data.buckets import Plan
from trainer.data.loader import Batch, Loader
from trainer.device import Stall, choose, compiles, wait_for, working_dtype
from trainer.runtime.cached import drafter_step_of, target_step_of
from trainer.runtime.loop import DrafterLoop, Outcome
from trainer.runtime.meetings import PATIENCE, between_workers, meet, part, require_kept_elsewhere
from trainer.runtime.session import Session
from trainer.runtime.steps import OpenDoor
from trainer.runtime.warmup_steps import warm_drafter, warm_target
from trainer.settings.topology import Role, Topology, topology

STOP = -1
READ, FAILED = 1, 2
"""Bits of the answer to a grant: the features come from the cache; the cache's disk takes no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """This process's place among the others."""

    shape: Topology
    role: Role
    device: torch.device
    drafters: Any
    """The process group of all drafters."""


def join(parts: Parts) -> World:
    """Find this process's place in the group that `connect` has made, and connect every pair once."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local = int(os.environ.get("LOCAL_RANK", rank))
    nodes = max(1, world // int(os.environ.get("LOCAL_WORLD_SIZE", world)))
    shape = topology(parts.config, world, nodes)
    device = choose(parts.config.run.device, local)
    # What has been checked so far may be wrong on one host alone: nobody waits there for a process that has ended.
    meet()
    drafters = [shape.rank(Role(kind="drafter", index=index)) for index in range(shape.drafters)]
    # Its own patience: a new group takes torch's default (10 minutes for NCCL), not that of the group of all.
    group = dist.new_group(drafters, timeout=PATIENCE)
    made = World(shape=shape, role=shape.role(rank), device=device, drafters=group)
    _connect(made)
    return made


def _connect(world: World) -> None:
    """Pass one number over every pair, in one order for all: NCCL builds a pair's communicator at its first use."""
    for target in range(world.shape.targets):
        for drafter in range(world.shape.drafters):
            tensor = torch.zeros(1, device=world.device)
            if world.role == Role(kind="target", index=target):
                dist.send(tensor, world.shape.rank(Role(kind="drafter", index=drafter)))
            elif world.role == Role(kind="drafter", index=drafter):
                dist.recv(tensor, world.shape.rank(Role(kind="target", index=target)))
            wait_for(world.device)


class GroupExchange:
    """Sums over the drafter processes."""

    def __init__(self, group: Any) -> None:
        """Bind the drafters' group."""
        self._group = group

    def pool(self, weight: float, stop: bool) -> tuple[float, bool]:  # noqa: FBT001
        """Return the sum of the weights and whether any drafter was asked to stop."""
        told = self.total(torch.tensor([weight, float(stop)], dtype=torch.float64))
        return float(told[0]), bool(told[1] > 0)

    def reduce(self, buffers: list[torch.Tensor]) -> Callable[[], None]:
        """Sum each buffer over all drafters, in place; on CPU in the order of the drafters, as one worker would.

        On CUDA the sums are made on NCCL's own stream: waiting makes the current stream wait, not the host.
        """
        under_way = []
        for buffer in buffers:
            if buffer.device.type == "cpu":
                buffer.copy_(self.total(buffer))
            else:
                under_way.append(dist.all_reduce(buffer, group=self._group, async_op=True))

        def wait() -> None:
            for work in under_way:
                work.wait()

        return wait

    def total(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the sum of a vector over all drafters, added in their order, on the CPU."""
        held = vector.cpu()
        everyone = [torch.empty_like(held) for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(everyone, held, group=self._group)
        summed = torch.zeros_like(held)
        for each in everyone:
            summed += each
        return summed


Answer = tuple[torch.Tensor, Any] | None
"""The answer to a grant, int64 [1], and the work that receives it; None where there is no cache."""


class RemoteSource:
    """A drafter's end: grants batches ahead, receives their features, in the order of its plan."""

    def __init__(
        self, world: World, loader: Loader, plan: Plan, numbers: Iterator[int], wide: int, ahead: int, *, answers: bool
    ) -> None:
        """Grant the first `ahead` batches; `wide` is the last axis of the features.

        `answers` says that the targets have a cache, and so answer each grant.
        """
        self._world, self._loader, self._plan, self._numbers, self._wide = world, loader, plan, numbers, wide
        self._answers = answers
        self.stall = Stall(world.device)
        self.failed = False
        """Whether a target said that its cache's disk takes no more."""
        self._coming: deque[tuple[int, torch.Tensor, Any, Answer]] = deque()
        self._grants: deque[tuple[torch.Tensor, Any]] = deque()
        for _ in range(ahead):
            self._grant()

    def _grant(self) -> None:
        number = next(self._numbers, None)
        if number is None:
            return
        target = self._target(number)
        self._send(number, target)
        planned = self._plan.batch(number)
        dtype = working_dtype(self._world.device)
        held = torch.empty(planned.size, planned.length, self._wide, dtype=dtype, device=self._world.device)
        answer = None
        if self._answers:
            told = torch.zeros(1, dtype=torch.int64)
            answer = (told, dist.irecv(told, target))
        self._coming.append((number, held, dist.irecv(held, target), answer))

    def _target(self, number: int) -> int:
        return self._world.shape.rank(Role(kind="target", index=self._world.shape.target_of(number)))

    def _send(self, number: int, target: int) -> None:
        told = torch.tensor([number])
        self._grants.append((told, dist.isend(told, target)))
        while len(self._grants) > 4 * self._world.shape.targets:
            self._grants.popleft()[1].wait()

    def take(self) -> tuple[Batch, torch.Tensor]:
        """Return the next batch of this drafter's plan with its features."""
        number, features, work, answer = self._coming.popleft()
        with self.stall.waiting():
            # On CUDA this makes the stream wait, not the host.
            work.wait()
            self._grant()
            batch = next(self._loader)
            if batch.index != number:
                raise AssertionError(f"batch {batch.index} was read where {number} was received")
            if answer is not None:
                answer[1].wait()
                batch = replace(batch, cached=bool(int(answer[0]) & READ))
                self.failed |= bool(int(answer[0]) & FAILED)
            return batch.to(self._world.device), features

    def prepare(self) -> None:
        """Do nothing: the targets are ahead already."""

    def stop(self) -> None:
        """Receive what was granted and grant no more."""
        self._numbers = iter(())
        while self._coming:
            _, _, work, answer = self._coming.popleft()
            if answer is not None:
                answer[1].wait()
            work.wait()
        for index in range(self._world.shape.targets):
            self._send(STOP, self._world.shape.rank(Role(kind="target", index=index)))
        while self._grants:
            self._grants.popleft()[1].wait()


def run(parts: Parts, session: Session) -> Outcome | None:
    """Be this process's worker; the lead returns the outcome, the others None."""
    prepare_thread()
    with between_workers():
        world = join(parts)
        if world.role.kind == "target":
            _target(parts, session, world)
            outcome = None
        else:
            outcome, masters = _drafter(parts, session, world)
        failed = part(session.unkept)
    dist.destroy_process_group()
    session.require_kept()
    require_kept_elsewhere(failed)
    if outcome is not None and session.lead and not outcome.interrupted:
        # Compiled code and its model refer to each other: gone before the whole target comes.
        gc.collect()
        session.trained(masters, session.load_target(world.device))
    return outcome if session.lead else None


def _target(parts: Parts, session: Session, world: World) -> None:
    config, shape, index = parts.config, world.shape, world.role.index
    target = session.load_target(world.device)
    meet()
    step = target_step_of(parts, target, OpenDoor())
    maker = parts.maker(pin=world.device.type == "cuda", cache=step.reader)
    if config.run.warm and compiles(config.run.compile, world.device):
        warm_target(step, maker, parts.plan.lengths)
    mine = [number for number in session.numbers() if shape.target_of(number) == index]
    made, stall, started = 0, Stall(world.device), time.perf_counter()
    outbox = _Outbox(stall, config.topology.queue * shape.drafters * (1 if step.reader is None else 2))
    stopped: set[int] = set()
    # From now on the drafters say when it ends; a signal alone does not end this worker.
    session.begin(meet)
    with closing(step), Loader(maker, iter(mine), config.data.prefetch) as loader:
        for batch in loader:
            drafter = shape.drafter_of(batch.index)
            if drafter in stopped:
                if len(stopped) == shape.drafters:
                    break
                continue
            rank = shape.rank(Role(kind="drafter", index=drafter))
            with stall.waiting():
                granted = _granted(rank, batch.index)
            if not granted:
                stopped.add(drafter)
                continue
            if step.reader is not None:
                outbox.send(torch.tensor([READ * batch.cached + FAILED * (step.error is not None)]), rank)
            outbox.send(step.run(batch.to(world.device)), rank)
            made += 1
        outbox.wait()
        for drafter in set(range(shape.drafters)) - stopped:
            if _granted(shape.rank(Role(kind="drafter", index=drafter)), STOP):
                raise AssertionError("a grant came after the plan's end")
    session.unkept = step.error
    session.features(step.reader)
    session.worker(f"target-{index}", batches=made, waited=stall.read(), seconds=time.perf_counter() - started)


class _Outbox:
    """What a target has sent and nobody has received yet: at most `room` messages."""

    def __init__(self, stall: Stall, room: int) -> None:
        self._stall, self._room = stall, room
        self._sent: deque[tuple[torch.Tensor, Any]] = deque()

    def send(self, message: torch.Tensor, rank: int) -> None:
        self._sent.append((message, dist.isend(message, rank)))
        while len(self._sent) > self._room:
            with self._stall.waiting():
                self._sent.popleft()[1].wait()

    def wait(self) -> None:
        while self._sent:
            self._sent.popleft()[1].wait()


def _granted(rank: int, number: int) -> bool:
    """Wait for a drafter's next grant; returns False for STOP."""
    told = torch.zeros(1, dtype=torch.int64)
    dist.recv(told, rank)
    if int(told) not in {number, STOP}:
        raise AssertionError(f"batch {int(told)} was granted where {number} was due")
    return int(told) != STOP


def _drafter(parts: Parts, session: Session, world: World) -> tuple[Outcome, dict[str, torch.Tensor]]:
    config, shape, index = parts.config, world.shape, world.role.index
    session.say(f"loading the target, {parts.target_path}: its embedding and head here")
    step = drafter_step_of(parts, world.device, parts.load_shared(world.device), OpenDoor())
    meet()
    maker = parts.maker(pin=world.device.type == "cuda")
    if config.run.warm and step.compiled:
        session.compiling()
        warm_drafter(step, maker, parts.plan.lengths)
    settings = session.settings(world.device, flops_of(parts, None), devices=_devices(world), lead=session.lead)
    mine = [number for number in session.numbers() if shape.drafter_of(number) == index]
    wide = parts.width
    session.begin(meet)
    with Loader(maker, iter(mine), config.data.prefetch) as loader:
        source = RemoteSource(
            world, loader, parts.plan, iter(mine), wide, config.topology.queue, answers=bool(config.cache.path)
        )
        exchange = GroupExchange(world.drafters)
        loop = DrafterLoop(
            settings, step, source, exchange, stop=lambda: session.stop() or source.failed, report=session.report
        )
        session.restore(loop)
        outcome = loop.run(session.start)
    return outcome, step.parameters.masters()


def _devices(world: World) -> int:
    return world.shape.world if world.device.type == "cuda" else 1
