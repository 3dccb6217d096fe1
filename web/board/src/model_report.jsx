// Pictures of the tables that muster train writes: how good a model is on rows that were held out, and what it needs.
import {useRef} from 'preact/hooks';
import {number} from './format.js';
import {Save} from './save.jsx';
import {svgOf, ticksOf} from './svg_export.js';
import {curvesOf, rowsOf, thinned} from './tables.js';

const SIZE = 260, LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 36;

// A card with a drawing or a table; its menu saves the rows and the drawing.
function Picture({title, note, rows, children}) {
  const card = useRef(null);
  const offer = () => {
    const drawing = card.current.querySelector('svg');
    return {rows: () => rows, picture: drawing ? () => svgOf(drawing) : undefined};
  };
  return <section class="card" aria-label={title} ref={card}><header><h3>{title}</h3>{note && <span class="count">{note}</span>}<span class="tools"><Save name={title} of={offer} /></span></header>{children}</section>;
}

// A square plot: lines and dots over two axes. `all` are the points where what is drawn is a part of them.
function Plot({title, x, y, xRange, yRange, lines = [], dots = [], diagonal = false, all = lines.length > 0 ? lines.flat() : dots}) {
  const px = (value) => LEFT + ((value - xRange[0]) / (xRange[1] - xRange[0] || 1)) * (SIZE - LEFT - RIGHT);
  // Long labels need more room.
  const xTicks = Math.max(...ticksOf(...xRange, 5).map((tick) => number(tick).length)) > 4 ? 3 : 5;
  const py = (value) => SIZE - BOTTOM - ((value - yRange[0]) / (yRange[1] - yRange[0] || 1)) * (SIZE - TOP - BOTTOM);
  return (
    <Picture title={title} rows={all.map(([ax, ay]) => ({[x]: ax, [y]: ay}))}>
      <svg viewBox={`0 0 ${SIZE} ${SIZE}`} class="curve" role="img" aria-label={`${title}: ${y} over ${x}`}>
        {ticksOf(...yRange, 5).map((tick) => <g key={`y${tick}`}><path class="grid" d={`M${px(xRange[0])} ${py(tick)}H${px(xRange[1])}`} /><text x={LEFT - 5} y={py(tick) + 3} text-anchor="end">{number(tick)}</text></g>)}
        {ticksOf(...xRange, xTicks).map((tick) => <g key={`x${tick}`}><path class="grid" d={`M${px(tick)} ${py(yRange[0])}V${py(yRange[1])}`} /><text x={px(tick)} y={SIZE - BOTTOM + 13} text-anchor="middle">{number(tick)}</text></g>)}
        <text x={px((xRange[0] + xRange[1]) / 2)} y={SIZE - 5} text-anchor="middle">{x}</text>
        <text x={9} y={py((yRange[0] + yRange[1]) / 2)} text-anchor="middle" transform={`rotate(-90 9 ${py((yRange[0] + yRange[1]) / 2)})`}>{y}</text>
        {diagonal && <path d={`M${px(Math.max(xRange[0], yRange[0]))} ${py(Math.max(xRange[0], yRange[0]))}L${px(Math.min(xRange[1], yRange[1]))} ${py(Math.min(xRange[1], yRange[1]))}`} class="expected" />}
        {dots.map(([dx, dy, size = 2], at) => <circle key={at} cx={px(dx)} cy={py(dy)} r={size} class="dot" />)}
        {lines.map((line, at) => <polyline key={at} class="result" points={line.map(([lx, ly]) => `${px(lx).toFixed(1)},${py(ly).toFixed(1)}`).join(' ')} />)}
      </svg>
    </Picture>
  );
}

// Each row of a table as an object.
function recordsOf(text) {
  if (!text) return [];
  const [header, ...rows] = rowsOf(text);
  return rows.filter((row) => row.length === header.length).map((row) => Object.fromEntries(row.map((cell, at) => [header[at], cell])));
}

