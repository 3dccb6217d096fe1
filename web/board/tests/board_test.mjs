// Each view of the board in Chromium: node tests/board_test.mjs BOARD BOARD_RUNS FOLDER [DATA]
// FOLDER takes the runs and the screenshots; DATA is ../shared/data, where it is there. ./dev check board calls it.
import axe from 'axe-core';
import {execFileSync, spawn} from 'node:child_process';
import {mkdirSync, rmSync, writeFileSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {openPage, startBoard, startBrowser} from './browser.mjs';
import {savesOfHostile, savesOfKinds, savesOfProfile, savesOfReport, savesOfTasks} from './saves.mjs';

const [program, makeRuns, folder, data] = process.argv.slice(2);
const pictures = join(folder, 'pages');
rmSync(folder, {recursive: true, force: true});
mkdirSync(pictures, {recursive: true});

let failed = 0, passed = 0;
function check(truth, what, detail = '') {
  if (truth) ++passed;
  else ++failed;
  console.log(`${truth ? 'ok      ' : 'MISSING '}${what}${truth || !detail ? '' : `: ${detail}`}`);
}
const text = (page) => page.evaluate(() => document.body.innerText);
// Whether something is true within ten seconds.
async function soon(page, condition, argument) {
  return page.waitForFunction(condition, argument, {timeout: 10000}).then(() => true, () => false);
}
const runs = (kind, ...words) => {
  const made = join(folder, kind);
  execFileSync(makeRuns, [kind, made, ...words.map(String)]);
  return made;
};
async function inBoard(folders, flags, look) {
  const board = await startBoard(program, folders, flags);
  try {
    await look(board);
  } finally {
    await board.stop();
  }
}
// Whether a canvas has more than so many pixels that are not transparent, within ten seconds.
const inked = (page, selector, least) => soon(page, ([name, count]) => {
  const canvas = document.querySelector(name);
  if (!canvas || canvas.width === 0 || canvas.height === 0) return false;
  const {data: pixels} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 3; at < pixels.length; at += 4) found += pixels[at] > 0;
  return found > count;
}, [selector, least]);

// What axe-core finds wrong on the page: the rules of WCAG 2.0 to 2.2, levels A and AA.
async function barriers(page) {
  await page.evaluate(axe.source);
  const {violations} = await page.evaluate(() => globalThis.axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}));
  return violations.map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

const browser = await startBrowser();

