"""Settings of Sphinx. Strict: a warning is an error (tools/docsite/__main__.py)."""

project = "envdoctor"
author = "the envdoctor authors"
project_copyright = author
extensions = ["myst_parser"]
exclude_patterns: list[str] = []
html_theme = "furo"
html_title = "envdoctor"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
# A summary would be fetched, which a browser refuses for files; the titles are in the index that is loaded.
html_show_search_summary = False
# GitHub's names of headings: links into pages work in both.
myst_heading_anchors = 4
# One page a check, a command and a document: their lists lead to them; a sidebar of 140 lines would help nobody, and
# costs half of the build, since it is written into every page.
suppress_warnings = ["toc.not_included"]
pygments_style = "default"
pygments_dark_style = "github-dark"
# Options are typed as they stand: `--fix` is not a dash.
smartquotes = False
nitpicky = True
