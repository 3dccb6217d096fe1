// One chart of lines on a canvas: zoom by dragging, values under the pointer or by the arrow keys.
import uPlot from 'uplot';
import {useEffect, useRef, useState} from 'preact/hooks';
import {useWidth} from './board.js';
import {number} from './format.js';

const MOST_IN_TIP = 12;
// Distances of ticks between whole numbers: half a step has no label of its own.
const WHOLE = Array.from({length: 16}, (_, power) => [1, 2, 5].map((factor) => factor * 10 ** power)).flat();

function colorOfText(element) {
  return getComputedStyle(element).getPropertyValue('color');
}

// Marks of values that are not numbers: at the lower edge, infinities at the edge that they lie beyond.
function drawOdd(plot, lines) {
  const {ctx, bbox} = plot;
  ctx.save();
  for (const line of lines) {
    ctx.fillStyle = line.color;
    for (const [x, kind] of line.odd) {
      const at = plot.valToPos(x, 'x', true);
      if (at < bbox.left || at > bbox.left + bbox.width) continue;
      const up = kind === 'Infinity';
      const y = up ? bbox.top + 2 : bbox.top + bbox.height - 2;
      const size = 5 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(at - size, up ? y + size : y - size);
      ctx.lineTo(at + size, up ? y + size : y - size);
      ctx.lineTo(at, y);
      ctx.fill();
    }
  }
  ctx.restore();
}

// The values at a place, of all lines that have one near it.
function valuesAt(x, lines, at) {
  const found = [];
  for (const line of lines) {
    for (let away = 0; away <= 3; ++away) {
      const place = [at - away, at + away].find((each) => each >= 0 && each < x.length && line.values[each] !== null);
      if (place === undefined) continue;
      found.push({line, value: line.values[place], x: x[place]});
      break;
    }
  }
  return found.sort((a, b) => b.value - a.value);
}

