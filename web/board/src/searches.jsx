// Searches of hyperparameters: the best trial, curves of the trials, parallel coordinates, and a table, the best first.
import {useMemo, useRef, useState} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer} from './board.js';
import {colorOf} from './colors.js';
import {number} from './format.js';
import {Parallel} from './hparams.jsx';
import {LineChart} from './line_chart.jsx';
import {Save} from './save.jsx';
import {chartSvg, extentOf, inkOf, svgOf} from './svg_export.js';
import {prefixed} from './tables.js';

// A value as a number, where it is the text of one.
function valueOf(value) {
  const parsed = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof parsed === 'number' && Number.isFinite(parsed) ? parsed : value;
}

// The curves of trials over the same steps, as a chart draws them: {x, lines}.
function curvesOf(sessions) {
  const x = [...new Set(sessions.flatMap((session) => session.curve.map(([step]) => step)))].sort((a, b) => a - b);
  const place = new Map(x.map((step, at) => [step, at]));
  const lines = sessions.filter((session) => session.curve.length > 0).map((session) => {
    const values = x.map(() => null);
    for (const [step, value] of session.curve) values[place.get(step)] = value;
    return {name: session.name, color: session.color, dashed: false, values, odd: []};
  });
  return {x, lines};
}

function Curves({sessions, metric}) {
  const [zoom, setZoom] = useState([null, null]);
  const {x, lines} = useMemo(() => {
    const all = curvesOf(sessions);
    const shown = all.x.map((_, at) => at).filter((at) => (zoom[0] === null || all.x[at] >= zoom[0]) && (zoom[1] === null || all.x[at] <= zoom[1]));
    return {x: shown.map((at) => all.x[at]), lines: all.lines.map((line) => ({...line, values: shown.map((at) => line.values[at])}))};
  }, [sessions, zoom[0], zoom[1]]);
  const heading = useRef(null);
  if (lines.length === 0) return null;
  const showX = (step) => number(step);
  const offer = () => ({
    rows: () => sessions.flatMap(({number: trial, curve}) => curve.map(([step, value]) => ({trial, step, value}))),
    picture: () => chartSvg({title: `${metric} of the trials`, x, lines, scale: {y: extentOf(lines), isWhole: true}, showX}, inkOf(heading.current)),
  });
  return (
    <>
      <h4 ref={heading}>{metric} of the trials over the steps <Save name={`${metric} of the trials`} of={offer} /> {zoom[0] !== null && <button onClick={() => setZoom([null, null])}>Show all</button>}</h4>
      <LineChart x={x} lines={lines} height={240} range={null} isWhole showX={showX} onZoom={(from, to) => setZoom([from, to])} label={`${metric}: ${lines.length} trials; arrow keys show values`} />
    </>
  );
}

function Search({search}) {
  const {directory, maximize, metric, trials} = search;
  const [marked, setMarked] = useState(null);
  const [ranges, setRanges] = useState({});
  const card = useRef(null);
  const names = [...new Set(trials.flatMap((trial) => Object.keys(trial.values)))];
  const rows = [...trials].sort((a, b) => (a.best === null) - (b.best === null) || (maximize ? b.best - a.best : a.best - b.best) || a.number - b.number);
  const sessions = useMemo(() => trials.map((trial, at) => ({...trial, curve: trial.curve || [], run: trial.number, color: colorOf(at), name: `trial ${trial.number}`})), [trials]);
  const axes = [...names.slice(0, 12).map((name) => ({name, of: (trial) => (trial.values[name] === undefined ? undefined : valueOf(trial.values[name]))})),
    {name: `best ${metric}`, metric: true, of: (trial) => trial.best ?? undefined}];
  const best = rows.find((trial) => trial.best !== null);
  const failed = trials.filter((trial) => trial.failure).length;
  return (
    <section class="card wide" aria-label={directory} ref={card}>
      <header><h3>{directory}</h3><span class="count">{trials.length} trials; the {maximize ? 'greatest' : 'least'} {metric} is best</span><span class="tools"><Save name={`the trials of ${directory}`} of={() => ({
        rows: () => rows.map(({number: trial, values, curve, ...rest}) => ({trial, ...prefixed('values', values), ...rest})),
        picture: names.length > 0 ? () => svgOf(card.current.querySelector('.parallel')) : undefined,
      })} /></span></header>
      {best ? <p>The best is trial {best.number}: {metric} {number(best.best)} at step {number(best.best_step)}, with {names.map((name) => `${name} = ${best.values[name] ?? '–'}`).join(', ')}.{failed > 0 && ` ${failed} ${failed === 1 ? 'trial' : 'trials'} failed.`}</p> : <p>No trial has measured {metric}.</p>}
      <Curves sessions={sessions} metric={metric} />
      {names.length > 0 && <><h4>Values of the trials {Object.keys(ranges).length > 0 && <button onClick={() => setRanges({})}>Show all trials</button>}</h4>
        <Parallel sessions={sessions} axes={axes} marked={marked} setMarked={setMarked} ranges={ranges} setRanges={setRanges} things="trials" /></>}
      <div class="wide-scroll" tabIndex={0}><table class="facts">
        <thead><tr><th class="right">trial</th>{names.map((name) => <th key={name}>{name}</th>)}<th class="right">best {metric}</th><th class="right">at step</th><th class="right">measurements</th><th>state</th>{failed > 0 && <th>failure</th>}<th>log</th></tr></thead>
        <tbody>{rows.map((trial) => (
          <tr key={trial.number} class={marked === trial.number ? 'marked' : ''} onMouseEnter={() => setMarked(trial.number)} onMouseLeave={() => setMarked(null)}><td class="right"><span class="swatch" style={{background: colorOf(trials.indexOf(trial))}} />{trial.number}</td>{names.map((name) => <td key={name}>{String(trial.values[name] ?? '–')}</td>)}
            <td class="right">{number(trial.best)}</td><td class="right">{number(trial.best_step)}</td><td class="right">{trial.measurements}</td>
            <td>{trial.state}{trial.exit_code === null ? '' : `, exit code ${trial.exit_code}`}</td>{failed > 0 && <td>{trial.failure}</td>}<td><code>{trial.log}</code></td></tr>
        ))}</tbody>
      </table></div>
    </section>
  );
}

export function Searches({board}) {
  const {data, error} = useAnswer((signal) => ask('searches', {}, {signal}), [board.state.version]);
  if (error) return <p class="error">{error}</p>;
  if (!data) return <p class="empty">The searches are read.</p>;
  if (data.length === 0) return <p class="empty">No search.json can be read.</p>;
  return <div class="cards">{data.map((search) => <Search key={search.directory} search={search} />)}</div>;
}
