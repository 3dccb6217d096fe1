// What the tasks of running runs do now: a row for each replica with a bar of its last steps, who makes the others
// wait, saves under way, the staleness of servers, and the last lines of the logs.
import {useEffect, useRef, useState} from 'preact/hooks';
import {ask} from './api.js';
import {matcherOf} from './board.js';
import {bytes, duration, number, time} from './format.js';
import {Save} from './save.jsx';
import {inkOf, SvgContext} from './svg_export.js';
import {prefixed} from './tables.js';

const POLL = 1000;  // milliseconds between two questions
// The activities, in the order of a bar, with the names of their colours.
export const ACTIVITIES = ['input', 'compute', 'other', 'program', 'communication', 'waiting', 'saving', 'evaluating', 'exporting', 'serving', 'starting', 'done'];
const LEVELS = ['debug', 'info', 'warning', 'error'];

// The answer of api/live, asked again and again. {runs, error}
function useLive() {
  const [live, setLive] = useState({runs: null, error: ''});
  useEffect(() => {
    let timer;
    let ended = false;
    const poll = async () => {
      if (!document.hidden) {
        await ask('live').then((runs) => !ended && setLive({runs, error: ''}),
          (failure) => !ended && setLive((before) => ({...before, error: `The board does not answer (${failure.message}). The page asks again.`})));
      }
      if (!ended) timer = setTimeout(poll, POLL);
    };
    poll();
    return () => { ended = true; clearTimeout(timer); };
  }, []);
  return live;
}

// The share of each activity in all seconds, in words; '' where there are none.
export function sharesOf(seconds) {
  const total = ACTIVITIES.reduce((sum, name) => sum + (seconds[name] || 0), 0);
  return ACTIVITIES.filter((name) => seconds[name] / total >= 0.005).map((name) => `${name} ${Math.round((100 * seconds[name]) / total)} %`).join(', ');
}

// The shares of a whole run as a bar.
export function Shares({seconds}) {
  const words = sharesOf(seconds);
  return (
    <div class="bar" role="img" aria-label={words || 'nothing yet'} title={words}>
      {ACTIVITIES.filter((name) => seconds[name] > 0).map((name) => <span key={name} class={`a-${name}`} style={{flexGrow: seconds[name]}} />)}
    </div>
  );
}

// Seconds by activity as a bar. `most` seconds are the whole width.
export function Bar({seconds, most}) {
  const parts = ACTIVITIES.filter((name) => seconds[name] > 0);
  const total = parts.reduce((sum, name) => sum + seconds[name], 0);
  const words = parts.map((name) => `${name} ${number(seconds[name] * 1000)} ms`).join(', ');
  return (
    <div class="bar" role="img" aria-label={words || 'no step yet'} title={words}>
      {parts.map((name) => <span key={name} class={`a-${name}`} style={{width: `${100 * seconds[name] / Math.max(most, total, 1e-9)}%`}} />)}
    </div>
  );
}

// The bars of a card as a picture: `bars` are [{name, seconds}]. The legend of the card has the colours.
export function barsSvg(card, title, bars) {
  const width = 800, left = 180, top = 44, row = 24, ink = inkOf(card);
  const used = ACTIVITIES.filter((name) => bars.some(({seconds}) => seconds[name] > 0));
  const colors = new Map(used.map((name) => [name, getComputedStyle(card.querySelector(`.legend .a-${name}`)).backgroundColor]));
  const sumOf = (seconds) => used.reduce((sum, name) => sum + (seconds[name] || 0), 0);
  const most = Math.max(1e-9, ...bars.map(({seconds}) => sumOf(seconds)));
  const context = new SvgContext(width, top + row * (bars.length + 1) + 10, title, ink);
  const write = (text, x, y, font, color) => {
    context.font = font;
    context.fillStyle = color;
    context.fillText(text, x, y);
  };
  write(title, 12, 24, 'bold 14px', ink.text);
  bars.forEach(({name, seconds}, at) => {
    const y = top + row * at;
    write(name, 12, y + 12, '12px', ink.text);
    let x = left;
    for (const each of used.filter((part) => seconds[part] > 0)) {
      const length = (seconds[each] / most) * (width - left - 90);
      context.fillStyle = colors.get(each);
      context.fillRect(x, y, length, row - 8);
      x += length;
    }
    write(`${number(Number((sumOf(seconds) * 1000).toPrecision(3)))} ms`, x + 8, y + 12, '12px', ink.soft);
  });
  used.forEach((name, at) => {
    const x = left + 110 * at, y = top + row * bars.length + 8;
    context.fillStyle = colors.get(name);
    context.fillRect(x, y, 10, 10);
    write(name, x + 16, y + 10, '12px', ink.text);
  });
  return context.toString();
}

