"""Parsers of the packaging standards: names, requirements, locks, direct_url, installer files."""
