// Makes the page of the board: node build.mjs FOLDER. ./dev board-page calls it after npm ci.
import * as esbuild from 'esbuild';
import {copyFileSync, mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';

const folder = process.argv[2];
if (!folder) {
  console.error('error: name the folder for the page\nhint: ./dev board-page');
  process.exit(2);
}
mkdirSync(folder, {recursive: true});
await esbuild.build({
  entryPoints: {board: 'src/main.jsx'},
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome100', 'firefox100', 'safari15'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  outdir: folder,
});
// The licences of what is in the script ask for their text in copies.
const licences = ['marked', 'preact', 'uplot'].map((name) => {
  const text = readFileSync(join('node_modules', name, 'LICENSE'), 'utf8').trim().replaceAll('*/', '* /');
  return `${name}\n${text}`;
});
const script = join(folder, 'board.js');
// A report has the script inside of an element, which such words would begin or end.
if (/<\/?script|<\/style/i.test(readFileSync(script, 'utf8'))) throw new Error('the script names the element that a report puts it into');
writeFileSync(script, `/*! ${licences.join('\n\n')}\n*/\n${readFileSync(script, 'utf8')}`);
copyFileSync('src/index.html', join(folder, 'index.html'));
