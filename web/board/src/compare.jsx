// Two runs side by side: hyperparameters that differ, where their scalars part, and their curves.
import {useState} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer} from './board.js';
import {number} from './format.js';
import {Save} from './save.jsx';
import {ScalarCard} from './scalars.jsx';

const value = (each) => (typeof each === 'number' ? number(each) : each === null || each === undefined ? '–' : String(each));

function Differences({a, b, board}) {
  const {data, error} = useAnswer((signal) => Promise.all([
    ask('facts', {run: a}, {signal}), ask('facts', {run: b}, {signal}), ask('compare', {a, b}, {signal})]), [a, b, board.state.version]);
  if (error) return <p class="error">{error}</p>;
  if (!data) return <p class="empty">The runs are read.</p>;
  const [factsA, factsB, tags] = data;
  const hparamsA = (factsA.session && factsA.session.hparams) || {}, hparamsB = (factsB.session && factsB.session.hparams) || {};
  const names = [...new Set([...Object.keys(hparamsA), ...Object.keys(hparamsB)])].sort();
  const differing = names.filter((name) => hparamsA[name] !== hparamsB[name]);
  const parting = tags.filter((tag) => tag.parts_at !== null);
  const first = parting.reduce((least, tag) => (least === null || tag.parts_at < least.parts_at ? tag : least), null);
  const [nameA, nameB] = [board.state.runs[a].label, board.state.runs[b].label];
  return (
    <>
      <section class="card wide" aria-label="In short"><header><h3>In short</h3></header>
        <p>{tags.length === 0 ? 'The runs have no scalar in common.' : first === null ?
          `All ${tags.length} scalars that both have are the same at every step that both have.` :
          `The runs part at step ${number(first.parts_at)}: ${first.tag} is ${value(first.a)} and ${value(first.b)}. ${parting.length} of ${tags.length} common scalars differ.`}</p>
        {names.length > 0 && <p>{differing.length === 0 ? `All ${names.length} hyperparameters are the same.` : `${differing.length} of ${names.length} hyperparameters differ.`}</p>}
      </section>
      {differing.length > 0 && (
        <section class="card wide" aria-label="Hyperparameters that differ"><header><h3>Hyperparameters that differ</h3><span class="tools"><Save name="Hyperparameters that differ" of={() => ({rows: () => differing.map((name) => ({name, run_a: nameA, value_a: hparamsA[name], run_b: nameB, value_b: hparamsB[name]}))})} /></span></header>
          <table class="facts"><thead><tr><th>name</th><th>{nameA}</th><th>{nameB}</th></tr></thead><tbody>
            {differing.map((name) => <tr key={name}><th>{name}</th><td>{value(hparamsA[name])}</td><td>{value(hparamsB[name])}</td></tr>)}
          </tbody></table>
        </section>
      )}
      {tags.length > 0 && (
        <section class="card wide" aria-label="Scalars of both"><header><h3>Scalars of both</h3><span class="tools"><Save name="Scalars of both" of={() => ({rows: () => tags.map((tag) => ({run_a: nameA, run_b: nameB, ...tag}))})} /></span></header><div class="wide-scroll" tabIndex={0}>
          <table class="facts"><thead><tr><th>tag</th><th class="right">common steps</th><th class="right">first step that differs</th><th class="right">{nameA} there</th><th class="right">{nameB} there</th><th class="right">last of {nameA}</th><th class="right">last of {nameB}</th></tr></thead><tbody>
            {tags.map((tag) => (
              <tr key={tag.tag}><th>{tag.tag}</th><td class="right">{number(tag.steps)}</td><td class="right">{tag.parts_at === null ? 'none' : number(tag.parts_at)}</td><td class="right">{value(tag.a)}</td><td class="right">{value(tag.b)}</td>
                <td class="right">{value(tag.last_a)} (step {number(tag.last_step_a)})</td><td class="right">{value(tag.last_b)} (step {number(tag.last_step_b)})</td></tr>
            ))}
          </tbody></table></div>
        </section>
      )}
    </>
  );
}

export function Compare({board}) {
  const {runs, tags} = board.state;
  const [a, setA] = useState(0);
  const [b, setB] = useState(Math.min(1, runs.length - 1));
  const settings = {axis: 'step', smoothing: 0, outliers: false, logX: false, logY: false};
  const common = tags.filter((tag) => tag.kind === 'scalar' && tag.runs.includes(a) && tag.runs.includes(b));
  const choice = (label, chosen, set) => (
    <label>{label} <select value={chosen} onChange={(event) => set(Number(event.target.value))}>{runs.map((run, at) => <option key={at} value={at}>{run.label}</option>)}</select></label>
  );
  return (
    <>
      <div class="controls">{choice('Run', a, setA)}{choice('with', b, setB)}</div>
      <div class="cards">
        {a === b ? <p class="empty">Choose two different runs.</p> : <Differences key={`${a}.${b}`} a={a} b={b} board={board} />}
        {a !== b && common.map((tag) => <ScalarCard key={tag.number} tag={tag} runs={[a, b]} board={board} settings={settings} />)}
      </div>
    </>
  );
}