async function kinds() {
  await inBoard([runs('kinds')], [], async ({url}) => {
    const {page, problems} = await openPage(browser, `${url}#scalars`);
    check(await soon(page, () => document.querySelectorAll('.card canvas').length >= 3), 'scalars: a chart for each tag');
    const words = await text(page);
    check(['loss', 'train', 'accuracy', 'first', 'first/eval', 'second'].every((word) => words.includes(word)), 'scalars: tags and runs are named', words);
    check(await inked(page, '.card canvas', 500), 'scalars: lines are drawn');
    const tabs = await page.$$eval('nav a', (links) => links.map((link) => link.textContent));
    check(tabs.join() === 'Searches,Scalars,Histograms,Images,Audio,Text,Precision and recall,Hyperparameters,Graph,Run,Compare', 'all views have a tab', tabs.join());
    await page.screenshot({path: join(pictures, 'scalars.png')});

    const loss = page.getByRole('region', {name: 'loss', exact: true});
    await loss.locator('details.more summary').click();
    const table = await loss.locator('table').innerText();
    check(/first\s+20\s+0\.1\s+0\.1\s+2\s/.test(table), 'scalars: the last values as a table', table);
    const chart = page.locator('.chart').first();
    await chart.focus();
    await page.keyboard.press('ArrowRight');
    check(await soon(page, () => document.querySelector('.tip') !== null), 'scalars: an arrow key shows values');
    const box = await chart.boundingBox();
    await page.mouse.move(box.x + 150, box.y + 80);
    await page.mouse.down();
    await page.mouse.move(box.x + 250, box.y + 90, {steps: 4});
    await page.mouse.up();
    check(await soon(page, () => document.body.innerText.includes('Show all')), 'scalars: dragging enlarges a part');
    await page.getByRole('button', {name: 'Show all'}).last().click();
    await page.selectOption('select >> nth=1', 'epoch');
    check(await soon(page, () => document.body.innerText.includes('These runs do not say their epochs')), 'scalars: without epochs the page says so');
    await page.getByLabel('steps in an epoch').fill('5');
    check(await soon(page, () => /first\s+4\s+0\.1/.test([...document.querySelectorAll('.card')].find((each) => each.getAttribute('aria-label') === 'loss').innerText)), 'scalars: step 20 is epoch 4 of 5 steps each');
    for (const axis of ['relative', 'wall', 'step']) {
      await page.selectOption('select >> nth=1', axis);
      check(await soon(page, () => document.querySelectorAll('.card canvas').length >= 3), `scalars: the axis ${axis}`);
    }
    await page.locator('.controls input[type=range]').fill('0.8');
    await page.getByLabel('log y').check();
    await page.getByLabel('ignore outliers').check();
    check(await soon(page, () => document.querySelector('output').textContent === '0.80'), 'scalars: smoothing, log y, outliers');
    await page.waitForTimeout(300);
    await page.screenshot({path: join(pictures, 'smooth.png')});
    await page.getByLabel('log y').uncheck();
    await page.getByLabel('ignore outliers').uncheck();
    await page.locator('.controls input[type=range]').fill('0');

    await page.getByRole('button', {name: 'Hide all'}).click();
    check(await soon(page, () => document.body.innerText.includes('0 of 4')), 'runs: all are hidden');
    await page.getByRole('button', {name: 'Show all'}).click();

    await page.click('nav a[href="#histograms"]');
    check(await soon(page, () => document.querySelectorAll('.card canvas').length === 2), 'histograms: a card for each run');
    await page.waitForTimeout(200);
    check(await inked(page, '.card canvas', 2000), 'histograms: ridges are drawn');
    await page.screenshot({path: join(pictures, 'histograms.png')});
    await page.selectOption('.controls select', 'bands');
    await page.waitForTimeout(400);
    check(await inked(page, '.card canvas', 2000), 'histograms: bands are drawn');

    await page.click('nav a[href="#images"]');
    check(await soon(page, () => [...document.querySelectorAll('img.picture')].filter((each) => each.naturalWidth === 32).length === 2), 'images: two are shown');
    const before = await page.$eval('img.picture', (image) => image.src);
    await page.locator('.steps input').first().fill('0');
    check(await soon(page, (source) => document.querySelector('img.picture').src !== source, before), 'images: the slider changes the step');
    check((await text(page)).includes('step 5'), 'images: the step is named');
    await page.screenshot({path: join(pictures, 'images.png')});

    await page.click('nav a[href="#audio"]');
    check(await soon(page, () => document.querySelectorAll('audio').length === 2), 'audio: two players');
    const sound = await page.evaluate(async () => {
      const bytes = await (await fetch(document.querySelector('audio').src)).arrayBuffer();
      const decoded = await new OfflineAudioContext(1, 1, 8000).decodeAudioData(bytes);
      return [decoded.duration, decoded.numberOfChannels];
    });
    check(sound.join() === '0.1,1', 'audio: the sound can be decoded', sound.join());

    await page.click('nav a[href="#text"]');
    check(await soon(page, () => [...document.querySelectorAll('.text strong')].some((each) => each.textContent === '20')), 'text: Markdown');
    await page.getByLabel('as written').check();
    check(await soon(page, () => document.body.innerText.includes('step **20** of first')), 'text: as written');
    await page.getByLabel('as written').uncheck();
    check(await page.locator('.text td').count() === 8, 'text: a table');

    await page.click('nav a[href="#curves"]');
    check(await soon(page, () => document.querySelectorAll('.curve polyline').length === 2), 'curves: two runs');
    await page.screenshot({path: join(pictures, 'curves.png')});

    await page.click('nav a[href="#hparams"]');
    check(await soon(page, () => document.querySelectorAll('.parallel polyline').length === 2), 'hyperparameters: a line for each run');
    const rows = await page.locator('table.facts tbody tr').allInnerTexts();
    check(rows.length === 2 && rows[0].includes('0.1') && rows[1].includes('0.01'), 'hyperparameters: the table', rows.join(' | '));
    await page.getByRole('button', {name: 'rate'}).click();
    await page.getByRole('button', {name: 'rate'}).click();
    check((await page.locator('table.facts tbody tr').first().innerText()).includes('second'), 'hyperparameters: the table is sorted');
    await page.screenshot({path: join(pictures, 'hparams.png')});

    await page.click('nav a[href="#graph"]');
    check(await soon(page, () => document.querySelectorAll('.node').length === 1), 'graph: the scope is closed');
    await page.getByRole('button', {name: 'Open all scopes'}).click();
    check(await soon(page, () => document.querySelectorAll('.node').length === 5), 'graph: five nodes');
    const graph = await page.locator('.graph').textContent();
    check(graph.includes('Conv2D [?, 26, 26, 32]') && graph.includes('216,330'), 'graph: shapes and weights', graph);
    await page.screenshot({path: join(pictures, 'graph.png')});

    await page.click('nav a[href="#runs"]');
    check(await soon(page, () => document.body.innerText.includes('model.ckpt-20')), 'run: checkpoints');
    const facts = await text(page);
    check(facts.includes('max_steps at step 20') && facts.includes('muster serve ') && facts.includes('newest'), 'run: its end, exports with commands', facts);
    check(await page.locator('.markdown td', {hasText: '17 to 90'}).count() === 1 && facts.includes('<script>x</script>'), 'run: the report of muster train');
    // Three of the four pairs of a yes and a no are in the right order.
    check(facts.includes('ROC, area 0.75') && facts.includes('Confusion'), 'run: curves of the rows that were held out', facts);
    await page.screenshot({path: join(pictures, 'run.png'), fullPage: true});

    await page.click('nav a[href="#searches"]');
    check(await soon(page, () => document.querySelectorAll('tbody tr').length === 2), 'searches: two trials');
    check((await text(page)).includes('The best is trial 1: accuracy 0.75 at step 20, with rate = 0.1. 1 trial failed.'), 'searches: the best trial in a sentence');
    check(await page.locator('.parallel polyline').count() === 2 && await inked(page, '.chart canvas', 100), 'searches: parallel coordinates, and curves of the trials');
    const trials = await page.locator('tbody tr').allInnerTexts();
    check(/^1\s+0\.1\s+0\.75\s+20\s+2\s+done/.test(trials[0]) && trials[1].includes('loss is NaN'), 'searches: the best first, with failures', trials.join(' | '));

    await page.click('nav a[href="#compare"]');
    await page.selectOption('.controls select >> nth=1', {label: 'second'});
    check(await soon(page, () => document.body.innerText.includes('The runs part at step 1')), 'compare: the first step that differs');
    check((await text(page)).includes('2 of 4 hyperparameters differ'), 'compare: hyperparameters', await text(page));
    await page.screenshot({path: join(pictures, 'compare.png')});

    await savesOfKinds(page, url, {check, soon});

    await page.selectOption('.theme select', 'dark');
    await page.click('nav a[href="#scalars"]');
    await page.waitForTimeout(500);
    check(await page.evaluate(() => getComputedStyle(document.body).backgroundColor) === 'rgb(20, 23, 29)', 'dark colours');
    await page.screenshot({path: join(pictures, 'dark.png')});
    check(problems.length === 0, 'no error, and no request to another address', problems.join('\n'));

    // Each control has a name that a screen reader reads.
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, select, a, [role=img]')]
      .filter((each) => !(each.textContent || each.getAttribute('aria-label') || each.closest('label'))).map((each) => each.outerHTML.slice(0, 80)));
    check(nameless.length === 0, 'each control has a name', nameless.join('\n'));

    for (const view of ['scalars', 'histograms', 'images', 'audio', 'text', 'curves', 'hparams', 'graph', 'runs', 'searches', 'compare']) {
      for (const theme of ['dark', 'light']) {
        await page.selectOption('.theme select', theme);
        await page.goto(`${url}#${view}`);
        await page.waitForTimeout(400);
        const found = await barriers(page);
        check(found.length === 0, `axe-core: ${view}, ${theme}`, found.join('\n'));
      }
    }

    // The pictures of docs/board.md.
    const small = await openPage(browser, url, {viewport: {width: 960, height: 470}});
    const views = {scalars: '.card canvas', hparams: '.parallel polyline', compare: '.card canvas'};
    for (const [view, selector] of Object.entries(views)) {
      await small.page.goto(`${url}#${view}`);
      if (view === 'compare') await small.page.selectOption('.controls select >> nth=1', {label: 'second'});
      await small.page.waitForSelector(selector);
      if (view === 'scalars') await small.page.getByLabel('Filter tags').fill('loss');
      await small.page.waitForTimeout(600);
      await small.page.screenshot({path: join(pictures, `board_${view}.png`)});
    }

    const phone = await openPage(browser, `${url}#scalars`, {viewport: {width: 390, height: 844}, hasTouch: true, isMobile: true});
    check(await soon(phone.page, () => document.querySelectorAll('.card canvas').length >= 1), 'phone: charts');
    check(await phone.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), 'phone: nothing is wider than the page');
    await phone.page.screenshot({path: join(pictures, 'phone.png')});
  });
}

