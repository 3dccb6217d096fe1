// Searches of hyperparameters with their trials, the best first.
import {ask} from './api.js';
import {useAnswer} from './board.js';
import {number} from './format.js';

function Search({search}) {
  const {directory, maximize, metric, trials} = search;
  const names = [...new Set(trials.flatMap((trial) => Object.keys(trial.values)))];
  const rows = [...trials].sort((a, b) => (a.best === null) - (b.best === null) || (maximize ? b.best - a.best : a.best - b.best) || a.number - b.number);
  return (
    <section class="card wide" aria-label={directory}>
      <header><h3>{directory}</h3><span class="count">{trials.length} trials; the {maximize ? 'greatest' : 'least'} {metric} is best</span></header>
      <div class="wide-scroll"><table class="facts">
        <thead><tr><th class="right">trial</th>{names.map((name) => <th key={name}>{name}</th>)}<th class="right">best {metric}</th><th class="right">at step</th><th class="right">measurements</th><th>state</th><th>failure</th><th>log</th></tr></thead>
        <tbody>{rows.map((trial) => (
          <tr key={trial.number}><td class="right">{trial.number}</td>{names.map((name) => <td key={name}>{String(trial.values[name] ?? '–')}</td>)}
            <td class="right">{number(trial.best)}</td><td class="right">{number(trial.best_step)}</td><td class="right">{trial.measurements}</td>
            <td>{trial.state}{trial.exit_code === null ? '' : `, exit code ${trial.exit_code}`}</td><td>{trial.failure}</td><td>{trial.log}</td></tr>
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
