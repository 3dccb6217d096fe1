// The curves of scalars, a card for each tag.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {address, ask, isReport, listOf} from './api.js';
import {matcherOf, useSeen, useSetting} from './board.js';
import {duration, number, place} from './format.js';
import {LineChart} from './line_chart.jsx';
import {Save} from './save.jsx';
import {innerRange, smoothLine} from './smoothing.js';
import {chartSvg, extentOf, inkOf} from './svg_export.js';
import {Groups} from './groups.jsx';

// The lines of an answer of api/chart, as a chart draws them.
export function linesOf(chart, board, smoothing) {
  return chart.lines.map((line) => {
    const {color, dashed} = board.family[line.run];
    const name = board.state.runs[line.run].label;
    if (!(smoothing > 0)) return {run: line.run, name, color, dashed, values: line.values, odd: line.odd};
    return {run: line.run, name, color, dashed, values: smoothLine(line, chart.exact, smoothing), faint: line.values, odd: line.odd};
  });
}

// The range of y without the outer 5 % on each side, as outliers would press all else flat.
function rangeOf(lines, ignoresOutliers) {
  if (!ignoresOutliers) return null;
  return innerRange(lines.map((line) => line.faint || line.values), 0.05);
}

function lastOf(values) {
  for (let at = values.length - 1; at >= 0; --at) if (values[at] !== null) return at;
  return -1;
}

