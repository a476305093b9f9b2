"""The checks as they document themselves."""

import difflib

from envdoctor.app.result import Result
from envdoctor.checks.former_names import FORMER_NAMES
from envdoctor.checks.registry import all_checks
from envdoctor.errors import UsageError
from envdoctor.model.rule import Rule, parse


def checks() -> Result:
    """Return every check, by code."""
    return Result(command="checks", data=all_rules())


def all_rules() -> tuple[Rule, ...]:
    """Return every check's documentation, by code."""
    return tuple(parse(check.code, check.name, check.area, check.documentation) for check in all_checks())


def find_rule(wanted: str) -> Rule:
    """Return the rule of that code or name, former ones too, in any case; raise UsageError with the nearest ones."""
    rules = {key.lower(): rule for rule in all_rules() for key in (rule.code, rule.name)}
    asked = wanted.strip().lower()
    if rule := rules.get(FORMER_NAMES.get(asked, asked).lower()):
        return rule
    near = difflib.get_close_matches(asked, list(rules), 3, cutoff=0.7)
    # A word of several names ("duplicate"), then the codes of the same family ("ED999" has none).
    near = near or [key for key in rules if asked and asked in key and not key.startswith("ed")][:3]
    also = f"; near it: {', '.join(f'{rules[key].code} {rules[key].name}' for key in near)}" if near else ""
    raise UsageError(f"no check is called `{wanted}`{also}", "`envdoctor checks` lists them all")