// The last steps, each as a column.
export function Steps({steps}) {
  const shown = steps.slice(-32);
  const totals = shown.map((step) => Object.values(step.seconds).reduce((sum, each) => sum + each, 0));
  // A first step that builds the model would make all others flat.
  const most = [...totals].sort((a, b) => a - b)[Math.floor(totals.length * 0.9)] || 1e-9;
  return (
    <svg class="steps-of-task" viewBox="0 0 160 32" preserveAspectRatio="none" aria-hidden="true">
      {shown.map((step, at) => {
        let y = 32;
        return ACTIVITIES.filter((name) => step.seconds[name] > 0).map((name) => {
          const height = Math.min(y, 32 * step.seconds[name] / most);
          y -= height;
          return <rect key={name + step.step} class={`a-${name}`} x={at * 5} y={y} width="4" height={height}><title>{`step ${step.step}: ${name} ${number(step.seconds[name] * 1000)} ms`}</title></rect>;
        });
      })}
    </svg>
  );
}

function stateOf(task) {
  if (task.state === 'silent') return `silent for ${duration(Math.round(task.age))}`;
  if (task.state === 'failed' && task.exit_code) return `failed, exit code ${task.exit_code}`;
  return task.state;
}

function Row({task, replica, slow, most, epochs, devices}) {
  const runs = task.state === 'running';
  const bucket = replica.bucket > 0 ? `, bucket ${replica.bucket} of ${replica.buckets}` : '';
  return (
    <tr class={slow ? 'slow' : ''}>
      <th scope="row">{replica.name}{slow && <span class="mark"> slow</span>}</th>
      <td class={runs ? '' : 'state-off'}>{stateOf(task)}</td>
      <td class="right">{replica.step < 0 ? '–' : number(replica.step)}</td>
      {epochs && <td class="right">{replica.epoch < 0 ? '–' : number(replica.epoch)}</td>}
      <td class="right whole">{replica.rate > 0 ? `${number(Number(replica.rate.toPrecision(3)))}${task.trains ? '' : ' batches'}` : '–'}</td>
      <td class="whole">{runs ? `${replica.activity}${bucket} for ${duration(replica.seconds)}` : ''}</td>
      <td class="bar-cell"><Bar seconds={replica.mean} most={most} /></td>
      <td><Steps steps={replica.steps} /></td>
      <td class="bar-cell"><Shares seconds={replica.whole} /></td>
      <td class="right whole">{bytes(task.memory)}</td>
      {devices && <td class="right whole">{task.device_memory > 0 ? `${bytes(task.device_memory)} of ${bytes(task.device_reserved)}` : '–'}</td>}
    </tr>
  );
}

// What a row of the table has, as numbers.
function savedRow({task, replica}, straggler) {
  const {name, activity, seconds, step, epoch, bucket, buckets, rate, mean, whole} = replica;
  const {state, exit_code, error, host, version, started, written, earlier_starts, memory, device_memory, device_reserved, measures} = task;
  return {task: name, state, exit_code, error, step, epoch, steps_a_second: rate, activity, activity_seconds: seconds, bucket, buckets, slow: straggler !== null && straggler.name === name,
    ...prefixed('seconds_of_a_step', mean), ...prefixed('seconds_of_the_run', whole), earlier_starts, memory, device_memory, device_reserved, ...prefixed('measures', measures), host, version, started, written};
}

function Log({tasks}) {
  const box = useRef(null);
  const follows = useRef(true);  // until the reader scrolls up
  const [level, setLevel] = useState('debug');
  const [search, setSearch] = useState('');
  const matches = matcherOf(search);
  const lines = tasks.flatMap((task) => task.log.map((line) => ({...line, task: task.task})))
    .filter((line) => LEVELS.indexOf(line.level) >= LEVELS.indexOf(level) && matches(`${line.task} ${line.text}`))
    .sort((a, b) => a.time - b.time).slice(-300);
  useEffect(() => { if (follows.current) box.current.scrollTop = box.current.scrollHeight; });
  return (
    <details class="log" open>
      <summary>Last lines of the logs</summary>
      <div class="controls">
        <label>from level <select value={level} onChange={(event) => setLevel(event.target.value)}>{LEVELS.map((each) => <option key={each}>{each}</option>)}</select></label>
        <input type="search" aria-label="Search in the logs" placeholder="Search" title="Text or a regular expression" value={search} onInput={(event) => setSearch(event.target.value)} />
        <span class="count">{lines.length} {lines.length === 1 ? 'line' : 'lines'}</span>
        <Save name="log lines" of={() => ({rows: () => lines})} />
      </div>
      <div class="log-lines" ref={box} tabIndex={0} role="log" aria-label="Log lines"
        onScroll={(event) => { const {scrollTop, scrollHeight, clientHeight} = event.currentTarget; follows.current = scrollTop + clientHeight > scrollHeight - 24; }}>
        {lines.map((line, at) => <div key={at} class={`level-${line.level}`}><span class="count">{time(line.time).slice(11)}</span> <b>{line.task}</b> {line.level !== 'info' && <i>{line.level} </i>}{line.text}</div>)}
      </div>
    </details>
  );
}