// `lines`: [{name, color, dashed, values, faint, odd}], over `x`. `range` is [low, high] of y, or null: that of the data.
// `isWhole` says that x has whole numbers.
// `onZoom(from, to)` is called for a part that was chosen; `showX` writes a place; `label` describes the chart.
export function LineChart({x, lines, height, logX, logY, range, isTime, isWhole, showX, onZoom, label}) {
  const holder = useRef(null);
  const plotted = useRef(null);
  const current = useRef({});
  const width = useWidth(holder);
  const [tip, setTip] = useState(null);
  current.current = {x, lines, onZoom};
  const shape = JSON.stringify([lines.map((line) => [line.color, line.dashed, Boolean(line.faint)]), logX, logY, isTime, isWhole]);

  useEffect(() => {
    if (width === 0) return undefined;
    const text = colorOfText(holder.current);
    const grid = {stroke: getComputedStyle(holder.current).getPropertyValue('--line'), width: 1};
    const ticks = {...grid, size: 4};
    const series = [{}];
    for (const line of lines) {
      if (line.faint) series.push({stroke: line.color, alpha: 0.25, width: 1, spanGaps: true, points: {show: false}});
    }
    for (const line of lines) {
      const count = line.values.reduce((sum, value) => sum + (value !== null), 0);
      series.push({stroke: line.color, width: lines.length > 30 ? 1 : 1.5, dash: line.dashed ? [6, 4] : undefined, spanGaps: true,
        points: {show: count <= 2, size: 6}});
    }
    const positive = (low) => (low > 0 ? low : 1e-9);
    const options = {
      width, height, series,
      legend: {show: false},
      pxAlign: 0,
      padding: [8, 12, 0, 0],
      cursor: {drag: {x: true, y: false, setScale: false}, points: {show: false}, y: false},
      scales: {
        x: {time: Boolean(isTime), distr: logX ? 3 : 1},
        y: {
          distr: logY ? 3 : 1,
          range: (plot, low, high) => {
            const chosen = plotted.current ? plotted.current.range : range;
            let [from, to] = chosen || [low, high];
            if (from === null || !Number.isFinite(from)) return logY ? [0.1, 10] : [0, 1];
            if (logY) return [positive(from), Math.max(positive(to), positive(from) * 1.1)];
            const pad = (to - from) * 0.05 || Math.abs(to) * 0.1 || 0.5;
            return [from - pad, to + pad];
          },
        },
      },
      axes: [
        {stroke: text, grid, ticks, size: 32, space: 70, incrs: isWhole ? WHOLE : undefined, values: isTime ? undefined : (_, places) => (places || []).map((each) => (each === null ? '' : showX(each)))},
        {stroke: text, grid, ticks, size: 64, values: (_, places) => (places || []).map((each) => (each === null ? '' : number(each)))},
      ],
      hooks: {
        draw: [(plot) => drawOdd(plot, current.current.lines)],
        setCursor: [(plot) => {
          const at = plot.cursor.idx;
          if (at === null || at === undefined || plot.cursor.left < 0) {
            setTip(null);
            return;
          }
          const values = valuesAt(current.current.x, current.current.lines, at);
          setTip(values.length ? {left: plot.cursor.left, width: plot.width, values} : null);
        }],
        setSelect: [(plot) => {
          const {left, width: selected} = plot.select;
          if (selected < 4) return;
          const from = plot.posToVal(left, 'x');
          const to = plot.posToVal(left + selected, 'x');
          plot.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
          current.current.onZoom(from, to);
        }],
      },
    };
    const plot = new uPlot(options, dataOf(x, lines), holder.current);
    plotted.current = {plot, range};
    return () => {
      plot.destroy();
      plotted.current = null;
    };
  }, [width > 0, shape]);

  useEffect(() => {
    if (!plotted.current) return;
    plotted.current.range = range;
    plotted.current.plot.setData(dataOf(x, lines));
  }, [x, lines, range && range[0], range && range[1]]);

  useEffect(() => {
    if (plotted.current && width > 0) plotted.current.plot.setSize({width, height});
  }, [width, height]);

  const move = (event) => {
    const plot = plotted.current && plotted.current.plot;
    if (!plot || x.length === 0) return;
    if (event.key === 'Escape') {
      onZoom(null, null);
      plot.setCursor({left: -10, top: -10});
    } else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      const stride = event.shiftKey ? 10 : 1;
      const before = plot.cursor.idx ?? (event.key === 'ArrowRight' ? -1 : x.length);
      const at = Math.min(x.length - 1, Math.max(0, before + (event.key === 'ArrowRight' ? stride : -stride)));
      plot.setCursor({left: plot.valToPos(x[at], 'x'), top: 10});
    } else {
      return;
    }
    event.preventDefault();
  };

  return (
    <div class="chart" ref={holder} tabIndex={0} role="img" aria-label={label} onKeyDown={move} style={{minHeight: `${height}px`}}>
      {tip && (
        <div class="tip" aria-live="polite" style={tip.left < tip.width / 2 ? {left: `${tip.left + 90}px`} : {right: `${tip.width - tip.left - 50}px`}}>
          <div class="tip-place">{showX(tip.values[0].x)}</div>
          {tip.values.slice(0, MOST_IN_TIP).map(({line, value}) => (
            <div class="tip-line" key={line.name}>
              <span class="swatch" style={{background: line.color}} />
              <span class="tip-name">{line.name}</span>
              <b>{number(value)}</b>
            </div>
          ))}
          {tip.values.length > MOST_IN_TIP && <div>and {tip.values.length - MOST_IN_TIP} more</div>}
        </div>
      )}
    </div>
  );
}

// What uPlot draws: x, the faint lines, then the others.
function dataOf(x, lines) {
  return [x, ...lines.filter((line) => line.faint).map((line) => line.faint), ...lines.map((line) => line.values)];
}
