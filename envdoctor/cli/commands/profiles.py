"""`envdoctor profiles`: the known-good stacks that can be found from here."""

from pathlib import Path

from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.terminal import write_result
from envdoctor.documents import profile_store


def profiles(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """List the profiles that can be named here, with what each is for and where it was found."""
    start = Path.cwd()
    found = [profile_store.find(name, start) for name in profile_store.names(start)]
    if json or output_format == "json":
        from envdoctor.report.as_json import dump

        rows = [{"name": item.profile.name, "summary": item.profile.summary, "path": str(item.path)} for item in found]
        write_result(dump({"schema_version": 1, "profiles": rows}))
        return 0
    column = max((len(item.profile.name) for item in found), default=0)
    lines = [
        f"{item.profile.name.ljust(column)}  {item.profile.summary}\n{' ' * column}  {item.path}\n" for item in found
    ]
    write_result("".join(lines) or "no profiles here: put one under profiles/NAME.toml\n")
    return 0
