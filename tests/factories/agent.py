"""A client of `envdoctor mcp`, by the official SDK, with a server of its own. The SDK is an extra: guard the import."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.factories.run_envdoctor import COMMAND, environment


@dataclass
class Agent:
    """A client with a server of its own."""

    client: Client
    portal: BlockingPortal
    folder: Path
    told: list[str] = field(default_factory=list)

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool; what is told meanwhile is kept. The SDK holds the answer to the tool's output schema."""

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            self.told.append(message or "")

        async def work() -> Any:
            return await self.client.call_tool(tool, arguments, progress_callback=tell)

        self.told.clear()
        result = self.portal.call(work)
        assert str(self.folder) not in f"{result.content[0].text}{json.dumps(result.structured_content)}{self.told}"
        return result

    def document(self, tool: str, /, **arguments: Any) -> Any:
        """Return the document that a tool answers with."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content[0].text
        return result.structured_content

    def refusal(self, tool: str, /, **arguments: Any) -> str:
        """Return what a tool says that answers with an error."""
        result = self.call(tool, **arguments)
        assert result.is_error
        return str(result.content[0].text)


@contextmanager
def agent_in(folder: Path, extra: dict[str, str], started_in: Path | None = None) -> Iterator[Agent]:
    """Start a server, whose user's home is the folder, so that every path in an answer is one to hide."""
    told = environment(folder, {**extra, "HOME": str(folder)})
    args = [*COMMAND[1:], "mcp"]
    server = StdioServerParameters(command=COMMAND[0], args=args, env=told, cwd=started_in or folder)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server)) as client,
    ):
        yield Agent(client=client, portal=portal, folder=folder)
