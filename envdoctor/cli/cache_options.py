"""An option that the `cache` commands share."""

from typing import Annotated

import typer

LiveOption = Annotated[
    bool, typer.Option("--live", help="Ask the venv's own torch for its key: runs the venv's interpreter.")
]
