"""The networks of benchmarks/xla_benchmark.cc in PyTorch on torch_xla, as contestants."""
import argparse

import networks_torch
import torch
import torch_xla
from torch import nn
from torch.nn import functional
from turns import take_turns

EXAMPLES, SIDE = 64, 64


def make(name):
    """(model, inputs, labels, batch)"""
    if name == "mnist":
        model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 13 * 13, 64),
                              nn.ReLU(), nn.Linear(64, 10))
        return model, torch.randn(EXAMPLES, 1, 28, 28), torch.randint(10, (EXAMPLES,)), 64
    if name == "gpt":
        networks_torch.BLOCKS = 1
        inputs = torch.randint(networks_torch.VOCABULARY, (EXAMPLES, networks_torch.TIME))
        return networks_torch.Gpt(), inputs, inputs.roll(-1, 1), 8
    model = networks_torch.resnet([2, 2, 2, 2], [3, 3], 1)
    return model, torch.randn(EXAMPLES, 3, SIDE, SIDE), torch.randint(1000, (EXAMPLES,)), 16


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--first_steps", action="store_true", help="prints when each of three steps is done")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if options.first_steps:
        torch_xla.device()
        print("device", flush=True)
    model, inputs, labels, batch = make(options.model)
    model.to("xla").train()
    update = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    order, at = None, EXAMPLES

    def step():
        nonlocal order, at
        if at + batch > EXAMPLES:
            order, at = torch.randperm(EXAMPLES), 0
        rows = order[at:at + batch]
        at += batch
        x, y = inputs[rows].to("xla"), labels[rows].to("xla")
        update.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        update.step()
        torch_xla.sync()
        return loss.item()  # an Estimator reads the loss of every step, too

    if options.first_steps:
        for number in range(1, 4):
            step()
            print("step", number, flush=True)
        return
    take_turns(step)


if __name__ == "__main__":
    main()
