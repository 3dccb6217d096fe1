// The exponential moving average of TensorBoard, with its correction for the first values. `counts` are the points that
// each value stands for; without it, each stands for one.
export function smooth(values, weight, counts = null) {
  let average = 0;
  let remaining = 1;  // the part of the average that is still the initial 0
  return values.map((value, at) => {
    if (value === null) return null;
    const factor = counts === null ? weight : weight ** counts[at];
    average = average * factor + value * (1 - factor);
    remaining *= factor;
    return remaining === 1 ? value : average / (1 - remaining);
  });
}

// The lines of a chart, smoothed. A thinned chart has a mean for each interval, which is two x long: the smoothed value
// is at the first of them.
export function smoothLine(line, exact, weight) {
  if (exact) return smooth(line.values, weight);
  const smoothed = smooth(line.means, weight, line.counts);
  const spread = new Array(line.values.length).fill(null);
  smoothed.forEach((value, at) => { spread[2 * at] = value; });
  return spread;
}

// The range from the `part` quantile to its opposite, of all values that are there; null for none.
export function innerRange(lists, part) {
  const all = [];
  for (const list of lists) for (const value of list) if (value !== null) all.push(value);
  if (all.length === 0) return null;
  all.sort((a, b) => a - b);
  const at = (share) => all[Math.min(all.length - 1, Math.max(0, Math.round(share * (all.length - 1))))];
  return [at(part), at(1 - part)];
}
