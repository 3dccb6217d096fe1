"""Trains an Estimator of TensorFlow for 500 steps, and goes on to step 1,000: what Muster's has to do from the same
checkpoint. Writes FOLDER/model (as it is at step 500), FOLDER/rows.csv and FOLDER/losses.txt (of the steps 501 to 1,000).

    python tools/peers/continue_estimator.py FOLDER OPTIMIZER
"""

import os
import shutil
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

FOLDER, OPTIMIZER = sys.argv[1:]
ROWS, BATCH = 256, 32
CITIES = ["Oslo", "Rome", "Lima"]


def table():
    random = np.random.RandomState(7)
    size = random.randn(ROWS).astype(np.float32)
    age = random.rand(ROWS).astype(np.float32)
    city = random.randint(0, 4, ROWS)
    label = (size + 2 * (city == 1) - age + 0.3 * random.randn(ROWS) > 0.4).astype(np.int64)
    names = np.array(CITIES + ["Bern"])[city]
    return size, age, names, label


def input_fn():
    size, age, city, label = table()
    features = {"size": size[:, None], "age": age[:, None], "city": city[:, None]}
    return tf.data.Dataset.from_tensor_slices((features, label[:, None])).repeat().batch(BATCH)


class Losses(tf.estimator.SessionRunHook):
    def __init__(self):
        self.values = []

    def before_run(self, context):
        return tf.estimator.SessionRunArgs(self.loss)

    def begin(self):
        self.loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[0]

    def after_run(self, context, values):
        self.values.append(float(values.results))


def estimator(folder):
    category = tf.feature_column.categorical_column_with_vocabulary_list("city", CITIES)
    columns = [tf.feature_column.numeric_column("age"), tf.feature_column.numeric_column("size"),
               tf.feature_column.embedding_column(category, 2)]
    optimizers = {
        "adam": lambda: tf.keras.optimizers.legacy.Adam(0.01),
        "adagrad": lambda: tf.keras.optimizers.legacy.Adagrad(0.05),
        "sgd": lambda: tf.keras.optimizers.legacy.SGD(0.05, momentum=0.9),
        "rmsprop": lambda: tf.keras.optimizers.legacy.RMSprop(0.003, momentum=0.5),
        "ftrl": lambda: tf.keras.optimizers.legacy.Ftrl(0.05),
    }
    return tf.estimator.DNNClassifier([16, 8], columns, model_dir=folder, optimizer=optimizers[OPTIMIZER],
                                      config=tf.estimator.RunConfig(tf_random_seed=3))


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    run = os.path.join(FOLDER, "run")
    estimator(run).train(input_fn, steps=500)
    shutil.copytree(run, os.path.join(FOLDER, "model"))
    losses = Losses()
    estimator(run).train(input_fn, steps=500, hooks=[losses])
    with open(os.path.join(FOLDER, "losses.txt"), "w") as file:
        file.writelines(f"{loss:.9g}\n" for loss in losses.values)
    with open(os.path.join(FOLDER, "rows.csv"), "w") as file:
        file.write("size,age,city,label\n")
        for size, age, city, label in zip(*table()):
            file.write(f"{size:.9g},{age:.9g},{city},{label}\n")


if __name__ == "__main__":
    main()
