"""What the values of shared options mean. Nothing here needs typer, so that a plain `check` runs without it."""

from typing import TYPE_CHECKING, Literal

from envdoctor.errors import UsageError

if TYPE_CHECKING:
    from envdoctor.model.profile import Waiver

Format = Literal["text", "json"]
ReportFormat = Literal["text", "json", "html", "svg", "markdown", "sarif", "junit", "github"]
DrawnFormat = Literal["text", "json", "html", "svg"]
Color = Literal["auto", "always", "never"]


def one_venv(argument: str, option: str) -> str:
    """Return the venv of a command line that can name it as an argument and by `--venv`.

    Raises UsageError when both are given and differ.
    """
    if argument and option and argument != option:
        raise UsageError(f"two venvs are given: `{argument}` and `--venv {option}`", "give only one of them")
    return argument or option


def requirements(lines: list[str]) -> tuple[str, ...]:
    """Return the requirements of `--require`; raise UsageError for one that is not a name with version clauses."""
    if not lines:
        return ()
    from packaging.requirements import InvalidRequirement, Requirement

    for line in lines:
        try:
            wanted = Requirement(line)
        except InvalidRequirement as error:
            raise UsageError(
                f"`--require {line}` is not a requirement",
                'name a distribution, with version clauses if need be: `--require "torch>=2.8"`',
            ) from error
        if wanted.url or wanted.extras or wanted.marker:
            raise UsageError(
                f"`--require {line}`: a URL, an extra or a marker cannot be looked up in an environment",
                f"name the distribution and its version: `--require {wanted.name}`",
            )
    return tuple(lines)


def waivers(ignored: list[str]) -> "tuple[Waiver, ...]":
    """Return the waivers that `--ignore CODE=REASON` asks for, where CODE may be a check's name too.

    Raises UsageError for one without a reason, or of no check.
    """
    if not ignored:
        return ()
    from envdoctor.app.checks import find_rule
    from envdoctor.model.profile import Waiver

    parsed: list[Waiver] = []
    for item in ignored:
        code, _, reason = item.partition("=")
        if not code.strip() or not reason.strip():
            raise UsageError(
                f"`--ignore {item}` gives no reason",
                f'say why it is accepted: `--ignore {code.strip() or "ED000"}="the reason"`',
            )
        parsed.append(Waiver(code=find_rule(code.strip()).code, reason=reason.strip()))
    return tuple(parsed)
