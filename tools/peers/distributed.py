"""One task of a distributed run of TensorFlow, for distributed_compare.py: which cluster it belongs to says TF_CONFIG.

    python tools/peers/distributed.py begin FOLDER --strategy=NAME
    python tools/peers/distributed.py run FOLDER MODEL --strategy=NAME [OPTIONS]

begin writes FOLDER/rows.csv and FOLDER/begin, a checkpoint of step 0 of TensorFlow, which that strategy can restore.
run trains in MODEL, which holds a copy of it. tests/tensorflow/distributed_program.cc is the same program in Muster.
"""

import argparse
import csv
import glob
import json
import os
import shutil
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import numpy as np
import tensorflow as tf

CITIES = ["Oslo", "Rome", "Lima"]
ROWS, BATCH = 256, 16  # rows of the table, and of a batch of a replica


def write_rows(path):
    random = np.random.RandomState(7)
    size, age = random.randn(ROWS), random.rand(ROWS)
    city = random.randint(0, 4, ROWS)
    label = (size + 2 * (city == 1) - age + 0.3 * random.randn(ROWS) > 0.4).astype(int)
    with open(path, "w") as file:
        file.write("size,age,city,label\n")
        for row in zip(size, age, city, label):
            file.write(f"{row[0]:.9g},{row[1]:.9g},{(CITIES + ['Bern'])[row[2]]},{row[3]}\n")


def rows_of(folder):
    with open(os.path.join(folder, "rows.csv")) as file:
        rows = list(csv.DictReader(file))
    features = {name: np.array([[float(row[name])] for row in rows], np.float32) for name in ["size", "age"]}
    features["city"] = np.array([[row["city"]] for row in rows])
    return tf.data.Dataset.from_tensor_slices((features, np.array([[int(row["label"])] for row in rows])))


class Steps(tf.estimator.SessionRunHook):
    """Writes step and loss of each step of this task, and makes a step last as long as it is told."""

    def __init__(self, path, pause):
        self.path, self.pause = path, pause

    def begin(self):
        # The last one is that of the step; those before are of single replicas.
        self.loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]

    def before_run(self, context):
        return tf.estimator.SessionRunArgs([tf.compat.v1.train.get_global_step(), self.loss])

    def after_run(self, context, values):
        step, loss = values.results
        with open(self.path, "a") as file:
            file.write(f"{int(step) + 1} {float(loss):.9g}\n")
        time.sleep(self.pause)


def estimator(folder, strategy, save_steps=50):
    city = tf.feature_column.categorical_column_with_vocabulary_list("city", CITIES)
    columns = [tf.feature_column.numeric_column("age"), tf.feature_column.numeric_column("size"),
               tf.feature_column.embedding_column(city, 2)]
    config = tf.estimator.RunConfig(tf_random_seed=3, model_dir=folder, train_distribute=strategy, save_summary_steps=1,
                                    save_checkpoints_steps=save_steps, log_step_count_steps=50, keep_checkpoint_max=0)
    return tf.estimator.DNNClassifier([16, 8], columns, optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(0.05),
                                      config=config)


def begin(folder, strategy):
    os.makedirs(folder, exist_ok=True)
    write_rows(os.path.join(folder, "rows.csv"))
    run = os.path.join(folder, "first")
    shutil.rmtree(run, ignore_errors=True)
    estimator(run, strategy_of(strategy)).train(lambda: rows_of(folder).batch(BATCH), steps=1)
    first = os.path.join(folder, "begin")
    shutil.rmtree(first, ignore_errors=True)
    os.makedirs(first)
    for path in glob.glob(os.path.join(run, "model.ckpt-0.*")):
        shutil.copy(path, first)
    with open(os.path.join(first, "checkpoint"), "w") as file:
        file.write('model_checkpoint_path: "model.ckpt-0"\nall_model_checkpoint_paths: "model.ckpt-0"\n')


def strategy_of(name):
    if name == "multi_worker":
        return tf.distribute.experimental.MultiWorkerMirroredStrategy()
    if name == "parameter_server":
        return tf.compat.v1.distribute.experimental.ParameterServerStrategy()
    if name.startswith("mirrored"):
        cpu = tf.config.list_physical_devices("CPU")[0]
        count = int(name.split(":")[1])
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
        return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(count)],
                                              cross_device_ops=tf.distribute.ReductionToOneDevice())
    return None


def run(options):
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = cluster.get("task", {"type": "worker", "index": 0})
    name = f"{task['type']}-{task['index']}"
    strategy = strategy_of(options.strategy)
    # batches of one task's data, when it ends before max_steps
    few = dict(part.split("=") for part in options.few.split(",") if part)

    def train_input(input_context=None):
        rows = rows_of(options.folder)
        if input_context is not None:
            rows = rows.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        rows = rows.repeat().batch(BATCH)
        return rows.take(int(few[name])) if name in few else rows

    train = tf.estimator.TrainSpec(train_input, max_steps=options.max_steps,
                                   hooks=[Steps(os.path.join(options.model, f"steps.{name}"), options.pause)])
    evaluate = tf.estimator.EvalSpec(lambda: rows_of(options.folder).batch(64), steps=None, start_delay_secs=0,
                                     throttle_secs=0)
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    print(tf.estimator.train_and_evaluate(estimator(options.model, strategy, options.save_steps), train, evaluate))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["begin", "run"])
    parser.add_argument("folder")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--strategy", default="one_device")
    parser.add_argument("--max_steps", type=int, default=100)
    parser.add_argument("--save_steps", type=int, default=50)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    parser.add_argument("--few", default="", help="TASK=BATCHES,…: that task's data end so early")
    options = parser.parse_args()
    if options.verb == "begin":
        begin(options.folder, options.strategy)
    else:
        run(options)


if __name__ == "__main__":
    sys.exit(main())
