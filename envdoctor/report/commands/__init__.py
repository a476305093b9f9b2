"""One renderer a command: `text(data, style)` for people, `document(data)` for programs."""
