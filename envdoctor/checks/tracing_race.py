"""A torch whose FX tracing flag is global to the process, under several compile threads.

What it finds:
    torch/fx/_symbolic_trace.py of the installed torch keeps the flag in a module global (`_is_fx_tracing_flag`), and
    the profile says that several threads of one process call compiled code. Read from the source, not from a version
    table: the flag is thread-local since pytorch pull request 168999.

Why it matters:
    While one thread traces, every call of any compiled function in another thread raises "Detected that you are using
    FX to symbolically trace a dynamo-optimized function". A warm cache hides it until the first miss. On one GPU the
    same threads can also deadlock in autograd's device worker.

Example:
    torch 2.11.0+cu128, three drafter threads.

Fix:
    One process a drafter, or admission of whole steps (the trainer's compile gate); a newer torch removes the flag's
    race but not the deadlock. Not: `error_on_nested_fx_trace=False`, which runs eager code silently.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.loading.torch_build import TorchBuild

CODE = "ED510"
NAME = "fx-tracing-race"
AREA = "Compile cache"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when both conditions hold."""
    threads = case.wanted().compile.threads
    build = case.facts[TorchBuild]
    if threads < 2 or not build.present:
        raise DoesNotApplyError("the profile compiles from one thread" if build.present else "torch is not there")
    if build.fx_flag == "thread-local":
        return
    told = build.fx_flag == "process-global"
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning" if told else "note",
        confidence="high" if told else "low",
        title=f"torch {build.version} keeps its FX tracing flag process-global, and the profile runs {threads} compile "
        "threads"
        if told
        else f"could not determine whether torch {build.version} has the FX tracing race",
        subject="torch",
        evidence=(build.fx_evidence, f"profile {case.wanted().name}: compile.threads = {threads}"),
        remediation=Remediation(
            text="Run one process a drafter, or admit whole steps through a compile gate: trainer.runtime.compile_gate "
            "of envdoctor's repository works with any compiled code (example: trainer/README.md). Deleting or warming "
            "the cache is not a cure"
        ),
    )
