"""A linear classifier of the clicks of benchmarks/linear_benchmark.cc in PyTorch, on one thread, as a contestant.
PyTorch has no Ftrl. It takes Adagrad, which updates only the rows of a batch."""
import argparse

import torch

import tables_numpy as data
from turns import take_turns


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    numbers, ids, labels = map(torch.from_numpy, data.clicks(options.data))
    offsets = torch.arange(data.CATEGORIES) * data.BUCKETS
    wide = torch.nn.EmbeddingBag(data.CATEGORIES * data.BUCKETS, 1, mode="sum", sparse=True)
    dense = torch.nn.Linear(data.NUMBERS, 1)
    torch.nn.init.zeros_(wide.weight)
    torch.nn.init.zeros_(dense.weight)
    updates = [torch.optim.Adagrad(part.parameters(), lr=0.2, initial_accumulator_value=0.1) for part in (wide, dense)]
    at = 0

    def step():
        nonlocal at
        rows = slice(at, at + options.batch)
        at = (at + options.batch) % len(labels)
        for update in updates:
            update.zero_grad(set_to_none=True)
        logits = (wide(ids[rows] + offsets) + dense(numbers[rows])).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels[rows])
        loss.backward()
        for update in updates:
            update.step()
        return loss.detach()

    take_turns(step)


if __name__ == "__main__":
    main()
