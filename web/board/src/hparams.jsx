// Hyperparameters and what came of them: parallel coordinates, and a table that can be sorted.
import {useMemo, useRef, useState} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer} from './board.js';
import {number} from './format.js';
import {Save} from './save.jsx';
import {svgOf} from './svg_export.js';
import {prefixed} from './tables.js';

const HEIGHT = 280, TOP = 46, BOTTOM = 24, GAP = 130;

// The columns of the sessions: hyperparameters that are not the same everywhere first, then the others.
function columnsOf(sessions) {
  const values = new Map();
  for (const session of sessions) {
    for (const [name, value] of Object.entries(session.hparams || {})) {
      if (!values.has(name)) values.set(name, new Set());
      values.get(name).add(JSON.stringify(value));
    }
  }
  return [...values].sort((a, b) => (b[1].size > 1) - (a[1].size > 1) || a[0].localeCompare(b[0])).map(([name]) => name);
}

function shown(value) {
  if (value === undefined) return '–';
  return typeof value === 'number' ? number(value) : String(value);
}

function compare(a, b) {
  if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
}

// An axis: a place from 0 to 1 for each value, and its labels.
function axisOf(values) {
  const there = values.filter((value) => value !== undefined);
  if (there.length > 0 && there.every((value) => typeof value === 'number')) {
    const low = Math.min(...there), high = Math.max(...there);
    // Rates that span powers of ten are spread by their logarithm.
    const logarithmic = low > 0 && high / low >= 30;
    const scale = logarithmic ? Math.log : (value) => value;
    const span = scale(high) - scale(low);
    return {at: (value) => (span > 0 ? (scale(value) - scale(low)) / span : 0.5), labels: low === high ? [[0.5, number(low)]] : [[0, number(low)], [1, number(high)]]};
  }
  const kinds = [...new Set(there.map(String))].sort();
  const at = (value) => (kinds.length > 1 ? kinds.indexOf(String(value)) / (kinds.length - 1) : 0.5);
  return {at, labels: kinds.slice(0, 12).map((kind) => [at(kind), kind.length > 16 ? `${kind.slice(0, 15)}…` : kind])};
}

// `sessions`: [{run, color, name}] with what `axes` take from them; `things` is what they are.
export function Parallel({sessions, axes, marked, setMarked, ranges, setRanges, things = 'runs'}) {
  const width = Math.max(2, axes.length) * GAP;
  const x = (column) => GAP / 2 + column * GAP;
  const y = (part) => HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
  const scales = axes.map((axis) => axisOf(sessions.map(axis.of)));
  const isKept = (session) => axes.every((axis, column) => {
    const range = ranges[axis.name];
    if (!range) return true;
    const value = axis.of(session);
    return value !== undefined && scales[column].at(value) >= range[0] && scales[column].at(value) <= range[1];
  });
  const start = (axis, event) => {
    const svg = event.currentTarget.ownerSVGElement;
    const partOf = (move) => {
      const box = svg.getBoundingClientRect();
      return Math.min(1, Math.max(0, (HEIGHT - BOTTOM - ((move.clientY - box.top) / box.height) * HEIGHT) / (HEIGHT - TOP - BOTTOM)));
    };
    const from = partOf(event);
    const follow = (move) => {
      const to = partOf(move);
      const next = {...ranges};
      if (Math.abs(to - from) < 0.02) delete next[axis.name];
      else next[axis.name] = [Math.min(from, to), Math.max(from, to)];
      setRanges(next);
    };
    const end = () => {
      removeEventListener('pointermove', follow);
      removeEventListener('pointerup', end);
    };
    addEventListener('pointermove', follow);
    addEventListener('pointerup', end);
    follow(event);
  };
  return (
    <div class="wide-scroll" tabIndex={0}>
      <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} class="parallel" role="img" aria-label={`Parallel coordinates of ${sessions.length} ${things}; the table below has the same values`}>
        {sessions.map((session) => {
          const points = axes.map((axis, column) => [axis.of(session), column]).filter(([value]) => value !== undefined)
            .map(([value, column]) => `${x(column)},${y(scales[column].at(value)).toFixed(1)}`).join(' ');
          const kept = isKept(session);
          return <polyline key={session.run} points={points} fill="none" stroke={session.color} opacity={kept ? (marked === null || marked === session.run ? 0.9 : 0.3) : 0.06}
            stroke-width={marked === session.run ? 4 : 1.6} onMouseEnter={() => setMarked(session.run)} onMouseLeave={() => setMarked(null)}><title>{session.name}</title></polyline>;
        })}
        {axes.map((axis, column) => (
          <g key={axis.name}>
            <path d={`M${x(column)} ${TOP}V${HEIGHT - BOTTOM}`} class="axis" />
            <rect x={x(column) - 12} y={TOP} width="24" height={HEIGHT - TOP - BOTTOM} class="brush" onPointerDown={(event) => start(axis, event)} />
            {ranges[axis.name] && <rect x={x(column) - 6} width="12" y={y(ranges[axis.name][1])} height={y(ranges[axis.name][0]) - y(ranges[axis.name][1])} class="chosen" />}
            <text x={x(column)} y={18} text-anchor="middle" class={axis.metric ? 'metric' : ''}>{axis.name.length > 18 ? `${axis.name.slice(0, 17)}…` : axis.name}<title>{axis.name}</title></text>
            {scales[column].labels.map(([part, label]) => <text key={label} x={x(column) + 8} y={y(part) + (part === 0 ? 14 : -5)} class="tick">{label}</text>)}
          </g>
        ))}
      </svg>
    </div>
  );
}

