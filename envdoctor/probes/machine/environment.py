"""Environment variables that change what is loaded, compiled or seen."""

from envdoctor.catalog.variables import collected, may_be_secret
from envdoctor.facts.context import Reading
from envdoctor.model.fingerprint import MissingFactError
from envdoctor.model.frozen import frozen


@frozen
class Variable:
    """One variable that is set."""

    name: str
    value: str


@frozen
class Environment:
    """The variables that matter and are set, by name."""

    variables: tuple[Variable, ...]
    withheld: tuple[str, ...] = ()
    """Names of those that are set to what may be a password or an address: their values are not kept."""
    asked: tuple[str, ...] = ()
    """Names beyond `envdoctor/catalog/variables.py` that were looked for, since a profile speaks of them."""

    def value(self, name: str) -> str | None:
        """Return a variable's value, or None when it is not set.

        Raises MissingFactError for one that is not collected, and for one whose value was withheld: "not set" would be
        a guess.
        """
        found = next((variable.value for variable in self.variables if variable.name == name), None)
        if found is None and name in self.withheld:
            raise MissingFactError("Environment", f"{name} is set to what may be a password or an address; not kept")
        if found is None and not collected(name) and name not in self.asked:
            raise MissingFactError("Environment", f"{name} was not looked for")
        return found

    def is_set(self, name: str) -> bool:
        """Tell whether a variable is set. Raises MissingFactError for one that is not collected."""
        return name in self.withheld or self.value(name) is not None


def probe(reading: Reading) -> Environment:
    """Take the known variables and those that the profile speaks of; of a possible secret the name alone."""
    asked = reading.options.variables
    found = sorted((name, value) for name, value in reading.host.environ.items() if collected(name) or name in asked)
    return Environment(
        variables=tuple(Variable(name=name, value=value) for name, value in found if not may_be_secret(name, value)),
        withheld=tuple(name for name, value in found if may_be_secret(name, value)),
        asked=tuple(sorted(name for name in asked if not collected(name))),
    )
