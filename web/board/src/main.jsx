// The page: runs on the left, a view on the right. A view has a tab only if a run has what it shows.
import 'uplot/dist/uPlot.min.css';
import './board.css';
import {render} from 'preact';
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {isReport} from './api.js';
import {useBoard, useSetting} from './board.js';
import {bytes} from './format.js';
import {RunsPanel} from './runs_panel.jsx';
import {Compare} from './compare.jsx';
import {Curves} from './curves.jsx';
import {Facts} from './facts.jsx';
import {Graph} from './graph.jsx';
import {Histograms} from './histograms.jsx';
import {Hparams} from './hparams.jsx';
import {Live} from './live.jsx';
import {Images, Sounds} from './media.jsx';
import {Profiles} from './profiles.jsx';
import {Scalars} from './scalars.jsx';
import {Searches} from './searches.jsx';
import {Tasks} from './tasks.jsx';
import {TextsView} from './texts.jsx';

const kinds = (state) => new Set(state.tags.map((tag) => tag.kind));
// Each view: its name in the address, its title, whether there is something to show, what shows it. `all`: it does not heed
// which runs are chosen.
const VIEWS = [
  {name: 'searches', title: 'Searches', has: (state) => state.searches > 0, Show: Searches, all: true},
  {name: 'tasks', title: 'Tasks', has: (state) => state.live_runs > 0 && isReport, Show: Tasks},
  {name: 'scalars', title: 'Scalars', has: (state) => kinds(state).has('scalar'), Show: Scalars},
  {name: 'histograms', title: 'Histograms', has: (state) => kinds(state).has('histogram'), Show: Histograms},
  {name: 'images', title: 'Images', has: (state) => kinds(state).has('image'), Show: Images},
  {name: 'audio', title: 'Audio', has: (state) => kinds(state).has('audio'), Show: Sounds},
  {name: 'text', title: 'Text', has: (state) => kinds(state).has('text'), Show: TextsView},
  {name: 'curves', title: 'Precision and recall', has: (state) => kinds(state).has('curve'), Show: Curves},
  {name: 'hparams', title: 'Hyperparameters', has: (state) => state.runs.some((run) => run.hparams), Show: Hparams},
  {name: 'graph', title: 'Graph', has: (state) => state.runs.some((run) => run.graph), Show: Graph},
  {name: 'profiles', title: 'Profiles', has: (state) => state.profiles > 0, Show: Profiles, all: true},
  {name: 'runs', title: 'Run', has: (state) => state.runs.length > 0, Show: Facts},
  {name: 'live', title: 'Live', has: (state) => state.live_runs > 0 && !isReport, Show: Live, all: true},
  {name: 'compare', title: 'Compare', has: (state) => state.runs.length > 1 && !isReport, Show: Compare},
];

function useHash() {
  const [hash, setHash] = useState(location.hash.slice(1));
  useEffect(() => {
    const listen = () => setHash(location.hash.slice(1));
    addEventListener('hashchange', listen);
    return () => removeEventListener('hashchange', listen);
  }, []);
  return hash;
}

function Board() {
  const board = useBoard();
  const hash = useHash();
  const [theme, setTheme] = useSetting('theme', 'auto');
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    // Canvases take the colours of the page when they are made.
    dispatchEvent(new Event('resize'));
  }, [theme]);
  const tabs = useRef(null);
  const {state, hidden} = board;
  const chosen = useMemo(() => new Set(state ? state.runs.map((_, number) => number).filter((number) => !hidden.has(state.runs[number].name)) : []),
    [state, hidden]);
  // On a phone the tabs scroll: the chosen one comes into sight.
  useEffect(() => {
    const tab = tabs.current && tabs.current.querySelector('[aria-current]');
    if (tab) tabs.current.scrollLeft = tab.offsetLeft - tabs.current.offsetLeft - (tabs.current.clientWidth - tab.offsetWidth) / 2;
  }, [hash, state === null]);
  if (state === null) return <p class="empty">{board.error || 'The board is loading.'}</p>;
  const views = VIEWS.filter((view) => view.has(state));
  const view = views.find((each) => each.name === hash.split('/')[0]) || views[0];
  const listed = isReport ? state.runs.length > 1 : state.runs.length > 0 && (!view || !view.all);
  const reading = state.read_bytes < state.bytes;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main').focus(); }}>To the content</a>
      <header class="top">
        <h1>Muster {isReport ? 'report' : 'board'}</h1>
        <nav aria-label="Views" ref={tabs}>
          {views.map((each) => (
            <a key={each.name} href={`#${each.name}`} aria-current={each === view ? 'page' : undefined}>{each.title}</a>
          ))}
        </nav>
        <label class="theme">Colours <select value={theme} onChange={(event) => setTheme(event.target.value)}>
          <option value="auto">as the system</option>
          <option value="light">light</option>
          <option value="dark">dark</option>
        </select></label>
      </header>
      {reading && (
        <div class="reading" role="status">
          Reading events: {bytes(state.read_bytes)} of {bytes(state.bytes)}
          <progress max={state.bytes} value={state.read_bytes} />
        </div>
      )}
      {board.error && <p class="error" role="alert">{board.error}</p>}
      {state.troubles.map((trouble) => <p class="error" key={trouble}>{trouble}</p>)}
      <div class={listed ? 'columns' : ''}>
        {listed && <RunsPanel board={board} chosen={chosen} />}
        <main id="main" tabIndex={-1}>
          {isReport ? views.map((each) => (
            <section key={each.name + theme} id={each.name} class="view"><h2>{each.title}</h2><each.Show board={board} chosen={chosen} path={[]} /></section>
          )) : view ? <view.Show board={board} chosen={chosen} path={hash.split('/').slice(1).map(decodeURIComponent)} key={view.name + theme} /> :
            <p class="empty">There are no events yet in {state.directories.join(', ')}. The page shows them as soon as a run writes them.</p>}
        </main>
      </div>
    </>
  );
}

render(<Board />, document.getElementById('board'));
