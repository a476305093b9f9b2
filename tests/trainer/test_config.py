"""The command line and the config: what there is, and what a wrong value is told."""

# ruff: noqa: E501 - tables of whole messages

import dataclasses
import errno
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest
import torch

from envdoctor.gate import Admitted
from trainer import plan, warmup
from trainer.__main__ import main
from trainer.assemble import assemble
from trainer.errors import ConfigError
from trainer.settings.arguments import parse, parser
from trainer.settings.bounds import RANGES
from trainer.settings.config import SECTIONS, CacheConfig, LossConfig, RunConfig, TopologyConfig, TrainConfig, build
from trainer.settings.presets import PRESETS
from trainer.settings.topology import Role, Topology, topology
from trainer.writing import one_at_a_time

ROOT = Path(__file__).resolve().parents[2]


def test_the_flags_are_these() -> None:
    assert sorted(option for action in parser()._actions for option in action.option_strings) == [
        "--compile", "--config", "--data", "--device", "--drafters", "--gate", "--gate-reason", "--help", "--output",
        "--preset", "--profile", "--quiet", "--resume", "--runtime", "--seed", "--set", "--steps", "--target", "--targets", "--wandb",
        "-h",
    ]  # fmt: skip


SMOKE = Admitted(profile="cpu-smoke", preset="cpu-smoke")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds(name: str) -> None:
    chosen = parse(["--profile", "mine", "--preset", name]).on(Admitted(profile="mine", preset="cpu-smoke"))
    assert chosen.config == build("mine", [PRESETS[name]])


@pytest.mark.parametrize("path", sorted((ROOT / "profiles").glob("*.toml")), ids=lambda path: path.stem)
def test_the_preset_of_every_shipped_profile_exists(path: Path) -> None:
    assert tomllib.loads(path.read_text())["trainer"]["preset"] in PRESETS


def test_a_profile_that_names_no_preset_starts_from_the_plain_one() -> None:
    assert parse(["--profile", "mine"]).on(Admitted(profile="mine", preset="")).config == build("mine", [])


