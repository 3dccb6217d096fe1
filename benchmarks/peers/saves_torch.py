"""What torch.distributed.checkpoint.async_save costs a loop. Prints for each save: seconds that the loop stopped,
seconds of a plain copy of as many bytes, of a window of steps that begins with a save, of one without, and whether the
save was written later than in its window."""
import argparse
import logging
import os
import shutil
import time
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    for name in ["width", "layers", "batch", "window", "saves"]:
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--reuse", action="store_true")
    parser.add_argument("--default", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    layers = []
    for _ in range(options.layers):
        layers += [torch.nn.Linear(options.width, options.width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)
    rows = torch.rand(options.batch, options.width)
    labels = rows.flip(0)
    # The copies of the state stay with the stager, and the next save uses their memory again. Pinned memory needs a GPU.
    stager = DefaultStager(StagingOptions(False, False, False, False)) if options.reuse else None

    def step():
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(rows), labels).backward()
        optimizer.step()

    def window():
        begin = time.perf_counter()
        for _ in range(options.window):
            step()
        return time.perf_counter() - begin

    window()
    state = sum(tensor.numel() for tensor in model.parameters()) * 3
    source, target = torch.ones(state), torch.ones(state)
    pending = None
    for save in range(options.saves + 1):
        if pending is not None:
            pending.result()
            shutil.rmtree(os.path.join(options.dir, str(save - 1)))
        begin = time.perf_counter()
        target.copy_(source)
        copied = time.perf_counter() - begin
        begin = time.perf_counter()
        pending = checkpoint.async_save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                                        checkpoint_id=os.path.join(options.dir, str(save)), async_stager=stager,
                                        no_dist=True)
        stopped = time.perf_counter() - begin
        with_save = stopped + window()
        late = 0 if pending.done() else 1
        pending.result()
        without = window()
        if save > 0:
            print("figures", stopped, copied, with_save, without, late, flush=True)


if __name__ == "__main__":
    main()
