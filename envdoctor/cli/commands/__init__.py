"""One command a file: parse, call, render."""
