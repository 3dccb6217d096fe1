// Pictures in SVG: what views draw on canvases, and drawings that are part of the page.
import {number} from './format.js';

// XML has no such letters, not even escaped. Names from event files may have them.
const legal = (text) => text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, '\ufffd');
const escaped = (text) => legal(String(text)).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
const short = (value) => String(Math.round(value * 100) / 100);

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

// The colours that an element is drawn with.
export function inkOf(element) {
  const style = getComputedStyle(element);
  const of = (name) => style.getPropertyValue(name).trim();
  return {text: style.color, back: of('--back'), line: of('--line'), soft: of('--soft')};
}

// Draws into an SVG what a canvas would draw: the part of CanvasRenderingContext2D that the views use.
export class SvgContext {
  fillStyle = '#000';
  strokeStyle = '#000';
  lineWidth = 1;
  globalAlpha = 1;
  font = '11px';
  textAlign = 'left';
  textBaseline = 'alphabetic';
  #out;
  #path = '';
  #dash = '';
  #clips = 0;
  #saved = [];  // the groups that each save() may have opened

  constructor(width, height, title, ink) {
    this.#out = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">` +
      `<title>${escaped(title)}</title><rect width="100%" height="100%" fill="${escaped(ink.back)}"/>`];
  }
  beginPath() { this.#path = ''; }
  moveTo(x, y) { this.#path += `M${short(x)} ${short(y)}`; }
  lineTo(x, y) { this.#path += `${this.#path === '' ? 'M' : 'L'}${short(x)} ${short(y)}`; }
  closePath() { this.#path += 'Z'; }
  rect(x, y, width, height) { this.#path += `M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}Z`; }
  setLineDash(parts) { this.#dash = parts.join(' '); }
  #draw(attributes) {
    if (this.#path !== '') this.#out.push(`<path d="${this.#path}" ${attributes}${this.globalAlpha === 1 ? '' : ` opacity="${short(this.globalAlpha)}"`}/>`);
  }
  fill() { this.#draw(`fill="${escaped(this.fillStyle)}"`); }
  stroke() {
    this.#draw(`fill="none" stroke="${escaped(this.strokeStyle)}" stroke-width="${this.lineWidth}"${this.#dash ? ` stroke-dasharray="${this.#dash}"` : ''}`);
  }
  fillRect(...box) { this.beginPath(); this.rect(...box); this.fill(); }
  strokeRect(...box) { this.beginPath(); this.rect(...box); this.stroke(); }
  clip() {
    this.#out.push(`<clipPath id="clip${++this.#clips}"><path d="${this.#path}"/></clipPath><g clip-path="url(#clip${this.#clips})">`);
    ++this.#saved[this.#saved.length - 1];
  }
  save() { this.#saved.push(0); }
  restore() { this.#out.push('</g>'.repeat(this.#saved.pop())); }
  fillText(text, x, y) {
    const [, bold, size] = /(bold )?(\d+)px/.exec(this.font);
    const anchor = {left: '', center: ' text-anchor="middle"', right: ' text-anchor="end"'}[this.textAlign];
    this.#out.push(`<text x="${short(x)}" y="${short(this.textBaseline === 'middle' ? y + size * 0.35 : y)}" font-size="${size}"${bold ? ' font-weight="bold"' : ''}${anchor} fill="${escaped(this.fillStyle)}">${escaped(text)}</text>`);
  }
  toString() { return `${this.#out.join('')}</svg>`; }
}

// A chart of `lines`: [{name, color, dashed, values, odd}] over `x`; `scale` is {y: [low, high], logY, logX,
// isWhole: x has whole numbers}; `showX` writes a place.
export function chartSvg({title, x, lines, scale, showX}, ink) {
  const width = 800, left = 80, right = 20, top = 40, shown = 350, named = lines.slice(0, 20);
  const bottom = top + shown;
  const context = new SvgContext(width, bottom + 50 + 18 * named.length, title, ink);
  const logOr = (value, on) => (on ? Math.log10(value) : value);
  const xs = x.map((each) => logOr(each, scale.logX));
  const finite = xs.filter(Number.isFinite);
  const [xLow, xHigh] = [finite.reduce((a, b) => Math.min(a, b), Infinity), finite.reduce((a, b) => Math.max(a, b), -Infinity)];
  const [yLow, yHigh] = scale.y.map((each) => logOr(each, scale.logY));
  const px = (value) => left + ((value - xLow) / (xHigh - xLow || 1)) * (width - left - right);
  const py = (value) => bottom - ((value - yLow) / (yHigh - yLow || 1)) * shown;
  const write = (text, at, y, size, align) => {
    context.font = `${size}px`;
    context.textAlign = align;
    context.fillStyle = ink.text;
    context.fillText(text, at, y);
  };
  write(title, width / 2, 22, 15, 'center');
  context.strokeStyle = ink.line;
  for (const tick of ticksOf(yLow, yHigh, 6)) {
    context.beginPath();
    context.moveTo(left, py(tick));
    context.lineTo(width - right, py(tick));
    context.stroke();
    write(number(scale.logY ? 10 ** tick : tick), left - 8, py(tick) + 4, 12, 'right');
  }
  const ticks = ticksOf(xLow, xHigh, 6).filter((tick) => !scale.isWhole || scale.logX || Number.isInteger(tick));
  for (const tick of ticks) write(showX(scale.logX ? 10 ** tick : tick), px(tick), bottom + 20, 12, 'center');
  context.save();
  context.beginPath();
  context.rect(left, top, width - left - right, shown);
  context.clip();
  context.lineWidth = 1.5;
  for (const line of lines) {
    context.strokeStyle = line.color;
    context.setLineDash(line.dashed ? [6, 4] : []);
    context.beginPath();
    line.values.forEach((value, at) => {
      if (value !== null && Number.isFinite(xs[at]) && (!scale.logY || value > 0)) context.lineTo(px(xs[at]), py(logOr(value, scale.logY)));
    });
    context.stroke();
    // Values that are no numbers: marks at the edge, as the chart has them.
    context.fillStyle = line.color;
    for (const [place, kind] of line.odd) {
      const at = px(logOr(place, scale.logX)), edge = kind === 'Infinity' ? top : bottom, inner = kind === 'Infinity' ? edge + 6 : edge - 6;
      context.beginPath();
      context.moveTo(at - 5, inner);
      context.lineTo(at + 5, inner);
      context.lineTo(at, edge);
      context.fill();
    }
  }
  context.restore();
  context.lineWidth = 2;
  named.forEach((line, at) => {
    const y = bottom + 44 + 18 * at;
    context.strokeStyle = line.color;
    context.setLineDash(line.dashed ? [6, 4] : []);
    context.beginPath();
    context.moveTo(left, y - 4);
    context.lineTo(left + 24, y - 4);
    context.stroke();
    write(line.name, left + 32, y, 12, 'left');
  });
  return context.toString();
}

// The least and the greatest value that lines show, for the y axis of chartSvg.
export function extentOf(lines, logY = false) {
  const values = lines.flatMap((line) => line.values.filter((value) => value !== null && (!logY || value > 0)));
  return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
}

// What a drawing of the page takes from its style sheet.
const INHERITED = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'font-size', 'font-weight', 'text-anchor', 'paint-order'];

// A drawing of the page as a picture that needs no style sheet.
export function svgOf(drawing) {
  const copy = drawing.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll('*')];
  [drawing, ...drawing.querySelectorAll('*')].forEach((element, at) => {
    const style = getComputedStyle(element);
    const above = at === 0 ? null : getComputedStyle(element.parentNode);
    for (const name of INHERITED) {
      const value = style.getPropertyValue(name);
      // A colour that is transparent is no colour of SVG 1.1.
      if (!above || value !== above.getPropertyValue(name)) copies[at].setAttribute(name, value === 'rgba(0, 0, 0, 0)' ? 'none' : value);
    }
    if (style.opacity !== '1') copies[at].setAttribute('opacity', style.opacity);
    for (const name of ['class', 'style', 'role', 'tabindex']) copies[at].removeAttribute(name);
  });
  const {width, height} = drawing.viewBox.baseVal || {};
  const size = width > 0 ? {width, height} : drawing.getBoundingClientRect();
  copy.setAttribute('width', size.width);
  copy.setAttribute('height', size.height);
  copy.setAttribute('font-family', 'system-ui, sans-serif');
  const paper = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  for (const [name, value] of [['width', '100%'], ['height', '100%'], ['fill', inkOf(drawing).back], ['stroke', 'none']]) paper.setAttribute(name, value);
  copy.prepend(paper);
  return legal(new XMLSerializer().serializeToString(copy));
}