@pytest.mark.parametrize(
    ("preset", "message", "hint"),
    [
        (
            "huge",
            "preset `huge`: not found",
            "use one of plain, cpu-smoke, server (`--preset`, or [trainer] preset of the profile); change its settings "
            "with --config FILE or --set KEY=VALUE",
        ),
        (
            None,
            "--profile x/mine.toml: not read, so the preset it names is not known",
            "name the preset: --preset plain or cpu-smoke or server",
        ),
    ],
)
def test_a_preset_that_is_not_found(preset: str | None, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(["--profile", "x/mine.toml"]).on(Admitted(profile="mine", preset=preset))
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_layers_win_in_order(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[optim]\nclip = 2\nlearning_rate = 1e-4\n[data]\nbuckets = [32, 64]\n[target]\npath = "a"\n')
    config = parse([
        "--profile", "cpu-smoke", "--config", str(file), "--set", "optim.clip=0.5", "--set", "target.path=b", "--target", "c",
        "--steps", "7",
    ]).on(SMOKE).config  # fmt: skip
    assert (config.optim.clip, config.optim.learning_rate, config.data.buckets) == (0.5, 1e-4, (32, 64))
    assert (config.target.path, config.run.steps, config.drafter.block) == ("c", 7, 8)


def test_a_key_of_a_file_gives_way_to_a_flag_that_makes_it_useless(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "[run]\nevaluate_tokens = 9\nevaluate_every = 50\n[cache]\npath = 'x'\nsize_gb = 2\n"
        "[loss]\npositions = 'dpace'\nalpha = 0.25\n"
    )
    command = ["--profile", "cpu-smoke", "--config", str(file), "--set", "run.evaluate=0", "--set", "cache.path="]
    config = parse([*command, "--set", "loss.positions=decay"]).on(SMOKE).config
    assert (config.run.evaluate_tokens, config.run.evaluate_every) == (RunConfig().evaluate_tokens, 0)
    assert (config.cache, config.loss) == (CacheConfig(), LossConfig())
    # Given in one place, in whichever order, the two contradict each other.
    file.write_text("[run]\nevaluate = 0\nevaluate_tokens = 9\n")
    for flags in (["--config", str(file)], ["--set", "run.evaluate_tokens=9", "--set", "run.evaluate=0"]):
        with pytest.raises(ConfigError) as caught:
            parse(["--profile", "cpu-smoke", *flags]).on(SMOKE)
        assert caught.value.message == (
            "run.evaluate_tokens: 9 does nothing: run.evaluate is 0, so nothing is evaluated"
        )


def test_a_folder_that_is_not_there_is_not_made_to_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--profile", "cpu-smoke", "--resume", "--output", str(tmp_path / "typo")]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: --output {tmp_path}/typo: no such folder",
        "hint: give the --output of an earlier run, or omit --resume",
    ]
    assert not (tmp_path / "typo").exists()
    assert main(["--profile", "cpu-smoke", "--resume"]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "error: --resume: no --output", "hint: add --output with the folder of the run that is to go on",
    ]  # fmt: skip


def test_who_waits_says_for_what_and_a_file_system_without_locks_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock, tries = tmp_path / "lock", [BlockingIOError(), BlockingIOError(), OSError(errno.ENOLCK, "No locks available")]

    def flock(*_: object) -> None:
        raise tries.pop(0)

    monkeypatch.setattr("trainer.writing.fcntl.flock", flock)
    monkeypatch.setattr("trainer.writing.QUIET_SECONDS", 0.0)
    with one_at_a_time(lock, "reading x"):
        pass
    assert (tries, capsys.readouterr().err) == ([], (
        "waiting: another process is reading x\n"
        f"note: {lock}: cannot be locked (No locks available): that no other process is reading x is not checked\n"
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--set", "optim.lr=1"], "optim.lr: no such key", "keys of optim are learning_rate, warmup, final, betas, epsilon, weight_decay, clip, accumulate"),
        (["--set", "optimizer.lr=1"], "optimizer: no such section", "did you mean optim?"),
        (["--set", "zoo.lr=1"], "zoo: no such section", f"sections are {', '.join(SECTIONS)}"),
        (["--set", "run.stepz=1"], "run.stepz: no such key", "did you mean run.steps?"),
        (["--set", "topology.steps=1"], "topology.steps: no such key", "use run.steps"),
        (["--set", "clip"], "--set clip: not of the form SECTION.NAME=VALUE", "write for example --set optim.clip=0.5"),
        (["--set", "optim.clip=abc"], "optim.clip: 'abc' is not a number", "give a number"),
        (["--set", "run.seed=1.5"], "run.seed: 1.5 is not a whole number", "give a whole number"),
        (["--set", "target.path=3"], "target.path: 3 is not a string", "give a string"),
        (["--set", "run.compile=true"], "run.compile: True is none of auto, on, off", "use one of auto, on, off"),
        (["--device", "tpu"], "run.device: 'tpu' is none of auto, cpu, cuda", "use one of auto, cpu, cuda"),
        (["--set", "data.buckets=[64, 32]"], "data.buckets: [64, 32] is not ascending from at least 8", "list each length once, shortest first"),
        (["--set", "drafter.block=1"], "drafter.block: width 1 predicts nothing", "use at least 2"),
        (["--set", "optim.warmup=1.5"], "optim.warmup: 1.5 is not a share of the steps", "use 0 to 0.99"),
        (["--set", "loss.alpha=0.25"], "loss.alpha: 0.25 does nothing: loss.positions=decay has no smoothing", "omit loss.alpha, or set loss.positions=dpace"),
        (["--set", "drafter.gamma=4", "--set", "loss.positions=dpace"], "drafter.gamma: 4.0 does nothing: loss.positions=dpace has no fixed decay", "omit drafter.gamma, or set loss.positions=decay"),
        (["--set", "drafter.sliding_window=64"], "drafter.sliding_window: 64 does nothing: drafter.sliding_layers names no layer", "omit drafter.sliding_window, or set drafter.sliding_layers to those that slide"),
        (["--set", "cache.size_gb=2"], "cache.size_gb: 2.0 does nothing: cache.path is empty, so nothing is cached", "omit cache.size_gb, or set cache.path to the folder"),
        (["--set", "target.features=3"], "target.features: 3 does nothing: target.layer_ids=[0, 1, 2] names the layers", "omit target.features, or set target.layer_ids=[]"),
        (["--set", "run.evaluate=0", "--set", "run.evaluate_tokens=9"], "run.evaluate_tokens: 9 does nothing: run.evaluate is 0, so nothing is evaluated", "omit run.evaluate_tokens, or set run.evaluate to the number of prompts"),
        (["--set", "run.evaluate=0", "--set", "run.evaluate_positions=9"], "run.evaluate_positions: 9 does nothing: run.evaluate is 0, so nothing is evaluated", "omit run.evaluate_positions, or set run.evaluate to the number of prompts"),
        (["--set", "target.layer_ids=[1, 1]"], "target.layer_ids: a layer is listed twice in [1, 1]", "list each layer once"),
        (["--runtime", "data-parallel", "--drafters", "3", "--targets", "2"], "topology.targets: data-parallel has a target beside each of its 3 drafters, not 2", "give --drafters alone"),
        (["--runtime", "inline", "--drafters", "3"], "topology.runtime: inline holds one worker of each kind, not 1 + 3", "use --runtime processes, or --runtime threads for one process"),
        (["--set", "run.threads=-1"], "run.threads: -1", "use 0 for torch's choice"),
        (["--set", "run.evaluate=-3"], "run.evaluate: -3", "use 0 for no evaluation"),
        (["--set", "run.dense_limit_gb=nan"], "run.dense_limit_gb: nan", "use a positive size"),
        (["--seed", "99999999999999999999"], "run.seed: 99999999999999999999", "use 0 to 2**63 - 1"),
        (["--seed", "-1"], "run.seed: -1", "use 0 to 2**63 - 1"),
        (["--set", "optim.betas=[0.9]"], "optim.betas: [0.9] is not a pair of rates", "use two rates from 0 to below 1, such as [0.9, 0.999]"),
        (["--set", "optim.betas=[0.9, 1.0]"], "optim.betas: [0.9, 1.0] is not a pair of rates", "use two rates from 0 to below 1, such as [0.9, 0.999]"),
        (["--set", "optim.epsilon=-1"], "optim.epsilon: -1.0", "use 0 or more (1e-8)"),
        (["--set", "optim.weight_decay=-1.0"], "optim.weight_decay: -1.0", "use 0 or more"),
        (["--set", "optim.learning_rate=inf"], "optim.learning_rate: inf", "use a positive rate"),
        (["--set", "drafter.head_dim=7"], "drafter.head_dim: 7 cannot be halved for rotary positions", "use an even size, or 0 for the target's own"),
        (["--set", "drafter.heads=-4"], "drafter.heads: -4", "use 0 for the target's own"),
        (["--set", "data.buckets=[]"], "data.buckets: [] is not ascending from at least 8", "list each length once, shortest first"),
        (["--set", "data.tokens=3"], "data.tokens: 3 positions, and the shortest bucket has 48", "use at least the shortest bucket"),
        (["--set", "target.path="], "target.path: empty", "give a path (a variable of the shell may not be set), or omit the key"),
        (["--set", "data.path=['a.jsonl', '']"], "data.path: empty", "give a path (a variable of the shell may not be set), or omit the key"),
        (["--target", ""], "--target: empty", "give a value (a variable of the shell may not be set), or omit --target"),
        (["--data", "a.jsonl", "--data", ""], "--data: empty", "give a value (a variable of the shell may not be set), or omit --data"),
        (["--output", ""], "--output: empty", "give a value (a variable of the shell may not be set), or omit --output"),
        (["--config", ""], "--config: empty", "give a value (a variable of the shell may not be set), or omit --config"),
        (["--wandb", ""], "--wandb: empty", "give a value (a variable of the shell may not be set), or omit --wandb"),
        (["--set", f"run.steps={'9' * 4301}"], "--set run.steps=..: Exceeds the limit (4300 digits) for integer string conversion: value has 4301 digits", "give a value that can be read"),
        (["--set", f"run.profile={'[' * 9999}"], "--set run.profile=..: nested too deeply", "give a value that can be read"),
        (["--set", 'target.chat_template="a\\u0000b"'], "target.chat_template: 'a\\x00b' has a null byte", "write it without"),
        (["--config", "/nowhere.toml"], "--config /nowhere.toml: No such file or directory", "give a readable TOML file"),
    ],
)  # fmt: skip
def test_a_wrong_value_names_its_key_and_the_cure(arguments: list[str], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(["--profile", "cpu-smoke", *arguments]).on(SMOKE)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    "key", sorted(f"{section}.{field.name}" for section, kind in SECTIONS.items() for field in dataclasses.fields(kind))
)
def test_every_number_has_a_range_and_nan_is_in_none(key: str) -> None:
    section, name = key.split(".")
    default = getattr(SECTIONS[section](), name)
    kind = typing.get_type_hints(SECTIONS[section])[name]
    item = typing.get_args(kind)[0] if isinstance(default, tuple) and name != "layer_ids" else kind
    if item not in (int, float):
        assert key not in RANGES
        return
    numbers = default or (item(1),) if isinstance(default, tuple) else (default,)
    worst = float("nan") if any(type(number) is float for number in numbers) else -2
    holds, _, _ = RANGES[key]
    assert holds(default)
    assert not holds(tuple(worst for _ in numbers) if isinstance(default, tuple) else worst)


def test_a_config_file_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(b'[optim]\nx = "\xff"\n')
    with pytest.raises(ConfigError) as caught:
        parse(["--profile", "cpu-smoke", "--config", str(file)])
    assert (caught.value.message, caught.value.hint) == (
        f"--config {file}: line 2: byte 0xff at column 6 is not UTF-8", "save the file as UTF-8",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "told"),
    [("file/run", "Not a directory"), ("file", "File exists"), ("/proc/run", "No such file or directory")],
)
def test_an_output_that_cannot_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, told: str
) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / place
    assert main(["--profile", "cpu-smoke", "--output", str(output)]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: --output {output}: {told}", "hint: give a folder that can be made and written",
    ]  # fmt: skip


