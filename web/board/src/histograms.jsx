// Histograms over the steps, as ridges or as bands of quantiles, on a canvas.
import {useEffect, useRef} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer, useSetting, useWidth} from './board.js';
import {number} from './format.js';
import {inkOf, SvgContext, ticksOf} from './svg_export.js';
import {TagRuns} from './tag_runs.jsx';

const HEIGHT = 260;
const LEFT = 56, RIGHT = 12, TOP = 10, BOTTOM = 26;
// The quantiles of the bands: those of TensorBoard, the standard deviations of a normal distribution.
const QUANTILES = [0, 0.0668, 0.1587, 0.3085, 0.5, 0.6915, 0.8413, 0.9332, 1];

// The edges of the buckets, with the first and the last one cut at the least and greatest value.
function edgesOf({limits, min, max}) {
  const edges = [Math.min(min, limits[0]), ...limits];
  return edges.map((edge) => Math.min(Math.max(edge, min), max));
}

// Values at quantiles, by the share of the buckets.
export function quantilesOf(histogram, shares) {
  const edges = edgesOf(histogram);
  const total = histogram.counts.reduce((a, b) => a + b, 0);
  if (!(total > 0)) return null;
  return shares.map((share) => {
    let left = share * total;
    for (let at = 0; at < histogram.counts.length; ++at) {
      const count = histogram.counts[at];
      if (left <= count && count > 0) return edges[at] + (left / count) * (edges[at + 1] - edges[at]);
      left -= count;
    }
    return edges[edges.length - 1];
  });
}

// The density at `count` equal parts of a range.
function densityOf(histogram, low, high, count) {
  const edges = edgesOf(histogram);
  const density = new Array(count).fill(0);
  const width = (high - low) / count || 1;
  for (let at = 0; at < histogram.counts.length; ++at) {
    const from = edges[at], to = edges[at + 1];
    const first = Math.max(0, Math.min(count - 1, Math.floor((from - low) / width)));
    const last = Math.max(0, Math.min(count - 1, Math.floor((to - low) / width)));
    for (let bin = first; bin <= last; ++bin) {
      const share = to > from ? Math.max(0, Math.min(to, low + (bin + 1) * width) - Math.max(from, low + bin * width)) / (to - from) : 1 / (last - first + 1);
      density[bin] += histogram.counts[at] * share;
    }
  }
  return density;
}

function prepare(canvas, width) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = HEIGHT * ratio;
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, HEIGHT);
  context.font = '11px system-ui, sans-serif';
  return context;
}

// `context` is that of a canvas, or an SvgContext; `ink` the colours of the page.
function drawRidges(context, ink, width, data, color) {
  const low = Math.min(...data.map((each) => each.min)), high = Math.max(...data.map((each) => each.max));
  const span = high - low || Math.abs(high) || 1;
  const bins = 80;
  const densities = data.map((each) => densityOf(each, low, low + span, bins));
  const top = Math.max(...densities.map((density) => Math.max(...density))) || 1;
  const room = HEIGHT - TOP - BOTTOM;
  const ridge = Math.min(room * 0.45, 90);
  const x = (bin) => LEFT + (bin / (bins - 1)) * (width - LEFT - RIGHT);
  densities.forEach((density, at) => {
    const base = TOP + ridge + (at / Math.max(1, data.length - 1)) * (room - ridge);
    context.beginPath();
    density.forEach((value, bin) => context.lineTo(x(bin), base - (value / top) * ridge));
    context.strokeStyle = ink.back;
    context.lineTo(x(bins - 1), base);
    context.lineTo(x(0), base);
    context.closePath();
    context.fillStyle = color;
    context.globalAlpha = 0.35 + 0.6 * (at / Math.max(1, data.length - 1));
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 1;
    context.stroke();
  });
  context.fillStyle = ink.soft;
  for (const tick of ticksOf(low, low + span, 6)) {
    context.textAlign = 'center';
    context.fillText(number(tick), LEFT + ((tick - low) / span) * (width - LEFT - RIGHT), HEIGHT - 8);
  }
  context.textAlign = 'right';
  for (const at of [0, data.length - 1])
    context.fillText(number(data[at].step), LEFT - 6, TOP + ridge + (at / Math.max(1, data.length - 1)) * (room - ridge) + 4);
}

