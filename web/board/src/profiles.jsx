// Profiles as time lines: a lane for each thread of each task on a canvas, with zoom, search, and a table of where the
// time goes.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {address, ask, isReport} from './api.js';
import {matcherOf, useAnswer, useWidth} from './board.js';
import {bytes, number, time} from './format.js';
import {Save} from './save.jsx';
import {inkOf, SvgContext, ticksOf} from './svg_export.js';
import {firstAfter, microseconds, totalsOf, traceOf} from './trace.js';

const ROW = 17, HEAD = 18, RULER = 22, LEFT = 150;  // pixels
const MOST_HEIGHT = 560, MOST_NAMES = 30;

const hues = new Map();
// The colour of a name: the same in each profile.
function colorOf(name) {
  let color = hues.get(name);
  if (color === undefined) {
    let hash = 7;
    for (let at = 0; at < name.length && at < 40; ++at) hash = (hash * 31 + name.charCodeAt(at)) >>> 0;
    color = `hsl(${(hash * 137.508) % 360} 58% 74%)`;
    hues.set(name, color);
  }
  return color;
}

// The places of the lanes on the whole drawing: [{lane, top, height, process}], and its height.
function layoutOf(trace) {
  let top = RULER;
  let process = null;
  const lanes = trace.lanes.map((lane) => {
    const isFirst = lane.process !== process;
    process = lane.process;
    const place = {lane, isFirst, top: top + (isFirst ? HEAD : 0), height: lane.rows.length * ROW + 4};
    top = place.top + place.height;
    return place;
  });
  return {lanes, height: top + 4};
}

// The context of a canvas of a size.
function prepare(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const ctx = canvas.getContext('2d');
  ctx.scale(ratio, ratio);
  return ctx;
}

// Draws what is between `from` and `to` on the time axis, `scrolled` pixels below the top. `ctx` is that of a canvas, or an
// SvgContext.
function draw(ctx, colors, {trace, layout, from, to, scrolled, width, height, matches, searching, chosen}) {
  ctx.font = '11px system-ui, sans-serif';
  ctx.textBaseline = 'middle';
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT);
  const ticks = ticksOf(from - trace.begin, to - trace.begin, Math.max(2, Math.floor((width - LEFT) / 110)));
  ctx.strokeStyle = colors.line;
  ctx.beginPath();
  for (const tick of ticks) {
    ctx.moveTo(x(tick + trace.begin), RULER - 6);
    ctx.lineTo(x(tick + trace.begin), height);
  }
  ctx.stroke();
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, RULER, width, height - RULER);
  ctx.clip();
  for (const {lane, isFirst, top, height: tall} of layout.lanes) {
    const y = top - scrolled;
    if (y > height || y + tall < 0) continue;
    if (isFirst) {
      ctx.fillStyle = colors.text;
      ctx.font = 'bold 11px system-ui, sans-serif';
      ctx.fillText(lane.process, 4, y - HEAD / 2);
      ctx.font = '11px system-ui, sans-serif';
    }
    ctx.strokeStyle = colors.line;
    ctx.strokeRect(-1, y - 1.5, width + 2, tall);
    lane.rows.forEach((row, depth) => {
      const rowTop = y + depth * ROW;
      let painted = -1;  // the right end of what is painted in this row, as spans may be narrower than a pixel
      for (let at = firstAfter(row, from); at < row.length && row[at].begin < to; ++at) {
        const span = row[at];
        const left = Math.max(LEFT, x(span.begin)), right = Math.min(width, x(span.end));
        const isMatch = !searching || matches(span.name);
        if (right < painted && !(searching && isMatch) && span !== chosen) continue;
        const wide = Math.max(1, right - left - (right - left > 3 ? 0.5 : 0));
        ctx.globalAlpha = isMatch ? 1 : 0.18;
        ctx.fillStyle = colorOf(span.name);
        ctx.fillRect(left, rowTop + 1, wide, ROW - 2);
        painted = left + 1;
        if (span === chosen) {
          ctx.strokeStyle = colors.text;
          ctx.lineWidth = 2;
          ctx.strokeRect(left + 1, rowTop + 1, Math.max(1, wide - 2), ROW - 2);
          ctx.lineWidth = 1;
        }
        if (wide > 24) {
          ctx.fillStyle = '#14171d';
          const room = Math.floor((wide - 6) / 6);
          ctx.fillText(span.name.length > room ? `${span.name.slice(0, Math.max(1, room - 1))}…` : span.name, left + 3, rowTop + ROW / 2);
        }
      }
      ctx.globalAlpha = 1;
    });
    // The names of the lanes stay where spans would run into them.
    ctx.fillStyle = colors.back;
    ctx.fillRect(0, y, LEFT - 1, tall - 3);
    ctx.fillStyle = colors.soft;
    ctx.fillText(lane.name.length > 24 ? `${lane.name.slice(0, 23)}…` : lane.name, 10, y + ROW / 2);
  }
  ctx.restore();
  ctx.fillStyle = colors.back;
  ctx.fillRect(0, 0, width, RULER - 6);
  ctx.fillStyle = colors.soft;
  ctx.textAlign = 'center';
  for (const tick of ticks) {
    const at = x(tick + trace.begin);
    if (at < width - 24) ctx.fillText(microseconds(tick), Math.max(at, LEFT + 12), RULER / 2 - 3);
  }
  ctx.textAlign = 'left';
}

