"""The smallest DistributedDataParallel job: one linear layer, which says when its first step is done."""
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    features, labels = torch.ones(32, 8), torch.ones(32, 1)
    for step in range(2):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(features), labels).backward()
        optimizer.step()
        if step == 0:
            print("the first step is done", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