function LiveRun({run}) {
  const card = useRef(null);
  const {tasks, straggler} = run;
  const replicas = tasks.flatMap((task) => task.replicas.map((replica) => ({task, replica})));
  const most = Math.max(...replicas.filter(({task}) => task.trains).map(({replica}) => Object.values(replica.mean).reduce((sum, each) => sum + each, 0)), 0);
  const step = Math.max(-1, ...replicas.filter(({task}) => task.trains).map(({replica}) => replica.step));
  const epochs = replicas.some(({replica}) => replica.epoch >= 0);
  const devices = tasks.some((task) => task.device_memory > 0);
  const last = Math.max(-1, ...tasks.map((task) => task.last_step));
  const used = ACTIVITIES.filter((name) => replicas.some(({replica}) => replica.mean[name] > 0 || replica.whole[name] > 0));
  const measured = tasks.filter((task) => Object.keys(task.measures).length > 0);
  return (
    <section class="card wide live" aria-label={run.directory} ref={card}>
      <header><h3>{run.directory}</h3><span class="count">{step < 0 ? 'no step yet' : `step ${number(step)}`}{last >= 0 ? ` of ${number(last)}` : ''}</span>
        <span class="tools"><Save name={`the tasks of ${run.directory}`} of={() => ({
          rows: () => replicas.map((each) => savedRow(each, straggler)),
          picture: used.length > 0 ? () => barsSvg(card.current, 'A step of each task, by part', replicas.map(({replica}) => ({name: replica.name, seconds: replica.mean}))) : undefined,
        })} /></span></header>
      {last > 0 && step >= 0 && <progress class="run-progress" max={last} value={step} aria-label="Steps made" />}
      {straggler && <p class="straggler" role="status">{straggler.text}</p>}
      {run.missing > 0 && <p class="count">{run.missing} {run.missing === 1 ? 'task has' : 'tasks have'} written nothing here: they have not begun, or their model_dir is another folder.</p>}
      <div class="wide-scroll" tabIndex={0}><table class="facts tasks">
        <thead><tr><th>task</th><th>state</th><th class="right">step</th>{epochs && <th class="right">epoch</th>}<th class="right">steps/s</th><th>does</th><th>a step, by part</th><th>last steps</th><th>whole run, by part</th><th class="right">memory</th>{devices && <th class="right">device memory</th>}</tr></thead>
        <tbody>{replicas.map(({task, replica}) => <Row key={replica.name} task={task} replica={replica} most={most} epochs={epochs} devices={devices} slow={straggler !== null && straggler.name === replica.name} />)}</tbody>
      </table></div>
      <p class="legend">{used.map((name) => <span key={name}><span class={`swatch a-${name}`} />{name}</span>)}</p>
      <ul class="live-notes">
        {tasks.filter((task) => task.earlier_starts > 0).map((task) => <li key={`r${task.task}`}>{task.task} was started again: its whole run has {number(task.earlier_starts)} earlier {task.earlier_starts === 1 ? 'start' : 'starts'}</li>)}
        {tasks.filter((task) => task.saving >= 0).map((task) => <li key={`s${task.task}`}>{task.task} writes the checkpoint of step {number(task.saving)}</li>)}
        {tasks.filter((task) => task.state === 'running' && task.collective && task.collective_seconds > 1).map((task) => <li key={`c${task.task}`}>{task.task} waits in {task.collective} for {duration(task.collective_seconds)}</li>)}
        {tasks.filter((task) => task.error).map((task) => <li key={`e${task.task}`} class="error">{task.task}: {task.error}</li>)}
        {measured.map((task) => <li key={`m${task.task}`}>{task.task}: {Object.entries(task.measures).map(([name, value]) => `${name} ${number(Number(value.toPrecision(3)))}`).join(', ')}</li>)}
      </ul>
      <Log tasks={tasks} />
    </section>
  );
}

export function Live() {
  const {runs, error} = useLive();
  if (runs === null) return <p class="empty">{error || 'The tasks are asked.'}</p>;
  if (runs.length === 0) return <p class="empty">No task has told what it does.</p>;
  return <>{error && <p class="error" role="alert">{error}</p>}<div class="cards">{runs.map((run) => <LiveRun key={run.directory} run={run} />)}</div></>;
}
