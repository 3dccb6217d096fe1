"""Residual networks, a small GPT and an LSTM in PyTorch, eager or compiled, on one thread, as contestants of
benchmarks/resnet_benchmark.cc."""
import argparse
import os

import torch
from torch import nn
from torch.nn import functional

from turns import Barrier, take_turns

EXAMPLES, BATCH, CLASSES = 64, 16, 1000
TEXTS, TIME, VOCABULARY, BLOCKS, HEADS, WIDTH = 8, 128, 256, 4, 4, 256
SEQUENCES, STEPS, FEATURES, UNITS, LABELS = 32, 64, 128, 128, 10  # of the LSTM


class Residual(nn.Module):
    """torchvision's BasicBlock (kernels 3, 3) and Bottleneck (kernels 1, 3, 1); the first 3x3 has the stride."""

    def __init__(self, channels, widths, kernels, stride):
        super().__init__()
        layers, before, left = [], channels, stride
        for width, kernel in zip(widths, kernels):
            own, left = (left, 1) if kernel == 3 else (1, left)
            layers += [nn.Conv2d(before, width, kernel, own, kernel // 2, bias=False), nn.BatchNorm2d(width),
                       nn.ReLU(inplace=True)]
            before = width
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Identity()
        if stride > 1 or channels != before:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, before, 1, stride, bias=False), nn.BatchNorm2d(before))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet(blocks, kernels, expansion):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 * 2 ** stage
        widths = [width] * (len(kernels) - 1) + [width * expansion]
        for block in range(count):
            layers.append(Residual(channels, widths, kernels, 2 if stage > 0 and block == 0 else 1))
            channels = widths[-1]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


class Block(nn.Module):
    """A block of GPT-2, with PyTorch's fused attention where there is one."""

    def __init__(self):
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.joint = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("later", torch.ones(TIME, TIME).triu(1).bool())

    def attention(self, query, key, value):
        if hasattr(functional, "scaled_dot_product_attention"):
            return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        scores = query @ key.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
        return scores.masked_fill(self.later, float("-inf")).softmax(-1) @ value

    def forward(self, x):
        shape = (x.size(0), x.size(1), HEADS, WIDTH // HEADS)
        parts = [part.view(shape).transpose(1, 2) for part in self.joint(self.norm_1(x)).split(WIDTH, dim=2)]
        x = x + self.output(self.attention(*parts).transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(TIME, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(BLOCKS)])
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.tokens.weight, 0, 0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        return self.norm(self.blocks(x)) @ self.tokens.weight.t()


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, UNITS, batch_first=True)
        self.logits = nn.Linear(UNITS, LABELS)

    def forward(self, sequences):
        return self.logits(self.lstm(sequences)[0][:, -1])


def make(options):
    """(model, inputs, labels, batch)"""
    if options.model == "gpt":
        inputs = torch.randint(VOCABULARY, (EXAMPLES, TIME))
        return Gpt(), inputs, inputs.roll(-1, 1), TEXTS
    if options.model == "lstm":
        return Lstm(), torch.randn(EXAMPLES, STEPS, FEATURES), torch.randint(LABELS, (EXAMPLES,)), SEQUENCES
    model = resnet([2, 2, 2, 2], [3, 3], 1) if options.model == "resnet18" else resnet([3, 4, 6, 3], [1, 3, 1], 4)
    inputs = torch.randn(EXAMPLES, 3, options.side, options.side).contiguous(memory_format=torch.channels_last)
    return model.to(memory_format=torch.channels_last), inputs, torch.randint(CLASSES, (EXAMPLES,)), BATCH


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--compile", action="store_true", help="by torch.compile, of PyTorch 2")
    parser.add_argument("--ddp", action="store_true", help="one of several workers: gradients are averaged over Gloo")
    parser.add_argument("--barrier", action="store_true", help="one of several workers that only meet after each step")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, inputs, labels, batch = make(options)
    if options.ddp:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
    after = Barrier(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])).wait if options.barrier else lambda: None
    update = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    order, at = None, EXAMPLES

    def loss_of(x, y):
        return functional.cross_entropy(model(x).flatten(0, -2), y.flatten())

    if options.compile:
        loss_of = torch.compile(loss_of)

    def step():
        nonlocal order, at
        if at + batch > EXAMPLES:
            order, at = torch.randperm(EXAMPLES), 0
        rows = order[at:at + batch]
        at += batch
        update.zero_grad(set_to_none=True)
        loss = loss_of(inputs[rows], labels[rows])
        loss.backward()
        update.step()
        after()
        return loss.detach()

    @torch.no_grad()
    def predict():
        return model(inputs[:batch]).sum()

    model.train(not options.predict)
    take_turns(predict if options.predict else step)


if __name__ == "__main__":
    main()
