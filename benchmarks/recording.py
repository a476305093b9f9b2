"""Draws docs/recording.svg from a real run: a library is deleted, `check` names it, `repair` puts it back.

    python3 benchmarks/recording.py VENV      # a venv that `envdoctor restore -p cpu-smoke` made; it is changed

Every line is what the commands printed here; only the folder's path is shortened.
"""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "lib/python3.11/site-packages/torch/lib/libc10.so"
WIDTH = 100
# As rich's own template, without the web font that it would fetch.
TEMPLATE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img"
aria-label="A terminal: envdoctor check finds a missing library of torch and its owner, envdoctor repair fixes it">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
<rect fill="#16181d" x="1" y="1" width="{terminal_width}" height="{terminal_height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main() -> None:
    """Run the commands and write the picture."""
    venv = Path(sys.argv[1]).resolve()
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123 - nothing is written
    environment = {
        **os.environ, "VIRTUAL_ENV": str(venv), "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "LC_ALL": "C.UTF-8",
        "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
    }  # fmt: skip

    def typed(command: str, shown: str = "") -> None:
        console.print(Text.assemble(("$ ", "bold green"), (shown or command, "bold")))
        done = subprocess.run(
            ["bash", "-c", command], cwd=venv.parent, env=environment, text=True, capture_output=True, check=False
        )
        text = (done.stderr + done.stdout).replace(str(venv.parent), "~/project").rstrip()
        if text:
            console.print(Text.from_ansi(text), soft_wrap=False)
        console.print()

    short = f".venv/{LIBRARY}"
    typed(f"rm '{venv / LIBRARY}'", f"rm {short}")
    typed("envdoctor check")
    typed("envdoctor repair -y 2>/dev/null | tail -3", "envdoctor repair -y")
    typed("envdoctor check -q")
    console.print()
    picture = console.export_svg(title="", code_format=TEMPLATE, unique_id="envdoctor")
    (ROOT / "docs/recording.svg").write_text(picture)


if __name__ == "__main__":
    main()
