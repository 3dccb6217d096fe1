// What the menus of all views save: each file is read back and compared with what the page shows.
import {readFileSync} from 'node:fs';
import {rowsOf} from '../src/tables.js';

// Chooses an entry of the menu of `name`. The text of the file.
async function saved(page, name, words) {
  const summary = page.getByLabel(`Save ${name}`, {exact: true}).first();
  const menu = summary.locator('..');
  if (!await menu.evaluate((each) => each.open)) await summary.click();
  const [file] = await Promise.all([page.waitForEvent('download'), menu.getByText(words).click()]);
  return {name: file.suggestedFilename(), bytes: readFileSync(await file.path())};
}

// The rows of CSV as objects of texts.
function recordsOf(csv) {
  const [names, ...rows] = rowsOf(csv);
  return rows.map((row) => Object.fromEntries(row.map((cell, at) => [names[at], cell])));
}

// The rows of a menu from both of its files, and what differs between these: {rows, difference}. `changing` goes on while the
// page is open, so the second file has another value.
async function rowsSaved(page, name, changing = '') {
  const records = recordsOf((await saved(page, name, 'CSV')).bytes.toString());
  const rows = JSON.parse((await saved(page, name, 'JSON')).bytes.toString());
  const texts = (row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)]));
  const differing = rows.findIndex((row, at) => Object.entries(texts(row)).some(([key, value]) => records[at] === undefined || (key !== changing && records[at][key] !== value)));
  const difference = rows.length !== records.length ? `${rows.length} and ${records.length} rows` : differing < 0 ? '' : JSON.stringify([rows[differing], records[differing]]);
  return {rows, difference};
}

// Draws an SVG in the page as an image: {error, count} with the number of elements of a kind, and the share of the pixels in
// which it differs from a canvas of the page.
async function drawn(page, svg, {elements, canvas}) {
  return page.evaluate(async ([source, selector, name]) => {
    const parsed = new DOMParser().parseFromString(source, 'image/svg+xml');
    if (parsed.querySelector('parsererror')) return {error: parsed.documentElement.textContent.slice(0, 200)};
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([source], {type: 'image/svg+xml'}));
    await image.decode();
    const shown = document.querySelector(name);
    const size = shown ? [shown.width, shown.height] : [image.naturalWidth, image.naturalHeight];
    const pixelsOf = (picture) => {
      const paper = new OffscreenCanvas(...size).getContext('2d');
      paper.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--back');
      paper.fillRect(0, 0, ...size);
      paper.drawImage(picture, 0, 0, ...size);
      return paper.getImageData(0, 0, ...size).data;
    };
    const pixels = pixelsOf(image), others = shown ? pixelsOf(shown) : pixels;
    let differing = 0, inked = 0;
    for (let at = 0; at < pixels.length; at += 4) {
      differing += [0, 1, 2].some((part) => Math.abs(pixels[at + part] - others[at + part]) > 60);
      inked += [0, 1, 2].some((part) => Math.abs(pixels[at + part] - pixels[part]) > 30);
    }
    return {error: '', count: parsed.querySelectorAll(selector).length, differs: differing / (pixels.length / 4), inked};
  }, [svg, elements, canvas || 'no-canvas']);
}