export function Hparams({board, chosen}) {
  const {data, error} = useAnswer((signal) => ask('hparams', {}, {signal}), [board.state.version]);
  const [metrics, setMetrics] = useState(null);
  const [sort, setSort] = useState({name: '', down: true});
  const [marked, setMarked] = useState(null);
  const [ranges, setRanges] = useState({});
  const drawn = useRef(null);
  const sessions = useMemo(() => (data || []).filter((session) => chosen.has(session.run))
    .map((session) => ({...session, color: board.family[session.run].color, name: board.state.runs[session.run].label})), [data, chosen, board.family]);
  if (error) return <p class="error">{error}</p>;
  if (!data) return <p class="empty">The hyperparameters are read.</p>;
  const hparams = columnsOf(sessions);
  const all = [...new Set(sessions.flatMap((session) => Object.keys(session.metrics)))].sort();
  const first = all.filter((name) => /loss|accuracy|score|auc/i.test(name)).slice(0, 3);
  const shownMetrics = metrics === null ? (first.length ? first : all.slice(0, 2)) : metrics.filter((name) => all.includes(name));
  const axes = [...hparams.slice(0, 12).map((name) => ({name, of: (session) => (session.hparams || {})[name]})),
    ...shownMetrics.map((name) => ({name, metric: true, of: (session) => session.metrics[name]}))];
  const columns = [...hparams.map((name) => ({name, of: (session) => (session.hparams || {})[name]})), ...axes.filter((axis) => axis.metric)];
  const sorter = columns.find((column) => column.name === sort.name);
  const rows = sorter ? [...sessions].sort((a, b) => (sort.down ? -1 : 1) * compare(sorter.of(a), sorter.of(b))) : sessions;
  return (
    <>
      <div class="controls">
        <details class="menu"><summary>Metrics: {shownMetrics.length} of {all.length}</summary>
          <div class="left">{all.map((name) => (
            <label key={name}><input type="checkbox" checked={shownMetrics.includes(name)}
              onChange={(event) => setMetrics(event.target.checked ? [...shownMetrics, name] : shownMetrics.filter((each) => each !== name))} /> {name}</label>
          ))}</div>
        </details>
        {Object.keys(ranges).length > 0 && <button onClick={() => setRanges({})}>Show all runs</button>}
        <Save name="Hyperparameters" of={() => ({
          rows: () => rows.map(({name, hparams: given, metrics: measured, result}) => ({run: name, ...prefixed('hparams', given), ...prefixed('metrics', measured), result: result ?? null})),
          picture: () => svgOf(drawn.current.querySelector('svg')),
        })} />
        <span class="count">Drag along an axis to choose a range of it.</span>
      </div>
      <div ref={drawn}><Parallel sessions={sessions} axes={axes} marked={marked} setMarked={setMarked} ranges={ranges} setRanges={setRanges} /></div>
      <div class="wide-scroll" tabIndex={0}>
        <table class="facts">
          <thead><tr><th>run</th>{columns.map((column) => (
            <th key={column.name} class={column.metric ? 'metric' : ''} aria-sort={sort.name === column.name ? (sort.down ? 'descending' : 'ascending') : undefined}>
              <button class="sort" onClick={() => setSort({name: column.name, down: sort.name === column.name ? !sort.down : true})}>{column.name}{sort.name === column.name ? (sort.down ? ' ↓' : ' ↑') : ''}</button>
            </th>
          ))}<th>result</th></tr></thead>
          <tbody>{rows.map((session) => (
            <tr key={session.run} class={marked === session.run ? 'marked' : ''} onMouseEnter={() => setMarked(session.run)} onMouseLeave={() => setMarked(null)}>
              <td><span class="swatch" style={{background: board.family[session.run].color}} />{session.name}</td>
              {columns.map((column) => <td key={column.name}>{shown(column.of(session))}</td>)}
              <td>{session.result || 'running, or ended without a word'}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </>
  );
}
