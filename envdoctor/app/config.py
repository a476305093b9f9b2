"""What holds when an option is not given, and where it comes from."""

from datetime import UTC, datetime

from envdoctor.app.result import Result
from envdoctor.documents.project_config import ProjectConfig, load
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen

# Setting -> (environment variable, default).
_SETTINGS = {
    "profile": ("ENVDOCTOR_PROFILE", ""),
    "venv": ("VIRTUAL_ENV", ""),
    "fail-on": ("ENVDOCTOR_FAIL_ON", "error"),
    "format": ("ENVDOCTOR_FORMAT", "text"),
    "color": ("ENVDOCTOR_COLOR", "auto"),
    "gate": ("ENVDOCTOR_GATE", "enforce"),
    "ranks": ("ENVDOCTOR_RANKS", "compare"),
    "ranks-ignore": ("ENVDOCTOR_RANKS_IGNORE", ""),
    "ranks-timeout": ("ENVDOCTOR_RANKS_TIMEOUT", "60"),
}


@frozen
class Setting:
    """One setting."""

    name: str
    value: str
    """Empty when nothing is set."""
    source: str
    """`$VARIABLE`, the path of the pyproject.toml, or "default"."""


@frozen
class Configured:
    """Every setting, and what the project's file says besides."""

    settings: tuple[Setting, ...]
    file: ProjectConfig
    today: str
    """As 2026-11-30; a waiver's last day is compared with it."""


def config(host: Host) -> Result:
    """Return each setting's value and source. Raises UsageError, naming the file and the key."""
    found = load(host.cwd)
    written = {
        "profile": found.profile,
        "venv": found.venv,
        "fail-on": found.fail_on or "",
        "ranks": found.ranks,
        "ranks-ignore": ", ".join(found.ranks_ignore),
    }
    settings: list[Setting] = []
    for name, (variable, default) in _SETTINGS.items():
        value = host.environ.get(variable)
        if value or (value == "" and name == "profile"):
            settings.append(Setting(name=name, value=value, source=f"${variable}"))
        elif inside := written.get(name, ""):
            settings.append(Setting(name=name, value=inside, source=found.path))
        else:
            longer = name == "ranks-timeout" and any((one.name, one.value) == ("ranks", "require") for one in settings)
            settings.append(Setting(name=name, value="300" if longer else default, source="default"))
    today = datetime.now(UTC).date().isoformat()
    return Result(command="config", data=Configured(settings=tuple(settings), file=found, today=today))
