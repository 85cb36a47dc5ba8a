"""A rollout with `Session`: the ids that are trained on are the ids that were sampled.

Text that is decoded and encoded again may get other ids, and then a policy gradient is taken for
tokens that the model never chose. A session keeps what was sampled as it was sampled, and says
where a later turn would rewrite it.
"""

from __future__ import annotations

from typing import Any

import torch
from tiny import conversations, trained_model

from dsv4.tokens import Sample, Session, Tokenizer

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


def rollout(model: Any, tokenizer: Tokenizer) -> list[Sample]:
    """A conversation with a tool, as rows to train on."""
    session = Session(tokenizer, tools=conversations()[0]["tools"], drop_thinking=False)
    session.append({"role": "user", "content": "Weather in Paris?"})
    stop = tokenizer.special_id("<｜end▁of▁sentence｜>")
    for _ in range(TURNS):
        prompt = session.prompt_ids()
        assert session.rewritten is None, session.rewritten
        message = session.append_sampled(*sample(model, prompt, stop))
        if not message.tool_calls:
            break
        for call in session.messages[-1]["tool_calls"]:
            session.append({"role": "tool", "tool_call_id": call["id"], "content": "rain"})
    return session.samples()


def main() -> None:
    torch.manual_seed(0)
    tokenizer = Tokenizer.load()
    model = trained_model()
    (row,) = rollout(model, tokenizer)  # one context: with tools, a prompt only grows

    # The training step sees the whole conversation at once.
    model.train()
    ids, sampled = torch.tensor(row.ids), torch.tensor(row.mask[1:]) == 1
    chances = torch.log_softmax(model(ids[None]).logits[0, :-1].float(), -1)
    now = chances.gather(1, ids[1:, None])[:, 0][sampled]
    then = torch.tensor([logprob for logprob in row.logprobs if logprob is not None])
    apart = float((now.detach() - then).abs().max())
    print(f"{len(now)} tokens sampled of {len(ids)}, log-probabilities within {apart:.1e}")
    assert apart < 1e-3, "these are not the ids that were sampled"
    reward = 1.0
    (-reward * now.sum()).backward()
    print(f"the conversation:\n{tokenizer.decode(row.ids)[-400:]}")


if __name__ == "__main__":
    main()
