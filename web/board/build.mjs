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
const licences = ['preact', 'uplot'].map((name) => {
  const text = readFileSync(join('node_modules', name, 'LICENSE'), 'utf8').trim().replaceAll('*/', '* /');
  return `${name}\n${text}`;
});
const script = join(folder, 'board.js');
writeFileSync(script, `/*! ${licences.join('\n\n')}\n*/\n${readFileSync(script, 'utf8')}`);
copyFileSync('src/index.html', join(folder, 'index.html'));
