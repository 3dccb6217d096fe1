// A profile in the Trace Event format as lanes: one for each thread, with a row for each depth of its spans.
const DEEPEST = 64;  // rows of a lane

// {pid: {name, index}, ...} of the metadata events.
function namesOf(events) {
  const processes = new Map(), threads = new Map();
  const of = (map, key) => map.get(key) || map.set(key, {}).get(key);
  for (const event of events) {
    if (event.ph !== 'M' || !event.args) continue;
    const process = of(processes, event.pid), thread = of(threads, `${event.pid} ${event.tid}`);
    if (event.name === 'process_name') process.name = String(event.args.name);
    if (event.name === 'process_sort_index') process.index = Number(event.args.sort_index);
    if (event.name === 'thread_name') thread.name = String(event.args.name);
    if (event.name === 'thread_sort_index') thread.index = Number(event.args.sort_index);
  }
  return {processes, threads};
}

// The spans of each thread: complete events, and pairs of a begin and an end.
function spansOf(events) {
  const lanes = new Map(), open = new Map();
  let left = 0;
  for (const event of events) {
    const {ph, pid, tid} = event;
    const key = `${pid} ${tid}`;
    const begin = Number(event.ts);
    if (!['X', 'B', 'E'].includes(ph) || !Number.isFinite(begin)) {
      left += ph !== 'M';
      continue;
    }
    if (!lanes.has(key)) lanes.set(key, {key, pid, tid, spans: []});
    const {spans} = lanes.get(key);
    if (ph === 'X') {
      const length = Number(event.dur) || 0;
      if (length >= 0) spans.push({name: String(event.name), begin, end: begin + length, args: event.args});
    } else if (ph === 'B') {
      if (!open.has(key)) open.set(key, []);
      open.get(key).push(event);
    } else {
      const start = (open.get(key) || []).pop();
      if (start) spans.push({name: String(start.name), begin: Number(start.ts), end: begin, args: start.args});
      else ++left;
    }
  }
  return {lanes: [...lanes.values()].filter((lane) => lane.spans.length > 0), left};
}

// Puts each span into the row under the spans that contain it. Within a row spans follow one another.
function rowsOf(lane) {
  lane.spans.sort((a, b) => a.begin - b.begin || b.end - a.end);
  const rows = [], stack = [];
  for (const span of lane.spans) {
    while (stack.length > 0 && stack[stack.length - 1].end <= span.begin) stack.pop();
    span.depth = stack.length;
    if (stack.length > 0) stack[stack.length - 1].inner = (stack[stack.length - 1].inner || 0) + Math.min(span.end, stack[stack.length - 1].end) - span.begin;
    stack.push(span);
    if (span.depth >= DEEPEST) continue;
    (rows[span.depth] ||= []).push(span);
  }
  return rows;
}

// {lanes: [{name, process, rows: [[span]]}], begin, end, spans, left} of a parsed profile, times in microseconds. A span is
// {name, begin, end, depth, inner, args}; `inner` is the time of the spans in it. `left` counts events of other kinds.
// Throws an Error for what is no profile.
export function traceOf(parsed) {
  const events = Array.isArray(parsed) ? parsed : parsed && parsed.traceEvents;
  if (!Array.isArray(events)) throw new Error('the file has no traceEvents');
  const good = events.filter((event) => event !== null && typeof event === 'object');
  const {processes, threads} = namesOf(good);
  const {lanes, left} = spansOf(good);
  let begin = Infinity, end = -Infinity, spans = 0;
  for (const lane of lanes) {
    const process = processes.get(lane.pid) || {}, thread = threads.get(lane.key) || {};
    lane.process = process.name || `process ${lane.pid}`;
    lane.name = thread.name || `thread ${lane.tid}`;
    lane.order = [process.index ?? 1e9, lane.process, thread.index ?? 1e9, lane.name];
    lane.rows = rowsOf(lane);
    spans += lane.spans.length;
    for (const span of lane.spans) {
      begin = Math.min(begin, span.begin);
      end = Math.max(end, span.end);
    }
  }
  lanes.sort((a, b) => {
    const at = a.order.findIndex((part, place) => part !== b.order[place]);
    if (at < 0) return 0;
    return typeof a.order[at] === 'number' ? a.order[at] - b.order[at] : a.order[at].localeCompare(b.order[at], 'en', {numeric: true});
  });
  return {lanes, begin: spans > 0 ? begin : 0, end: spans > 0 ? Math.max(end, begin + 1e-3) : 1, spans, left};
}

// The place of the first span of a row that ends after a time.
export function firstAfter(row, time) {
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].end > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Where the time goes: [{name, count, total, own, longest}] of the spans that `matches` takes, the most own time first.
export function totalsOf(trace, matches) {
  const totals = new Map();
  for (const lane of trace.lanes) {
    for (const span of lane.spans) {
      if (!matches(span.name)) continue;
      const length = span.end - span.begin;
      const total = totals.get(span.name) || totals.set(span.name, {name: span.name, count: 0, total: 0, own: 0, longest: 0}).get(span.name);
      total.count += 1;
      total.total += length;
      total.own += Math.max(0, length - (span.inner || 0));
      total.longest = Math.max(total.longest, length);
    }
  }
  return [...totals.values()].sort((a, b) => b.own - a.own || b.count - a.count);
}

// Microseconds as people read them.
export function microseconds(time) {
  const size = Math.abs(time);
  if (size >= 1e6) return `${Number((time / 1e6).toPrecision(4))} s`;
  if (size >= 1e3) return `${Number((time / 1e3).toPrecision(4))} ms`;
  return `${Number(time.toPrecision(4))} µs`;
}
