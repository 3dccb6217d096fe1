"""PyTorch's DataLoader without worker processes, on one thread, as a contestant of the benchmarks input and images
(benchmarks/support/step_pacer.h says how contestants talk). A step takes --batches batches:

    --data=slices                       shuffled rows in memory; with --whole, the loader asks for a batch at a time
    --data=center|random --path=FOLDER  photos by torchvision, a folder for each class
"""
import argparse

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from turns import take_turns

ROWS, PIXELS = 60000, 784


def slices(options):
    images = (torch.arange(ROWS * PIXELS) % 251).to(torch.uint8).view(ROWS, PIXELS)
    data = TensorDataset(images, torch.arange(ROWS) % 10)
    if not options.whole:
        return DataLoader(data, batch_size=options.batch, shuffle=True)
    return DataLoader(data, sampler=BatchSampler(RandomSampler(data), options.batch, True), batch_size=None)


def photos(options):
    from torchvision import datasets, io, transforms
    if options.data == "random":
        crop = [transforms.RandomResizedCrop(224, antialias=True), transforms.RandomHorizontalFlip()]
    else:
        crop = [transforms.Resize(256, antialias=True), transforms.CenterCrop(224)]
    floats = [transforms.ConvertImageDtype(torch.float32),
              transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    # Tensors of bytes are decoded and resized faster than Pillow's images.
    folder = datasets.ImageFolder(options.path, transforms.Compose(crop + floats),
                                  loader=lambda path: io.read_image(path, io.ImageReadMode.RGB))
    return DataLoader(folder, batch_size=options.batch, drop_last=True)


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=["slices", "center", "random"], required=True)
    parser.add_argument("--path", default="")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--batches", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    loader = endless(slices(options) if options.data == "slices" else photos(options))

    def step():
        for _ in range(options.batches):
            next(loader)
        return 0.0

    take_turns(step)


if __name__ == "__main__":
    main()