async function hostile() {
  await inBoard([runs('hostile')], [], async ({url}) => {
    const {page, problems} = await openPage(browser, url);
    check(await soon(page, () => document.body.innerText.includes('<script>document.title')), 'hostile: a script in a tag is text');
    check(await soon(page, () => document.body.innerText.includes('<img src=x onerror=alert(1)>')), 'hostile: a script in a run is text');
    for (const view of ['images', 'audio', 'text', 'hparams', 'graph', 'runs', 'compare', 'scalars']) {
      await page.goto(`${url}#${view}`);
      await page.waitForTimeout(300);
    }
    await soon(page, () => document.querySelector('.card canvas') !== null);
    await savesOfHostile(page, {check});
    check(await page.title() === 'Muster board', 'hostile: no script has run', await page.title());
    const notes = await page.evaluate(async () => (await (await fetch('api/state')).json()).runs.flatMap((run) => run.notes));
    check(notes.some((note) => note.includes('wrong checksum of the content')) && notes.some((note) => note.includes('damaged and skipped')) &&
      notes.some((note) => note.includes('ends inside a record')) && notes.some((note) => note.includes('is not an event')), 'hostile: damage is named', notes.join('\n'));
    const state = await page.evaluate(async () => (await fetch('api/state')).json());
    const damaged = state.runs.findIndex((run) => run.name === 'damaged');
    const loss = state.tags.find((tag) => tag.name === 'loss');
    const chart = await page.evaluate(async ([tag, run]) => (await fetch(`api/chart?tag=${tag}&runs=${run}`)).json(), [loss.number, damaged]);
    check(chart.x.length === 98, 'hostile: 98 of 100 points of a damaged file are there', chart.x.length);
    const blob = await page.evaluate(async () => {
      const {tags} = await (await fetch('api/state')).json();
      const image = tags.find((tag) => tag.kind === 'image');
      const answer = await fetch(`api/blob?tag=${image.number}&run=${image.runs[0]}&record=0`);
      return [answer.headers.get('content-type'), answer.headers.get('x-content-type-options'), answer.headers.get('content-security-policy')];
    });
    check(blob[0] === 'application/octet-stream' && blob[1] === 'nosniff' && blob[2].startsWith("default-src 'none'"), 'hostile: a page is not served as an image', blob.join());
    const serious = problems.filter((problem) => !problem.includes('Failed to load resource'));
    check(serious.length === 0, 'hostile: no dialog, no error, no request to another address', serious.join('\n'));
    await page.waitForTimeout(500);
    await page.screenshot({path: join(pictures, 'hostile.png')});
  });
}

