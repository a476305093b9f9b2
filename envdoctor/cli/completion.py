"""Values that a shell offers for a word that was begun."""

from pathlib import Path


def profiles(incomplete: str) -> list[str]:
    """Return the profiles that can be named here and begin so."""
    from envdoctor.documents import profile_store

    return [name for name in profile_store.names(Path.cwd()) if name.startswith(incomplete)]


def checks(incomplete: str) -> list[str]:
    """Return the codes and names of checks that begin so, in any case."""
    from envdoctor.app.checks import all_rules

    begun = incomplete.lower()
    return [word for rule in all_rules() for word in (rule.code, rule.name) if word.lower().startswith(begun)]


def documents(incomplete: str) -> list[str]:
    """Return the documents with a schema that begin so."""
    from envdoctor.report import schemas

    return [name for name in schemas.names() if name.startswith(incomplete)]
