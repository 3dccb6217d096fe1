"""The model of examples/mnist in PyTorch, eager or compiled, on one thread, as a contestant of a benchmark
(benchmarks/support/step_pacer.h says how contestants talk): a step trains on a batch, evaluates,
or predicts one image."""
import argparse
import os

import torch

from mnist_numpy import read_digits
from turns import take_turns

LEARNING_RATE = 0.02
EVALUATION_BATCH = 100


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--way", choices=["train", "evaluate", "predict"], default="train")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--compile", action="store_true", help="by torch.compile, of PyTorch 2")
    parser.add_argument("--barrier", action="store_true")
    parser.add_argument("--model", default="cnn")
    return parser.parse_args()


def digits(data_dir, part):
    images, labels = read_digits(data_dir, part)
    return torch.from_numpy(images).unsqueeze(-1), torch.from_numpy(labels).long()


class Batches:
    """Endless shuffled batches; each worker takes its part of a round."""

    def __init__(self, data_dir, batch, rank=0, size=1):
        self.images, self.labels = digits(data_dir, "train")
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


def make_evaluation(model, options):
    images, labels = digits(options.data_dir, "t10k")

    @torch.inference_mode()
    def evaluate():
        loss = right = 0
        for x, y in zip(images.split(EVALUATION_BATCH), labels.split(EVALUATION_BATCH)):
            logits = model(x)
            loss += torch.nn.functional.cross_entropy(logits, y, reduction="sum").item()
            right += (logits.argmax(-1) == y).sum().item()
        return loss / len(labels)

    return evaluate


def make_prediction(model, options):
    image = digits(options.data_dir, "t10k")[0][:1]

    @torch.inference_mode()
    def predict():
        return model(image).argmax(-1).item()

    return predict


def main():
    torch.set_num_threads(1)
    options = parse()
    model = Tuned() if options.tuned else Plain()
    if options.compile:
        model = torch.compile(model)
    if options.way == "train":
        take_turns(make_step(model, options, Batches(options.data_dir, options.batch)))
    else:
        model.eval()
        take_turns((make_evaluation if options.way == "evaluate" else make_prediction)(model, options))


if __name__ == "__main__":
    main()
