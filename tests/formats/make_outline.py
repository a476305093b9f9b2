"""Outlines by hand, with text that means something to every format."""

from envdoctor.report.formats.outline import (
    Outline,
    OutlineEntry,
    OutlineGap,
    OutlinePlace,
    OutlineRow,
    OutlineWaived,
)

HOSTILE = (
    "<script>alert(1)</script> | `x` ``` %0A ::error::x,y:z \\ *b* [l](javascript:x) @team #1 &amp; ]]> é \udce9 \x00"
)
"""Markup, commands and escapes of every format; the last two come of bytes in file names that are no text."""


def make_outline(text: str = "plain", *, exit_code: int = 1) -> Outline:
    """Return an outline of everything, with `text` wherever the environment decides what stands there."""
    cause = OutlineEntry(
        code="ED201",
        name="files-removed-by-uninstall",
        level="error",
        title=f"files are missing: {text}",
        subject=f"nvidia-cudnn-cu12 {text}",
        evidence=(f"evidence {text}",),
        remedy=f"reinstall {text}",
        commands=(f"uv pip install {text}",),
        place=OutlinePlace(file=f"locks/{text}.txt", line=7),
    )
    follower = OutlineEntry(
        code="ED301", name="unresolved-library", level="error", title="not found", subject=text, caused_by=0
    )
    note = OutlineEntry(code="ED403", name="extra-distribution", level="note", title=f"extra {text}", subject=text)
    return Outline(
        command="check",
        subject=f"/srv/{text}",
        conclusion="Found 2 errors, 1 note (2 causes)",
        exit_code=exit_code,
        tool_version="0.0",
        context=(("profile", text),),
        entries=(cause, follower, note),
        rows=(
            OutlineRow(area="Interpreter", state="ok", summary=f"CPython {text}"),
            OutlineRow(area="Installed files", state="error", summary=text),
            OutlineRow(area="Driver / GPU", state="not-applicable", summary=text),
            OutlineRow(area="Sources", state="unknown", summary=text),
        ),
        gaps=(OutlineGap(code="ED801", name="source-drift", reason=f"unreadable {text}"),),
        waived=(OutlineWaived(entry=note, reason=f"wanted {text}"),),
        machine=(("Python", text),),
        distributions={"torch": text, "six": "1"},
    )
