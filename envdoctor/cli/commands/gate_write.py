"""`envdoctor gate write`: the launch gate as one file."""

from pathlib import Path
from typing import Annotated

import typer

from envdoctor.cli.terminal import say
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode


def write(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The Python file to write, such as envdoctor_gate.py.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
) -> int:
    """Write the launch gate as one Python file without dependencies, for a train script to import."""
    from envdoctor.gate_package.single_file import single_file

    target = Path(path)
    if target.suffix != ".py" or not target.stem.isidentifier():
        raise UsageError(f"{path} cannot be imported", "name a Python file: `envdoctor gate write envdoctor_gate.py`")
    if target.exists() and not force:
        raise UsageError(f"{path} exists already", "add `--force` to replace it")
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(single_file(), encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name another path") from error
    say(f'wrote {path}; at the top of the train script: `import {target.stem}; {target.stem}.require("PROFILE")`')
    return ExitCode.OK
