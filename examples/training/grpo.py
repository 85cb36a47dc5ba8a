"""GRPO with tools in TRL: the model calls a function, sees what it returns, and is rewarded."""

from __future__ import annotations

from typing import Any

from datasets import Dataset
from tiny import TRAINED, new_tokenizer
from transformers import LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

CALLED: list[str] = []


def weather(city: str) -> str:
    """
    The weather in a city.

    Args:
        city: Where.
    """
    CALLED.append(city)
    return "rain"


def reward(completions: list[Any], **_: Any) -> list[float]:
    """An answer that says what the tool said is worth more."""
    return [float("rain" in str(completion[-1]["content"])) for completion in completions]


def main() -> None:
    tokenizer = new_tokenizer()
    trainer = GRPOTrainer(
        model=LlamaForCausalLM.from_pretrained(TRAINED / "sft"),  # what sft.py made
        processing_class=tokenizer,
        reward_funcs=reward,
        tools=[weather],
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": "Weather in Paris?"}]}] * 4
        ),
        args=GRPOConfig(
            output_dir=str(TRAINED / "grpo"),
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=160,
            max_tool_calling_iterations=2,
            max_steps=2,
            temperature=0.5,
            learning_rate=1e-4,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            seed=0,
        ),
    )
    trainer.train()
    steps = [log for log in trainer.state.log_history if "reward" in log]
    print(f"rewards: {[log['reward'] for log in steps]}")
    print(f"the tool was called {len(CALLED)} times, for {sorted(set(CALLED))}")
    assert CALLED, "the model called no tool"


if __name__ == "__main__":
    main()
