"""tf.compat.v1.estimator.experimental.KMeans from given centers: centers after some steps, distances and score."""

import tempfile

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)


def points(random, count, width):
    return [[round(random.uniform(-2, 2), 2) for _ in range(width)] for _ in range(count)]


def generate(random):
    width, rows, clusters = random.choice([1, 2, 3]), random.choice([4, 7, 12]), random.choice([1, 2, 3])
    program = {"points": points(random, rows, width), "steps": random.choice([1, 2, 5, 20])}
    if random.random() < 0.2:
        program["points"][-1] = program["points"][0]
    # A center that is nearest to no point of a full batch becomes 0 there and stays here: each begins at a point.
    program["initial_clusters"] = [list(point) for point in random.sample(program["points"], clusters)]
    if len(set(map(tuple, program["initial_clusters"]))) < clusters:
        program["initial_clusters"] = program["initial_clusters"][:1]
    # A step of a mini-batch counts its points twice there: the graph reads the counts after it has added to them.
    program["use_mini_batch"] = False
    # In one dimension all directions may cancel: a center of 0 has none, and a score of its own in TensorFlow.
    if width > 1 and len(program["initial_clusters"]) == 1 and random.random() < 0.4:
        program["distance_metric"] = "cosine"
    program["batch"] = rows
    return program


def run(program):
    rows = np.array(program["points"], np.float32)

    def training():
        return tf.data.Dataset.from_tensor_slices(rows).repeat().batch(program["batch"])

    def once():
        return tf.data.Dataset.from_tensor_slices(rows).batch(len(rows))

    options = {key: program[key] for key in ("distance_metric", "use_mini_batch") if key in program}
    with tempfile.TemporaryDirectory() as folder:
        kmeans = v1.estimator.experimental.KMeans(
            num_clusters=len(program["initial_clusters"]), model_dir=folder,
            initial_clusters=np.array(program["initial_clusters"], np.float32), **options)
        kmeans.train(training, max_steps=program["steps"])
        # transform() gives the root of these.
        distances = np.stack([each["all_distances"] for each in kmeans.predict(once)])
        return {}, {"centers": kmeans.cluster_centers(), "distances": distances,
                    "index": np.array(list(kmeans.predict_cluster_index(once)), np.int64),
                    "score": np.float64(kmeans.score(once))}