async function live() {
  const made = join(folder, 'live');
  mkdirSync(made, {recursive: true});
  await inBoard([made], [], async ({url}) => {
    const {page, problems} = await openPage(browser, url);
    check(await soon(page, () => document.body.innerText.includes('There are no events yet')), 'live: an empty folder says so');
    const writer = spawn(makeRuns, ['live', made, '8']);
    check(await soon(page, () => document.querySelectorAll('.card canvas').length === 1), 'live: a new run appears');
    const last = () => page.evaluate(async () => (await (await fetch('api/state')).json()).runs[0].last_step);
    await page.locator('details.more summary').click();
    const shown = async () => Number((await page.locator('.card td').nth(1).innerText()).replace(',', ''));
    const first = await shown();
    check(await soon(page, (before) => Number(document.querySelectorAll('.card td')[1].innerText) > before + 10, first), 'live: the chart grows', `${first} then ${await shown()} of ${await last()}`);
    check(problems.length === 0, 'live: no error', problems.join('\n'));
    writer.kill();
  });
}

async function tasks() {
  const made = runs('tasks');
  await inBoard([made], [], async ({url}) => {
    const {page, problems} = await openPage(browser, url);
    check(await soon(page, () => [...document.querySelectorAll('nav a')].some((link) => link.textContent === 'Live')), 'tasks: a run without events has its tab');
    await page.goto(`${url}#live`);
    check(await soon(page, () => document.querySelectorAll('.tasks tbody tr').length === 5), 'tasks: a row for each');
    const words = await text(page);
    check(words.includes('worker 1 takes 3.3 times as long as the others: input is 30.0 ms a step, and 2.0 ms in the others'), 'tasks: the slow one is named with the cause', words);
    check(await page.locator('tr.slow th').innerText() === 'worker 1 slow', 'tasks: its row is marked');
    check(['communication, bucket 2 of 3', 'worker 0 writes the checkpoint of step 100', 'failed, exit code 1', 'worker 2: the loss is not a number', 'worker 0: staleness/worker_1/mean 1.5', '200.0 MiB', '3.0 GiB of 4.0 GiB', 'step 120 of 500', '1 task has written nothing here'].every((each) => words.includes(each)), 'tasks: bucket, save, failure, staleness, memory, end, missing', words);
    check(['serving for', 'ps 0: connections 6, received MB/s 12.3, updates/s 31', 'evaluating for', '25 batches', 'evaluator: lag in seconds 4, lag in steps 20'].every((each) => words.includes(each)), 'tasks: a server and an evaluator with what they measure', words);
    const bars = await page.$$eval('tr.slow .bar', (each) => each.map((bar) => [...bar.children].map((part) => part.className + ' ' + Math.round(part.offsetWidth))));
    const widths = bars[0];
    check(widths.length === 3 && widths[0].startsWith('a-input ') && Number(widths[0].split(' ')[1]) > 2 * Number(widths[1].split(' ')[1]), 'tasks: its bar is mostly input', widths.join());
    const [input, compute, evaluating] = bars[1].map((part) => Number(part.split(' ')[1]));
    check(bars.length === 2 && bars[1].map((part) => part.split(' ')[0]).join() === 'a-input,a-compute,a-evaluating,a-starting' && compute > 3 * input && evaluating > 2 * input, 'tasks: the bar of its whole run has the evaluations', bars[1].join());
    check(words.includes('worker 1 was started again: its whole run has 1 earlier start'), 'tasks: a restart is named', words);
    check(await page.getByRole('log').locator('div').count() === 6, 'tasks: lines of the logs');
    await savesOfTasks(page, {check});
    await page.selectOption('.log select', 'warning');
    check(await soon(page, () => document.querySelectorAll('.log-lines > div').length === 3), 'tasks: lines from a level on');
    await page.getByLabel('Search in the logs').fill('worker 2');
    check(await soon(page, () => document.querySelectorAll('.log-lines > div').length === 1), 'tasks: lines that match');
    check(await page.title() === 'Muster board', 'tasks: a line of a log is no script', await page.title());
    await page.screenshot({path: join(pictures, 'tasks.png')});
    const found = await barriers(page);
    check(found.length === 0, 'axe-core: tasks', found.join('\n'));
    await page.setViewportSize({width: 390, height: 800});
    check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'tasks: they fit on a phone');
    const oneLine = await page.$$eval('.tasks tbody td', (cells) => cells.filter((cell) => cell.innerText.includes(' for ')).map((cell) => { const all = document.createRange(); all.selectNodeContents(cell); return all.getClientRects().length; }));
    check(oneLine.length > 0 && oneLine.every((lines) => lines === 1), 'tasks: what a task does is on one line', oneLine.join());
    check(problems.length === 0, 'tasks: no error', problems.join('\n'));
  });
}

