// The tasks of a run in a report: how each was started and ended, where the time of its last steps went, and which one
// the others waited for.
import {useRef} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer} from './board.js';
import {Command} from './facts.jsx';
import {bytes, duration, number, time} from './format.js';
import {ACTIVITIES, Bar, barsSvg, Shares, sharesOf, Steps} from './live.jsx';
import {Save} from './save.jsx';
import {prefixed} from './tables.js';

// Quotes words for a shell.
const shell = (words) => words.map((word) => (/^[\w./:=,@%+-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`)).join(' ');

// The rows: the tasks that wrote what they do, and those that the launcher alone knows.
function rowsOf({tasks, launch}) {
  const launched = new Map((launch ? launch.tasks : []).map((task) => [task.name, task]));
  const rows = tasks.flatMap((task) => {
    const starts = launched.get(task.task);
    launched.delete(task.task);
    return task.replicas.map((replica, at) => ({name: replica.name, task, replica, launched: at === 0 ? starts : undefined}));
  });
  return [...rows, ...[...launched.values()].map((each) => ({name: each.name, launched: each}))];
}

function Starts({launched, task}) {
  if (!launched) return <>{task && task.end}{task && task.exit_code ? `, exit code ${task.exit_code}` : ''}</>;
  const {starts} = launched;
  const last = starts[starts.length - 1];
  if (!last) return <>was not started</>;
  return <>{last.exit || 'could not be ended'}{last.ended > 0 && ` after ${duration(last.ended - last.started)}`}</>;
}

function TasksOfRun({run}) {
  const card = useRef(null);
  const {launch, straggler} = run;
  const rows = rowsOf(run);
  const most = Math.max(0, ...rows.filter(({replica}) => replica).map(({replica}) => Object.values(replica.mean).reduce((sum, each) => sum + each, 0)));
  const used = ACTIVITIES.filter((name) => rows.some(({replica}) => replica && (replica.mean[name] > 0 || replica.whole[name] > 0)));
  const restarts = launch ? launch.tasks.reduce((sum, task) => sum + Math.max(0, task.starts.length - 1), 0) : 0;
  const step = Math.max(-1, ...rows.filter(({replica}) => replica).map(({replica}) => replica.step));
  const earlier = launch ? launch.tasks.flatMap((task) => task.starts.slice(0, -1).map((start) => ({...start, name: task.name}))) : [];
  const errors = [...(launch ? launch.tasks.flatMap((task) => task.starts.filter((start) => start.error).map((start) => `${task.name}: ${start.error}`)) : []),
    ...run.tasks.filter((task) => task.error && !launch).map((task) => `${task.task}: ${task.error}`)];
  const offer = () => ({
    rows: () => rows.map(({name, task, replica, launched}) => ({task: name, starts: launched ? launched.starts : null, end: task ? task.end : null, error: task ? task.error : null,
      step: replica ? replica.step : null, steps_a_second: replica ? replica.rate : null, ...prefixed('seconds_of_a_step', replica && replica.mean), ...prefixed('seconds_of_the_run', replica && replica.whole), memory: task ? task.memory : null})),
    picture: used.length > 0 ? () => barsSvg(card.current, 'A step of each task, by part', rows.filter(({replica}) => replica).map(({name, replica}) => ({name, seconds: replica.mean}))) : undefined,
  });
  return (
    <section class="card wide" aria-label={run.directory} ref={card}>
      <header><h3>{run.directory}</h3><span class="count">{step < 0 ? 'no step' : `step ${number(step)}`}</span><span class="tools"><Save name={`the tasks of ${run.directory}`} of={offer} /></span></header>
      {launch && Array.isArray(launch.command) && <Command text={shell(launch.command)} />}
      {launch && <p>Started {time(launch.started)}, ended after {duration(launch.ended - launch.started)} with exit code {launch.exit_code}; {restarts === 0 ? 'no task was started again' : `${restarts} ${restarts === 1 ? 'restart' : 'restarts'} of tasks`}.</p>}
      {straggler && <p class="straggler">{straggler.text}</p>}
      <div class="wide-scroll" tabIndex={0}><table class="facts tasks">
        <thead><tr><th>task</th><th>end</th><th class="right">starts</th><th class="right">step</th><th class="right">steps/s</th><th>the last steps, by part</th><th>last steps</th><th>the whole run, by part</th><th class="right">memory</th></tr></thead>
        <tbody>{rows.map(({name, task, replica, launched}) => (
          <tr key={name} class={straggler && straggler.name === name ? 'slow' : ''}>
            <th scope="row">{name}{straggler && straggler.name === name && <span class="mark"> slow</span>}</th>
            <td><Starts launched={launched} task={task} /></td>
            <td class="right">{launched ? launched.starts.length : '–'}</td>
            <td class="right">{!replica || replica.step < 0 ? '–' : number(replica.step)}</td>
            <td class="right">{replica && replica.rate > 0 ? number(Number(replica.rate.toPrecision(3))) : '–'}</td>
            <td class="bar-cell">{replica && <><Bar seconds={replica.mean} most={most} /><span class="count">{sharesOf(replica.mean)}</span></>}</td>
            <td>{replica && <Steps steps={replica.steps} />}</td>
            <td class="bar-cell">{replica && <><Shares seconds={replica.whole} /><span class="count">{sharesOf(replica.whole)}</span></>}</td>
            <td class="right whole">{task ? bytes(task.memory) : '–'}</td>
          </tr>
        ))}</tbody>
      </table></div>
      {used.length > 0 && <p class="legend">{used.map((name) => <span key={name}><span class={`swatch a-${name}`} />{name}</span>)}</p>}
      {earlier.length > 0 && <p class="count">Earlier starts: {earlier.map((start) => `${start.name} at ${time(start.started)}: ${start.exit || 'no end known'}`).join('; ')}.</p>}
      {run.missing > 0 && <p class="count">{run.missing} {run.missing === 1 ? 'task has' : 'tasks have'} written nothing here.</p>}
      {errors.map((error) => <p key={error} class="error">{error}</p>)}
    </section>
  );
}

export function Tasks() {
  const {data, error} = useAnswer((signal) => ask('tasks', {}, {signal}), []);
  if (error) return <p class="error">{error}</p>;
  if (!data) return <p class="empty">The tasks are read.</p>;
  return <div class="cards">{data.map((run) => <TasksOfRun key={run.directory} run={run} />)}</div>;
}
