"""The tuned model of mnist_torch.py on several workers: DistributedDataParallel over Gloo, or, with
--barrier, workers that exchange nothing and only meet after every step."""
import os

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from mnist_torch import MLP, TOWER, Batches, Mlp, Tuned, make_step, parse, take_turns
from turns import Barrier


def main():
    torch.set_num_threads(1)
    options = parse()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    batches = Batches(options.data_dir, options.batch, rank, size)
    net = {"mlp": lambda: Mlp(MLP), "tower": lambda: Mlp(TOWER)}.get(options.model, Tuned)()
    if options.barrier:
        take_turns(make_step(net, options, batches, Barrier(rank, size).wait))
        return
    torch.distributed.init_process_group("gloo")
    model = DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)
    take_turns(make_step(model, options, batches))


if __name__ == "__main__":
    main()
