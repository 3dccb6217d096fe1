"""Tasks of clusters of tf.estimator 2.15 (./dev peers tensorflow), on one thread each; which task it is says TF_CONFIG.

    --way=mirrored --data_dir=FOLDER   the model of examples/mnist by MultiWorkerMirroredStrategy, as a contestant
    --way=barrier --data_dir=FOLDER    the same by workers that exchange nothing and only meet after every step
    --way=servers                      tasks of ParameterServerStrategy, as benchmarks/servers/cluster_rates.h has them
"""
import argparse
import json
import os
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from tensorflow_peer import TurnsHook, digits
from turns import Barrier

COMPUTE, LEAD_IN = 0.05, 5  # seconds of a step that waits; steps of each worker that do not count
SHAPES = [[3, 3, 1, 32], [32], [5408, 64], [64], [64, 10], [10]]  # weights of examples/mnist


class BarrierHook(tf.estimator.SessionRunHook):
    """Stands before the hook that takes turns."""

    def begin(self):
        self.barrier = Barrier(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))

    def after_run(self, context, values):
        self.barrier.wait()


class EndsHook(tf.estimator.SessionRunHook):
    """Ends the process with its turns: workers that end one by one would wait for each other."""

    def after_run(self, context, values):
        if context.stop_requested:
            os._exit(0)


def train_digits(options, config):
    estimator, batches = digits(options, config)
    if options.way == "barrier":
        estimator.train(batches, hooks=[BarrierHook(), TurnsHook()])
        return
    spec = tf.estimator.TrainSpec(batches, hooks=[TurnsHook(), EndsHook()])
    tf.estimator.train_and_evaluate(estimator, spec, tf.estimator.EvalSpec(batches, steps=1))


def touch(features, labels, mode):
    """A loss that depends on all weights, and costs next to nothing."""
    weights = [tf.compat.v1.get_variable(f"w{i}", shape, initializer=tf.zeros_initializer())
               for i, shape in enumerate(SHAPES)]
    loss = tf.add_n([tf.reduce_sum(weight) for weight in weights])
    step = tf.compat.v1.train.get_or_create_global_step()
    train_op = tf.compat.v1.train.GradientDescentOptimizer(1e-3).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Window:
    """Prints how fast the global step went from one number to another, as this task saw it."""

    def __init__(self, begin, end):
        self.begin, self.end, self.first, self.told = begin, end, None, False

    def note(self, step):
        now = time.monotonic()
        if self.first is None and step >= self.begin:
            self.first, self.since = step, now
        elif self.first is not None and not self.told and step >= self.end:
            self.told = True
            print(f"global_step/sec {(step - self.first) / (now - self.since):.3f}", flush=True)


class RateHook(tf.estimator.SessionRunHook):
    """RateHook of benchmarks/servers/cluster_rates.cc."""

    def __init__(self, options):
        lead_in = LEAD_IN * options.workers
        self.options, self.step = options, 0
        self.is_chief = json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "chief"
        self.windows = [Window(lead_in, options.waiting_steps - lead_in),
                        Window(options.waiting_steps + lead_in, options.max_steps - lead_in)]

    def after_create_session(self, session, coord):
        folder = os.path.join(self.options.meet, "met")
        os.makedirs(folder, exist_ok=True)
        open(os.path.join(folder, str(os.getpid())), "w").close()
        while len(os.listdir(folder)) < self.options.workers:
            time.sleep(0.02)

    def before_run(self, context):
        if self.step < self.options.waiting_steps:
            time.sleep(COMPUTE)
        return tf.estimator.SessionRunArgs(tf.compat.v1.train.get_global_step())

    def after_run(self, context, values):
        self.step = int(values.results)
        if self.is_chief:
            for window in self.windows:
                window.note(self.step)


def touch_weights(options, config):
    def rows():
        return tf.data.Dataset.from_tensors((tf.zeros([1]), tf.zeros([1]))).repeat()

    spec = tf.estimator.TrainSpec(rows, max_steps=options.max_steps, hooks=[RateHook(options)])
    tf.estimator.train_and_evaluate(tf.estimator.Estimator(touch, config=config), spec,
                                    tf.estimator.EvalSpec(rows, steps=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=["mirrored", "barrier", "servers"], required=True)
    parser.add_argument("--data_dir")
    parser.add_argument("--model", choices=["cnn"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--meet", default="")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--waiting_steps", type=int)
    parser.add_argument("--max_steps", type=int)
    options = parser.parse_args()
    if options.way == "barrier":
        os.environ.pop("TF_CONFIG", None)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    strategy = {"mirrored": tf.distribute.experimental.MultiWorkerMirroredStrategy,
                "servers": tf.compat.v1.distribute.experimental.ParameterServerStrategy,
                "barrier": lambda: None}[options.way]()
    session = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    # Workers look for the chief's variables every 30 s: the chief gets time to make them.
    config = tf.estimator.RunConfig(model_dir=os.path.join(options.meet, "model") if options.meet else None,
                                    session_config=session, train_distribute=strategy, save_checkpoints_steps=None,
                                    save_checkpoints_secs=None, experimental_max_worker_delay_secs=8)
    (touch_weights if options.way == "servers" else train_digits)(options, config)


if __name__ == "__main__":
    sys.exit(main())
