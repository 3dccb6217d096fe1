"""PyTorch's DataLoader over a TensorDataset, shuffled batches of 64, without worker processes, as a
contestant of a benchmark (benchmarks/support/step_pacer.h says how contestants talk)."""
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from turns import take_turns

ROWS, PIXELS = 60000, 784


def endless(loader):
    while True:
        yield from loader


def main():
    torch.set_num_threads(1)
    batches = int(sys.argv[1])
    images = (torch.arange(ROWS * PIXELS) % 251).to(torch.uint8).view(ROWS, PIXELS)
    data = TensorDataset(images, torch.arange(ROWS) % 10)
    loader = endless(DataLoader(data, batch_size=64, shuffle=True))

    def step():
        for _ in range(batches):
            next(loader)
        return 0.0

    take_turns(step)


if __name__ == "__main__":
    main()
