"""`envdoctor mcp`: the commands as tools of an agent."""

import importlib.util
import sys

from envdoctor.cli.isolation import start_of_a_child
from envdoctor.cli.shown import shown
from envdoctor.cli.terminal import say
from envdoctor.errors import UsageError


def mcp() -> int:
    """Serve an agent over stdin and stdout with the Model Context Protocol: look, plan, and apply what was shown.

    The client of the agent starts this. Reading tools are marked as such; the others carry out a plan that was shown,
    by its digest. Names of users, homes and this host are hidden, unless `--no-redact` is given.
    """
    # mcp_types came with version 2, whose interface this needs.
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("mcp_types") is None:
        raise UsageError(
            "an agent is served by the MCP SDK (mcp 2.3 or newer), which is not installed",
            "install envdoctor with it, from its checkout: `uv tool install '.[mcp]'`",
        )
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("stdin or stdout is closed, and the protocol needs both", "let an agent's client start it")
    if sys.stdin.isatty():
        say("waiting for a client on stdin, which is a terminal: see docs/agents.md; Ctrl-C ends it")
    from envdoctor.agents.child import Start
    from envdoctor.agents.server import serve

    words, environ = start_of_a_child()
    return serve(Start(words=words, environ=environ), redact=shown().redact is not False)