def test_a_backend_that_torch_does_not_have() -> None:
    with pytest.raises(ConfigError) as caught:
        assemble(build("cpu-smoke", [{"run": {"backend": "nonsense"}}]))
    assert caught.value.message == f"run.backend: this torch {torch.__version__} has no backend 'nonsense'"
    assert {"eager", "inductor"} < set(caught.value.hint.removeprefix("use one of ").split(", "))


def test_a_template_that_is_not_utf8(target_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_bytes(b"\xe4")
    with pytest.raises(ConfigError) as caught:
        assemble(build("cpu-smoke", [{"target": {"path": str(target_folder), "chat_template": str(file)}}]))
    assert (caught.value.message, caught.value.hint) == (
        f"target.chat_template: {file}: line 1: byte 0xe4 at column 1 is not UTF-8", "save the file as UTF-8",
    )  # fmt: skip


@pytest.mark.parametrize("content", [f"[run]\nsteps = {'9' * 4301}\n", f"[run]\nprofile = {'[' * 9999}\n"])
def test_a_config_file_that_toml_cannot_take(tmp_path: Path, content: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=f"^--config {file}: ") as caught:
        parse(["--profile", "cpu-smoke", "--config", str(file)])
    assert caught.value.hint == "fix the TOML at that line"


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (
            ["--target", "model"], "--target model: no --data, and the embedded corpus is the toy target's language",
            "name the conversations with --data, or omit --target to train the toy",
        ),
        (
            ["--data", "a.jsonl"], "--data a.jsonl: no --target, and the built-in toy target knows none of its words",
            "name the target's folder with --target, or omit --data to train the toy",
        ),
    ],
)  # fmt: skip
def test_a_target_and_rows_come_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str, hint: str
) -> None:
    output = tmp_path / "run"
    assert main(["--profile", "cpu-smoke", "--output", str(output), *flags]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [f"error: {message}", f"hint: {hint}"]
    assert not output.exists()
    if "--data" in flags:
        # What is for shapes alone needs no rows, but none of another target either.
        for command in (plan, warmup):
            assert command.main(["--profile", "cpu-smoke", *flags]) == 2
            assert capsys.readouterr().err.splitlines()[-2:] == [f"error: {message}", f"hint: {hint}"]


def test_errors_leave_with_exit_code_2_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trainer", "--profile", "cpu-smoke", "--set", "optim.clip=0"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    bypass = "warning: envdoctor gate: mode off for profile cpu-smoke, because: trainer tests\n"
    assert done.stderr == f"{bypass}error: optim.clip: 0.0\nhint: use a positive norm (1.0)\n"


def test_the_gate_refuses_before_torch_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVDOCTOR_GATE", "warn")
    monkeypatch.delenv("ENVDOCTOR_GATE_REASON")
    code = (
        "import sys\nfrom trainer.__main__ import main\n"
        "try:\n    main(['--profile', 'cpu-smoke'])\n"
        "except SystemExit as error:\n    print(error.code, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    # A bypass without a reason is the gate's own refusal, on any stack.
    assert done.stdout == "2 False\n", done.stderr


def test_every_key_has_a_default_and_sections_are_frozen() -> None:
    config = build("cpu-smoke", [])
    for name, kind in SECTIONS.items():
        section = getattr(config, name)
        assert kind() == section
        for field in dataclasses.fields(section):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(section, field.name, getattr(section, field.name))
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, name, section)


@pytest.mark.parametrize(("targets", "drafters", "nodes"), [(1, 1, 1), (5, 3, 1), (10, 6, 2), (3, 2, 2), (1, 4, 1)])
def test_ranks_and_roles_are_one_to_one(targets: int, drafters: int, nodes: int) -> None:
    made = Topology(targets=targets, drafters=drafters, nodes=nodes)
    roles = [made.role(rank) for rank in range(made.world)]
    assert roles[0] == Role(kind="drafter", index=0)
    assert sorted((role.kind, role.index) for role in roles) == [
        *(("drafter", index) for index in range(drafters)), *(("target", index) for index in range(targets)),
    ]  # fmt: skip
    assert [made.rank(role) for role in roles] == list(range(made.world))
    assert {made.target_of(batch) for batch in range(30)} == set(range(targets))


def test_each_node_gets_its_share_of_both_kinds() -> None:
    made = Topology(targets=10, drafters=6, nodes=2)
    assert [made.role(rank).kind for rank in range(8)] == ["drafter"] * 3 + ["target"] * 5
    assert [made.role(rank) for rank in (8, 11)] == [Role(kind="drafter", index=3), Role(kind="target", index=5)]


def test_a_wrong_number_of_processes_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        topology(TrainConfig(profile="x", topology=TopologyConfig(targets=5, drafters=3)), world=4)
    assert caught.value.message == "topology: 5 targets + 3 drafters are 8 workers, and 4 processes were started"
    together = TrainConfig(profile="x", topology=TopologyConfig(drafters=3, runtime="data-parallel"))
    with pytest.raises(ConfigError) as caught:
        topology(together, world=4)
    assert caught.value.message == "topology: 3 data-parallel drafters are 3 workers, and 4 processes were started"
    assert [topology(together, world=3).role(rank) for rank in range(3)] == [
        Role(kind="drafter", index=rank) for rank in range(3)
    ]


def test_a_full_device_is_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The text of torch 2.11 on an H200; there is no way to fill a device that is not there.
    first = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.72 GiB of which 1.00 GiB is free."
    more = " Including non-PyTorch memory, this process has 138.71 GiB memory in use. Of the allocated memory 130.00 GiB is"

    def full(*_: object) -> int:
        raise torch.OutOfMemoryError(first + more)

    monkeypatch.setattr("trainer.train.train", full)
    assert main(["--profile", "cpu-smoke", "--output", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: {first}",
        "hint: set drafter.recompute=true, or lower data.tokens, drafter.anchors or run.loss_rows;"
        " `python -m trainer.plan` with the same flags lists what fits where",
    ]
