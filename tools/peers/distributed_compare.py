"""Runs a cluster of TensorFlow and one of Muster through the same events, and tells what became of each task.

    python tools/peers/distributed_compare.py FOLDER PROGRAM [--only=WORD] [--sides=tensorflow,muster] [--wait=SECONDS]

PROGRAM is bin/distributed_program of a build of Muster. Both sides continue the same checkpoint of step 0, on the same
batches. Without an event the losses of all steps and the weights at the end are compared. The table in
docs/coming_from_tf_estimator.md is what this told. Every wait is bounded, all addresses are of the loopback device.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np

TASK = str(pathlib.Path(__file__).resolve().parent / "distributed.py")
TWO_WORKERS = {"worker": 2}
SERVERS = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
PAUSE = 0.05  # seconds a step lasts where something happens in the middle
STEP = 30  # of the event; checkpoints are of steps 0, 20, 40, …

# name: (strategy, cluster, event, more flags). An event is (what, task): at step STEP of it.
SCENARIOS = {
    "mirrored": ("mirrored:2", {}, None, []),
    "mirrored, an odd number of batches": ("mirrored:2", {}, None, ["--few=worker-0=21"]),
    "two workers": ("multi_worker", TWO_WORKERS, None, []),
    "two workers, worker 1 is killed": ("multi_worker", TWO_WORKERS, ("kill", "worker-1"), []),
    "two workers, worker 1 is killed and started again": ("multi_worker", TWO_WORKERS, ("again", "worker-1"), []),
    "two workers, worker 0 is killed": ("multi_worker", TWO_WORKERS, ("kill", "worker-0"), []),
    "two workers, all are killed and started again": ("multi_worker", TWO_WORKERS, ("all", "worker-0"), []),
    "two workers, worker 1 has fewer batches": ("multi_worker", TWO_WORKERS, None, ["--few=worker-1=30"]),
    "two workers, worker 0 has fewer batches": ("multi_worker", TWO_WORKERS, None, ["--few=worker-0=30"]),
    "servers": ("parameter_server", SERVERS, None, []),
    "servers, the worker is killed": ("parameter_server", SERVERS, ("kill", "worker-0"), []),
    "servers, the worker is killed and started again": ("parameter_server", SERVERS, ("again", "worker-0"), []),
    "servers, the server is killed": ("parameter_server", SERVERS, ("kill", "ps-0"), []),
    "servers, the chief is killed": ("parameter_server", SERVERS, ("kill", "chief-0"), []),
    "servers, the chief is killed and started again": ("parameter_server", SERVERS, ("again", "chief-0"), []),
    "servers, the evaluator is killed": ("parameter_server", SERVERS, ("kill", "evaluator-0"), []),
    "servers, the worker has fewer batches": ("parameter_server", SERVERS, None, ["--few=worker-0=10"]),
    "servers, the chief has fewer batches": ("parameter_server", SERVERS, None, ["--few=chief-0=10"]),
}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Run:
    """The tasks of a cluster of one side."""

    def __init__(self, side, folder, program, strategy, cluster, flags):
        self.side, self.folder = side, folder
        data = folder.parent.parent / ("mirrored" if strategy.startswith("mirrored") else "plain")
        self.model = folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(data / "begin", self.model)
        if side == "tensorflow":
            self.command = [sys.executable, TASK, "run", str(data), str(self.model), f"--strategy={strategy}", *flags]
        else:
            flags = [flag.replace("--save_steps", "--save_checkpoints_steps") for flag in flags]
            self.command = [program, f"--data_dir={data}", f"--model_dir={self.model}", f"--strategy={strategy}",
                            *flags]
        names = [(kind, i) for kind, count in cluster.items() for i in range(count)] or [(None, 0)]
        ports = iter(free_ports(len(names)))
        addresses = {}
        for kind, _ in names:
            if kind not in (None, "evaluator"):
                addresses.setdefault(kind, []).append(f"127.0.0.1:{next(ports)}")
        self.configs = {}
        for kind, i in names:
            config = json.dumps({"cluster": addresses, "task": {"type": kind, "index": i}})
            self.configs[f"{kind or 'worker'}-{i}"] = config if kind else None
        self.tasks, self.ended = {}, {}

    def start(self, name):
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="1")
        environment.pop("TF_CONFIG", None)
        if self.configs[name]:
            environment["TF_CONFIG"] = self.configs[name]
        with open(self.folder / f"{name}.log", "a") as log:
            self.tasks[name] = subprocess.Popen(self.command, env=environment, stdout=log, stderr=log)
        self.ended.pop(name, None)

    def start_all(self):
        for name in self.configs:
            self.start(name)

    def look(self):
        for name, task in self.tasks.items():
            if name not in self.ended and task.poll() is not None:
                self.ended[name] = (task.returncode, time.monotonic())

    def wait(self, seconds, until):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            if until() or len(self.ended) == len(self.tasks):
                return True
            time.sleep(0.02)
        return False

    def kill(self, name):
        if self.tasks[name].poll() is None:
            self.tasks[name].send_signal(signal.SIGKILL)
        self.tasks[name].wait()

    def end(self):
        for name in self.tasks:
            self.kill(name)

    def steps(self, name):
        return [step for step, _ in self.losses(name)]

    def losses(self, name):
        path = self.model / f"steps.{name}"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(line.split()[0]), float(line.split()[1])) for line in lines if len(line.split()) == 2]

    def checkpoints(self):
        ends = ".index" if self.side == "tensorflow" else ".safetensors"
        found = [re.search(r"model\.ckpt-(\d+)\.?(.*)", path.name) for path in self.model.glob("model.ckpt-*")]
        return sorted({int(match[1]) for match in found if "." + match[2] == ends})

    def says(self, name):
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        lines = [line for line in lines if "type_inference" not in line]
        told = [line for line in lines if re.search(r"Error|error:|hint:|lost|Unavailable|ABORTED|UNAVAILABLE", line)]
        return (told or lines or [""])[-1].strip()[:240]


def weights_of(run, step):
    if run.side == "tensorflow":
        import tensorflow as tf
        reader = tf.train.load_checkpoint(str(run.model / f"model.ckpt-{step}"))
        names = [name for name in reader.get_variable_to_shape_map() if name.startswith("dnn/")]
        return {name: reader.get_tensor(name) for name in names if "ExponentialMovingAverage" not in name}
    data = (run.model / f"model.ckpt-{step}.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    weights = {}
    for name, entry in header.items():
        if name.startswith("dnn/") and entry["dtype"] == "F32":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            weights[name] = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
    return weights


def run_scenario(side, name, options):
    strategy, cluster, event, flags = SCENARIOS[name]
    served = strategy == "parameter_server"  # its workers begin at different times, and share the steps
    flags = ["--max_steps=800", "--save_steps=100"] + flags if served else ["--max_steps=100", "--save_steps=20"] + flags
    if event or served:
        flags.append(f"--pause={PAUSE}")
    folder = pathlib.Path(options.folder).resolve() / side / name.replace(" ", "_").replace(",", "")
    run = Run(side, folder, options.program, strategy, cluster, flags)
    what, struck = event or (None, None)
    # who counts the steps of a task that has none
    watched = struck if struck in run.configs and not struck.startswith(("ps", "evaluator")) else "chief-0"
    try:
        run.start_all()
        begun = time.monotonic()
        if event:
            run.wait(options.wait, lambda: len(run.steps(watched)) >= STEP)
            if len(run.steps(watched)) < STEP:
                print("  it did not come to the step of the event", flush=True)
            for task in run.configs if what == "all" else [struck]:
                run.kill(task)
            begun = time.monotonic()
            if what in ("again", "all"):
                run.wait(3, lambda: False) if what == "again" else time.sleep(3)
                for task in run.configs if what == "all" else [struck]:
                    run.start(task)
        over = run.wait(options.wait, lambda: False)
        ended = dict(run.ended)
    finally:
        run.end()
    outcome = "all ended" if over else f"not over after {options.wait} s"
    print(f"{side}: {name}: {outcome}, checkpoints {run.checkpoints()}")
    for task in run.configs:
        steps = run.steps(task)
        code = f"exit {ended[task][0]} after {ended[task][1] - begun:.1f} s" if task in ended else "still there"
        print(f"  {task}: {code}; {len(steps)} steps, {steps[0] if steps else '-'} to {steps[-1] if steps else '-'}"
              f"; says: {run.says(task)}", flush=True)
    return run


def compare(theirs, ours):
    """TensorFlow tells the sum of the losses of the replicas, Muster their mean."""
    replicas = 2
    a, b = (dict(run.losses("worker-0")) for run in (theirs, ours))
    furthest = max(abs(a[step] / replicas - b[step]) for step in set(a) & set(b))
    print(f"  losses of {len(set(a) & set(b))} steps (TensorFlow {len(a)}, Muster {len(b)}): "
          f"largest difference {furthest:.2g}")
    step = max(set(theirs.checkpoints()) & set(ours.checkpoints()))
    a, b = weights_of(theirs, step), weights_of(ours, step)
    furthest = max(np.abs(a[one] - b[one]).max() / np.abs(a[one]).max() for one in b)
    print(f"  weights of step {step}: {len(b)} variables, largest difference {furthest:.2g} of a variable's largest",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--sides", default="tensorflow,muster")
    parser.add_argument("--wait", type=float, default=90)
    options = parser.parse_args()
    for data, strategy in {"plain": "one_device", "mirrored": "mirrored:2"}.items():
        folder = pathlib.Path(options.folder).resolve() / data
        if not (folder / "begin").exists():
            subprocess.run([sys.executable, TASK, "begin", str(folder), f"--strategy={strategy}"], check=True,
                           timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in SCENARIOS:
        if re.search(options.only, name):
            runs = {side: run_scenario(side, name, options) for side in options.sides.split(",")}
            strategy, _, event, flags = SCENARIOS[name]
            if len(runs) == 2 and strategy != "parameter_server" and not event and not flags:
                compare(runs["tensorflow"], runs["muster"])


if __name__ == "__main__":
    main()