function Timeline({trace, matches, searching, view, setView, chosen, setChosen, label, picture}) {
  const holder = useRef(null), canvas = useRef(null), drag = useRef(null);
  const width = useWidth(holder);
  const [scrolled, setScrolled] = useState(0);
  const layout = useMemo(() => layoutOf(trace), [trace]);
  const height = Math.min(layout.height, MOST_HEIGHT);
  const [from, to] = view;
  useEffect(() => {
    if (width > 0) draw(prepare(canvas.current, width, height), inkOf(canvas.current), {trace, layout, from, to, scrolled, width, height, matches, searching, chosen});
  }, [trace, layout, from, to, scrolled, width, height, matches, searching, chosen]);
  // The picture to save has all lanes.
  picture.current = () => {
    const ink = inkOf(canvas.current);
    const context = new SvgContext(width, layout.height, label, ink);
    draw(context, ink, {trace, layout, from, to, scrolled: 0, width, height: layout.height, matches, searching, chosen});
    return context.toString();
  };
  // A lane that is chosen from the table or by the search comes into sight.
  useEffect(() => {
    const place = chosen && layout.lanes.find(({lane}) => lane.spans.includes(chosen));
    if (!place) return;
    const top = place.top + chosen.depth * ROW;
    if (top - RULER < holder.current.scrollTop || top + ROW > holder.current.scrollTop + height) holder.current.scrollTop = top - height / 2;
  }, [chosen]);

  const show = (begin, end) => {
    const least = 0.01, most = trace.end - trace.begin;
    const length = Math.min(most, Math.max(least, end - begin));
    const start = Math.min(Math.max(trace.begin, begin), trace.end - length);
    setView([start, start + length]);
  };
  const zoom = (factor, part = 0.5) => {
    const middle = from + (to - from) * part;
    show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  };
  const partAt = (event) => (event.clientX - canvas.current.getBoundingClientRect().left - LEFT) / (width - LEFT);
  const spanAt = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const y = event.clientY - box.top + scrolled;
    const at = from + (to - from) * partAt(event);
    const place = layout.lanes.find((each) => y >= each.top && y < each.top + each.height);
    const row = place && place.lane.rows[Math.floor((y - place.top) / ROW)];
    if (!row || partAt(event) < 0) return null;
    const slack = (2 * (to - from)) / (width - LEFT);
    const found = row[firstAfter(row, at - slack)];
    return found && found.begin <= at + slack ? found : null;
  };
  const wheel = (event) => {
    // The wheel alone scrolls the page, as everywhere.
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
    event.preventDefault();
    if (event.shiftKey) show(from + (to - from) * Math.sign(event.deltaY || event.deltaX) * 0.1, to + (to - from) * Math.sign(event.deltaY || event.deltaX) * 0.1);
    else zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.max(0, partAt(event)));
  };
  useEffect(() => {
    const element = canvas.current;
    element.addEventListener('wheel', wheel, {passive: false});
    return () => element.removeEventListener('wheel', wheel);
  });
  const keys = (event) => {
    const stride = (to - from) * 0.2;
    const action = {'+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), ArrowLeft: () => show(from - stride, to - stride), ArrowRight: () => show(from + stride, to + stride),
      Home: () => show(trace.begin, trace.end), Escape: () => { setChosen(null); show(trace.begin, trace.end); }}[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  };
  return (
    <>
      <div class="controls" role="group" aria-label="Part of the time line">
        <button onClick={() => zoom(0.5)}>Zoom in</button>
        <button onClick={() => zoom(2)}>Zoom out</button>
        <button onClick={() => show(trace.begin, trace.end)}>Show all</button>
        <span class="count">{microseconds(from - trace.begin)} to {microseconds(to - trace.begin)}. Drag to move; Ctrl and the wheel zoom; a double click enlarges a span; keys: + − ← → Home.</span>
      </div>
      <div class="timeline" ref={holder} tabIndex={0} role="img" aria-label={label} style={{height: `${height}px`}} onKeyDown={keys} onScroll={(event) => setScrolled(event.currentTarget.scrollTop)}>
        <canvas ref={canvas} style={{width: `${width}px`, height: `${height}px`}}
          onPointerDown={(event) => { drag.current = {x: event.clientX, from, to, moved: false}; event.currentTarget.setPointerCapture(event.pointerId); }}
          onPointerMove={(event) => {
            const start = drag.current;
            if (!start) return;
            const moved = ((event.clientX - start.x) / (width - LEFT)) * (start.to - start.from);
            if (Math.abs(event.clientX - start.x) > 3) start.moved = true;
            if (start.moved) show(start.from - moved, start.to - moved);
          }}
          onPointerUp={(event) => { if (drag.current && !drag.current.moved) setChosen(spanAt(event)); drag.current = null; }}
          onPointerCancel={() => { drag.current = null; }}
          onDblClick={(event) => {
            const span = spanAt(event);
            if (span) show(span.begin - (span.end - span.begin) * 0.1, span.end + (span.end - span.begin) * 0.1);
          }} />
        <div style={{height: `${Math.max(0, layout.height - height)}px`}} />
      </div>
    </>
  );
}

