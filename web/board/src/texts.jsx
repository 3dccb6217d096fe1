// Texts as they were written: what is in them is never taken for a part of the page.
import {useState} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer} from './board.js';
import {StepSlider, TagRuns} from './tag_runs.jsx';

const SHOWN_STEPS = 50;

function Shown({texts, shape}) {
  if (shape.length !== 2 || shape[1] < 1) return texts.map((text, at) => <pre key={at}>{text}</pre>);
  const rows = [];
  for (let at = 0; at < texts.length; at += shape[1]) rows.push(texts.slice(at, at + shape[1]));
  return <div class="more"><table class="facts"><tbody>{rows.map((row, at) => <tr key={at}>{row.map((text, column) => <td key={column}>{text}</td>)}</tr>)}</tbody></table></div>;
}

function TextCard({tag, run, name, version}) {
  const {data, error} = useAnswer((signal) => ask('texts', {tag: tag.number, run, most: SHOWN_STEPS}, {signal}), [tag.number, run, version]);
  const [at, setAt] = useState(null);
  if (error) return <p class="error">{error}</p>;
  if (!data || data.length === 0) return <div class="placeholder" />;
  const shown = data[Math.min(at === null ? data.length - 1 : at, data.length - 1)];
  return (
    <>
      <StepSlider records={data} at={at} setAt={setAt} label={`${tag.name} of ${name}`} />
      <div class="text"><Shown texts={shown.texts} shape={shown.shape} /></div>
      {shown.count > shown.texts.length && <p class="count">and {shown.count - shown.texts.length} more texts</p>}
    </>
  );
}

export function TextsView({board, chosen}) {
  return <TagRuns board={board} chosen={chosen} kind="text" Card={TextCard} />;
}