function drawBands(context, ink, width, data, color) {
  const rows = data.map((each) => ({step: each.step, values: quantilesOf(each, QUANTILES)})).filter((row) => row.values);
  if (rows.length === 0) return;
  const low = Math.min(...rows.map((row) => row.values[0])), high = Math.max(...rows.map((row) => row.values[8]));
  const first = rows[0].step, last = rows[rows.length - 1].step;
  const x = (step) => LEFT + ((step - first) / (last - first || 1)) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - (value - low) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
  context.fillStyle = color;
  for (let band = 0; band < 4; ++band) {
    context.globalAlpha = 0.14 + 0.1 * band;
    context.beginPath();
    rows.forEach((row) => context.lineTo(x(row.step), y(row.values[band])));
    [...rows].reverse().forEach((row) => context.lineTo(x(row.step), y(row.values[8 - band])));
    context.fill();
  }
  context.globalAlpha = 1;
  context.strokeStyle = color;
  context.beginPath();
  rows.forEach((row) => context.lineTo(x(row.step), y(row.values[4])));
  context.stroke();
  context.fillStyle = ink.soft;
  context.textAlign = 'right';
  for (const tick of ticksOf(low, high, 5)) context.fillText(number(tick), LEFT - 6, y(tick) + 4);
  context.textAlign = 'center';
  for (const tick of ticksOf(first, last, 5)) context.fillText(number(tick), x(tick), HEIGHT - 8);
}

// A row for each bucket.
const rowsOf = (run, histograms) => histograms.flatMap((each) => {
  const edges = edgesOf(each);
  return each.counts.map((count, at) => ({run, step: each.step, wall_time: each.wall, from: edges[at], to: edges[at + 1], count}));
});

function HistogramCard({tag, run, name, color, version, shape, offer}) {
  const {data, error} = useAnswer((signal) => ask('histograms', {tag: tag.number, run, most: shape === 'bands' ? 200 : 40}, {signal}), [tag.number, run, version, shape]);
  const holder = useRef(null);
  const canvas = useRef(null);
  const width = useWidth(holder);
  const draw = shape === 'bands' ? drawBands : drawRidges;
  useEffect(() => {
    if (!data || data.length === 0 || width === 0 || !canvas.current) return;
    draw(prepare(canvas.current, width), inkOf(canvas.current), width, data, color);
  }, [data, width, shape, color]);
  const picture = () => {
    const ink = inkOf(canvas.current);
    const context = new SvgContext(width, HEIGHT, `${tag.name} of ${name}`, ink);
    draw(context, ink, width, data, color);
    return context.toString();
  };
  offer.current = data && data.length > 0 ? {picture, rows: async () => rowsOf(name, await ask('histograms', {tag: tag.number, run, most: 500}))} : {};
  const last = data && data[data.length - 1];
  return (
    <div ref={holder}>
      {error && <p class="error">{error}</p>}
      {data && data.length > 0 && (
        <>
          <canvas ref={canvas} style={{width: '100%', height: `${HEIGHT}px`}} role="img" aria-label={`${tag.name} of ${name}: histograms of ${data.length} steps`} />
          <details class="more"><summary>The last of {data.length} histograms: step {number(last.step)}</summary>
            <table class="facts"><tbody>
              <tr><th>values</th><td>{number(last.count)}</td></tr>
              <tr><th>least, greatest</th><td>{number(last.min)}, {number(last.max)}</td></tr>
              <tr><th>mean</th><td>{number(last.sum / last.count)}</td></tr>
              <tr><th>quartiles</th><td>{(quantilesOf(last, [0.25, 0.5, 0.75]) || []).map(number).join(', ')}</td></tr>
            </tbody></table>
          </details>
        </>
      )}
    </div>
  );
}

export function Histograms({board, chosen}) {
  const [shape, setShape] = useSetting('histograms', 'ridges');
  return (
    <TagRuns board={board} chosen={chosen} kind="histogram" Card={HistogramCard} shape={shape}>
      <label>Shown as <select value={shape} onChange={(event) => setShape(event.target.value)}>
        <option value="ridges">histograms, the last in front</option>
        <option value="bands">distribution: bands of quantiles</option>
      </select></label>
    </TagRuns>
  );
}
