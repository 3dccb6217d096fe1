"""Draws docs/images/struck_run.svg from what tests/struck_run has written: python3 docs/drawings/struck_run.py FOLDER.

FOLDER has result.json: the losses of the evaluations of two runs, one of which was struck by faults, and the faults."""

import json
import math
import pathlib
import sys

from canvas import Canvas

OUT = pathlib.Path(__file__).parent.parent / "images/struck_run.svg"
BINS = 120  # of steps; a curve is the mean of the losses in each
LEFT, TOP, WIDTH, HEIGHT = 80, 60, 790, 280
STRUCK, UNTOUCHED = "#e5534b", "#388bfd"  # readable on light and dark pages
FAULTS = [("SIGKILL", "#8250df"), ("SIGSTOP", "#d97706"), ("SIGTERM, started again", "#2da44e"),
          ("connections cut", "#b8a100")]


def binned(points, steps):
    """The mean loss in each bin that has one, and the middle step of the bin."""
    bins = {}
    for step, loss in points:
        if step < steps:
            bins.setdefault(step * BINS // steps, []).append(loss)
    return [((at + 0.5) * steps / BINS, sum(losses) / len(losses)) for at, losses in sorted(bins.items())]


def struck_run(result):
    steps = result["steps"]
    curves = [(binned(result[name], steps), colour, width) for name, colour, width in
              (("untouched_test", UNTOUCHED, 5), ("struck_test", STRUCK, 1.6))]
    losses = [loss for points, _, _ in curves for _, loss in points]
    low, high = (math.log10(value) for value in (min(losses) / 1.2, max(losses) * 1.2))

    def x(step):
        return LEFT + WIDTH * step / steps

    def y(loss):
        return TOP + HEIGHT * (high - math.log10(loss)) / (high - low)

    draw = Canvas(LEFT + WIDTH + 30, TOP + HEIGHT + 150, "Loss of a run with a fault every 15 s, and of one without")
    draw.words(LEFT, 32, "Loss of the test images over steps", bold=True, anchor="start")
    bottom = TOP + HEIGHT
    for exponent in range(math.ceil(low), math.floor(high) + 1):
        draw.line((LEFT, y(10 ** exponent)), (LEFT + WIDTH, y(10 ** exponent)), dashed=True)
        draw.words(LEFT - 10, y(10 ** exponent) + 5, f"{10 ** exponent:g}", quiet=True, anchor="end")
    draw.line((LEFT, bottom), (LEFT + WIDTH, bottom))
    decade = 10 ** math.floor(math.log10(steps))
    every = next(part for part in (decade // 5, decade // 2, decade) if steps // part <= 8)
    for step in range(0, steps + 1, every):
        draw.words(x(step), bottom + 44, f"{step:,}", quiet=True)
    for points, colour, width in curves:
        path = " L".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in points)
        draw.parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}" '
                          f'stroke-opacity="{0.45 if width > 2 else 1}"/>')
    colours = dict(FAULTS)
    for fault in result["faults"]:
        draw.parts.append(f'<path d="M{x(fault["step"]):.1f},{bottom + 6} v18" stroke="{colours[fault["kind"]]}" '
                          f'stroke-width="1.6"><title>{fault["kind"]}: {fault["task"]}, step {fault["step"]}'
                          '</title></path>')
    legend = [("nothing struck it", UNTOUCHED), (f"struck by {len(result['faults'])} faults", STRUCK)]
    for number, (words, colour) in enumerate(legend + FAULTS):
        left, top = LEFT + 270 * (number % 3), bottom + 84 + 28 * (number // 3)
        draw.parts.append(f'<path d="M{left},{top} h24" stroke="{colour}" stroke-width="4"/>')
        draw.words(left + 34, top + 5, words, anchor="start")
    return draw


def main():
    folder = pathlib.Path(sys.argv[1])
    struck_run(json.loads((folder / "result.json").read_text(encoding="utf-8"))).write(OUT)


if __name__ == "__main__":
    main()