// The last values as a table, for reading and for screen readers.
function LastValues({chart, lines, axis}) {
  return (
    <table class="facts">
      <thead><tr><th>run</th><th class="right">{axis}</th><th class="right">last value</th><th class="right">least</th><th class="right">greatest</th><th>not numbers</th></tr></thead>
      <tbody>
        {lines.map((line) => {
          const raw = line.faint || line.values;
          const at = lastOf(raw);
          const numbers = raw.filter((value) => value !== null);
          return (
            <tr key={line.run}>
              <td><span class="swatch" style={{background: line.color}} />{line.name}</td>
              <td class="right">{at < 0 ? '–' : place(chart.x[at], axis)}</td>
              <td class="right">{at < 0 ? '–' : number(raw[at])}</td>
              <td class="right">{number(numbers.reduce((a, b) => Math.min(a, b), Infinity))}</td>
              <td class="right">{number(numbers.reduce((a, b) => Math.max(a, b), -Infinity))}</td>
              <td>{line.odd.length ? `${line.odd.length}${line.odd.length >= 1000 ? ' or more' : ''}, the first at ${place(line.odd[0][0], axis)}` : ''}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

export function ScalarCard({tag, runs, board, settings}) {
  const card = useRef(null);
  const seen = useSeen(card);
  const [chart, setChart] = useState(null);
  const [error, setError] = useState('');
  const [zoom, setZoom] = useState([null, null]);
  const [wide, setWide] = useState(false);
  const [logY, setLogY] = useState(null);  // null: as the settings of all charts say
  const isLogY = logY === null ? settings.logY : logY;
  const {axis, smoothing, outliers, epochSteps} = settings;
  const logX = settings.logX && axis !== 'wall';
  const version = board.state.version;
  const chosen = listOf(runs);

  useEffect(() => { setZoom([null, null]); }, [axis, epochSteps]);
  useEffect(() => {
    if (!seen || runs.length === 0) return undefined;
    const control = new AbortController();
    const query = {tag: tag.number, runs: chosen, x: axis, intervals: wide ? 800 : 300, log: logX ? 1 : undefined, from: zoom[0], to: zoom[1],
      epoch_steps: axis === 'epoch' && epochSteps > 0 ? epochSteps : undefined};
    ask('chart', query, {signal: control.signal}).then(
      (answer) => { setChart(answer); setError(''); },
      (failure) => { if (failure.name !== 'AbortError') setError(failure.message); },
    );
    return () => control.abort();
  }, [seen, tag.number, chosen, axis, logX, wide, zoom[0], zoom[1], epochSteps, version]);

  const lines = useMemo(() => (chart ? linesOf(chart, board, smoothing) : []), [chart, smoothing, board.family]);
  const range = useMemo(() => rangeOf(lines, outliers), [lines, outliers]);
  const showX = (value) => place(value, axis);
  // The server has all points; a report has those of its charts.
  const offer = () => ({
    files: isReport ? [] : ['csv', 'json'].map((format) => ({words: `${format.toUpperCase()}, all points`, href: address('points', {tag: tag.number, runs: chosen, format}), ending: format})),
    rows: isReport && chart ? () => lines.flatMap((line) => (line.faint || line.values).map((value, at) => ({run: board.state.runs[line.run].name, [axis]: chart.x[at], value})).filter((row) => row.value !== null)) : undefined,
    picture: chart ? () => chartSvg({title: tag.name, x: chart.x, lines, scale: {y: range || extentOf(lines, isLogY), logY: isLogY, logX, isWhole: axis === 'step'}, showX}, inkOf(card.current)) : undefined,
  });
  return (
    <section class={wide ? 'card wide' : 'card'} ref={card} aria-label={tag.name}>
      <header>
        <h3>{tag.name}</h3>
        <span class="tools">
          {zoom[0] !== null && <button onClick={() => setZoom([null, null])}>Show all</button>}
          <button aria-pressed={isLogY} title="Logarithmic y axis" onClick={() => setLogY(!isLogY)}>log</button>
          <button aria-pressed={wide} title="Full width" onClick={() => setWide(!wide)}>⤢<span class="spoken">full width</span></button>
          <Save name={tag.name} of={offer} />
        </span>
      </header>
      {error && <p class="error">{error}</p>}
      {axis === 'epoch' && chart && chart.lines.length === 0 && <p class="empty">These runs do not say their epochs. Write the number of steps in an epoch above.</p>}
      {runs.length === 0 ? <p class="empty">No chosen run has this tag.</p> : chart === null ? <div class="loading" /> : (
        <LineChart x={chart.x} lines={lines} height={wide ? 420 : 240} logX={logX} logY={isLogY} range={range} isTime={axis === 'wall'} isWhole={axis === 'step'} showX={showX}
          onZoom={(from, to) => setZoom([from, to])}
          label={`${tag.name}: ${lines.length} runs; arrow keys show values, a dragged part is enlarged, Escape shows all`} />
      )}
      {chart && runs.length > 0 && (
        <details class="more">
          <summary>Values{chart.exact ? '' : ` (thinned: least and greatest of each ${axis === 'step' || axis === 'epoch' ? `${Number(chart.interval.toPrecision(2))} ${axis}s` : axis === 'relative' || axis === 'wall' ? duration(chart.interval) : 'interval'})`}</summary>
          <LastValues chart={chart} lines={lines} axis={axis} />
        </details>
      )}
    </section>
  );
}

export function Scalars({board, chosen}) {
  const [filter, setFilter] = useState('');
  const [axis, setAxis] = useSetting('axis', 'step');
  const [smoothing, setSmoothing] = useSetting('smoothing', 0);
  const [outliers, setOutliers] = useSetting('outliers', false);
  const [logX, setLogX] = useSetting('logX', false);
  const [logY, setLogY] = useSetting('logY', false);
  const [epochSteps, setEpochSteps] = useSetting('epochSteps', 0);
  const hasEpochs = board.state.tags.some((tag) => tag.kind === 'scalar' && tag.name === 'epoch');
  const matches = matcherOf(filter);
  const tags = board.state.tags.filter((tag) => tag.kind === 'scalar' && matches(tag.name));
  const settings = {axis, smoothing, outliers, logX, logY, epochSteps};
  return (
    <>
      <div class="controls" role="group" aria-label="Settings of all charts">
        <input type="search" placeholder="Filter tags" aria-label="Filter tags" title="A regular expression" value={filter} onInput={(event) => setFilter(event.target.value)} />
        <label>Smoothing <input type="range" min="0" max="0.99" step="0.01" value={smoothing} onInput={(event) => setSmoothing(Number(event.target.value))} /> <output>{smoothing.toFixed(2)}</output></label>
        <label>x axis <select value={axis} onChange={(event) => setAxis(event.target.value)}>
          <option value="step">step</option>
          <option value="epoch">epoch</option>
          <option value="relative">time since the first point</option>
          <option value="wall">date and time</option>
        </select></label>
        {axis === 'epoch' && <label title="Empty: the epochs that the runs say by a scalar named epoch">steps in an epoch <input type="number" min="0" step="any" class="short" placeholder={hasEpochs ? 'said by the runs' : 'a number'} value={epochSteps || ''} onInput={(event) => setEpochSteps(Number(event.target.value) || 0)} /></label>}
        {axis !== 'wall' && <label><input type="checkbox" checked={logX} onChange={(event) => setLogX(event.target.checked)} /> log x</label>}
        <label><input type="checkbox" checked={logY} onChange={(event) => setLogY(event.target.checked)} /> log y</label>
        <label title="The y axis leaves out the outer 5 % of the values on each side"><input type="checkbox" checked={outliers} onChange={(event) => setOutliers(event.target.checked)} /> ignore outliers</label>
      </div>
      <Groups tags={tags} render={(tag) => <ScalarCard key={tag.number} tag={tag} runs={tag.runs.filter((run) => chosen.has(run))} board={board} settings={settings} />} />
    </>
  );
}
