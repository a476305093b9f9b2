"""Names that checks had before: `explain`, `--ignore` and waivers go on taking them."""

from typing import Final

FORMER_NAMES: Final = {
    "conda-beside-pip": "ED605",
    "contested-module": "ED409",
    "could-not-be-read": "ED208",
    "cpu-build-beside-gpu": "ED411",
    "extension-of-another-cuda": "ED306",
    "files-lost-to-another-uninstall": "ED201",
    "interpreter-gone": "ED101",
    "library-out-of-reach": "ED307",
    "packages-out-of-sight": "ED105",
    "path-with-two-owners": "ED203",
    "program-out-of-reach": "ED608",
    "record-leads-outside": "ED204",
    "variable-names-nothing": "ED607",
}
"""Former name -> the code, which never changes."""
