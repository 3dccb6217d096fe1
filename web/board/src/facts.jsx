// What the folder of a run holds: checkpoints, exports with their commands, evaluations, its end.
import {useState} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer} from './board.js';
import {Markdown} from './markdown.jsx';
import {ModelReport} from './model_report.jsx';
import {bytes, duration, number, time} from './format.js';
import {Save} from './save.jsx';
import {prefixed} from './tables.js';

export function Command({text}) {
  const [done, setDone] = useState(false);
  const copy = () => navigator.clipboard.writeText(text).then(() => { setDone(true); setTimeout(() => setDone(false), 1500); }, () => setDone(false));
  return <div class="command"><code>{text}</code>{navigator.clipboard && <button onClick={copy} aria-label={`Copy ${text}`}>{done ? 'copied' : 'copy'}</button>}</div>;
}

// `rows` and `files` are what its menu saves.
function Section({title, rows, files, children}) {
  return <section class="card wide" aria-label={title}><header><h3>{title}</h3><span class="tools"><Save name={title} of={() => ({rows: rows && (() => rows), files})} /></span></header>{children}</section>;
}

function Evaluations({entries}) {
  const names = [...new Set(entries.flatMap((entry) => Object.keys(entry.metrics || {})))];
  return (
    <div class="wide-scroll" tabIndex={0}><table class="facts">
      <thead><tr><th>name</th><th>checkpoint</th>{names.map((name) => <th key={name} class="right">{name}</th>)}<th>time</th></tr></thead>
      <tbody>{entries.slice(-50).reverse().map((entry, at) => (
        <tr key={at}><td>{String(entry.name || '')}</td><td>{String(entry.checkpoint || '')}</td>{names.map((name) => <td key={name} class="right">{number(Number((entry.metrics || {})[name]))}</td>)}<td>{time(Number(entry.time))}</td></tr>
      ))}</tbody>
    </table></div>
  );
}

// How each task was started and how it ended.
function Starts({starts}) {
  return (
    <Section title="Tasks" rows={starts}>{starts.map((start) => (
      <div key={start.task}>
        <p><b>{start.task}</b> on {start.host}, Muster {start.version}, started {time(start.started)}; {start.end ? `${start.end} ${time(start.written)}${start.exit_code ? `, exit code ${start.exit_code}` : ''}` : `no end known, last heard of ${time(start.written)}`}</p>
        <Command text={start.command.map((word) => (/^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ')} />
        {start.error && <p class="error">{start.error}</p>}
      </div>
    ))}</Section>
  );
}

function RunFacts({run, board}) {
  const {data, error} = useAnswer((signal) => ask('facts', {run}, {signal}), [run, board.state.version]);
  if (error) return <p class="error">{error}</p>;
  if (!data) return <p class="empty">The folder is read.</p>;
  const {first_wall: first, last_wall: last, last_step: step, events} = board.state.runs[run];
  const hparams = data.session && data.session.hparams ? Object.entries(data.session.hparams) : [];
  return (
    <div class="cards">
      <Section title={data.directory} rows={[{directory: data.directory, first_event: first, last_event: last, last_step: step, events, files: data.files, end: data.end ? data.end.reason : data.session ? data.session.result : null, commands: data.commands}]}>
        <table class="facts"><tbody>
          <tr><th>first event</th><td>{time(first)}</td></tr>
          <tr><th>last event</th><td>{time(last)}, after {duration(last - first)}</td></tr>
          <tr><th>last step</th><td>{number(step)}</td></tr>
          <tr><th>events</th><td>{number(events)} in {data.files.length} {data.files.length === 1 ? 'file' : 'files'}</td></tr>
          <tr><th>end</th><td>{data.end ? `${data.end.reason} at step ${number(data.end.global_step)}` : data.session && data.session.result ? data.session.result : 'no run_end.json: it trains, was stopped, or is no Estimator'}</td></tr>
        </tbody></table>
        {data.commands.map((command) => <Command key={command} text={command} />)}
      </Section>
      {data.starts.length > 0 && <Starts starts={data.starts} />}
      {data.report && <ModelReport tables={data.report.tables} />}
      {data.report && <Section title="Report of muster train" files={[{words: 'Markdown', href: `data:text/markdown;charset=utf-8,${encodeURIComponent(data.report.text)}`, ending: 'md'}]}><Markdown text={data.report.text} /></Section>}
      {data.notes.length > 0 && <Section title="Notes on the event files" rows={data.notes.map((note) => ({note}))}><ul>{data.notes.map((note) => <li key={note}>{note}</li>)}</ul></Section>}
      {hparams.length > 0 && (
        <Section title="Hyperparameters" rows={hparams.map(([name, value]) => ({name, value}))}><table class="facts"><tbody>{hparams.map(([name, value]) => <tr key={name}><th>{name}</th><td>{String(value)}</td></tr>)}</tbody></table></Section>
      )}
      {data.checkpoints.length > 0 && (
        <Section title="Checkpoints" rows={data.checkpoints}><table class="facts"><thead><tr><th>name</th><th class="right">step</th><th class="right">size</th><th>saved</th><th /></tr></thead><tbody>
          {data.checkpoints.map((each) => <tr key={each.name}><td>{each.name}</td><td class="right">{number(each.step)}</td><td class="right">{bytes(each.bytes)}</td><td>{time(each.saved)}</td><td>{[each.newest && 'newest', each.best !== undefined && `best: ${number(each.best)}`].filter(Boolean).join(', ')}</td></tr>)}
        </tbody></table></Section>
      )}
      {data.exports.length > 0 && (
        <Section title="Exports" rows={data.exports}>{data.exports.map((each) => (
          <div key={each.path}><p><b>{each.name}</b>: {each.versions} {each.versions === 1 ? 'version' : 'versions'}, the newest {each.newest}</p>{each.commands.map((command) => <Command key={command} text={command} />)}</div>
        ))}</Section>
      )}
      {data.evaluations.length > 0 && <Section title="Evaluations" rows={data.evaluations.map(({metrics, ...rest}) => ({...rest, ...prefixed('metrics', metrics)}))}><Evaluations entries={data.evaluations} /></Section>}
    </div>
  );
}

export function Facts({board, chosen}) {
  const runs = board.state.runs.map((run, at) => ({...run, at})).filter((run) => chosen.has(run.at));
  const [run, setRun] = useState(null);
  const shown = runs.find((each) => each.at === run) || runs[0];
  if (!shown) return <p class="empty">No run is chosen.</p>;
  return (
    <>
      <div class="controls"><label>Run <select value={shown.at} onChange={(event) => setRun(Number(event.target.value))}>{runs.map((each) => <option key={each.at} value={each.at}>{each.label}</option>)}</select></label></div>
      <RunFacts key={shown.at} run={shown.at} board={board} />
    </>
  );
}
