"""Findings and verdicts by hand."""

from collections.abc import Iterable

from envdoctor.model.finding import Confidence, Finding, Remediation, Severity
from envdoctor.model.header import Header
from envdoctor.model.verdict import AreaLine, Skipped, Verdict, Waived, order_by_cause

CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"


def make_finding(
    code: str = "ED201",
    *,
    name: str = "lost-to-uninstall",
    severity: Severity = "error",
    confidence: Confidence = "high",
    title: str = "file removed by another package's uninstall",
    subject: str = CUDNN,
    evidence: Iterable[str] = (),
    text: str = "reinstall the owner",
    commands: Iterable[str] = (),
    safe: bool = False,
    causes: Iterable[str] = (),
    symptom_of: Iterable[str] = (),
) -> Finding:
    return Finding(
        code=code,
        name=name,
        severity=severity,
        confidence=confidence,
        title=title,
        subject=subject,
        evidence=tuple(evidence),
        remediation=Remediation(text=text, commands=tuple(commands), safe=safe),
        causes=tuple(causes),
        symptom_of=tuple(symptom_of),
    )


def make_verdict(
    *findings: Finding,
    skipped: Iterable[Skipped] = (),
    waived: Iterable[Waived] = (),
    areas: Iterable[AreaLine] = (),
) -> Verdict:
    ordered, consequences = order_by_cause(findings)
    return Verdict(
        findings=ordered,
        consequences=consequences,
        skipped=tuple(skipped),
        waived=tuple(waived),
        areas=tuple(areas),
    )


def make_header(*, target: str = "/srv/dflash/.venv", profile: str = "21k-toks", torch: str = "2.11.0+cu128") -> Header:
    return Header(
        target=target, tool_version="0.1.0", taken_at="2026-11-29T12:00:00+00:00", profile=profile, torch=torch
    )


def incident() -> Verdict:
    """Return the incident: two files of cu12 wheels gone with the cu13 wheels, and what follows from it."""
    gone = make_finding(
        evidence=(
            f"{CUDNN}: claimed by nvidia-cudnn-cu12 9.19.0.56 (RECORD), missing on disk",
            "needed by torch/lib/libtorch_cuda.so (DT_NEEDED, via RPATH $ORIGIN/../../nvidia/cudnn/lib)",
            "nvidia-cudnn-cu13 writes the same path; uninstalling it deletes this file",
        ),
        text="reinstall the wheels whose files are gone",
        commands=(
            (
                "uv pip install --python /srv/dflash/.venv --no-deps --reinstall-package nvidia-cudnn-cu12 "
                "--reinstall-package nvidia-nccl-cu12 nvidia-cudnn-cu12==9.19.0.56 nvidia-nccl-cu12==2.28.9"
            ),
        ),
        causes=("soname:libcudnn.so.9", "soname:libnccl.so.2"),
    )
    unresolved = [
        make_finding(
            "ED301",
            name="unresolved-soname",
            title=f"{soname} is found nowhere",
            subject=soname,
            evidence=("asked for by torch/lib/libtorch_cuda.so",),
            text="fix the cause",
            symptom_of=(f"soname:{soname}",),
        )
        for soname in ("libcudnn.so.9", "libnccl.so.2")
    ]
    race = make_finding(
        "ED510",
        name="process-global-fx-flag",
        severity="warning",
        confidence="medium",
        title="torch's FX tracing flag is process-global and the profile compiles in 3 threads",
        subject="torch",
        text="serialize first compiles; a warm cache does not prevent the race",
    )
    return make_verdict(
        race,
        *unresolved,
        gone,
        skipped=(
            Skipped(code="ED601", name="driver-too-old", reason="NVML did not answer within 5 s"),
            Skipped(code="ED701", name="source-drift", reason="no profile was given", matters=False),
        ),
        waived=(
            Waived(
                finding=make_finding(
                    "ED210",
                    name="two-owners",
                    severity="note",
                    title="two owners, same bytes",
                    subject="nvidia/__init__.py",
                ),
                reason="empty file",
            ),
        ),
        areas=(
            AreaLine(area="Interpreter, wheels", state="ok", summary="CPython 3.12.1, 57 distributions"),
            AreaLine(area="Installed files", state="error", summary="2 distributions damaged (2 files missing)"),
            AreaLine(area="Shared libraries", state="error", summary="2 of 21 sonames unresolved for torch"),
            AreaLine(area="Compile cache", state="warning", summary="cold: the profile expects 353 MB"),
            AreaLine(area="Driver, GPU", state="unknown", summary="NVML did not answer within 5 s"),
        ),
    )
