"""Draws docs/images/originals.svg: how fast others are, compared with Muster, in "Beside the originals" of
docs/performance.md.

    python3 docs/drawings/originals.py

It reads benchmarks/originals.jsonl, which has lines of build/bench/figures.jsonl as benchmarks write them. Of two lines
for the same benchmark and contestant the later one counts, so you append the lines of a new run. A benchmark that ROWS
does not name is left out."""

import json
import math
import pathlib
from xml.sax.saxutils import escape

from canvas import Canvas

REPOSITORY = pathlib.Path(__file__).parent.parent.parent
ROWS = [
    ("originals_64", "MNIST, batch 64"),
    ("originals_256", "MNIST, batch 256"),
    ("originals_evaluate", "MNIST, an evaluation"),
    ("originals_predict", "MNIST, one prediction"),
    ("originals_table", "DNNClassifier, a table"),
    ("originals_census", "wide and deep, census"),
    ("originals_rows", "linear classifier, a9a"),
    ("originals_clicks", "linear classifier, clicks"),
    ("trees_census", "boosted trees, census"),
    ("trees", "boosted trees, 50 numbers"),
    ("originals_resnet50", "ResNet-50"),
    ("originals_gpt", "GPT of 4 blocks"),
    ("originals_lstm", "LSTM"),
]
# The first one whose words are in a contestant's name decides its colour, on light and dark pages.
FAMILIES = [
    ("tf.estimator", "tf.estimator 2.15", "#e5534b"),
    ("Keras 2.15", "Keras 2.15", "#d97706"),
    ("Keras 3", "Keras 3", "#b8a100"),
    ("compiled", "PyTorch 2.15, compiled", "#8250df"),
    ("PyTorch", "PyTorch 2.15", "#388bfd"),
    ("", "XGBoost, LightGBM, scikit-learn", "#2da44e"),
]
LEFT, TOP, WIDTH, STEP, RIGHT = 210, 76, 640, 30, 30
LOW, HIGH = 0.05, 1.25  # ends of the axis, which is logarithmic; what is slower is drawn at its left end


def read(path):
    """Speeds {benchmark: {contestant: (speed, low, high)}} of the lines whose reference is Muster."""
    speeds = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            one = json.loads(line)
            if "speed" in one and one["reference"].startswith("Muster"):
                speed = one["speed"], one["speed_low"], one["speed_high"]
                speeds.setdefault(one["benchmark"], {})[one["contestant"]] = speed
    return speeds


def place(speed):
    inside = min(max(speed, LOW), HIGH)
    return LEFT + WIDTH * math.log(inside / LOW) / math.log(HIGH / LOW)


def dot(draw, y, contestant, speed, low, high):
    colour = next(colour for words, _, colour in FAMILIES if words in contestant)
    draw.parts.append(f'<g fill="{colour}" stroke="{colour}"><title>{escape(contestant)}: {speed:.2f} '
                      f'({low:.2f} to {high:.2f})</title><path d="M{place(low):.1f},{y} H{place(high):.1f}" '
                      f'stroke-width="2"/><circle cx="{place(speed):.1f}" cy="{y}" r="5" fill-opacity="0.7"/></g>')


def originals(speeds):
    rows = [(label, speeds[benchmark]) for benchmark, label in ROWS if benchmark in speeds]
    bottom = TOP + STEP * len(rows)
    draw = Canvas(LEFT + WIDTH + RIGHT, bottom + 76, "Speed of others as a part of Muster's, one core")
    draw.words(LEFT, 28, "Speed as a part of Muster's, one core: 1 is as fast as Muster", bold=True, anchor="start")
    for tick in (0.05, 0.1, 0.2, 0.5, 1):
        draw.line((place(tick), TOP - 8), (place(tick), bottom), dashed=tick != 1)
        draw.words(place(tick), TOP - 16, f"{tick:g}", quiet=True)
    for row, (label, contestants) in enumerate(rows):
        y = TOP + STEP * row + STEP // 2
        draw.words(LEFT - 14, y + 5, label, anchor="end")
        for contestant, (speed, low, high) in contestants.items():
            if not contestant.startswith("Muster"):
                dot(draw, y, contestant, speed, low, high)
    for number, (_, words, colour) in enumerate(FAMILIES):
        x, y = 40 + 290 * (number % 3), bottom + 28 + 26 * (number // 3)
        draw.parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>')
        draw.words(x + 12, y + 5, words, anchor="start")
    return draw


def main():
    originals(read(REPOSITORY / "benchmarks/originals.jsonl")).write(REPOSITORY / "docs/images/originals.svg")


if __name__ == "__main__":
    main()
