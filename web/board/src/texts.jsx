// Texts as Markdown, or as they were written.
import {useState} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer, useSetting} from './board.js';
import {Markdown} from './markdown.jsx';
import {StepSlider, TagRuns} from './tag_runs.jsx';

const SHOWN_STEPS = 50;

function Shown({texts, shape, written}) {
  if (shape.length !== 2 || shape[1] < 1) return texts.map((text, at) => (written ? <pre key={at}>{text}</pre> : <Markdown key={at} text={text} />));
  const rows = [];
  for (let at = 0; at < texts.length; at += shape[1]) rows.push(texts.slice(at, at + shape[1]));
  return <div class="more"><table class="facts"><tbody>{rows.map((row, at) => <tr key={at}>{row.map((text, column) => <td key={column}>{text}</td>)}</tr>)}</tbody></table></div>;
}

// A row for each text of each step, with its place in a table of texts.
const rowsOf = (run, records) => records.flatMap(({step, wall, texts, shape}) => texts.map((text, at) => ({run, step, wall_time: wall,
  ...(shape.length === 2 && shape[1] > 0 ? {row: Math.floor(at / shape[1]), column: at % shape[1]} : {row: at, column: 0}), text})));

function TextCard({tag, run, name, version, shape: form, offer}) {
  const {data, error} = useAnswer((signal) => ask('texts', {tag: tag.number, run, most: SHOWN_STEPS}, {signal}), [tag.number, run, version]);
  const [at, setAt] = useState(null);
  if (error) return <p class="error">{error}</p>;
  if (!data || data.length === 0) return <div class="loading" />;
  offer.current = {rows: () => rowsOf(name, data)};
  const shown = data[Math.min(at === null ? data.length - 1 : at, data.length - 1)];
  return (
    <>
      <StepSlider records={data} at={at} setAt={setAt} label={`${tag.name} of ${name}`} />
      <div class="text"><Shown texts={shown.texts} shape={shown.shape} written={form === 'written'} /></div>
      {shown.count > shown.texts.length && <p class="count">and {shown.count - shown.texts.length} more texts</p>}
    </>
  );
}

export function TextsView({board, chosen}) {
  const [written, setWritten] = useSetting('written', false);
  return (
    <TagRuns board={board} chosen={chosen} kind="text" Card={TextCard} shape={written ? 'written' : 'markdown'}>
      <label><input type="checkbox" checked={written} onChange={(event) => setWritten(event.target.checked)} /> as written, without Markdown</label>
    </TagRuns>
  );
}
