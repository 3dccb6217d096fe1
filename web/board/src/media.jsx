// Images and sounds, with a slider over the steps.
import {useState} from 'preact/hooks';
import {address, ask, isReport} from './api.js';
import {useAnswer, useSetting} from './board.js';
import {StepSlider, TagRuns} from './tag_runs.jsx';

function useRecords(tag, run, version) {
  const {data: all, error} = useAnswer((signal) => ask('records', {tag: tag.number, run}, {signal}), [tag.number, run, version]);
  // A report has the last one.
  const data = isReport && all ? all.slice(-1) : all;
  const [at, setAt] = useState(null);
  return {records: data, error, at, setAt, shown: data ? Math.min(at === null ? data.length - 1 : at, data.length - 1) : 0};
}

// What the menu of a card saves: the file that is shown, and the list of the steps.
const offerOf = (words, href, name, records) => ({files: [{words, href}], rows: () => records.map((record) => ({run: name, step: record.step, wall_time: record.wall}))});

function ImageCard({tag, run, name, version, shape, offer}) {
  const {records, error, at, setAt, shown} = useRecords(tag, run, version);
  const [broken, setBroken] = useState(-1);
  if (error) return <p class="error">{error}</p>;
  if (!records || records.length === 0) return <div class="loading" />;
  const source = address('blob', {tag: tag.number, run, record: shown, of: records.length});
  offer.current = offerOf('Image, as shown', source, name, records);
  return (
    <>
      <StepSlider records={records} at={at} setAt={setAt} label={`${tag.name} of ${name}`} />
      {broken === shown ? <p class="empty">This record holds no image that a browser can show.</p> : (
        <img class={shape === 'actual' ? 'picture actual' : 'picture'} src={source}
          alt={`${tag.name} of ${name} at step ${records[shown].step}`} onError={() => setBroken(shown)} />
      )}
    </>
  );
}

export function Images({board, chosen}) {
  const [actual, setActual] = useSetting('actual', false);
  return (
    <TagRuns board={board} chosen={chosen} kind="image" Card={ImageCard} shape={actual ? 'actual' : 'fit'}>
      <label><input type="checkbox" checked={actual} onChange={(event) => setActual(event.target.checked)} /> actual size</label>
    </TagRuns>
  );
}

function SoundCard({tag, run, name, version, offer}) {
  const {records, error, at, setAt, shown} = useRecords(tag, run, version);
  if (error) return <p class="error">{error}</p>;
  if (!records || records.length === 0) return <div class="loading" />;
  const source = address('blob', {tag: tag.number, run, record: shown, of: records.length});
  offer.current = offerOf('Sound, as chosen', source, name, records);
  return (
    <>
      <StepSlider records={records} at={at} setAt={setAt} label={`${tag.name} of ${name}`} />
      <audio controls preload="none" src={source} aria-label={`${tag.name} of ${name} at step ${records[shown].step}`} />
    </>
  );
}

export function Sounds({board, chosen}) {
  return <TagRuns board={board} chosen={chosen} kind="audio" Card={SoundCard} />;
}
