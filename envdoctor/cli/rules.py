"""The checks as they document themselves."""

import difflib

from envdoctor.checks import registry
from envdoctor.errors import UsageError
from envdoctor.report.rule_pages import Rule, parse


def all_rules() -> tuple[Rule, ...]:
    """Return every check's documentation, ordered by code."""
    rules = (parse(check.CODE, check.NAME, check.AREA, check.__doc__ or "") for check in registry.CHECKS)
    return tuple(sorted(rules, key=lambda rule: rule.code))


def find_rule(wanted: str) -> Rule:
    """Return the rule of that code or name, in any case; raise UsageError with the nearest ones."""
    rules = all_rules()
    for rule in rules:
        if wanted.strip().lower() in {rule.code.lower(), rule.name.lower()}:
            return rule
    known = {key: rule for rule in rules for key in (rule.code, rule.name)}
    near = difflib.get_close_matches(wanted.upper(), list(known), 3) or difflib.get_close_matches(
        wanted, list(known), 3
    )
    also = f"; near it: {', '.join(near)}" if near else ""
    raise UsageError(f"no check is called `{wanted}`{also}", "`envdoctor checks` lists them all")