// `check` and `soon` are those of board_test.mjs; the page shows the runs that board_runs makes as `kinds`.
export async function savesOfKinds(page, url, {check, soon}) {
  const open = async (view, selector) => {
    await page.goto(`${url}#${view}`);
    await page.waitForSelector(selector);
  };
  const svgOf = async (name, what) => drawn(page, (await saved(page, name, 'SVG')).bytes.toString(), what);
  const cellsOf = (table) => page.locator(table).evaluate((element) => [...element.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
  const looks = (picture) => picture.error === '' && picture.inked > 500;

  await open('scalars', '.card canvas');
  const file = await saved(page, 'loss', 'CSV');
  const points = recordsOf(file.bytes.toString());
  const pointsToo = JSON.parse((await saved(page, 'loss', 'JSON')).bytes.toString());
  const last = points.findLast((point) => point.run === 'first');
  check(file.name === 'loss.csv' && pointsToo.map((point) => [point.run, point.step, point.value].join()).join('|') === points.map((point) => [point.run, point.step, point.value].join()).join('|'),
    'saves: points as CSV and JSON are the same', file.name);
  check(points.length === 48 && last.step === '20' && last.value === '0.1' && last.wall_time === '1700000020.000000', 'saves: all points of a scalar', JSON.stringify(last));
  const chart = await svgOf('loss', {elements: 'path[fill="none"][stroke-width="1.5"]'});
  check(looks(chart) && chart.count === 4, 'saves: a chart has a line for each of four runs', JSON.stringify(chart));

  for (const shape of ['ridges', 'bands']) {
    await open('histograms', '.controls select');
    await page.selectOption('.controls select', shape);
    await soon(page, () => document.querySelectorAll('.card canvas').length === 2);
    const {rows, difference} = await rowsSaved(page, 'weights/kernel of first');
    const shown = Object.fromEntries(await cellsOf('.card table >> nth=0'));
    const ofLast = rows.filter((row) => row.step === 20);
    const number = (text) => Number(text.replaceAll(',', ''));
    check(difference === '' && new Set(rows.map((row) => row.step)).size === 4 && Math.abs(ofLast.reduce((sum, row) => sum + row.count, 0) - number(shown.values)) < 1e-6,
      `saves: buckets of histograms have the values that are shown as ${shape}`, difference || JSON.stringify([shown, ofLast.slice(0, 3)]));
    let before = 0;
    const median = ofLast.map((row) => { const at = (number(shown.values) / 2 - before) / row.count; before += row.count; return at >= 0 && at <= 1 ? row.from + at * (row.to - row.from) : null; }).find((each) => each !== null);
    check(Math.abs(median - number(shown.quartiles.split(', ')[1])) < 1e-4, 'saves: the buckets have the median that is shown', JSON.stringify([median, shown]));
    const picture = await svgOf('weights/kernel of first', {elements: 'path', canvas: '.card canvas'});
    check(looks(picture) && picture.count === (shape === 'bands' ? 5 : 8) && picture.differs < 0.02, `saves: the picture of ${shape} is that of the page`, JSON.stringify(picture));
  }
  await page.selectOption('.controls select', 'ridges');

  for (const [view, name, words, selector, begin, ending] of [
    ['images', 'digits/image of first', 'Image, as shown', 'img.picture', '\x89PNG', 'digits_image_of_first.png'],
    ['audio', 'tone of first', 'Sound, as chosen', 'audio', 'RIFF', 'tone_of_first.wav']]) {
    await open(view, selector);
    await page.locator('.steps input').first().fill('1');
    await soon(page, () => document.body.innerText.includes('step 10'));
    const file = await saved(page, name, words);
    const shown = Buffer.from(await page.$eval(selector, async (element) => [...new Uint8Array(await (await fetch(element.src)).arrayBuffer())]));
    check(file.name === ending && file.bytes.equals(shown) && file.bytes.toString('latin1').startsWith(begin), `saves: the file of ${view} at the step that is shown`, file.name);
    const {rows, difference} = await rowsSaved(page, name);
    check(difference === '' && rows.map((row) => row.step).join() === '5,10,15,20', `saves: the steps of ${view}`, difference || JSON.stringify(rows));
  }

  await open('text', '.text');
  const texts = await rowsSaved(page, 'note of first');
  const tables = await rowsSaved(page, 'table of first');
  check(texts.difference === '' && texts.rows.map((row) => row.text).join() === 'step **5** of first,step **10** of first,step **15** of first,step **20** of first', 'saves: texts as they were written', texts.difference || JSON.stringify(texts.rows));
  check(tables.rows.filter((row) => row.step === 20).map((row) => [row.row, row.column, row.text].join('')).join() === '00a,01b,101,112', 'saves: a table of texts with its places', JSON.stringify(tables.rows));

  await open('curves', '.curve polyline');
  const curves = await rowsSaved(page, 'pr');
  const averages = (await cellsOf('.card table')).map((row) => row[2]);
  const firstCurve = curves.rows.filter((row) => row.run === 'first' && row.step === 20);
  const area = firstCurve.reduce((sum, row, at) => sum + (row.recall - (at + 1 < firstCurve.length ? firstCurve[at + 1].recall : 0)) * row.precision, 0);
  check(curves.difference === '' && Math.abs(area - Number(averages[0])) < 1e-4 && firstCurve[0].threshold === 0 && firstCurve[firstCurve.length - 1].threshold === 1,
    'saves: curves of precision and recall have the average precision that is shown', curves.difference || `${area} and ${averages[0]}`);
  const curve = await svgOf('pr', {elements: 'polyline'});
  check(looks(curve) && curve.count === 2, 'saves: the picture of two curves', JSON.stringify(curve));

  await open('hparams', '.parallel polyline');
  const hparams = await rowsSaved(page, 'Hyperparameters');
  const names = await page.locator('table.facts thead th').allInnerTexts();
  const shown = (await cellsOf('table.facts')).map((row) => [row[0], row[names.findIndex((name) => name.startsWith('rate'))], row[row.length - 1]].join());
  check(hparams.difference === '' && hparams.rows.map((row) => [row.run, row['hparams.rate'], row.result].join()).join('|') === shown.join('|'), 'saves: hyperparameters as in the table', hparams.difference || shown.join('|'));
  check(Math.abs(hparams.rows[0]['metrics.loss'] - 0.1) < 1e-6, 'saves: metrics of the runs', JSON.stringify(hparams.rows[0]));
  const parallel = await svgOf('Hyperparameters', {elements: 'polyline'});
  check(looks(parallel) && parallel.count === 2, 'saves: the picture of parallel coordinates', JSON.stringify(parallel));

  await open('graph', '.node');
  await page.getByRole('button', {name: 'Open all scopes'}).click();
  await soon(page, () => document.querySelectorAll('.node').length === 5);
  const graph = await rowsSaved(page, 'Graph of first');
  const nodes = (await cellsOf('details.more table')).map((row) => [row[0], row[1], row[3].replace(',', '')].join());
  check(graph.difference === '' && graph.rows.map((row) => [row.name, row.op, row.weights || ''].join()).sort().join('|') === nodes.sort().join('|'), 'saves: the nodes of the graph', graph.difference || nodes.join('|'));
  const drawing = await svgOf('Graph of first', {elements: 'g'});
  check(looks(drawing) && drawing.count === 5, 'saves: the picture of five nodes', JSON.stringify(drawing));

  await open('runs', '.cards h3');
  const checkpoints = await rowsSaved(page, 'Checkpoints');
  const saves = await cellsOf('section[aria-label=Checkpoints] table');
  check(checkpoints.difference === '' && checkpoints.rows.map((row) => [row.name, row.step].join()).join('|') === saves.map((row) => row.slice(0, 2).join()).join('|') && checkpoints.rows.some((row) => row.bytes === 2000),
    'saves: checkpoints', checkpoints.difference || saves.join('|'));
  const exported = await rowsSaved(page, 'Exports');
  check(exported.rows.length === 1 && await page.getByText(exported.rows[0].commands[0]).count() > 0, 'saves: exports with their commands', JSON.stringify(exported.rows));
  const roc = await page.locator('section', {hasText: /^ROC, area/}).getAttribute('aria-label');
  const corners = await rowsSaved(page, roc);
  const ofRoc = corners.rows.reduce((sum, row, at) => sum + (at === 0 ? 0 : (row['false positive rate'] - corners.rows[at - 1]['false positive rate']) * (row['true positive rate'] + corners.rows[at - 1]['true positive rate']) / 2), 0);
  check(corners.difference === '' && ofRoc === 0.75, 'saves: the curve of ROC has the area that is shown', corners.difference || ofRoc);
  check(looks(await svgOf(roc, {elements: 'polyline'})), 'saves: the picture of ROC');
  const confusion = await rowsSaved(page, 'Confusion matrix');
  check(confusion.rows.map((row) => Object.values(row).join()).join('|') === (await cellsOf('section[aria-label="Confusion matrix"] table')).join('|'), 'saves: the confusion matrix', JSON.stringify(confusion.rows));
  const report = await saved(page, 'Report of muster train', 'Markdown');
  check(report.name.endsWith('.md') && report.bytes.toString().startsWith('# people.csv\n'), 'saves: the report of muster train', report.name);

  await open('searches', 'tbody tr');
  const search = await page.locator('section.card h3').first().innerText();
  const trials = await rowsSaved(page, `the trials of ${search}`);
  check(trials.difference === '' && trials.rows.map((row) => [row.trial, row['values.rate'], row.best ?? '–', row.failure].join()).join('|') === (await cellsOf('section.card table')).map((row) => [row[0], row[1], row[2], row[6]].join()).join('|'),
    'saves: trials as in the table', trials.difference || JSON.stringify(trials.rows));
  const measured = await rowsSaved(page, 'accuracy of the trials');
  check(measured.rows.map((row) => Object.values(row).join()).join('|') === '1,10,0.5|1,20,0.75', 'saves: the curves of the trials', JSON.stringify(measured.rows));
  check(looks(await svgOf('accuracy of the trials', {elements: 'path'})) && looks(await svgOf(`the trials of ${search}`, {elements: 'polyline'})), 'saves: pictures of a search');

  await open('compare', '.controls select');
  await page.selectOption('.controls select >> nth=1', {label: 'second'});
  await soon(page, () => document.body.innerText.includes('The runs part at step 1'));
  const differing = await rowsSaved(page, 'Hyperparameters that differ');
  check(differing.rows.map((row) => [row.name, row.value_a, row.value_b].join()).join('|') === (await cellsOf('section[aria-label="Hyperparameters that differ"] table')).join('|'), 'saves: hyperparameters that differ', JSON.stringify(differing.rows));
  const both = await rowsSaved(page, 'Scalars of both');
  check(both.difference === '' && both.rows.map((row) => [row.tag, row.steps, row.parts_at ?? 'none'].join()).join('|') === (await cellsOf('section[aria-label="Scalars of both"] table')).map((row) => row.slice(0, 3).join()).join('|'),
    'saves: where scalars part', both.difference || JSON.stringify(both.rows));
}

// The page shows the tasks that board_runs makes.
export async function savesOfTasks(page, {check}) {
  const run = await page.locator('section.live h3').innerText();
  const {rows, difference} = await rowsSaved(page, `the tasks of ${run}`, 'activity_seconds');
  const shown = await page.locator('.tasks tbody tr').evaluateAll((lines) => lines.map((line) => `${line.cells[0].innerText.replace(' slow', '')},${line.cells[2].innerText}`));
  check(difference === '' && rows.map((row) => `${row.task},${row.step}`).join('|') === shown.join('|'), 'saves: the tasks of a run', difference || shown.join('|'));
  const slow = rows.find((row) => row.slow);
  check(slow.task === 'worker 1' && Math.abs(slow['seconds_of_a_step.input'] - 0.03) < 1e-6 && rows.find((row) => row.task === 'ps 0')['measures.updates/s'] === 31, 'saves: parts of a step, and what a server measures', JSON.stringify(slow));
  check(slow['seconds_of_the_run.evaluating'] === 30 && slow.earlier_starts === 1, 'saves: the whole run', JSON.stringify(slow));
  const picture = await drawn(page, (await saved(page, `the tasks of ${run}`, 'SVG')).bytes.toString(), {elements: 'path'});
  // The first bar of each row, and a square of the legend for each kind of part in them.
  const parts = await page.$$eval('.tasks tbody tr', (rows) => rows.flatMap((row) => [...row.querySelector('.bar').children].map((part) => part.className)));
  const bars = parts.length, legend = new Set(parts).size;
  check(picture.error === '' && picture.count === bars + legend && picture.inked > 2000, 'saves: the picture of the bars', JSON.stringify({...picture, bars, legend}));
  const lines = await rowsSaved(page, 'log lines');
  check(lines.difference === '' && lines.rows.length === await page.locator('.log-lines > div').count() && lines.rows.some((row) => row.text.startsWith('<script>')), 'saves: the lines of the logs', lines.difference || JSON.stringify(lines.rows));
}

// The page shows the profile `path`.
export async function savesOfProfile(page, path, events, {check}) {
  const {rows, difference} = await rowsSaved(page, path);
  const totals = await page.locator('table.facts tbody tr').evaluateAll((lines) => lines.map((line) => [line.cells[0].innerText.trim(), Number(line.cells[1].innerText), line.cells[2].innerText]));
  const wrong = totals.filter(([name, count, own]) => {
    const spans = rows.filter((row) => row.name === name);
    return spans.length !== count || (own.endsWith(' ms') && Math.abs(spans.reduce((sum, row) => sum + row.own, 0) / 1000 - Number(own.slice(0, -3))) > 0.1);
  });
  check(difference === '' && totals.length > 3 && wrong.length === 0, 'saves: spans have the counts and the times that the table shows', difference || wrong.join('|'));
  const trace = JSON.parse((await saved(page, path, 'Trace Event format')).bytes.toString());
  check(trace.traceEvents.length === events, 'saves: a profile in the Trace Event format', trace.traceEvents.length);
  const picture = await drawn(page, (await saved(page, path, 'SVG')).bytes.toString(), {elements: 'path', canvas: '.timeline canvas'});
  check(picture.error === '' && picture.inked > 5000 && picture.differs < 0.03, 'saves: the picture of a profile is that of the page', JSON.stringify(picture));
}

// The page shows the chart of the hostile tag, with a NaN and two infinities.
export async function savesOfHostile(page, {check}) {
  const name = await page.locator('.card h3', {hasText: '<script>'}).first().innerText();
  const svg = (await saved(page, name, 'SVG')).bytes.toString();
  const picture = await drawn(page, svg, {elements: 'script, img, path:not([fill="none"]):not(clipPath path)'});
  check(picture.error === '' && picture.count === 3 && svg.includes(`<title>${'&#60;'}script`), 'saves: in a picture a hostile name is text, and values that are not numbers are marks', JSON.stringify(picture));
  const file = await saved(page, name, 'CSV');
  const values = recordsOf(file.bytes.toString()).map((row) => row.value);
  check(!/[^\w.-]/.test(file.name) && ['nan', 'inf', '-inf'].every((each) => values.includes(each)), 'saves: a hostile name is no path, and CSV has values that are not numbers', `${file.name} ${values.join()}`);
}

// The page is the report of the runs that board_runs makes as `kinds`.
export async function savesOfReport(page, {check}) {
  const {rows, difference} = await rowsSaved(page, 'loss');
  const last = rows.findLast((row) => row.run === 'first');
  check(difference === '' && rows.length === 48 && last.step === 20 && Math.abs(last.value - 0.1) < 1e-6, 'saves of a report: the points that it has', difference || JSON.stringify(last));
  const image = await saved(page, 'digits/image of first', 'Image, as shown');
  check(image.name === 'digits_image_of_first.png' && image.bytes.toString('latin1').startsWith('\x89PNG'), 'saves of a report: an image', image.name);
}
