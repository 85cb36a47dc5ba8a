"""Agents play while the trainer steps: what is trained on was sampled by weights of some steps ago.

Two things keep this honest. No more groups are played ahead than `OLDEST`, so no token is older
than so many steps; each row says which weights sampled which of its tokens, and that is checked.
And each token counts by its importance ratio: what the trainer's weights say of it now, against
what was recorded when it was sampled, clipped as in PPO.

Agent, gateway and tiny model are those of agent.py. The engine has weights of its own, which the
trainer replaces after each step, as it would those of vLLM or SGLang. It shows how the parts fit
together: steps are so few, and groups so small, that the rewards may rise or not. Those of agent.py
do.
"""

from __future__ import annotations

import copy
import queue
import random
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from agent import (
    TinyBackend,
    advantages,
    gateway,
    imitate,
    own_agent,
    play,
    rows_of_group,
    trained_logprobs,
)
from tiny import new_model, new_tokenizer

from dsv4.tokens import Tokenizer
from dsv4.trajectories import Client

STEPS, GROUP, PLAYERS, LESSONS = 9, 8, 4, 120
EPOCHS = 2  # how often a group is gone through in a step
CITY = "Paris"  # one question: from step to step, rewards can be compared
OLDEST = 2  # how many steps old a token may be when it is trained on
CLIP = 0.2  # how far a ratio may be from 1 before it no longer counts


class Players:
    """Plays groups of sessions, one after the other, until the trainer has had enough."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ahead = threading.Semaphore(OLDEST + 1)  # groups that are not trained on yet
        self._is_over = False
        self.finished: queue.Queue[tuple[str, float]] = queue.Queue()
        self._thread = threading.Thread(target=self._play)

    def _play(self) -> None:
        with ThreadPoolExecutor(PLAYERS) as pool:
            for n in range(STEPS + OLDEST + 1):
                self._ahead.acquire()
                if self._is_over:
                    return
                play_one = partial(play, self._client, own_agent, f"group-{n}", CITY)
                rewards = [each.result() for each in [pool.submit(play_one) for _ in range(GROUP)]]
                self.finished.put((f"group-{n}", sum(rewards) / len(rewards)))

    def trained(self) -> None:
        """A group was trained on, and the engine has the new weights: another one may begin."""
        self._ahead.release()

    def __enter__(self) -> Players:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._ahead.release()
        self._thread.join()


def ages_of(row: dict[str, Any], step: int) -> list[int]:
    """How many steps ago each token of a row was sampled that is trained on."""
    return [
        step - run["version"]
        for run in row["weights"]
        for on in row["loss_mask"][run["start"] : run["end"]]
        if on
    ]


def update(model: Any, optimizer: Any, rows: list[tuple[dict[str, Any], float]]) -> float:
    """A step with clipped importance ratios. Returns how far these were from 1 before it, on
    average."""
    worth = advantages([reward for _, reward in rows])
    apart = [epoch(model, optimizer, [row for row, _ in rows], worth) for _ in range(EPOCHS)]
    return apart[0]


def epoch(model: Any, optimizer: Any, rows: list[dict[str, Any]], worth: list[float]) -> float:
    """One update. Returns how far the ratios were from 1."""
    optimizer.zero_grad()
    tokens = sum(sum(row["loss_mask"]) for row in rows)
    apart = 0.0
    for row, advantage in zip(rows, worth, strict=True):
        logprobs = zip(row["logprobs"], row["loss_mask"], strict=True)
        then = torch.tensor([value for value, on in logprobs if on])
        ratio = torch.exp(trained_logprobs(model, row) - then)
        clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
        loss = -torch.minimum(ratio * advantage, clipped * advantage).sum() / tokens
        loss.backward()
        apart += float((ratio.detach() - 1).abs().sum())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return apart / tokens


def train(client: Client, backend: TinyBackend) -> tuple[list[float], Counter[int]]:
    """The mean rewards of the groups, and how many tokens were how old."""
    model = copy.deepcopy(backend.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    client.weights(0)
    rewards: list[float] = []
    ages: Counter[int] = Counter()
    with Players(client) as players:
        for step in range(STEPS):
            group, mean = players.finished.get()
            rows = rows_of_group(client, group)
            found = [age for row, _ in rows for age in ages_of(row, step)]
            assert max(found) <= OLDEST, f"found tokens that are {max(found)} steps old"
            apart = update(model, optimizer, rows)
            backend.load(model.state_dict())
            client.weights(step + 1)
            players.trained()
            rewards.append(mean)
            ages.update(found)
            print(
                f"step {step}: mean reward {mean:.2f}, tokens up to {max(found)} steps old, "
                f"ratios {apart:.3f} from 1",
                flush=True,
            )
    return rewards, ages


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    tokenizer = Tokenizer.load()
    backend = TinyBackend(new_model(new_tokenizer(), width=64), tokenizer)
    with tempfile.TemporaryDirectory() as folder, gateway(backend, Path(folder)) as url:
        client = Client(url)
        imitate(client, backend, tokenizer, [own_agent], most=LESSONS)
        rewards, ages = train(client, backend)
    first, last = sum(rewards[:3]) / 3, sum(rewards[-3:]) / 3
    print(f"tokens by age in steps: {dict(sorted(ages.items()))}")
    print(f"mean reward: {first:.2f} in the first three steps, {last:.2f} in the last three")
    assert max(ages) > 0, "nothing was played while the trainer stepped"


if __name__ == "__main__":
    main()
