// Requests to the server that the page came from; no other address is ever asked.

// A report is a file with the answers in it: muster/board/report_page.cc writes them.
const kept = document.getElementById('answers');
const answers = kept ? JSON.parse(kept.textContent) : null;
export const isReport = answers !== null;

// The part of a chart that is asked for: these runs, from a place to a place.
function chartOf(chart, query) {
  const wanted = new Set();
  for (const part of query.runs.split(',')) {
    const [first, last = first] = part.split('-').map(Number);
    for (let run = first; run <= last; ++run) wanted.add(run);
  }
  const from = query.from ?? -Infinity, to = query.to ?? Infinity;
  const shown = chart.x.map((x, at) => at).filter((at) => chart.x[at] >= from && chart.x[at] <= to);
  const whole = shown.length === chart.x.length;
  const cut = (list) => (whole || !list ? list : shown.map((at) => list[at]));
  const pairs = (list) => (whole || !list ? list : shown.filter((at) => at % 2 === 0).map((at) => list[at / 2]));
  // Half an interval at the edge goes, so that each interval keeps its two places.
  if (!whole && !chart.exact) {
    while (shown.length && shown[0] % 2 !== 0) shown.shift();
    if (shown.length % 2 !== 0) shown.pop();
  }
  return {...chart, x: cut(chart.x), lines: chart.lines.filter((line) => wanted.has(line.run))
    .map((line) => ({...line, values: cut(line.values), means: pairs(line.means), counts: pairs(line.counts)}))};
}

function answerOf(path, query) {
  const {tag, run} = query;
  if (path === 'chart' && query.x === 'epoch' && query.epoch_steps > 0) {
    const steps = answerOf('chart', {...query, x: 'step', from: null, to: null});
    return chartOf({...steps, x: steps.x.map((step) => step / query.epoch_steps), interval: steps.interval / query.epoch_steps}, query);
  }
  const key = path === 'chart' ? `${tag}.${query.x}` : path === 'profile' ? `${query.number}` : run === undefined ? '' : tag === undefined ? `${run}` : `${tag}.${run}`;
  const answer = (answers[path] || {})[key];
  if (answer === undefined) throw new Error('the report does not have this');
  return path === 'chart' ? chartOf(answer, query) : answer;
}

// The answer of a path as JSON. Throws an Error with the server's words.
export async function ask(path, query = {}, options = {}) {
  if (isReport) return answerOf(path, query);
  const response = await fetch(address(path, query), options);
  let answer;
  try {
    answer = await response.json();
  } catch (failure) {
    // A request may end while its body is read: then nobody wants the answer.
    if (failure.name === 'AbortError') throw failure;
    throw new Error(response.ok ? `the answer is no JSON: ${failure.message}` : `the board answered ${response.status}`);
  }
  if (!response.ok) throw new Error(answer.error || `the board answered ${response.status}`);
  return answer;
}

// The address of a path, for an image, a sound or a download.
export function address(path, query = {}) {
  if (isReport) return ((answers[path] || {})[`${query.tag}.${query.run}`]) || '';
  const words = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return `api/${path}` + (words.length ? `?${words.join('&')}` : '');
}

// Numbers of runs as the server reads them: [0, 1, 2, 5] is "0-2,5".
export function listOf(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts = [];
  for (let at = 0; at < sorted.length;) {
    let end = at;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end] + 1) ++end;
    parts.push(end > at ? `${sorted[at]}-${sorted[end]}` : `${sorted[at]}`);
    at = end + 1;
  }
  return parts.join(',');
}
