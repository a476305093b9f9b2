"""A drafter by SpecForge's own model, anchors, mask, loss and optimizer files, on the rows and settings of one of ours.

    python3 benchmarks/trainer_specforge.py --peers FOLDER --profile .. --target .. --data .. --output ..

FOLDER holds a snapshot of the package `specforge`, as its repository has it; it is not part of this one. The flags are
those of `python -m trainer`: rows, batches, start weights, steps, rate, clipping and block sizes are read from
them. Features are this trainer's, in float32 masters and bf16 weights as BF16Optimizer keeps them; the evaluation and
the export are this trainer's too, so that what is compared is what the loss made of the same rows.
"""

# ruff: noqa: PLC0415 - the repository root comes onto sys.path first
import importlib
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))
PACKAGES = (
    "specforge", "specforge.core", "specforge.modeling", "specforge.modeling.draft", "specforge.algorithms",
    "specforge.algorithms.common",
)  # fmt: skip


def config_of(parts: Any) -> Any:
    """Return the drafter's config for SpecForge's model: the sizes of ours."""
    from transformers import Qwen3Config

    shape = parts.shape
    made = Qwen3Config(
        hidden_size=shape.hidden, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads, head_dim=shape.head_dim, intermediate_size=shape.intermediate,
        rms_norm_eps=shape.epsilon, rope_theta=shape.rope_theta, vocab_size=parts.target_config.vocab_size,
        max_position_embeddings=parts.target_config.max_position_embeddings, tie_word_embeddings=False,
        layer_types=["full_attention"] * shape.layers,
    )  # fmt: skip
    made.block_size, made.num_target_layers = parts.config.drafter.block, parts.target_config.num_hidden_layers
    made.dflash_config = {"mask_token_id": parts.mask_token, "target_layer_ids": list(parts.layer_ids)}
    made._attn_implementation = "flex_attention"  # noqa: SLF001
    return made


def main() -> None:  # noqa: PLR0915 - the stages in order
    """Train, evaluate on the way, export."""
    place = sys.argv.index("--peers")
    peers, argv = Path(sys.argv[place + 1]), [*sys.argv[1:place], *sys.argv[place + 2 :]]
    import torch
    from trainer_peers import packages

    from trainer.assemble import assemble
    from trainer.device import choose, working_dtype
    from trainer.records.metrics import Journal
    from trainer.runtime.finalize import Finalizer
    from trainer.runtime.steps import OpenDoor, TargetStep
    from trainer.settings.arguments import make_output, parse
    from trainer.step.loss import default_gamma

    arguments = parse(argv).admitted()
    make_output(arguments.output, resume=arguments.resume)
    parts = assemble(arguments.config)
    config = parts.config
    packages(peers, list(PACKAGES))
    family = importlib.import_module("specforge.algorithms.common.dflash_family_model")
    optimizers = importlib.import_module("specforge.optimizer")
    device = choose(config.run.device)
    torch.manual_seed(config.run.seed)
    target = parts.load_target(device)
    draft = family.DFlashDraftModel(config_of(parts)).to(device, working_dtype(device))
    ours = parts.drafter(device)
    told = draft.load_state_dict(ours.state_dict(), strict=False)
    assert not told.unexpected_keys, told
    head, table = target.model.get_output_embeddings(), target.model.get_input_embeddings()
    model = family.OnlineDFlashModel(
        draft, head, table, mask_token_id=parts.mask_token, block_size=config.drafter.block,
        num_anchors=config.drafter.anchors, loss_decay_gamma=default_gamma(config.drafter.block),
    )  # fmt: skip
    optimizer = optimizers.BF16Optimizer(
        draft, lr=config.optim.learning_rate, max_grad_norm=config.optim.clip, total_steps=config.run.steps,
        warmup_ratio=config.optim.warmup,
    )  # fmt: skip
    step, maker = TargetStep(target, config.run, OpenDoor()), parts.maker(pin=False)

    def weights() -> dict[str, torch.Tensor]:
        return {name: tensor for name, tensor in draft.state_dict().items() if name in dict(ours.named_parameters())}

    with Journal(arguments.output / "metrics.jsonl") as journal:
        ending = Finalizer(parts=parts, output=arguments.output, stop=lambda: False, report=journal.write)
        started, tokens, losses = time.perf_counter(), 0, []
        for number in range(config.run.steps):
            batch = maker.make(parts.plan.batch(number)).to(device)
            loss, accuracy, _ = model(batch.ids, step.run(batch), batch.loss_mask.float())
            loss.backward()
            optimizer.step()
            tokens += batch.tokens
            losses.append(loss.detach())
            done = number + 1
            if done % config.run.log_every == 0 or done == config.run.steps:
                mean = float(torch.stack(losses).mean())
                rate = tokens / (time.perf_counter() - started)
                told = {"step": done, "loss": mean, "accuracy": float(accuracy), "tokens_per_second": rate}
                journal.write("step", told)
                print(f"step {done:>6}  loss {mean:.3f}  {rate:,.0f} tok/s", flush=True)
                started, tokens, losses = time.perf_counter(), 0, []
            if config.run.evaluate_every and done % config.run.evaluate_every == 0 and done < config.run.steps:
                ours.load_state_dict(weights())
                ending.during(done, ours.eval(), target)
        ending.trained(weights(), target)


if __name__ == "__main__":
    main()
