"""PyTorch's DataLoader over a TensorDataset, shuffled batches of 64, without worker processes, as a
contestant of a benchmark (benchmarks/support/step_pacer.h says how contestants talk)."""
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

LEAD_IN = 5  # steps of a turn that do not count, as in benchmarks/support/step_pacer.h
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
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(LEAD_IN * batches):
            next(loader)
        times = []
        cpu = time.process_time_ns()
        last = time.monotonic_ns()
        for _ in range(int(line)):
            for _ in range(batches):
                next(loader)
            now = time.monotonic_ns()
            times.append(now - last)
            last = now
        cpu = time.process_time_ns() - cpu
        print(cpu, 0, *times, flush=True)


if __name__ == "__main__":
    main()