// A profile of two workers, as hooks::profiler writes it, with what others write too.
function profileOfTwo() {
  const events = [];
  for (const worker of [0, 1]) {
    const pid = worker + 1;
    events.push({ph: 'M', name: 'process_name', pid, tid: 1, args: {name: `worker ${worker}`}}, {ph: 'M', name: 'process_sort_index', pid, tid: 1, args: {sort_index: pid}},
      {ph: 'M', name: 'thread_name', pid, tid: 1, args: {name: 'step'}}, {ph: 'M', name: 'thread_name', pid, tid: 2, args: {name: 'reduction'}},
      {ph: 'M', name: 'thread_sort_index', pid, tid: 1, args: {sort_index: 1}}, {ph: 'M', name: 'thread_sort_index', pid, tid: 2, args: {sort_index: 2}});
    for (let step = 0; step < 10; ++step) {
      const ts = step * 50000;
      events.push({ph: 'X', name: `step ${step}`, pid, tid: 1, ts, dur: 49000, args: {step}}, {ph: 'X', name: 'input', pid, tid: 1, ts, dur: worker * 30000 + 1000},
        {ph: 'X', name: 'forward', pid, tid: 1, ts: ts + 31000, dur: 8000}, {ph: 'B', name: 'bucket 1', pid, tid: 2, ts: ts + 40000}, {ph: 'E', pid, tid: 2, ts: ts + 46000});
    }
  }
  events.push({ph: 'C', name: 'counter', pid: 1, tid: 1, ts: 5, args: {value: 1}});
  return {traceEvents: events};
}

