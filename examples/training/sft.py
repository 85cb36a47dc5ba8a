"""Supervised fine-tuning with TRL, on what the model wrote alone (`assistant_only_loss`)."""

from __future__ import annotations

from typing import Any

from datasets import Dataset
from tiny import ON_A_CPU, TRAINED, conversations, new_model, new_tokenizer
from trl import SFTConfig, SFTTrainer


def main() -> None:
    tokenizer = new_tokenizer()
    data = Dataset.from_list(conversations()[:1])
    trainer = SFTTrainer(
        model=new_model(tokenizer),
        processing_class=tokenizer,
        train_dataset=data,
        args=SFTConfig(
            output_dir=str(TRAINED / "sft"),
            assistant_only_loss=True,
            max_steps=30,
            per_device_train_batch_size=1,
            learning_rate=5e-3,
            lr_scheduler_type="constant",
            logging_steps=10,
            **ON_A_CPU,
        ),
    )
    show_what_is_trained(tokenizer, trainer.train_dataset[0])
    before = trainer.evaluate(trainer.train_dataset)["eval_loss"]
    trainer.train()
    after = trainer.evaluate(trainer.train_dataset)["eval_loss"]
    print(f"loss: {before:.2f} before, {after:.2f} after")
    trainer.save_model(str(TRAINED / "sft"))


def show_what_is_trained(tokenizer: Any, example: dict[str, Any]) -> None:
    """The first example, and which of its tokens count."""
    ids = example["input_ids"]
    mask = example["assistant_masks"] if "assistant_masks" in example else example["labels"]
    weighed = [id for id, weight in zip(ids, mask, strict=True) if weight not in (0, -100)]
    print(f"{len(weighed)} of {len(ids)} tokens are trained on:")
    print(tokenizer.decode(weighed))


if __name__ == "__main__":
    main()
