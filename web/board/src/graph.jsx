// The graph of a model: layers with their shapes and numbers of weights.
import {useMemo, useRef, useState} from 'preact/hooks';
import {ask} from './api.js';
import {useAnswer} from './board.js';
import {number} from './format.js';
import {place, visibleGraph} from './graph_layout.js';
import {Save} from './save.jsx';
import {svgOf} from './svg_export.js';

const WIDTH = 190, HEIGHT = 74, BOX = [170, 50];
const MOST_DRAWN = 400;

function short(text, most) {
  return text.length > most ? `…${text.slice(text.length - most + 1)}` : text;
}

export function Graph({board, chosen}) {
  const runs = board.state.runs.map((run, at) => ({...run, at})).filter((run) => run.graph && chosen.has(run.at));
  const [run, setRun] = useState(null);
  const shown = runs.find((each) => each.at === run) || runs[0];
  const {data, error, waiting} = useAnswer((signal) => (shown ? ask('graph', {run: shown.at}, {signal}) : Promise.resolve(null)), [shown && shown.at]);
  const [open, setOpen] = useState(() => new Set());
  const [marked, setMarked] = useState('');
  const drawing = useRef(null);
  const nodes = useMemo(() => (data ? visibleGraph(data.nodes, open) : []), [data, open]);
  const drawn = useMemo(() => (nodes.length > 0 && nodes.length <= MOST_DRAWN ? place(nodes) : []), [nodes]);
  const scopes = useMemo(() => {
    const all = new Set();
    for (const node of data ? data.nodes : []) {
      const parts = node.name.split('/');
      for (let at = 1; at < parts.length; ++at) all.add(parts.slice(0, at).join('/'));
    }
    return all;
  }, [data]);
  const toggle = (name) => {
    const next = new Set(open);
    if (next.has(name)) next.delete(name);
    else next.add(name);
    setOpen(next);
  };
  if (!shown) return <p class="empty">No chosen run has a graph.</p>;
  const byName = new Map(drawn.map((node) => [node.name, node]));
  const width = drawn.length ? Math.max(...drawn.map((node) => node.x)) * WIDTH + WIDTH : 0;
  const height = drawn.length ? Math.max(...drawn.map((node) => node.y)) * HEIGHT + HEIGHT : 0;
  const total = data ? data.nodes.reduce((sum, node) => sum + node.parameters, 0) : 0;
  return (
    <>
      <div class="controls">
        <label>Run <select value={shown.at} onChange={(event) => { setRun(Number(event.target.value)); setOpen(new Set()); }}>{runs.map((each) => <option key={each.at} value={each.at}>{each.label}</option>)}</select></label>
        {scopes.size > 0 && <button onClick={() => setOpen(scopes)}>Open all scopes</button>}
        {open.size > 0 && <button onClick={() => setOpen(new Set())}>Close all scopes</button>}
        {data && <Save name={`Graph of ${shown.label}`} of={() => ({
          rows: () => data.nodes.map(({name, op, shapes, parameters, inputs}) => ({name, op, output_shapes: shapes, weights: parameters, inputs})),
          picture: drawn.length > 0 ? () => svgOf(drawing.current) : undefined,
        })} />}
        {data && <span class="count">{number(data.count)} nodes, {number(total)} weights</span>}
      </div>
      {error && <p class="error">{error}</p>}
      {waiting && !data && <p class="empty">The graph is read.</p>}
      {nodes.length > MOST_DRAWN && <p class="empty">{nodes.length} nodes are open; a drawing has at most {MOST_DRAWN}. The table shows them.</p>}
      {drawn.length > 0 && (
        <div class="wide-scroll" tabIndex={0}>
          <svg ref={drawing} width={width} height={height} class="graph" role="img" aria-label={`Graph of ${shown.label}: ${drawn.length} nodes; the table below has the same`}>
            <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" class="arrow" /></marker></defs>
            {drawn.flatMap((node) => [...node.inputs].filter((input) => byName.has(input)).map((input) => {
              const from = byName.get(input);
              const [x1, y1] = [from.x * WIDTH + WIDTH / 2, from.y * HEIGHT + 10 + BOX[1]];
              const [x2, y2] = [node.x * WIDTH + WIDTH / 2, node.y * HEIGHT + 9];
              return <path key={`${input}>${node.name}`} d={`M${x1} ${y1}C${x1} ${y1 + 24} ${x2} ${y2 - 24} ${x2} ${y2}`} class={marked === node.name || marked === input ? 'edge marked' : 'edge'} marker-end="url(#arrow)" />;
            }))}
            {drawn.map((node) => (
              <g key={node.name} transform={`translate(${node.x * WIDTH + (WIDTH - BOX[0]) / 2} ${node.y * HEIGHT + 10})`} class={node.isScope ? 'node scope' : 'node'} onMouseEnter={() => setMarked(node.name)} onMouseLeave={() => setMarked('')}
                onClick={() => node.isScope && toggle(node.name)}>
                <title>{`${node.name}\n${node.op} ${node.shape}\n${node.parameters} weights${node.isScope ? `\n${node.count} nodes; click to open` : ''}`}</title>
                <rect width={BOX[0]} height={BOX[1]} rx="8" />
                <text x={BOX[0] / 2} y="20" text-anchor="middle" class="title">{short(node.name, 24)}</text>
                <text x={BOX[0] / 2} y="38" text-anchor="middle">{node.isScope ? `${node.count} nodes` : short(`${node.op} ${node.shape}`, 28)}{node.parameters ? ` · ${number(node.parameters)}` : ''}</text>
              </g>
            ))}
          </svg>
        </div>
      )}
      {nodes.length > 0 && (
        <details class="more" open={drawn.length === 0}><summary>Nodes as a table</summary>
          <table class="facts"><thead><tr><th>name</th><th>op</th><th>output</th><th class="right">weights</th><th>inputs</th></tr></thead><tbody>
            {nodes.slice(0, 2000).map((node) => (
              <tr key={node.name}><td>{node.isScope || open.has(node.name) ? <button onClick={() => toggle(node.name)}>{node.name}</button> : node.name}</td><td>{node.isScope ? `scope of ${node.count} nodes` : node.op}</td><td>{node.shape}</td>
                <td class="right">{node.parameters ? number(node.parameters) : ''}</td><td>{[...node.inputs].join(', ')}</td></tr>
            ))}
          </tbody></table>
        </details>
      )}
    </>
  );
}
