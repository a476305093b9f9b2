"""Fewer GPUs are visible than are there, or than the launch needs.

What it finds:
    CUDA_VISIBLE_DEVICES, read as the driver reads it, against what NVML lists and the number the profile needs: an
    entry that names no GPU and drops all behind it, an entry named twice, one that CUDA reads in part (`0-3` is GPU 0),
    a GPU in MIG mode without a MIG UUID, several MIG UUIDs for one process, too few GPUs.

Why it matters:
    CUDA gives no warning: `invalid device ordinal` or `No CUDA GPUs are available` come later, on some ranks. NVML does
    not look at the variable, so nvidia-smi shows all of them.

Example:
    CUDA_VISIBLE_DEVICES=0,8,1 on eight GPUs leaves GPU 0 alone visible.

Fix:
    Export the right list in the launcher, before Python starts: CUDA reads it once.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.model.finding import Finding, Remediation, Severity
from envdoctor.model.pattern import pattern
from envdoctor.model.visible_devices import Visible, parse_visible
from envdoctor.model.wording import counted
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu

CODE = "ED606"
NAME = "gpus-not-visible"
AREA = "Driver / GPU"
_VARIABLE = "CUDA_VISIBLE_DEVICES"
_WRITTEN = pattern(r"(?:cuda:)?(\d+|(?:GPU|MIG)-[0-9A-Za-z/-]+)")
# Values by which a user or a scheduler hides every GPU on purpose.
_HIDDEN = frozenset({"", "-1", "none", "void", "NoDevFiles"})


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when the list loses GPUs, another when too few remain for the profile."""
    gpu, needed = case.facts[Gpu], case.profile.gpu.count if case.profile else 0
    build = case.facts.get(TorchBuild)
    if build is not None and build.unchecked_driver:
        raise DoesNotApplyError(f"{build.unchecked_driver} GPUs are not checked")
    value = case.facts[Environment].value(_VARIABLE)
    if gpu.state == "absent" and needed:
        yield _too_few(case, 0, needed, f"no GPU is there: {gpu.reason}", [])
        return
    if gpu.state in ("absent", "failed"):
        raise DoesNotApplyError(gpu.reason or "there is no GPU")
    count = len(gpu.devices) if gpu.state == "present" else None
    if value is None:
        if count is not None and count < needed:
            yield _too_few(case, count, needed, f"NVML lists {counted(count, 'GPU')}; {_VARIABLE} is not set", [])
        return
    seen = parse_visible(value, count, _uuids(gpu))
    mistake = _mistake(gpu, value, seen, needed)
    if mistake is not None:
        yield mistake
    if needed and (len(seen.devices) < needed) and not (mistake is not None and mistake.severity == "error"):
        evidence = f"{_VARIABLE}={value!r} leaves {', '.join(seen.devices) or 'none'}"
        yield _too_few(case, len(seen.devices), needed, evidence, _all(gpu)[:needed])


def _uuids(gpu: Gpu) -> list[str]:
    return [uuid for device in gpu.devices for uuid in (device.uuid, *device.mig_uuids)]


def _all(gpu: Gpu) -> list[str]:
    return [str(device.index) for device in gpu.devices]


def _kind(entry: str) -> str:
    """Return what an entry is by its form: "GPU-", "MIG-", "ordinal", or empty for none of these."""
    if entry.strip().removeprefix("+").isdecimal():
        return "ordinal"
    return entry[:4] if entry.startswith(("GPU-", "MIG-")) else ""


def _mistake(gpu: Gpu, value: str, seen: Visible, needed: int) -> Finding | None:
    total = f" of {counted(len(gpu.devices), 'GPU')}" if gpu.devices else ""
    if seen.named_twice:
        title = f"{_VARIABLE}={value!r} names {seen.stopped_at!r} twice, which leaves no GPU visible"
        return _finding(gpu, value, "error", title, "CUDA refuses such a list: cuInit returns 101, invalid device")
    if value.strip() not in _HIDDEN and seen.stopped_at is not None and (seen.dropped or not seen.devices):
        left = f"{len(seen.devices)}{total}" if seen.devices else "no GPU"
        title = f"{_VARIABLE}={value!r} leaves {left} visible: {seen.stopped_at!r} names no GPU and ends the list"
        dropped = f"dropped behind it: {', '.join(seen.dropped)}" if seen.dropped else "nothing stands before it"
        return _finding(gpu, value, "error", title, dropped)
    return _in_part(gpu, value, seen, needed) or _in_mig(gpu, value, seen)


