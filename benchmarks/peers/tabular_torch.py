"""A small network on a table in PyTorch, eager or compiled, on one thread, as a contestant of
benchmarks/tabular_benchmark.cc. The optimizers' loops over parameters were measured with foreach
too, which is slower for so few."""
import argparse

import torch

from turns import take_turns

ROWS, FEATURES, UNITS, BATCH = 100_000, 13, 64, 64
LEARNING_RATE = 0.01


def optimizer_of(name, parameters):
    if name == "adagrad":
        return torch.optim.Adagrad(parameters, lr=LEARNING_RATE, initial_accumulator_value=0.1,
                                   eps=1e-7)
    if name == "adam":
        return torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=1e-7)
    return torch.optim.SGD(parameters, lr=LEARNING_RATE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", required=True)
    parser.add_argument("--classifier", action="store_true")
    parser.add_argument("--compile", action="store_true", help="by torch.compile, of PyTorch 2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    features = torch.randn(ROWS, FEATURES)
    targets = features.sin().sum(1, keepdim=True)
    loss_of = torch.nn.functional.mse_loss
    if options.classifier:
        targets = (targets > 0).float()
        loss_of = torch.nn.functional.binary_cross_entropy_with_logits
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, UNITS), torch.nn.ReLU(),
                                torch.nn.Linear(UNITS, UNITS), torch.nn.ReLU(),
                                torch.nn.Linear(UNITS, 1))
    update = optimizer_of(options.optimizer, model.parameters())
    order, at = None, ROWS

    def loss_at(x, y):
        return loss_of(model(x), y)

    if options.compile:
        loss_at = torch.compile(loss_at)

    def step():
        nonlocal order, at
        if at + BATCH > ROWS:
            order, at = torch.randperm(ROWS), 0
        rows = order[at:at + BATCH]
        at += BATCH
        update.zero_grad(set_to_none=True)
        loss = loss_at(features[rows], targets[rows])
        loss.backward()
        update.step()
        return loss.detach()

    take_turns(step)


if __name__ == "__main__":
    main()
