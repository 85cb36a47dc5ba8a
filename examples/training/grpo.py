"""GRPO with tools in TRL: the model calls a function, sees what it returns, and is rewarded."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from datasets import Dataset
from tiny import ON_A_CPU, TRAINED, new_tokenizer, trained_model
from trl import GRPOConfig, GRPOTrainer

CALLED: list[str] = []
# It changes all the time, so that no answer is right for every sample of a group.
WEATHER = cycle(["rain", "sun"])


def weather(city: str) -> str:
    """
    The weather in a city.

    Args:
        city: Where.
    """
    CALLED.append(city)
    return next(WEATHER)


def reward(completions: list[Any], **_: Any) -> list[float]:
    """An answer that says what the tool said is worth more."""
    return [float(says_what_the_tool_said(completion)) for completion in completions]


def says_what_the_tool_said(completion: list[dict[str, Any]]) -> bool:
    results = [str(message["content"]) for message in completion if message["role"] == "tool"]
    return bool(results) and results[-1] in str(completion[-1]["content"])


def main() -> None:
    tokenizer = new_tokenizer()
    trainer = GRPOTrainer(
        model=trained_model(),
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
            **ON_A_CPU,
        ),
    )
    trainer.train()
    steps = [log for log in trainer.state.log_history if "reward" in log]
    print(f"rewards: {[log['reward'] for log in steps]}, and how far they are apart in a group:")
    print([log["reward_std"] for log in steps])
    print(f"the tool was called {len(CALLED)} times, for {sorted(set(CALLED))}")
    assert CALLED, "the model called no tool"
    # Where all rewards of a group are equal, no sample is better than another: nothing is trained.
    assert any(log["reward_std"] > 0 for log in steps), "all rewards of each group are equal"
    assert any(log["grad_norm"] > 0 for log in steps), "the model was not changed"


if __name__ == "__main__":
    main()
