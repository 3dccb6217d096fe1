"""torchvision's ImageFolder and its usual transforms on one thread, batches of 32, as a contestant
of a benchmark (benchmarks/support/step_pacer.h says how contestants talk)."""
import argparse

import torch
import torchvision
from torchvision import transforms

from mnist_torch import take_turns

BATCH = 32


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True)
    parser.add_argument("--way", choices=["center", "random"], required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.way == "random":
        crop = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    else:
        crop = [transforms.Resize(256), transforms.CenterCrop(224)]
    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    folder = torchvision.datasets.ImageFolder(
        options.images, transforms.Compose(crop + [transforms.ToTensor(), normalize]))
    at = 0

    def step():
        nonlocal at
        rows = [folder[(at + i) % len(folder)] for i in range(BATCH)]
        at += BATCH
        torch.stack([image for image, _ in rows])
        return torch.zeros(())

    take_turns(step)


if __name__ == "__main__":
    main()
