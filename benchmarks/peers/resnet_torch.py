"""torchvision's residual networks and a small GPT in PyTorch, eager, on one thread, as a contestant
of benchmarks/resnet_benchmark.cc."""
import argparse

import torch
import torchvision

from mnist_torch import take_turns

EXAMPLES, BATCH, CLASSES = 64, 16, 1000
TEXTS, TIME, VOCABULARY, BLOCKS, HEADS, WIDTH = 8, 128, 256, 4, 4, 256


class Block(torch.nn.Module):
    """A block of GPT-2."""

    def __init__(self):
        super().__init__()
        self.norm_1 = torch.nn.LayerNorm(WIDTH)
        self.joint = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.output = torch.nn.Linear(WIDTH, WIDTH)
        self.norm_2 = torch.nn.LayerNorm(WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH),
                                       torch.nn.GELU(approximate="tanh"),
                                       torch.nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("later", torch.ones(TIME, TIME).triu(1).bool())

    def forward(self, x):
        shape = (x.size(0), x.size(1), HEADS, WIDTH // HEADS)
        query, key, value = [part.view(shape).transpose(1, 2)
                             for part in self.joint(self.norm_1(x)).split(WIDTH, dim=2)]
        scores = query @ key.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
        weights = scores.masked_fill(self.later, float("-inf")).softmax(-1)
        x = x + self.output((weights @ value).transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm_2(x))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.positions = torch.nn.Embedding(TIME, WIDTH)
        self.blocks = torch.nn.Sequential(*[Block() for _ in range(BLOCKS)])
        self.norm = torch.nn.LayerNorm(WIDTH)
        torch.nn.init.normal_(self.tokens.weight, 0, 0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        return self.norm(self.blocks(x)) @ self.tokens.weight.t()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--predict", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if options.model == "gpt":
        model, batch = Gpt(), TEXTS
        inputs = torch.randint(VOCABULARY, (EXAMPLES, TIME))
        labels = inputs.roll(-1, 1)
    else:
        make = {"resnet18": torchvision.models.resnet18, "resnet50": torchvision.models.resnet50}
        model, batch = make[options.model](), BATCH
        model = model.to(memory_format=torch.channels_last)
        inputs = torch.randn(EXAMPLES, 3, options.side, options.side)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
        labels = torch.randint(CLASSES, (EXAMPLES,))
    update = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    order, at = None, EXAMPLES

    def step():
        nonlocal order, at
        if at + batch > EXAMPLES:
            order, at = torch.randperm(EXAMPLES), 0
        rows = order[at:at + batch]
        at += batch
        update.zero_grad(set_to_none=True)
        logits = model(inputs[rows])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels[rows].flatten())
        loss.backward()
        update.step()
        return loss.detach()

    @torch.no_grad()
    def predict():
        return model(inputs[:batch]).sum()

    model.train(not options.predict)
    take_turns(predict if options.predict else step)


if __name__ == "__main__":
    main()