async function profiles() {
  const made = join(folder, 'profiles');
  mkdirSync(join(made, 'plugins', 'profile', 'now'), {recursive: true});
  writeFileSync(join(made, 'timeline-20.json'), JSON.stringify(profileOfTwo()));
  writeFileSync(join(made, 'plugins/profile/now/a.trace.json'), JSON.stringify([null, 3, {ph: 'X'}, {ph: 'X', name: '<img src=x onerror="document.title=1">', ts: 1, dur: 1e300}, {ph: 'E', ts: 1},
    {ph: 'X', name: {}, ts: -1e300, dur: -5, args: 7}, {ph: 'M', name: 'process_name', args: null}]));
  writeFileSync(join(made, 'plugins/profile/now/b.trace.json'), '{"traceEvents": [');
  writeFileSync(join(made, 'plugins/profile/now/c.xplane.pb'), 'no message');
  await inBoard([made], [], async ({url}) => {
    const {page, problems} = await openPage(browser, `${url}#profiles`);
    const choose = async (name) => page.selectOption('main .controls select', {label: join(made, name)});
    check(await soon(page, () => document.querySelector('.controls select option') !== null), 'profiles: the tab is there without events');
    await choose('timeline-20.json');
    check(await soon(page, () => document.body.innerText.includes('80 spans in 4 lanes, 499 ms; 1 event of another kind is not shown')), 'profiles: spans and lanes', await text(page));
    check(await inked(page, '.timeline canvas', 5000), 'profiles: spans are drawn');
    const rows = await page.locator('table.facts tbody tr').allInnerTexts();
    check(rows.some((row) => /^input\s+20\s+320 ms\s+320 ms\s+16 ms\s+31 ms/.test(row)), 'profiles: where the time goes', rows.join(' | '));
    await savesOfProfile(page, join(made, 'timeline-20.json'), profileOfTwo().traceEvents.length, {check});
    await page.getByLabel('Search for spans').fill('^bucket');
    check(await soon(page, () => document.body.innerText.includes('20 spans')), 'profiles: a search');
    await page.getByRole('button', {name: 'Next'}).click();
    check(await soon(page, () => /bucket 1: 6 ms, from 40 ms on, in worker 0, reduction/.test(document.querySelector('.chosen-span').innerText)), 'profiles: the span that was found', await text(page));
    await page.getByLabel('Search for spans').fill('');
    await page.getByRole('button', {name: 'Zoom in'}).click();
    check(await soon(page, () => /124\.\d+ ms to 374\.\d+ ms|12\d\.?\d* ms to 37\d/.test(document.body.innerText)), 'profiles: zoom', await text(page));
    await page.locator('.timeline').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('+');
    await page.keyboard.press('ArrowLeft');
    check(await soon(page, () => /74\.\d+ ms to 324\.\d+ ms|7\d\.?\d* ms to 32\d/.test(document.body.innerText)), 'profiles: keys zoom and move', await text(page));
    const box = await page.locator('.timeline canvas').boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + 49);
    check(await soon(page, () => /step \d/.test(document.querySelector('.chosen-span').innerText)), 'profiles: a click says what a span is');
    await page.keyboard.press('Home');
    await page.waitForTimeout(300);
    await page.screenshot({path: join(pictures, 'profiles.png')});
    for (const theme of ['dark', 'light']) {
      await page.selectOption('.theme select', theme);
      await page.waitForTimeout(300);
      const found = await barriers(page);
      check(found.length === 0, `axe-core: profiles, ${theme}`, found.join('\n'));
    }
    await choose('plugins/profile/now/a.trace.json');
    check(await soon(page, () => document.body.innerText.includes('<img src=x')), 'profiles: names are text', await text(page));
    await choose('plugins/profile/now/b.trace.json');
    check(await soon(page, () => document.body.innerText.includes('the answer is no JSON')), 'profiles: a cut file is named');
    await choose('plugins/profile/now/c.xplane.pb');
    check(await soon(page, () => document.querySelector('main .card .error') !== null), 'profiles: a file that is no xplane is named');
    await page.setViewportSize({width: 390, height: 800});
    await choose('timeline-20.json');
    await page.waitForTimeout(300);
    check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'profiles: they fit on a phone');
    check(await page.title() === 'Muster board' && problems.filter((each) => !each.includes('Failed to load resource')).length === 0, 'profiles: no error', problems.join('\n'));
  });
  const file = join(folder, 'profiles.html');
  execFileSync(program, [made, `--report=${file}`], {stdio: 'ignore'});
  const {page, problems} = await openPage(browser, `file://${resolve(file)}`);
  check(await soon(page, () => document.querySelectorAll('.timeline canvas').length >= 1), 'report of profiles: time lines');
  check(problems.length === 0, 'report of profiles: no error', problems.join('\n'));
}

