"""The tools over standard input and output, with the official SDK. Every call is a command of its own (child.py)."""

import json
import os
from collections.abc import Sequence
from signal import SIGHUP, SIGINT, SIGTERM
from typing import Any

import anyio
import mcp_types as types
from jsonschema import Draft202012Validator, ValidationError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from envdoctor import __version__
from envdoctor.agents.child import Ended, Start, run_command
from envdoctor.agents.tools import TOOLS, AgentTool
from envdoctor.exitcodes import ExitCode
from envdoctor.report.rendering import document_as

_AT_ONCE = 4
"""Commands that run side by side."""
# Documents that read well as Markdown: what a client shows that has no structured content.
_AS_MARKDOWN = {"check": "check", "impact": "impact", "diff": "diff", "cache-status": "cache status"}
INSTRUCTIONS = """\
envdoctor finds out why a PyTorch environment is broken, from files alone: nothing of the venv is run.
1. check: the first finding without `caused_by` is the cause to fix; its consequences go away with it.
2. why, explain, explain_error, diff, impact_*: evidence before a change. Ask impact_remove before
   anything is removed by hand.
3. plan_repair or plan_restore: show the plan to the user. Nothing is changed yet.
4. apply_repair or apply_restore with the plan's `digest`. A plan that no longer holds is refused, with the new one.
5. check again. plan_rollback and rollback go back to the venv before it.
Names of users, homes and this host are hidden, so a path in an answer may not exist under that name: name venvs as you
know them. The variables that check reports are those of this server, not of the user's shell."""


def served(start: Start, *, redact: bool) -> Server[Any]:
    """Return the server.

    start: how a command is started. redact: names of users, homes and this host are hidden, as secrets always are.
    """
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def list_tools(context: Any, parameters: Any) -> types.ListToolsResult:
        del context, parameters
        return types.ListToolsResult(tools=[_as_listed(tool) for tool in TOOLS.values()])

    async def call_tool(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        tool, arguments = TOOLS.get(parameters.name), parameters.arguments or {}
        if tool is None:
            return _failed(f"there is no tool `{parameters.name}`; there are {', '.join(TOOLS)}")
        if wrong := _mistakes(tool.input_schema, arguments):
            return _failed(f"{tool.name}: {'; '.join(wrong)}")
        words = [*tool.command_line(arguments)]
        words.insert(len(tool.command), "--redact" if redact else "--no-redact")
        lines = 0

        async def tell(line: str) -> None:
            nonlocal lines
            lines += 1
            await context.session.report_progress(float(lines), None, line)

        async with limiter:
            ended = await run_command(start, words, tell)
        return answer(tool, arguments, ended)

    return Server(
        "envdoctor",
        version=__version__,
        title="envdoctor",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def answer(tool: AgentTool, arguments: Any, ended: Ended) -> types.CallToolResult:
    """Return what a command left as the result of a tool: the document, or the error with its hint."""
    try:
        document = json.loads(ended.out)
    except ValueError:
        return _failed("\n".join(ended.said) or f"`envdoctor {' '.join(tool.command)}` ended with {ended.code}")
    if error := document.get("error"):
        hint = f"\n\nhint: {error['hint']}" if error["hint"] else ""
        return _failed(f"error: {error['message']}{hint}")
    if tool.document == "check" and not arguments.get("stack"):
        document.pop("stack", None)
    if wrong := _mistakes(tool.output_schema, document):
        return _failed(f"envdoctor itself failed: its document is not as its schema says: {'; '.join(wrong[:3])}")
    failed = bool(document.get("refused") or (tool.changes and ended.code))
    said = f"{document.get('refused') or document['status']}\n\n" if failed else ""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=f"{said}{_text(tool, document)}")],
        structured_content=document,
        is_error=failed,
    )


def _text(tool: AgentTool, document: dict[str, Any]) -> str:
    if command := _AS_MARKDOWN.get(tool.document):
        return document_as(command, document, "markdown")
    return json.dumps(document, separators=(",", ":"))


def _as_listed(tool: AgentTool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.reads,
        destructive_hint=tool.changes,
        idempotent_hint=tool.reads,
        open_world_hint=tool.network,
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=hints,
    )


def _mistakes(schema: dict[str, Any], value: Any) -> Sequence[str]:
    found = Draft202012Validator(schema).iter_errors(value)
    return [f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {_mistake(error)}" for error in found]


def _mistake(error: ValidationError) -> str:
    """Return what is wrong with one value; the library's words for a text are the whole text and an expression."""
    if error.validator == "maxLength":
        return f"{len(error.instance):,} characters, and {error.validator_value:,} are the most"
    if error.validator in ("pattern", "not"):
        wanted = error.schema.get("description", "a text")
        return "it has a NUL character" if "\0" in error.instance else f"not what is wanted: {wanted}"
    return str(error.message)[:200]


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def serve(start: Start, *, redact: bool) -> int:
    """Serve until the client closes standard input; return the exit code.

    Standard output is the protocol's: the SDK leads everything else that would be printed there to standard error.
    """
    server = served(start, redact=redact)
    anyio.run(_serve, server)
    return ExitCode.OK


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        async with anyio.create_task_group() as group:
            stopped = anyio.Event()
            group.start_soon(_until_stopped, group.cancel_scope, stopped)
            await server.run(read, write, server.create_initialization_options())
            group.cancel_scope.cancel()
        if stopped.is_set():
            # The thread that reads standard input cannot be interrupted, and would be waited for.
            os._exit(ExitCode.INTERRUPTED)


async def _until_stopped(scope: anyio.CancelScope, stopped: anyio.Event) -> None:
    with anyio.open_signal_receiver(SIGINT, SIGTERM, SIGHUP) as signals:
        async for _ in signals:
            stopped.set()
            scope.cancel()
            return
