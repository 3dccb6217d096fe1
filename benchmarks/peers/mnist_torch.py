"""The model of examples/mnist in PyTorch, eager or compiled, on one thread, as a contestant of a benchmark
(benchmarks/support/step_pacer.h says how contestants talk)."""
import argparse
import mmap
import os

import torch

from mnist_numpy import read_idx
from turns import take_turns

LEARNING_RATE = 0.02


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--compile", action="store_true", help="by torch.compile, of PyTorch 2")
    parser.add_argument("--barrier", action="store_true")
    parser.add_argument("--model", default="cnn")
    return parser.parse_args()


class Batches:
    """Endless shuffled batches; each worker takes its part of a round."""

    def __init__(self, data_dir, batch, rank=0, size=1):
        self.images = torch.from_numpy(read_idx(os.path.join(data_dir, "train-images-idx3-ubyte"))).unsqueeze(-1)
        self.labels = torch.from_numpy(read_idx(os.path.join(data_dir, "train-labels-idx1-ubyte"))).long()
        self.batch, self.rank, self.size = batch, rank, size
        self.generator = torch.Generator().manual_seed(1)
        self.order, self.at = torch.empty(0), 0

    def next(self):
        """Images as bytes [batch, 28, 28, 1], labels."""
        if self.at + self.size * self.batch > len(self.order):
            self.order, self.at = torch.randperm(len(self.images), generator=self.generator), 0
        begin = self.at + self.rank * self.batch
        rows = self.order[begin:begin + self.batch]
        self.at += self.size * self.batch
        return self.images[rows], self.labels[rows]


class Plain(torch.nn.Module):
    """As one writes it."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 32, 3)
        self.dense = torch.nn.Linear(13 * 13 * 32, 64)
        self.logits = torch.nn.Linear(64, 10)

    def forward(self, images):
        x = images.permute(0, 3, 1, 2).to(torch.float32).contiguous().mul_(1 / 255)
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        x = torch.relu(self.dense(x.flatten(1)))
        return self.logits(x)


class Tuned(Plain):
    """The same values with the layouts PyTorch is fastest with: a real channels-last input, relu
    after pooling, flatten without a copy."""

    def forward(self, images):
        x = images.to(torch.float32).mul_(1 / 255).permute(0, 3, 1, 2)
        x = torch.relu(torch.nn.functional.max_pool2d(self.conv(x), 2))
        x = torch.relu(self.dense(x.permute(0, 2, 3, 1).view(x.size(0), -1)))
        return self.logits(x)


class Mlp(torch.nn.Module):
    """Dense layers of these sizes."""

    def __init__(self, sizes):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(into, out) for into, out in zip(sizes, sizes[1:]))

    def forward(self, images):
        x = images.to(torch.float32).mul_(1 / 255).view(images.size(0), -1)
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


MLP = [784, 4096, 4096, 1024, 10]  # 25 million weights
TOWER = [784] + 10 * [1024] + [10]  # 10 million


class Barrier:
    """SharedBarrier of benchmarks/support/step_pacer.h, without its sleep."""

    def __init__(self, rank, size):
        self.page = mmap.mmap(int(os.environ["BENCH_BARRIER"]), 4096)
        self.rounds = memoryview(self.page).cast("I")
        self.rank, self.size, self.round = rank, size, 0

    def wait(self):
        self.round += 1
        self.rounds[16 * self.rank] = self.round
        for rank in range(self.size):
            while self.rounds[16 * rank] < self.round:
                os.sched_yield()


def make_step(model, options, batches, after=lambda: None):
    update = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=options.momentum)

    def step():
        images, labels = batches.next()
        update.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        update.step()
        after()
        return loss.detach()

    return step


def main():
    torch.set_num_threads(1)
    options = parse()
    model = Tuned() if options.tuned else Plain()
    if options.compile:
        model = torch.compile(model)
    take_turns(make_step(model, options, Batches(options.data_dir, options.batch)))


if __name__ == "__main__":
    main()