async function many() {
  await inBoard([runs('many', 100, 2000)], [], async ({url}) => {
    const begin = performance.now();
    const {page, problems} = await openPage(browser, url);
    check(await soon(page, () => document.querySelectorAll('.card canvas').length === 2), '100 runs: two charts');
    check(await soon(page, () => document.body.innerText.includes('100 of 100')), '100 runs: all are listed');
    console.log(`        after ${Math.round(performance.now() - begin)} ms`);
    await page.waitForTimeout(1500);
    await page.screenshot({path: join(pictures, 'many.png')});
    check(problems.length === 0, '100 runs: no error', problems.join('\n'));
  });
}

async function token() {
  await inBoard([runs('kinds')], ['--host=0.0.0.0'], async ({url}) => {
    const address = url.replace('0.0.0.0', '127.0.0.1');
    const bare = address.replace(/\?.*/, '');
    check((await fetch(bare)).status === 403 && (await fetch(`${bare}api/state`)).status === 403 && (await fetch(`${bare}?token=${'0'.repeat(64)}`)).status === 403,
      'token: without it nothing is answered');
    const {page, problems} = await openPage(browser, address);
    await page.getByRole('link', {name: 'Scalars'}).click();
    check(await soon(page, () => document.querySelectorAll('.card canvas').length >= 3), 'token: with it the page works');
    check(!page.url().includes('token'), 'token: it leaves the address', page.url());
    check(problems.length === 0, 'token: no error', problems.join('\n'));
  });
}

async function tensorflow() {
  if (!data) {
    console.log('skipped  files of TensorFlow: MUSTER_TEST_DATA is not there');
    return;
  }
  await inBoard([join(data, 'tensorflow')], [], async ({url}) => {
    const {page, problems} = await openPage(browser, url);
    check(await soon(page, () => document.querySelectorAll('.card canvas').length >= 1), 'tensorflow: charts');
    for (const view of ['histograms', 'graph', 'runs', 'compare']) {
      await page.goto(`${url}#${view}`);
      await page.waitForTimeout(700);
      await page.screenshot({path: join(pictures, `tensorflow_${view}.png`)});
    }
    check(problems.length === 0, 'tensorflow: no error', problems.join('\n'));
  });
}

