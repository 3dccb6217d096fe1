"""The model of tests/faults/victim.cc with DistributedDataParallel under torchrun, which starts all workers again when
one is lost: each continues from the state that worker 0 saves every 50 steps."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAVE_EVERY = 50
STEP_PAUSE = 0.01  # seconds, as the other program has it


def main():
    path = sys.argv[1]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"worker {rank} is process {os.getpid()}", flush=True)
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = 0
    if os.path.exists(path):
        state = torch.load(path)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    x = torch.linspace(-1, 1, 256 * 8).view(256, 8)
    y = x.sin().sum(1, keepdim=True)
    while True:
        rows = torch.randperm(256)[:16]
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()
        step += 1
        if rank == 0:
            print(f"made: {step} at {time.time():.3f}", flush=True)
            if step % SAVE_EVERY == 0:
                torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)
        time.sleep(STEP_PAUSE)


if __name__ == "__main__":
    main()
