// The menu of a card that saves what the card shows: its data as CSV and JSON, its drawing as SVG, its files.
import {useRef, useState} from 'preact/hooks';
import {csvOf} from './tables.js';

// Gives the browser a file to keep.
function download(name, type, content) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Without an ending the browser appends that of the file's type, but takes a dot of the name for the start of an ending.
function fileName(name, ending) {
  const plain = name.replace(/[^\w.-]+/g, '_').slice(0, 100);
  return ending ? `${plain}.${ending}` : plain.replaceAll('.', '_');
}

const jsonOf = (rows) => `[${rows.map((row) => `\n${JSON.stringify(row)}`).join(',')}\n]\n`;

// `of` is called when the menu opens. It returns what there is:
// - rows(): the data as a list of flat objects, or a promise of it; CSV and JSON have the same rows
// - picture(): the drawing, as the text of an SVG
// - files: [{words, href, ending}], which the server or the page has already; without `ending` that of the file's type
export function Save({name, of}) {
  const menu = useRef(null);
  const [offer, setOffer] = useState(null);
  const [error, setError] = useState('');
  // A menu that leaves the page loses the focus too, and is there no more.
  const close = () => { if (menu.current) menu.current.open = false; };
  const make = (ending, type, content) => async () => {
    try {
      download(fileName(name, ending), type, await content());
      close();
    } catch (failure) {
      setError(failure.message);
    }
  };
  const {rows, picture, files = []} = offer || {};
  return (
    <details class="menu" ref={menu} onToggle={(event) => { setError(''); setOffer(event.currentTarget.open ? of() : null); }}
      onKeyDown={(event) => { if (event.key === 'Escape') { close(); menu.current.querySelector('summary').focus(); } }}
      onFocusOut={(event) => { if (!event.currentTarget.contains(event.relatedTarget)) close(); }}>
      <summary aria-label={`Save ${name}`} title="Save">⤓</summary>
      {offer && (
        <div tabIndex={-1}>
          {files.map((file) => <a key={file.words} href={file.href} download={fileName(name, file.ending)}>{file.words}</a>)}
          {rows && <button onClick={make('csv', 'text/csv', async () => csvOf(await rows()))}>CSV</button>}
          {rows && <button onClick={make('json', 'application/json', async () => jsonOf(await rows()))}>JSON</button>}
          {picture && <button onClick={make('svg', 'image/svg+xml', picture)}>SVG, as shown</button>}
          {!rows && !picture && files.length === 0 && <span class="count">There is nothing to save yet.</span>}
          {error && <span class="error">{error}</span>}
        </div>
      )}
    </details>
  );
}