function Predictions({text}) {
  const rows = recordsOf(text);
  if (rows.length === 0) return null;
  const probabilities = Object.keys(rows[0]).filter((name) => name.startsWith('probability of '));
  if (probabilities.length === 2) {
    const positive = probabilities[1].slice('probability of '.length);
    const curves = curvesOf(rows.map((row) => [Number(row[probabilities[1]]), row.label === positive]));
    if (!curves) return null;
    return (
      <>
        <Plot title={`ROC, area ${number(curves.area)}`} x="false positive rate" y="true positive rate" xRange={[0, 1]} yRange={[0, 1]} lines={[thinned(curves.roc, 400)]} all={curves.roc} diagonal />
        <Plot title={`Precision and recall, average ${number(curves.averagePrecision)}`} x="recall" y="precision" xRange={[0, 1]} yRange={[0, 1]} lines={[thinned(curves.pr, 400)]} all={curves.pr} />
      </>
    );
  }
  const points = rows.map((row) => [Number(row.label), Number(row.prediction)]).filter((point) => point.every(Number.isFinite));
  if (probabilities.length > 0 || points.length === 0) return null;
  const all = points.flat();
  const range = [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
  const residuals = points.map(([label, prediction]) => [prediction, label - prediction]);
  const rangeOf = (values) => [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  return (
    <>
      <Plot title="Predictions of rows that were held out" x="label" y="prediction" xRange={range} yRange={range} dots={thinned(points, 1500).map(([x, y]) => [x, y, 1.2])} all={points} diagonal />
      <Plot title="Residuals: label minus prediction" x="prediction" y="residual" xRange={rangeOf(residuals.map(([x]) => x))} yRange={rangeOf(residuals.map(([, y]) => y))} dots={thinned(residuals, 1500).map(([x, y]) => [x, y, 1.2])} all={residuals} />
      <ResidualCounts residuals={residuals.map(([, y]) => y)} />
    </>
  );
}

// How many residuals are of which size. The outermost hundredth on each side counts in the last bars.
function ResidualCounts({residuals}) {
  const sorted = [...residuals].sort((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
  const [low, high] = [at(0.01), at(0.99)];
  if (!(high > low)) return null;
  const BARS = 24;
  const counts = Array(BARS).fill(0);
  for (const each of sorted) counts[Math.min(BARS - 1, Math.max(0, Math.floor(((each - low) / (high - low)) * BARS)))] += 1;
  const most = Math.max(...counts), width = (SIZE - LEFT - RIGHT) / BARS, px = (value) => LEFT + ((value - low) / (high - low)) * (SIZE - LEFT - RIGHT);
  return (
    <Picture title="Residuals by size" rows={counts.map((count, bar) => ({from: low + (bar / BARS) * (high - low), to: low + ((bar + 1) / BARS) * (high - low), count}))}>
      <svg viewBox={`0 0 ${SIZE} ${SIZE}`} class="curve" role="img" aria-label={`Residuals by size: most are near ${number(at(0.5))}`}>
        {ticksOf(0, most, 5).map((tick) => <g key={tick}><path class="grid" d={`M${LEFT} ${SIZE - BOTTOM - (tick / most) * (SIZE - TOP - BOTTOM)}H${SIZE - RIGHT}`} /><text x={LEFT - 5} y={SIZE - BOTTOM - (tick / most) * (SIZE - TOP - BOTTOM) + 3} text-anchor="end">{number(tick)}</text></g>)}
        {counts.map((count, bar) => <rect key={bar} class="dot" x={LEFT + bar * width + 0.5} width={width - 1} y={SIZE - BOTTOM - (count / most) * (SIZE - TOP - BOTTOM)} height={(count / most) * (SIZE - TOP - BOTTOM)} />)}
        {ticksOf(low, high, 4).map((tick) => <text key={`x${tick}`} x={px(tick)} y={SIZE - BOTTOM + 13} text-anchor="middle">{number(tick)}</text>)}
        <text x={(LEFT + SIZE) / 2} y={SIZE - 5} text-anchor="middle">residual</text>
      </svg>
    </Picture>
  );
}

// The mean prediction over the values of a column: lines over numbers, and bars of categories.
function Dependence({name, rows, range}) {
  const classes = [...new Set(rows.map((row) => row.class))];
  const isNumber = rows.every((row) => row.value !== '' && Number.isFinite(Number(row.value)));
  const what = classes.length === 1 && classes[0] ? `mean probability of ${classes[0]}` : classes.length > 1 ? 'mean probability' : 'mean prediction';
  if (isNumber && classes.length === 1) {
    const points = rows.map((row) => [Number(row.value), Number(row.prediction)]);
    return <Plot title={name} x={name} y={what} xRange={[points[0][0], points[points.length - 1][0]]} yRange={range} lines={[points]} dots={points.map(([x, y]) => [x, y, 2.5])} />;
  }
  const shown = classes.length > 1 ? [...new Set(rows.map((row) => row.value))] : [''];
  const left = 130, width = 380, x = (value) => left + ((value - Math.min(0, range[0])) / (range[1] - Math.min(0, range[0]) || 1)) * (width - left - 60);
  // Of several classes, a group of bars for each value of the column.
  const bars = shown.flatMap((value) => rows.filter((row) => value === '' || row.value === value).map((row, at) => ({...row, words: classes.length > 1 ? `${at === 0 ? `${row.value}: ` : ''}${row.class}` : row.value || '(empty)'})));
  return (
    <Picture title={name} note={what} rows={rows}>
      <svg viewBox={`0 0 ${width} ${bars.length * 18 + 8}`} class="bars" role="img" aria-label={`${what} by ${name}: ${bars.slice(0, 12).map((bar) => `${bar.words} ${bar.prediction}`).join(', ')}`}>
        {bars.map((bar, at) => (
          <g key={at} transform={`translate(0 ${at * 18 + 4})`}>
            <text x={left - 6} y="12" text-anchor="end">{bar.words.length > 19 ? `${bar.words.slice(0, 18)}…` : bar.words}<title>{bar.words}</title></text>
            <rect x={x(0) < left ? left : x(0)} y="2" width={Math.max(1, x(Number(bar.prediction)) - x(0))} height="12" class="dot" />
            <text x={x(Math.max(0, Number(bar.prediction))) + 5} y="12">{number(Number(bar.prediction))}</text>
          </g>
        ))}
      </svg>
    </Picture>
  );
}

function Dependences({text}) {
  const rows = recordsOf(text).filter((row) => Number.isFinite(Number(row.prediction)));
  if (rows.length === 0) return null;
  const values = rows.map((row) => Number(row.prediction));
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const pad = (high - low) * 0.05 || 0.5;
  return (
    <>
      <p class="part wide">How the mean prediction changes with each of the most important columns, while the other columns stay as they are</p>
      {[...new Set(rows.map((row) => row.column))].map((name) => <Dependence key={name} name={name} rows={rows.filter((row) => row.column === name)} range={[low - pad, high + pad]} />)}
    </>
  );
}

function Importance({text}) {
  const rows = recordsOf(text).map((row) => ({name: [row.column, row.value].filter(Boolean).join(' = '), value: Number(row.importance), deviation: Number(row.deviation)}))
    .filter((row) => Number.isFinite(row.value)).slice(0, 20);
  if (rows.length === 0) return null;
  const top = Math.max(...rows.map((row) => row.value + (row.deviation || 0))) || 1;
  const height = rows.length * 18 + 8, left = 130, width = 380;
  const x = (value) => left + (Math.max(0, value) / top) * (width - left - 70);
  return (
    <Picture title="What the model loses when a column is shuffled" rows={recordsOf(text)}>
      <svg viewBox={`0 0 ${width} ${height}`} class="bars" role="img" aria-label="Importance of the columns; the report below has the numbers">
        {rows.map((row, at) => (
          <g key={row.name} transform={`translate(0 ${at * 18 + 4})`}>
            <text x={left - 6} y="12" text-anchor="end">{row.name.length > 19 ? `${row.name.slice(0, 18)}…` : row.name}<title>{row.name}</title></text>
            <rect x={left} y="2" width={x(row.value) - left} height="12" class="dot" />
            {row.deviation > 0 && <path d={`M${x(row.value - row.deviation)} 8H${x(row.value + row.deviation)}`} class="expected" />}
            <text x={x(row.value + (row.deviation || 0)) + 5} y="12">{number(row.value)}</text>
          </g>
        ))}
      </svg>
    </Picture>
  );
}

function Confusion({text}) {
  const rows = text ? rowsOf(text) : [];
  if (rows.length < 2 || rows.length > 40) return null;
  const [header, ...body] = rows;
  return (
    <Picture title="Confusion matrix" rows={recordsOf(text)}>
      <div class="wide-scroll" tabIndex={0}><table class="facts"><thead><tr>{header.map((cell) => <th key={cell}>{cell}</th>)}</tr></thead><tbody>
        {body.map((row) => {
          const sum = row.slice(1).reduce((total, cell) => total + Number(cell), 0) || 1;
          return <tr key={row[0]}><th>{row[0]}</th>{row.slice(1).map((cell, at) => <td key={at} class="right" style={{background: `color-mix(in srgb, var(--accent) ${Math.round(60 * Number(cell) / sum)}%, transparent)`}}>{number(Number(cell))}</td>)}</tr>;
        })}
      </tbody></table></div>
    </Picture>
  );
}

export function ModelReport({tables}) {
  const calibration = recordsOf(tables.calibration).filter((row) => Number(row.rows) > 0);
  const most = Math.max(...calibration.map((row) => Number(row.rows)));
  const points = calibration.map((row) => [Number(row['mean prediction']), Number(row.observed), 2 + 5 * Math.sqrt(Number(row.rows) / most)]);
  return (
    <>
      <Predictions text={tables.held_out_predictions} />
      {points.length > 0 && <Plot title="Calibration" x="mean prediction" y="observed share" xRange={[0, 1]} yRange={[0, 1]} dots={points} lines={[points.map(([x, y]) => [x, y])]} diagonal />}
      <Confusion text={tables.confusion} />
      <Importance text={tables.importance} />
      <Dependences text={tables.partial_dependence} />
    </>
  );
}
