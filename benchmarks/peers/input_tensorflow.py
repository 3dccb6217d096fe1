"""tf.data on one thread, as a contestant of the benchmarks input, records, csv and images
(benchmarks/support/step_pacer.h says how contestants talk). A step takes --batches batches:

    --data=slices                       shuffled rows in memory, as input_torch.py has them
    --data=records --path=FILE          TFRecords of tf.Examples: "x" of --width floats, and "label"
    --data=csv --path=FILE              40 columns of numbers with a line of names
    --data=center|random --path=FOLDER  photos, a folder for each class

The settings are the fastest of those that were tried: whole batches are parsed, rows in memory are gathered by
batches of shuffled indices, and a photo is decoded within its crop, at the smallest scale that is large enough.
"""
import argparse
import glob
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from turns import take_turns

ROWS, PIXELS, COLUMNS, SIDE = 60000, 784, 40, 224
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]  # of a photo's channels


def slices(options):
    images = tf.constant((np.arange(ROWS * PIXELS) % 251).astype(np.uint8).reshape(ROWS, PIXELS))
    labels = tf.constant(np.arange(ROWS) % 10)
    rows = tf.data.Dataset.range(ROWS).shuffle(ROWS).repeat().batch(options.batch)
    return rows.map(lambda index: (tf.gather(images, index), tf.gather(labels, index)))


def records(options):
    features = {"x": tf.io.FixedLenFeature([options.width], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
    rows = tf.data.TFRecordDataset(options.path, buffer_size=1 << 20).repeat().batch(options.batch)
    return rows.map(lambda examples: tf.io.parse_example(examples, features))


def csv(options):
    lines = tf.data.TextLineDataset(options.path, buffer_size=1 << 20).skip(1).batch(options.batch).repeat()
    return lines.map(lambda line: tf.io.decode_csv(line, [tf.constant(0.0)] * COLUMNS))


def middle(shape):
    """A crop (top, left, height, width) of 7/8 of the shorter side, as Muster's benchmark has it."""
    side = tf.cast(0.875 * tf.cast(tf.minimum(shape[0], shape[1]), tf.float32), tf.int32)
    return tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])


def anywhere(shape):
    """A crop of 8 to 100 % of the area, whose sides are as 3 to 4 up to 4 to 3."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(shape, [[[0.0, 0.0, 1.0, 1.0]]], min_object_covered=0.0,
                                                            aspect_ratio_range=[3 / 4, 4 / 3], area_range=[0.08, 1.0])
    return tf.concat([begin[:2], size[:2]], 0)


def photo(path, options):
    data = tf.io.read_file(path)
    crop = (anywhere if options.data == "random" else middle)(tf.io.extract_jpeg_shape(data))

    def at_scale(ratio):
        # The window is of the image at that scale.
        return lambda: tf.io.decode_and_crop_jpeg(data, crop // ratio, channels=3, ratio=ratio,
                                                  dct_method="INTEGER_FAST")

    side = tf.minimum(crop[2], crop[3])
    halvings = sum(tf.cast(side >= ratio * SIDE, tf.int32) for ratio in (2, 4, 8))
    image = tf.switch_case(halvings, [at_scale(ratio) for ratio in (1, 2, 4, 8)])
    image = tf.image.resize(image, [SIDE, SIDE])
    if options.data == "random":
        image = tf.image.random_flip_left_right(image)
    return (image - tf.constant(MEAN) * 255) / (tf.constant(STD) * 255)


def photos(options):
    names = sorted(os.listdir(options.path))
    paths, labels = [], []
    for label, name in enumerate(names):
        for path in sorted(glob.glob(os.path.join(options.path, name, "*"))):
            with open(path, "rb") as file:
                if file.read(2) == b"\xff\xd8":  # JPEG
                    paths.append(path)
                    labels.append(label)
    rows = tf.data.Dataset.from_tensor_slices((paths, labels)).repeat()
    return rows.map(lambda path, label: (photo(path, options), label)).batch(options.batch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=["slices", "records", "csv", "center", "random"], required=True)
    parser.add_argument("--path", default="")
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--batches", type=int, required=True)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    made = {"slices": slices, "records": records, "csv": csv}.get(options.data, photos)(options)
    settings = tf.data.Options()
    settings.threading.private_threadpool_size = 1
    settings.threading.max_intra_op_parallelism = 1
    settings.autotune.enabled = False  # it has one thread to give away
    batches = iter(made.with_options(settings))

    @tf.function
    def step():
        for _ in range(options.batches - 1):
            next(batches)
        return next(batches)

    def first_number():
        parts = tf.nest.flatten(step())
        return float(tf.reshape(parts[0], [-1])[0])

    take_turns(first_number)


if __name__ == "__main__":
    main()