def _in_part(gpu: Gpu, value: str, seen: Visible, needed: int) -> Finding | None:
    """Return the finding of a list whose last entry is of another kind, or of one with an entry like "0-3"."""
    entries, left = value.split(","), str(len(seen.devices))
    if gpu.devices:
        left += f" of {counted(len(gpu.devices), 'GPU')}"
    if seen.devices and seen.stopped_at and _kind(seen.stopped_at) not in ("", _kind(entries[0])):
        title = f"{_VARIABLE}={value!r} leaves {left} visible: {seen.stopped_at!r} ends the list"
        return _finding(gpu, value, "error", title, "ordinals, UUIDs and MIG names do not mix")
    cut = next((one for one in entries[: len(seen.devices)] if not _kind(one)), None) if not seen.mig else None
    if cut is not None:
        title = f"{_VARIABLE}={value!r} leaves {left} visible: of {cut!r} CUDA reads the first number alone"
        severity: Severity = "error" if needed > len(seen.devices) else "warning"
        return _finding(gpu, value, severity, title, f"visible: {', '.join(seen.devices)}")
    return None


def _in_mig(gpu: Gpu, value: str, seen: Visible) -> Finding | None:
    if seen.mig > 1:
        title = f"{_VARIABLE} names {seen.mig} MIG instances; a process uses the first one only"
        return _finding(gpu, value, "warning", title, f"visible: {', '.join(seen.devices)}")
    in_mig = [device for device in gpu.devices if device.mig and {str(device.index), device.uuid} & set(seen.devices)]
    if in_mig:
        title = f"GPU {in_mig[0].index} is in MIG mode, and {_VARIABLE} names the GPU instead of one of its instances"
        instances = ", ".join(in_mig[0].mig_uuids) or "it has no instance yet"
        return _finding(gpu, value, "warning", title, f"its instances: {instances}")
    return None


def _finding(gpu: Gpu, value: str, severity: Severity, title: str, evidence: str) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity=severity,
        confidence="high",
        title=title,
        subject=_VARIABLE,
        evidence=(evidence, f"NVML lists {counted(len(gpu.devices), 'GPU')}" if gpu.devices else gpu.reason),
        remediation=_export(_meant(gpu, value), "Write the ordinals or UUIDs of the GPUs that are meant, with commas"),
    )


def _meant(gpu: Gpu, value: str) -> list[str]:
    """Return the devices the value names, each once, those that exist; a MIG list keeps its first instance.

    None where an entry is no ordinal and no UUID ("0-3", "0 1"): what that means is for its writer to say.
    """
    count = len(gpu.devices) or None
    named: list[str] = []
    for entry in filter(None, map(str.strip, value.split(","))):
        if (match := _WRITTEN.fullmatch(entry)) is None:
            return []
        named += [one for one in parse_visible(match[1], count, _uuids(gpu)).devices if one not in named]
    if instance := next((one for one in named if one.startswith("MIG-")), ""):
        return [instance]
    for device in gpu.devices:
        if device.mig and device.mig_uuids and {str(device.index), device.uuid} & set(named):
            return [device.mig_uuids[0]]
    return named if len({one[:4] == "GPU-" for one in named}) == 1 else []


def _too_few(case: CheckContext, visible: int, needed: int, evidence: str, devices: list[str]) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{counted(visible, 'GPU', 'is', 'are')} visible; the profile needs {needed}",
        subject=_VARIABLE,
        evidence=(evidence, f"profile {case.wanted().name}: gpu.count = {needed}"),
        remediation=_export(
            devices if len(devices) == needed else [],
            "Run where that many GPUs are, or ask the scheduler for them",
        ),
    )


def _export(devices: list[str], otherwise: str) -> Remediation:
    if not devices:
        return Remediation(text=otherwise)
    return Remediation(
        text="Where those GPUs are yours to use, export the list in the launcher, before Python starts",
        commands=(f"export {_VARIABLE}={','.join(devices)}",),
    )
