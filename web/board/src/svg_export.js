// A chart as a picture of its own, in SVG.
import {number} from './format.js';

const escaped = (text) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

// Steps of 1, 2 or 5 times a power of ten, of which about `most` fit into the range.
export function ticksOf(low, high, most) {
  const range = high - low;
  if (!(range > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(range / most));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => range / each <= most);
  const ticks = [];
  for (let tick = Math.ceil(low / step); tick * step <= high + step * 1e-9; ++tick) ticks.push(Number((tick * step).toPrecision(12)));
  return ticks;
}

// `lines`: [{name, color, dashed, values}] over `x`; `scale` is {y: [low, high], logY, logX}; `showX` writes a place.
export function chartSvg({title, x, lines, scale, showX}) {
  const width = 800, height = 440, left = 80, right = 20, top = 40, bottom = 50 + 18 * Math.min(lines.length, 20);
  const shown = height - 90;
  const logOr = (value, on) => (on ? Math.log10(value) : value);
  const xs = x.map((each) => logOr(each, scale.logX));
  const [xLow, xHigh] = [Math.min(...xs.filter(Number.isFinite)), Math.max(...xs.filter(Number.isFinite))];
  const [yLow, yHigh] = scale.y.map((each) => logOr(each, scale.logY));
  const px = (value) => left + ((value - xLow) / (xHigh - xLow || 1)) * (width - left - right);
  const py = (value) => top + shown - ((value - yLow) / (yHigh - yLow || 1)) * shown;
  const out = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top + shown + bottom}" ` +
    'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>',
  `<text x="${width / 2}" y="22" text-anchor="middle" font-size="15">${escaped(title)}</text>`];
  for (const tick of ticksOf(yLow, yHigh, 6)) {
    const label = number(scale.logY ? 10 ** tick : tick);
    out.push(`<path d="M${left} ${py(tick).toFixed(1)}H${width - right}" stroke="#ddd"/>` +
      `<text x="${left - 8}" y="${(py(tick) + 4).toFixed(1)}" text-anchor="end">${escaped(label)}</text>`);
  }
  for (const tick of ticksOf(xLow, xHigh, 6)) {
    out.push(`<text x="${px(tick).toFixed(1)}" y="${top + shown + 20}" text-anchor="middle">` +
      `${escaped(showX(scale.logX ? 10 ** tick : tick))}</text>`);
  }
  out.push(`<clipPath id="area"><rect x="${left}" y="${top}" width="${width - left - right}" height="${shown}"/></clipPath>` +
    '<g clip-path="url(#area)" fill="none" stroke-width="1.5">');
  for (const line of lines) {
    const points = [];
    line.values.forEach((value, at) => {
      if (value !== null && Number.isFinite(xs[at]) && (!scale.logY || value > 0))
        points.push(`${px(xs[at]).toFixed(1)},${py(logOr(value, scale.logY)).toFixed(1)}`);
    });
    out.push(`<polyline points="${points.join(' ')}" stroke="${escaped(line.color)}"${line.dashed ? ' stroke-dasharray="6 4"' : ''}/>`);
  }
  out.push('</g>');
  lines.slice(0, 20).forEach((line, at) => {
    const y = top + shown + 44 + 18 * at;
    out.push(`<path d="M${left} ${y - 4}h24" stroke="${escaped(line.color)}" stroke-width="2"/>` +
      `<text x="${left + 32}" y="${y}">${escaped(line.name)}</text>`);
  });
  out.push('</svg>');
  return out.join('');
}

// Gives the browser a file to keep.
export function download(name, type, content) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
