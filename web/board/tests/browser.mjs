// What the tests share: a board over some folders, and a page of Chromium that may ask this board alone.
import {spawn} from 'node:child_process';
import {existsSync} from 'node:fs';
import {chromium} from 'playwright-core';

export const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

// Starts muster-board. {url, token, stop()}
export async function startBoard(program, folders, flags = []) {
  const child = spawn(program, [...folders, '--port=0', '--poll-time=0.2', ...flags], {stdio: ['ignore', 'inherit', 'pipe']});
  let said = '';
  const url = await new Promise((resolve, reject) => {
    child.stderr.on('data', (data) => {
      said += data;
      const found = /the board is at (http:\S+)/.exec(said);
      if (found) resolve(found[1]);
    });
    child.on('exit', () => reject(new Error(`muster-board ended: ${said}`)));
  });
  return {url, process: child, stop: () => new Promise((resolve) => { child.on('exit', resolve); child.kill('SIGTERM'); })};
}

export async function startBrowser() {
  return chromium.launch({executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage']});
}

// A page that notes what goes wrong: {page, problems}. A request to another address is a problem.
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}, ...options});
  const page = await context.newPage();
  const problems = [];
  const own = url.startsWith('file:') ? url : `${new URL(url).origin}/`;
  page.on('pageerror', (error) => problems.push(`error: ${error.stack}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/Failed to load resource: the server responded with a status of 404/.test(message.text())) problems.push(`console: ${message.text()}`);
  });
  page.on('dialog', (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => {
    if (!request.url().startsWith(own) && !/^(data|blob):/.test(request.url())) problems.push(`request to ${request.url()}`);
  });
  await page.goto(url);
  return {page, problems, context};
}
