"""Which errors of a copy are new."""

from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.frozen import replace
from envdoctor.stack.examination import added


def damaged(subject: str, *files: str) -> Finding:
    return Finding(
        code="ED202",
        name="damaged-distribution",
        severity="error",
        confidence="high",
        title="damaged",
        subject=subject,
        evidence=(),
        remediation=Remediation(text=""),
        causes=(*(f"file:{path}" for path in files), *(f"dist:{name}" for name in subject.split(", "))),
    )


def test_an_error_about_more_files_than_before_is_new() -> None:
    before = [damaged("a, b", "a/x.py", "b/x.py")]
    assert added([damaged("a", "a/x.py")], before) == ()
    worse, other = damaged("a", "a/x.py", "a/y.py"), damaged("c")
    assert added([worse, other], before) == (worse, other)
    assert added([damaged("a", "/opt/site-packages/a.py")], before) == ()


def test_a_file_that_was_changed_and_is_missing_now_is_new() -> None:
    changed, missing = damaged("a", "a/x.py"), damaged("a", "a/x.py")
    changed = replace(changed, causes=(*changed.causes, "changed:a/x.py"))
    missing = replace(missing, causes=(*missing.causes, "missing:a/x.py"))
    assert added([missing], [changed]) == (missing,)
    assert added([changed], [changed]) == ()
