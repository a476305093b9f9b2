"""The states of this run are judged together by several workers, and counted in the summary."""

import pytest

from tests.closure.crew import judge_all
from tests.closure.law import Outcome
from tests.closure.states import DRAWN_BY

TEST = "test_what_is_printed_heals"


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Return the outcome of each selected state."""
    chosen = [
        item.callspec.params["state"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == TEST
    ]
    return {outcome.state: outcome for outcome in judge_all(chosen, tmp_path_factory.mktemp("closure"))}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many states were judged, from the reports: a process of its own may have run the tests."""
    counts = {
        kind: sum(TEST in getattr(report, "nodeid", "") for report in terminalreporter.stats.get(kind, ()))
        for kind in ("passed", "failed", "error", "xfailed", "xpassed")
    }
    if states := sum(counts.values()):
        broken = states - counts["passed"]
        terminalreporter.write_line(
            f"closure: {states} states, every printed command obeyed; {broken} break the law; "
            f"some drawn by ENVDOCTOR_CLOSURE_SEED={DRAWN_BY}"
        )