// The span that was chosen, with what the profile says of it.
function Chosen({span, trace}) {
  const args = span.args && typeof span.args === 'object' ? Object.entries(span.args).slice(0, 20) : [];
  const lane = trace.lanes.find((each) => each.spans.includes(span));
  const inner = Math.min(span.inner || 0, span.end - span.begin);
  return (
    <p class="chosen-span" aria-live="polite"><span class="swatch" style={{background: colorOf(span.name)}} /><b>{span.name}</b>: {microseconds(span.end - span.begin)}
      {inner > 0 ? ` (${microseconds(span.end - span.begin - inner)} without the spans in it)` : ''}, from {microseconds(span.begin - trace.begin)} on, in {lane.process}, {lane.name}
      {args.map(([name, value]) => <span key={name} class="count"> · {name}: {typeof value === 'object' ? JSON.stringify(value).slice(0, 200) : String(value).slice(0, 200)}</span>)}</p>
  );
}

function Trace({parsed, label, offer}) {
  const {trace, error} = useMemo(() => {
    try {
      return {trace: traceOf(parsed)};
    } catch (failure) {
      return {error: failure.message};
    }
  }, [parsed]);
  if (error) return <p class="error">{error}</p>;
  if (trace.spans === 0) return <p class="empty">The profile has no spans.</p>;
  return <TraceView trace={trace} label={label} offer={offer} />;
}

// A row for each span, times in microseconds from the begin of the profile.
const rowsOfTrace = (trace) => trace.lanes.flatMap(({process, name: thread, spans}) => spans.map(({name, begin, end, inner = 0, depth, args}) =>
  ({process, thread, name, begin: begin - trace.begin, duration: end - begin, own: Math.max(0, end - begin - inner), depth, args})));

