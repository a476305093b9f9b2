"""The tools: what each takes, the command line it stands for, and the document that it answers with."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from envdoctor.model.frozen import frozen
from envdoctor.report import schemas

Arguments = Mapping[str, Any]

_TEXT = {"type": "string", "minLength": 1, "maxLength": 4096, "pattern": r"^[^\u0000]+$"}
_LONG = {**_TEXT, "maxLength": 65_536}
# What `explain` takes for a check; every other text is for `explain_error`.
_CHECK = r"^\s*([A-Za-z]{2}[0-9]{3}|[A-Za-z0-9]+(-[A-Za-z0-9]+)+)\s*$"
_YES_NO = {"type": "boolean", "default": False}
_MANY = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 200}
_VENV = {
    **_TEXT,
    "description": "A venv, its interpreter, or a project with a .venv, as an absolute path. Default: $VIRTUAL_ENV, "
    "$CONDA_PREFIX or the nearest .venv, as this server's own environment and folder have them.",
}
_PROFILE = {**_TEXT, "description": "Known-good stack: a name, or the path of its TOML."}
_OFFLINE = {**_YES_NO, "description": "Use uv's cache and local sources only."}
_DIGEST = {
    **_TEXT,
    "description": "`digest` of the plan that was shown. The plan is made again; where it or the files it was made on "
    "differ, nothing is changed, and the new plan is returned as an error.",
}
_DEEP = {**_YES_NO, "description": "Hash every installed file: minutes the first time, seconds afterwards."}
_FORCE = {**_YES_NO, "description": "Rebuild even when the stack is already in place."}
_NUMBER = {"type": "integer", "minimum": 1, "description": "Which backup, as history lists them. Default: the newest."}


@frozen
class AgentTool:
    """One tool."""

    name: str
    title: str
    description: str
    document: str
    """Name of the JSON document that it answers with, which has a schema."""
    command: tuple[str, ...]
    """Words of the command."""
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Arguments that follow the options as words, in this order."""
    reads: bool = True
    """Nothing is changed but caches of its own."""
    network: bool = False
    """Indexes may be asked."""
    changes: bool = False
    """Changes the venv; the one before is kept."""

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        properties = {name: dict(schema) for name, schema in self.properties.items()}
        return {
            "type": "object",
            "properties": properties,
            "required": list(self.required),
            "additionalProperties": False,
        }

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of its answer, as `envdoctor schema` prints it."""
        schema: dict[str, Any] = json.loads(schemas.read(self.document))
        return schema

    def command_line(self, arguments: Arguments) -> list[str]:
        """Return the words after `envdoctor` for arguments that fit the input schema."""
        line = [*self.command, "--json"]
        for name, value in arguments.items():
            if name in self.words or name not in self.properties or name == "stack":
                continue
            option = f"--{name.replace('_', '-')}"
            line += _written(option, value)
        rest: list[str] = []
        for name in self.words:
            value = arguments.get(name, [])
            rest += [str(item) for item in (value if isinstance(value, list) else [value])]
        return [*line, "--", *rest] if rest else line


def _written(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option] if value else []
    return [f"{option}={item}" for item in (value if isinstance(value, list) else [value])]


def _listed(*tools: AgentTool) -> Mapping[str, AgentTool]:
    return {tool.name: tool for tool in tools}


_STACK = {**_YES_NO, "description": "Add the machine, every distribution and every library that was looked at."}

TOOLS = _listed(
    AgentTool(
        name="check",
        title="What is wrong with a venv",
        description="Say what is wrong with a PyTorch venv, cause first: each finding has its evidence, its cause "
        "(`caused_by`), and `remediation.commands`. Read from files in a fraction of a second; nothing of the venv is "
        "run or imported. Start here. An empty `findings` is not enough: `could_not_tell` and "
        "`summary.not_checked` say what the verdict does not cover.",
        document="check",
        command=("check",),
        properties={
            "venv": _VENV,
            "profile": _PROFILE,
            "lock": {**_TEXT, "description": "Compare with a lock of any tool (uv.lock, requirements.txt)."},
            "deep": _DEEP,
            "require": {**_MANY, "description": 'Requirements that must be met: "torch>=2.8".'},
            "stack": _STACK,
        },
    ),
    AgentTool(
        name="why",
        title="Where something comes from",
        description="Say which file a library (libcudnn.so.9) or module is loaded from, where else the loader looks, "
        "who owns a path, and what requires a distribution. Read from files.",
        document="why",
        command=("why",),
        properties={"name": {**_TEXT, "description": "A soname, a module, a path or a distribution."}, "venv": _VENV},
        required=("name",),
        words=("name",),
    ),
    AgentTool(
        name="impact_remove",
        title="What a removal would break",
        description="Say what removing distributions would break, before it is done: files that others own too, "
        "libraries that would be missing, whether `import torch` still works. Read from files.",
        document="impact",
        command=("impact", "remove"),
        properties={"distributions": _MANY, "venv": _VENV},
        required=("distributions",),
        words=("distributions",),
    ),
    AgentTool(
        name="impact_install",
        title="What an installation would change",
        description="Install into a scratch copy with uv, compare, and delete the copy. The venv is only read; uv "
        "starts the copy's interpreter, which runs the start-up code (.pth files) of its packages. Downloads, and "
        "building a source distribution runs its code: ask the user before you name a package that they did not.",
        document="impact",
        command=("impact", "install"),
        properties={
            "specs": {**_MANY, "description": 'Requirements: "numpy==2.4.4".'},
            "venv": _VENV,
            "no_deps": {**_YES_NO, "description": "Leave dependencies out."},
            "upgrade": {**_YES_NO, "description": "Upgrade what is already installed."},
            "offline": _OFFLINE,
            "no_build_isolation": {**_YES_NO, "description": "Build with the packages of the copy, whose code runs."},
        },
        required=("specs",),
        words=("specs",),
        reads=False,
        network=True,
    ),
    AgentTool(
        name="diff",
        title="How two stacks differ",
        description="Compare two stacks, what matters most first. Each is a venv, a fingerprint file, a profile, or a "
        "backup (`.venv@2`).",
        document="diff",
        command=("diff",),
        properties={"a": _TEXT, "b": {**_TEXT, "description": "Default: the default venv."}},
        required=("a",),
        words=("a", "b"),
    ),
    AgentTool(
        name="cache_status",
        title="Will the compile caches hit",
        description="Say whether the inductor and Triton caches will hit in the next run, and why not. From files.",
        document="cache-status",
        command=("cache", "status"),
        properties={"venv": _VENV, "profile": _PROFILE},
    ),
    AgentTool(
        name="explain",
        title="What a check finds",
        description="Say what a check finds, why it matters, with an example and the fix.",
        document="explain",
        command=("explain",),
        properties={
            "code": {
                **_TEXT,
                "pattern": _CHECK,
                "description": "A check's code (ED201) or name. An error text is for explain_error.",
            }
        },
        required=("code",),
        words=("code",),
    ),
    AgentTool(
        name="explain_error",
        title="Which checks find the cause of an error text",
        description="Name the checks that find the cause of an error message, from a list of known texts. "
        "The venv is not looked at: check does that.",
        document="explain-text",
        command=("explain",),
        properties={
            "text": {
                **_LONG,
                "not": {"pattern": _CHECK},
                "description": "An error text as it was printed, from one word of it (`ncclSystemError`) to a whole "
                "traceback. A check's code or name is for explain.",
            }
        },
        required=("text",),
        words=("text",),
    ),
    AgentTool(
        name="history",
        title="The backups of a venv",
        description="List the backups that `rollback` can go back to, newest first.",
        document="history",
        command=("history",),
        properties={"venv": _VENV},
    ),
    AgentTool(
        name="plan_restore",
        title="Plan: rebuild the stack of a profile",
        description="Show what apply_restore would do, with a digest: rebuild a profile's locked stack beside the "
        "venv. Nothing is changed. Show the plan to the user before it is applied.",
        document="restore",
        command=("restore", "--dry-run"),
        properties={"profile": _PROFILE, "venv": _VENV, "offline": _OFFLINE, "force": _FORCE},
        required=("profile",),
        network=True,
    ),
    AgentTool(
        name="plan_repair",
        title="Plan: reinstall only what is damaged",
        description="Show what apply_repair would do, with a digest: the fewest reinstalls that make the venv whole. "
        "Nothing is changed. Show the plan to the user before it is applied.",
        document="repair",
        command=("repair", "--dry-run"),
        properties={"venv": _VENV, "profile": _PROFILE, "offline": _OFFLINE},
        network=True,
    ),
    AgentTool(
        name="plan_rollback",
        title="Plan: go back to a backup",
        description="Show what rollback would do, with a digest. Nothing is changed.",
        document="rollback",
        command=("rollback", "--dry-run"),
        properties={"number": _NUMBER, "venv": _VENV},
        words=("number",),
    ),
    AgentTool(
        name="plan_fix",
        title="Plan: every cause in order",
        description="Show one plan for all causes: restore, repair, commands on a copy, and what is left to the user. "
        "Nothing is changed; apply a restore or repair of it with plan_restore or plan_repair and their digests.",
        document="check-fix",
        command=("check", "--fix", "--dry-run"),
        properties={"venv": _VENV, "profile": _PROFILE},
        network=True,
    ),
    AgentTool(
        name="apply_restore",
        title="Rebuild the stack of a profile",
        description="Carry out the plan of plan_restore: build beside, verify every file, swap in. The venv before it "
        "is kept. Give the same arguments as to plan_restore.",
        document="restore",
        command=("restore",),
        properties={"plan": _DIGEST, "profile": _PROFILE, "venv": _VENV, "offline": _OFFLINE, "force": _FORCE},
        required=("plan", "profile"),
        reads=False,
        network=True,
        changes=True,
    ),
    AgentTool(
        name="apply_repair",
        title="Reinstall only what is damaged",
        description="Carry out the plan of plan_repair on a copy, verify it, and swap it in. The venv before it is "
        "kept. Give the same arguments as to plan_repair.",
        document="repair",
        command=("repair",),
        properties={"plan": _DIGEST, "venv": _VENV, "profile": _PROFILE, "offline": _OFFLINE},
        required=("plan",),
        reads=False,
        network=True,
        changes=True,
    ),
    AgentTool(
        name="rollback",
        title="Go back to a backup",
        description="Carry out the plan of plan_rollback: exchange the venv with a backup in one step. The venv before "
        "it becomes the newest backup. Give the same arguments as to plan_rollback.",
        document="rollback",
        command=("rollback",),
        properties={"plan": _DIGEST, "number": _NUMBER, "venv": _VENV},
        required=("plan",),
        words=("number",),
        reads=False,
        changes=True,
    ),
)
"""Name -> tool, in the order in which a stack is looked at and healed."""
