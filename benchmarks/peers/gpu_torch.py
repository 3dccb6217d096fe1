"""The networks of benchmarks/gpu_benchmark.cc in PyTorch, on one GPU, as a contestant."""
import argparse

import torch

LEARNING_RATE, CLASSES, VOCABULARY = 0.01, 1000, 50304
WIDTH, HEADS, BLOCKS, TIME = 768, 12, 12, 1024


class Block(torch.nn.Module):
    """A block of GPT-2, with PyTorch's fused attention."""

    def __init__(self):
        super().__init__()
        self.norm_1 = torch.nn.LayerNorm(WIDTH)
        self.joint = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.output = torch.nn.Linear(WIDTH, WIDTH)
        self.norm_2 = torch.nn.LayerNorm(WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH),
                                       torch.nn.GELU(approximate="tanh"),
                                       torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        shape = (x.size(0), x.size(1), HEADS, WIDTH // HEADS)
        query, key, value = [part.view(shape).transpose(1, 2)
                             for part in self.joint(self.norm_1(x)).split(WIDTH, dim=2)]
        seen = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).reshape(x.shape))
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
        return torch.nn.functional.linear(self.norm(self.blocks(x)), self.tokens.weight)


class Mnist(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 32, 3)
        self.dense = torch.nn.Linear(13 * 13 * 32, 64)
        self.logits = torch.nn.Linear(64, 10)

    def forward(self, images):
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv(images * (1 / 255))), 2)
        return self.logits(torch.relu(self.dense(x.flatten(1))))


def make(options):
    """The model, and some batches' worth of examples."""
    n = options.batch
    if options.network == "mnist":
        images = torch.randint(256, (200 * n, 1, 28, 28)).float()
        return Mnist(), images, torch.randint(10, (200 * n,))
    if options.network == "table":
        layers = [torch.nn.Linear(13, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                  torch.nn.Linear(64, 10)]
        return torch.nn.Sequential(*layers), torch.randn(200 * n, 13), torch.randint(10, (200 * n,))
    if options.network == "gpt":
        x = torch.randint(VOCABULARY, (4 * n, TIME))
        return Gpt(), x, x.roll(-1, 1)
    import torchvision

    model = torchvision.models.resnet50().to(memory_format=torch.channels_last)
    x = torch.randn(2 * n, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    return model, x, torch.randint(CLASSES, (2 * n,))


def main():
    from mnist_torch import take_turns

    parser = argparse.ArgumentParser()
    parser.add_argument("--network", required=True)
    parser.add_argument("--way", default="eager")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    model, inputs, labels = make(options)
    model = model.to(device)
    if on_gpu:
        inputs, labels = inputs.pin_memory(), labels.pin_memory()
    if options.way == "compile":
        model = torch.compile(model)
    elif options.way == "graph":
        model = torch.compile(model, mode="reduce-overhead")
    fused = {"fused": True} if on_gpu else {}
    update = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, **fused)
    at = 0
    wide = options.precision == "float32"
    steps = 0

    def step():
        nonlocal at, steps
        if at + options.batch > len(inputs):
            at = 0
        x = inputs[at:at + options.batch].to(device, non_blocking=True)
        y = labels[at:at + options.batch].to(device, non_blocking=True)
        at += options.batch
        with torch.autocast(device.type, torch.bfloat16, enabled=not wide):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2).float(), y.flatten())
        update.zero_grad(set_to_none=True)
        loss.backward()
        update.step()
        steps += 1
        # Whoever trains looks at the loss now and then, and so times what the GPU did.
        if on_gpu and steps % 10 == 0:
            torch.cuda.synchronize()
        return loss.detach()

    take_turns(step)


if __name__ == "__main__":
    main()