async function report() {
  // Of a run whose tasks and launcher alone have written something.
  const made = runs('tasks');
  writeFileSync(join(made, 'launch.json'), JSON.stringify({command: ['muster', 'run', '--workers=3', '--', './train it'], started: 1e9, ended: 1e9 + 90, exit_code: 1, tasks: [
    {name: 'worker 0', starts: [{started: 1e9, ended: 1e9 + 20, exit: 'killed by SIGKILL', code: 137, error: ''}, {started: 1e9 + 21, ended: 1e9 + 90, exit: 'exit code 0', code: 0, error: ''}]},
    {name: 'ps 7', starts: [{started: 1e9, ended: 1e9 + 90, exit: 'exit code 1', code: 1, error: '<script>document.title=1</script>'}]}]}));
  const tasksFile = join(folder, 'tasks.html');
  execFileSync(program, [made, `--report=${tasksFile}`], {stdio: 'ignore'});
  const ofTasks = await openPage(browser, `file://${resolve(tasksFile)}`);
  check(await soon(ofTasks.page, () => ['worker 0', 'worker 1', 'worker 2', 'ps 7'].every((name) => [...document.querySelectorAll('.tasks tbody th')].filter((each) => each.innerText.startsWith(name)).length === 1)), 'report of tasks: a row for each, also for one that the launcher alone knows');
  const said = await text(ofTasks.page);
  check(["muster run --workers=3 -- './train it'", '1 restart of tasks', 'ended after 1 min 30 s with exit code 1', 'worker 1 takes 3.3 times as long', 'killed by SIGKILL', 'input 5 %, compute 24 %, communication 71 %', 'input 1 %, compute 56 %, evaluating 34 %, starting 9 %'].every((each) => said.includes(each)),
    'report of tasks: command, exits, restarts, shares of time, the slow task', said);
  const problemsOfTasks = [...ofTasks.problems, ...await barriers(ofTasks.page)];
  check(problemsOfTasks.length === 0 && await ofTasks.page.title() === 'Muster report', 'report of tasks: no error, no barrier', problemsOfTasks.join('\n'));
  for (const kind of ['kinds', 'hostile']) {
    const file = join(folder, `${kind}.html`);
    execFileSync(program, [runs(kind), `--report=${file}`], {stdio: 'ignore'});
    const {page, problems} = await openPage(browser, `file://${resolve(file)}`);
    check(await soon(page, (count) => document.querySelectorAll('.chart canvas').length >= count, kind === 'kinds' ? 3 : 5), `report of ${kind}: charts`);
    await page.waitForTimeout(500);
    check(await page.title() === 'Muster report', `report of ${kind}: no script of the events has run`, await page.title());
    if (kind === 'kinds') {
      const words = await text(page);
      check(['Histograms', 'Images', 'Hyperparameters', 'Graph', 'model.ckpt-20', 'max_steps at step 20'].every((word) => words.includes(word)), 'report: all views', words);
      check(await page.evaluate(() => [...document.querySelectorAll('img.picture')].filter((each) => each.naturalWidth === 32).length) === 2, 'report: images are in it');
      await savesOfReport(page, {check});
      await page.getByLabel('first', {exact: true}).uncheck();
      await page.selectOption('select >> nth=1', 'relative');
      check(await soon(page, () => document.querySelectorAll('.chart canvas').length >= 3), 'report: other runs and axes');
      await page.screenshot({path: join(pictures, 'report.png'), fullPage: true});
      await page.pdf({path: join(pictures, 'report.pdf')});
    }
    const found = await barriers(page);
    check(found.length === 0, `axe-core: report of ${kind}`, found.join('\n'));
    check(problems.length === 0, `report of ${kind}: no error, and no request`, problems.join('\n'));
  }
}

const all = {kinds, hostile, live, tasks, profiles, many, token, tensorflow, report};
for (const [name, test] of Object.entries(all)) {
  if (process.env.ONLY && process.env.ONLY !== name) continue;
  await test().catch((error) => check(false, name, error.message));
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
