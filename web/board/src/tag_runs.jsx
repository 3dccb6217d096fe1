// A card for each tag and run of a kind, as histograms, images, sounds and texts have them.
import {useRef, useState} from 'preact/hooks';
import {Groups} from './groups.jsx';
import {matcherOf, useSeen} from './board.js';
import {number, time} from './format.js';
import {Save} from './save.jsx';

// `Card` gets {tag, run, name, color, version, offer}; it is made when it comes near the window, and sets offer.current to
// what the menu of the card saves.
export function TagRuns({board, chosen, kind, Card, children, shape}) {
  const [filter, setFilter] = useState('');
  const matches = matcherOf(filter);
  const tags = board.state.tags.filter((tag) => tag.kind === kind && matches(tag.name));
  return (
    <>
      <div class="controls" role="group" aria-label="Settings of all cards">
        <input type="search" placeholder="Filter tags" aria-label="Filter tags" title="A regular expression" value={filter} onInput={(event) => setFilter(event.target.value)} />
        {children}
      </div>
      <Groups tags={tags} render={(tag) => tag.runs.filter((run) => chosen.has(run)).map((run) => (
        <LazyCard key={`${tag.number}.${run}`} tag={tag} run={run} board={board} Card={Card} shape={shape} />
      ))} />
    </>
  );
}

function LazyCard({tag, run, board, Card, shape}) {
  const card = useRef(null);
  const seen = useSeen(card);
  const offer = useRef({});
  const [made, setMade] = useState(false);
  if (seen && !made) setMade(true);
  const name = board.state.runs[run].label;
  return (
    <section class="card" ref={card} aria-label={`${tag.name} of ${name}`}>
      <header><h3>{tag.name}</h3><span class="count"><span class="swatch" style={{background: board.family[run].color}} />{name}</span>
        <span class="tools"><Save name={`${tag.name} of ${name}`} of={() => offer.current} /></span></header>
      {made ? <Card tag={tag} run={run} name={name} color={board.family[run].color} version={board.state.version} shape={shape} offer={offer} /> : <div class="loading" />}
    </section>
  );
}

// Chooses one of some records. `at` null is the last one, which stays the last when others come.
export function StepSlider({records, at, setAt, label}) {
  const last = records.length - 1;
  const place = at === null ? last : Math.min(at, last);
  return (
    <div class="steps">
      {records.length > 1 && (
        <input type="range" min="0" max={last} value={place} aria-label={`Step of ${label}`} aria-valuetext={`step ${records[place].step}`}
          onInput={(event) => setAt(Number(event.target.value) === last ? null : Number(event.target.value))} />
      )}
      <span>step {number(records[place].step)}</span> <span class="count">{time(records[place].wall)}</span>
    </div>
  );
}
