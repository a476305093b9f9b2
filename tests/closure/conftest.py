"""The states of this run are judged together by several workers, and counted in the summary."""

import pytest

from tests.closure.crew import judge_all
from tests.closure.law import Outcome

_COUNTS: dict[str, int] = {}


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Return the outcome of each selected state."""
    chosen = [
        item.callspec.params["state"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and "outcomes" in item.fixturenames
    ]
    found = {outcome.state: outcome for outcome in judge_all(chosen, tmp_path_factory.mktemp("closure"))}
    _COUNTS["states"] = len(found)
    _COUNTS["bad"] = sum(bool(outcome.failures) for outcome in found.values())
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many states were judged."""
    if _COUNTS:
        terminalreporter.write_line(
            f"closure: {_COUNTS['states']} states, every printed command obeyed; {_COUNTS['bad']} break the law"
        )