function TraceView({trace, label, offer}) {
  const [view, setView] = useState([trace.begin, trace.end]);
  const [chosen, setChosen] = useState(null);
  const [search, setSearch] = useState('');
  const matches = useMemo(() => matcherOf(search), [search]);
  const found = useMemo(() => (search === '' ? [] : trace.lanes.flatMap((lane) => lane.spans.filter((span) => matches(span.name))).sort((a, b) => a.begin - b.begin)), [trace, search]);
  const totals = useMemo(() => totalsOf(trace, matches), [trace, matches]);
  const go = (stride) => {
    if (found.length === 0) return;
    const at = found.indexOf(chosen);
    const next = found[at < 0 ? (stride > 0 ? 0 : found.length - 1) : (at + stride + found.length) % found.length];
    setChosen(next);
    const length = view[1] - view[0];
    if (next.begin < view[0] || next.end > view[1]) setView([Math.max(trace.begin, next.begin - length / 2), Math.min(trace.end, Math.max(trace.begin, next.begin - length / 2) + length)]);
  };
  const picture = useRef(null);
  offer.current = {rows: () => rowsOfTrace(trace), picture: () => picture.current()};
  const whole = trace.end - trace.begin;
  return (
    <>
      <div class="controls" role="group" aria-label="Search in the profile">
        <input type="search" aria-label="Search for spans" placeholder="Search" title="Text or a regular expression" value={search} onInput={(event) => setSearch(event.target.value)}
          onKeyDown={(event) => { if (event.key === 'Enter') go(event.shiftKey ? -1 : 1); }} />
        {search !== '' && <><button onClick={() => go(-1)}>Previous</button><button onClick={() => go(1)}>Next</button><span class="count" role="status">{number(found.length)} {found.length === 1 ? 'span' : 'spans'}</span></>}
        <span class="count">{number(trace.spans)} spans in {trace.lanes.length} {trace.lanes.length === 1 ? 'lane' : 'lanes'}, {microseconds(whole)}{trace.left > 0 ? `; ${trace.left === 1 ? '1 event of another kind is' : `${number(trace.left)} events of other kinds are`} not shown` : ''}</span>
      </div>
      <Timeline trace={trace} matches={matches} searching={search !== ''} view={view} setView={setView} chosen={chosen} setChosen={setChosen} label={`${label}: ${trace.lanes.length} lanes of spans over time; the table below has the totals`} picture={picture} />
      {chosen && <Chosen span={chosen} trace={trace} />}
      <details class="more" open>
        <summary>Where the time goes{search === '' ? '' : ', of the spans found'}</summary>
        <table class="facts">
          <thead><tr><th>span</th><th class="right">count</th><th class="right">own time</th><th class="right">with the spans in it</th><th class="right">mean</th><th class="right">longest</th></tr></thead>
          <tbody>{totals.slice(0, MOST_NAMES).map((each) => (
            <tr key={each.name}><td><span class="swatch" style={{background: colorOf(each.name)}} /><button class="sort" onClick={() => setSearch(each.name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))}>{each.name.length > 80 ? `${each.name.slice(0, 79)}…` : each.name}</button></td>
              <td class="right">{number(each.count)}</td><td class="right">{microseconds(each.own)}</td><td class="right">{microseconds(each.total)}</td><td class="right">{microseconds(each.total / each.count)}</td><td class="right">{microseconds(each.longest)}</td></tr>
          ))}</tbody>
        </table>
        {totals.length > MOST_NAMES && <p class="count">and {totals.length - MOST_NAMES} more names: search for them</p>}
      </details>
    </>
  );
}

function Profile({at, profile}) {
  const offer = useRef({});
  const {data, error} = useAnswer((signal) => ask('profile', {number: at}, {signal}), [at, profile.written]);
  return (
    <section class="card wide" aria-label={profile.path}>
      <header><h3>{profile.path}</h3><span class="count">{bytes(profile.bytes)}, written {time(profile.written)}</span>
        <span class="tools"><Save name={profile.path} of={() => ({...offer.current, files: isReport ? [] : [{words: 'Trace Event format', href: address('profile', {number: at}), ending: 'trace.json'}]})} /></span></header>
      {error ? <p class="error">{isReport ? 'The profile is too large for a report: see it in the board.' : error}</p> : !data ? <p class="empty">The profile is read.</p> : <Trace key={profile.path} parsed={data} label={profile.path} offer={offer} />}
    </section>
  );
}

export function Profiles({board}) {
  const {data, error} = useAnswer((signal) => ask('profiles', {}, {signal}), [board.state.profiles]);
  const [chosen, setChosen] = useState(null);
  if (error) return <p class="error">{error}</p>;
  if (!data) return <p class="empty">The profiles are read.</p>;
  const all = data.map((profile, at) => ({profile, at})).filter(({profile}) => profile.bytes !== null);
  if (all.length === 0) return <p class="empty">No profile can be read.</p>;
  // In a report the first profiles alone: each is long.
  if (isReport) return <div class="cards">{all.slice(0, 4).map(({profile, at}) => <Profile key={at} at={at} profile={profile} />)}</div>;
  const shown = all.find(({at}) => at === chosen) || all[0];
  return (
    <>
      <div class="controls"><label>Profile <select value={shown.at} onChange={(event) => setChosen(Number(event.target.value))}>{all.map(({profile, at}) => <option key={at} value={at}>{profile.path}</option>)}</select></label></div>
      <div class="cards"><Profile key={shown.at} at={shown.at} profile={shown.profile} /></div>
    </>
  );
}
