"""A rollout with `Session`: the ids that are trained on are the ids that were sampled.

Text that is decoded and encoded again may get other ids, and then a policy gradient is taken for
tokens that the model never chose. A session keeps what was sampled as it was sampled, and says
where a later turn would rewrite it.
"""

from __future__ import annotations

from typing import Any

import torch
from tiny import TRAINED, conversations
from transformers import LlamaForCausalLM

from dsv4.tokens import Session, Tokenizer

TURNS = 3
LONGEST = 80


@torch.no_grad()
def sample(model: Any, ids: list[int], stop: int) -> tuple[list[int], list[float]]:
    """What the model writes, and how likely it was, token by token."""
    sampled: list[int] = []
    logprobs: list[float] = []
    while len(sampled) < LONGEST and stop not in sampled:
        logits = model(torch.tensor([ids + sampled])).logits[0, -1]
        chances = torch.log_softmax(logits.float(), -1)
        sampled.append(int(torch.multinomial(chances.exp(), 1)))
        logprobs.append(float(chances[sampled[-1]]))
    return sampled, logprobs


def rollout(model: Any, tokenizer: Tokenizer) -> tuple[list[int], list[tuple[int, list[float]]]]:
    """The ids of a whole conversation, and where in them each sampled turn begins."""
    session = Session(tokenizer, tools=conversations()[0]["tools"], drop_thinking=False)
    session.append({"role": "user", "content": "Weather in Paris?"})
    stop = tokenizer.special_id("<｜end▁of▁sentence｜>")
    ids: list[int] = []
    turns: list[tuple[int, list[float]]] = []
    for _ in range(TURNS):
        prompt = session.prompt_ids()
        assert prompt[: len(ids)] == ids, session.rewritten
        sampled, logprobs = sample(model, prompt, stop)
        message = session.append_sampled(sampled)
        turns.append((len(prompt), logprobs))
        ids = prompt + sampled
        assert session.prompt_ids() == ids, session.rewritten
        if not message.tool_calls:
            break
        for call in session.messages[-1]["tool_calls"]:
            session.append({"role": "tool", "tool_call_id": call["id"], "content": "rain"})
    return ids, turns


def main() -> None:
    torch.manual_seed(0)
    tokenizer = Tokenizer.load()
    model = LlamaForCausalLM.from_pretrained(TRAINED / "sft")  # what sft.py made
    ids, turns = rollout(model, tokenizer)

    # The training step sees the whole conversation at once.
    model.train()
    chances = torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), -1)
    loss = torch.tensor(0.0)
    for start, then in turns:
        chosen = torch.tensor(ids[start : start + len(then)])
        now = chances[start - 1 : start - 1 + len(then)].gather(1, chosen[:, None])[:, 0]
        apart = float((now.detach() - torch.tensor(then)).abs().max())
        print(f"turn at {start}: {len(then)} tokens sampled, log-probabilities within {apart:.1e}")
        assert apart < 1e-3, "these are not the ids that were sampled"
        reward = 1.0
        loss = loss - reward * now.sum()
    loss.backward()
    again = tokenizer.decode(ids)
    print(f"{len(ids)} ids trained on are the ids sampled; the conversation:\n{again[-400:]}")


if __name__ == "__main__":
    main()
