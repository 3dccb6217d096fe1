"""Exports networks of PyTorch with torch.onnx, with the numbers that PyTorch computes. ./dev check onnx calls it.

    python tools/peers/torch_onnx.py FOLDER [--times]

FOLDER gets a folder for each network: model.onnx, and ROWS.npz with "in/NAME" and "out/serving_default/NAME" for
1, 2 and 7 rows, as tests/onnx/imported_cases.cc reads them. --times prints the seconds and bytes of each export.
"""

import pathlib
import sys
import time
import warnings

import numpy as np
import torch
from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)), (64,)


class Block(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Block(width, outputs, stride))
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)), (3, 64, 64)


def transformer():
    return nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, activation="gelu", batch_first=True), (16, 64)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(32, 64, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(128, 5)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


def lstm():
    return Recurrent(), (20, 32)


def export(folder, model, shape, dynamo):
    folder.mkdir(parents=True, exist_ok=True)
    model.eval()
    sample = torch.rand(2, *shape)
    begin = time.perf_counter()
    dynamic = {"dynamic_shapes": ({0: torch.export.Dim("batch")},)} if dynamo else {"dynamic_axes": {"x": {0: "batch"}}}
    torch.onnx.export(model, (sample,), str(folder / "model.onnx"), dynamo=dynamo, input_names=["x"],
                      output_names=["y"], **dynamic)  # fmt: skip
    taken = time.perf_counter() - begin
    for rows in (1, 2, 7):
        x = torch.rand(rows, *shape)
        with torch.no_grad():
            y = model(x)
        np.savez(folder / f"{rows}.npz", **{"in/x": x.numpy(), "out/serving_default/y": y.numpy()})
    return taken


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1])
    for make in (mlp, resnet18, transformer, lstm):
        # The exporter by TorchScript of PyTorch 2.15 fails at its own attention.
        for dynamo in (True,) if make is transformer else (True, False):
            name = f"{make.__name__}_{'dynamo' if dynamo else 'torchscript'}"
            model, shape = make()
            taken = export(root / name, model, shape, dynamo)
            size = sum(file.stat().st_size for file in (root / name).glob("model.onnx*"))
            if "--times" in sys.argv:
                print(f"{name}: {taken:.2f} s, {size} bytes")


if __name__ == "__main__":
    main()
