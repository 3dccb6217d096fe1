// Curves of precision and recall: the runs of a tag in one picture, at a step that a slider chooses.
import {useEffect, useRef, useState} from 'preact/hooks';
import {ask} from './api.js';
import {useSeen} from './board.js';
import {number} from './format.js';
import {Groups} from './groups.jsx';
import {Save} from './save.jsx';
import {svgOf} from './svg_export.js';

const SIZE = 300, LEFT = 40, BOTTOM = 36, TOP = 8, RIGHT = 8;

function CurveCard({tag, runs, board}) {
  const card = useRef(null);
  const seen = useSeen(card);
  const [curves, setCurves] = useState({});
  const [share, setShare] = useState(1);  // of the run that has passed: 1 is its end
  const [error, setError] = useState('');
  const chosen = runs.join();
  useEffect(() => {
    if (!seen) return undefined;
    const control = new AbortController();
    Promise.all(runs.map((run) => ask('curves', {tag: tag.number, run}, {signal: control.signal}))).then(
      (answers) => { setCurves(Object.fromEntries(answers.map((answer, at) => [runs[at], answer]))); setError(''); },
      (failure) => { if (failure.name !== 'AbortError') setError(failure.message); },
    );
    return () => control.abort();
  }, [seen, tag.number, chosen, board.state.version]);
  const x = (value) => LEFT + value * (SIZE - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value) * (SIZE - TOP - BOTTOM);
  const lines = runs.filter((run) => curves[run] && curves[run].length > 0).map((run) => {
    const steps = curves[run];
    const curve = steps[Math.round(share * (steps.length - 1))];
    return {run, curve, name: board.state.runs[run].label, ...board.family[run]};
  });
  // All steps. The plugin spaces its thresholds evenly from 0 to 1.
  const rows = () => lines.flatMap(({run, name}) => curves[run].flatMap(({step, wall, precision, recall, true_positives: right, false_positives: wrong}) =>
    precision.map((each, at) => ({run: name, step, wall_time: wall, threshold: at / Math.max(1, precision.length - 1), precision: each, recall: recall[at], true_positives: right[at], false_positives: wrong[at]}))));
  return (
    <section class="card" ref={card} aria-label={tag.name}>
      <header><h3>{tag.name}</h3><span class="tools"><Save name={tag.name} of={() => (lines.length > 0 ? {rows, picture: () => svgOf(card.current.querySelector('.curve'))} : {})} /></span></header>
      {error && <p class="error">{error}</p>}
      {lines.length === 0 ? <div class="loading" /> : (
        <>
          <svg viewBox={`0 0 ${SIZE} ${SIZE}`} class="curve" role="img" aria-label={`${tag.name}: precision over recall of ${lines.length} runs`}>
            {[0, 0.25, 0.5, 0.75, 1].map((tick) => (
              <g key={tick}>
                <path d={`M${x(0)} ${y(tick)}H${x(1)}M${x(tick)} ${y(0)}V${y(1)}`} class="grid" />
                <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">{tick}</text>
                <text x={x(tick)} y={SIZE - BOTTOM + 14} text-anchor="middle">{tick}</text>
              </g>
            ))}
            <text x={x(0.5)} y={SIZE - 4} text-anchor="middle">recall</text>
            <text x={10} y={y(0.5)} text-anchor="middle" transform={`rotate(-90 10 ${y(0.5)})`}>precision</text>
            {lines.map((line) => (
              <polyline key={line.run} fill="none" stroke={line.color} stroke-width="2" stroke-dasharray={line.dashed ? '6 4' : undefined}
                points={line.curve.recall.map((recall, at) => `${x(recall).toFixed(1)},${y(line.curve.precision[at]).toFixed(1)}`).join(' ')} />
            ))}
          </svg>
          {lines.some((line) => curves[line.run].length > 1) && (
            <label class="steps">Step <input type="range" min="0" max="1" step="any" value={share} onInput={(event) => setShare(Number(event.target.value))} /></label>
          )}
          <details class="more" open={lines.length < 6}><summary>Runs</summary>
            <table class="facts"><thead><tr><th>run</th><th class="right">step</th><th class="right">average precision</th></tr></thead><tbody>
              {lines.map((line) => (
                <tr key={line.run}><td><span class="swatch" style={{background: line.color}} />{line.name}</td><td class="right">{number(line.curve.step)}</td>
                  <td class="right">{number(averagePrecision(line.curve))}</td></tr>
              ))}
            </tbody></table>
          </details>
        </>
      )}
    </section>
  );
}

// The area under the curve by steps: the sum of precision times what recall grows.
export function averagePrecision({precision, recall}) {
  let sum = 0;
  for (let at = 0; at < recall.length; ++at) {
    const next = at + 1 < recall.length ? recall[at + 1] : 0;
    sum += (recall[at] - next) * precision[at];
  }
  return sum;
}

export function Curves({board, chosen}) {
  const tags = board.state.tags.filter((tag) => tag.kind === 'curve');
  return <Groups tags={tags} render={(tag) => <CurveCard key={tag.number} tag={tag} runs={tag.runs.filter((run) => chosen.has(run))} board={board} />} />;
}
