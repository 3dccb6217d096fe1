// The list of runs: which are shown, in which colours.
import {useState} from 'preact/hooks';
import {matcherOf} from './board.js';
import {duration, time} from './format.js';

export function RunsPanel({board, chosen}) {
  const {state, family, hidden, setHidden} = board;
  const [filter, setFilter] = useState('');
  const matches = matcherOf(filter);
  const listed = state.runs.map((run, number) => ({run, number})).filter(({run}) => matches(run.name));
  const set = (names, shown) => {
    const next = new Set(hidden);
    for (const name of names) {
      if (shown) next.delete(name);
      else next.add(name);
    }
    setHidden(next);
  };
  const only = (name) => setHidden(new Set(state.runs.map((run) => run.name).filter((each) => each !== name)));
  return (
    <details class="runs" open={innerWidth > 700}>
      <summary>Runs <span class="count">{chosen.size} of {state.runs.length}</span></summary>
      <input type="search" placeholder="Filter runs" aria-label="Filter runs" title="A regular expression" value={filter} onInput={(event) => setFilter(event.target.value)} />
      <div class="tools">
        <button onClick={() => set(listed.map(({run}) => run.name), true)}>Show {filter ? 'these' : 'all'}</button>
        <button onClick={() => set(listed.map(({run}) => run.name), false)}>Hide {filter ? 'these' : 'all'}</button>
      </div>
      <ul>
        {listed.map(({run, number}) => (
          <li key={number} title={`${run.directory}\nlast step ${run.last_step}, ${run.events} events\nlast event ${time(run.last_wall)}, after ${duration(run.last_wall - run.first_wall)}`}>
            <label>
              <input type="checkbox" checked={chosen.has(number)} onChange={(event) => set([run.name], event.target.checked)} />
              <span class={family[number].dashed ? 'swatch dashed' : 'swatch'} style={{background: family[number].color}} />
              <span class="name">{run.label}</span>
            </label>
            {run.notes.length > 0 && <details class="notes"><summary aria-label={`${run.notes.length} notes on ${run.name}`}>⚠</summary><ul>{run.notes.map((note) => <li key={note}>{note}</li>)}</ul></details>}
            <button class="only" onClick={() => only(run.name)} aria-label={`only ${run.name}`}>only</button>
          </li>
        ))}
      </ul>
    </details>
  );
}
