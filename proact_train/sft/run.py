"""One SFT run, read downward: recipe, seeds, model, data, trainer, train or resume, save.

Left to DeepSpeed: sharding. Left to `proact build sft`: whole turns dropped to a token budget,
thoughts capped, loss weights.
"""

from __future__ import annotations

from pathlib import Path

import datasets
import torch
from transformers import set_seed
from trl import SFTConfig

from ..core.contracts import load_samples
from ..core.errors import RunError
from ..core.recipe import check_same_recipe, dump_recipe
from ..core.run_folder import (
    COMPLETE,
    MODEL,
    checkpoint_step,
    mark_complete,
    model_folder,
    newest_complete_checkpoint,
)
from ..model.load import freeze_vision, load_model, load_processor, trainable_summary
from ..training.callbacks import (
    EXIT_CODE_STOPPED,
    MetricsFile,
    ProgressBar,
    StopFile,
    replace_printing,
)
from ..training.launch import (
    check_saved_weights,
    check_zero3_saves,
    keep_metrics_until,
    launch_settings,
    name_wandb_project,
    num_processes,
    uses_deepspeed,
)
from .collator import SftCollator, check_samples
from .recipe import KEYS_FREE_ON_RESUME, SftRecipe
from .trainer import WeightedSftTrainer


def run_sft(recipe: SftRecipe) -> int:
    """Trains to the end, or until the stop file appears.

    Returns:
        0 once RUN/model stands, 85 if the run was asked to stop and saved a checkpoint.

    Raises:
        ProActError: the recipe does not fit the launch, the data or the run folder.
    """
    run = Path(recipe.output_dir)
    checkpoint = newest_complete_checkpoint(run)
    if checkpoint:
        check_same_recipe(recipe, run, KEYS_FREE_ON_RESUME)
    arguments = build_arguments(recipe)  # before the model: ZeRO-3 shards while it loads
    is_main = arguments.process_index == 0
    if (run / MODEL / COMPLETE).is_file():
        if is_main:
            print(f"{run / MODEL}: this run is finished. Give another output_dir to train anew.")
        return 0

    set_seed(recipe.seed)
    source = model_folder(recipe.model)
    processor = load_processor(source, recipe.max_pixels)
    samples = load_samples(recipe.train_samples)
    lengths = check_samples(
        processor, samples, recipe.max_context_tokens, with_thought=recipe.with_thought
    )
    model = load_model(source, load_dtype(recipe), recipe.attn_implementation)
    if not recipe.train_vision:
        freeze_vision(model)

    trainer = WeightedSftTrainer(
        model=model,
        args=arguments,
        data_collator=SftCollator(processor, samples, recipe.encoded_cache_mib),
        train_dataset=datasets.Dataset.from_dict({"sample_idx": list(range(len(samples)))}),
        processing_class=processor,
    )
    shown = ProgressBar(("loss", "accuracy"))
    replace_printing(trainer, [MetricsFile(), shown, StopFile(trainer)])
    if is_main:
        if checkpoint is None:
            dump_recipe(recipe, run / "recipe.yaml")
        keep_metrics_until(run, checkpoint_step(checkpoint) if checkpoint else 0)
        print(trainable_summary(model))
        print(
            f"{len(samples):,} samples, {min(lengths):,} to {max(lengths):,} tokens, "
            f"{arguments.world_size} process(es) x {arguments.gradient_accumulation_steps} "
            f"accumulation step(s) x {recipe.micro_batch_size}"
        )
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.is_stopped:
        if is_main:
            print(f"Stopped at step {trainer.state.global_step}; launch again to go on.")
        return EXIT_CODE_STOPPED

    trainer.save_model(str(run / MODEL))
    if is_main:
        check_saved_weights(run / MODEL, "a whole model")
        mark_complete(run / MODEL)
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()
    return 0


def build_arguments(recipe: SftRecipe) -> SFTConfig:
    """trl's arguments for a recipe under the current launch."""
    per_pass = num_processes() * recipe.micro_batch_size
    if recipe.batch_size % per_pass:
        raise RunError(
            "batch_size",
            f"{recipe.batch_size} streams over {num_processes()} processes x micro_batch_size "
            f"{recipe.micro_batch_size}",
            f"a multiple of {per_pass}",
            "Change batch_size, micro_batch_size or the number of processes.",
        )
    name_wandb_project(recipe.report_to)
    arguments = SFTConfig(
        output_dir=recipe.output_dir,
        run_name=recipe.run_name or Path(recipe.output_dir).name,
        per_device_train_batch_size=recipe.micro_batch_size,
        gradient_accumulation_steps=recipe.batch_size // per_pass,
        num_train_epochs=recipe.num_train_epochs,
        max_steps=recipe.max_steps or -1,
        train_sampling_strategy=recipe.sampling,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        # As a share: DeepSpeed's optimizer hides the rate that `min_lr` would be held against.
        lr_scheduler_kwargs={"min_lr_rate": recipe.min_lr / recipe.learning_rate},
        warmup_steps=recipe.warmup_ratio,  # a number below 1 is a share of the steps
        weight_decay=recipe.weight_decay,
        adam_beta1=recipe.adam_beta1,
        adam_beta2=recipe.adam_beta2,
        max_grad_norm=recipe.max_grad_norm,
        seed=recipe.seed,
        bf16=recipe.dtype == "bfloat16",
        gradient_checkpointing=recipe.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        activation_offloading=recipe.activation_offload,
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        dataloader_num_workers=recipe.num_workers,
        dataloader_pin_memory=torch.cuda.is_available(),
        logging_steps=recipe.logging_steps,
        report_to=recipe.report_to,
        save_steps=recipe.save_steps,
        save_total_limit=recipe.keep_checkpoints,
        **launch_settings(),
    )
    check_zero3_saves(arguments, "a model for the next stage")
    return arguments


def load_dtype(recipe: SftRecipe) -> torch.dtype:
    """Master weights are float32: DeepSpeed makes its own, elsewhere the model holds them."""
    return torch.bfloat16 if recipe.dtype == "bfloat16" and uses_deepspeed() else torch.float32
