// CSV as RFC 4180 has it, and curves of predictions.

// The rows of a text, the header among them.
export function rowsOf(text) {
  const rows = [];
  let row = [], cell = '', quoted = false;
  for (let at = 0; at < text.length; ++at) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') cell += text[++at];
      else quoted = false;
    } else if (letter === '"') {
      quoted = true;
    } else if (letter === ',') {
      row.push(cell);
      cell = '';
    } else if (letter === '\n') {
      row.push(cell.replace(/\r$/, ''));
      rows.push(row);
      row = [];
      cell = '';
    } else {
      cell += letter;
    }
  }
  if (cell !== '' || row.length > 0) rows.push([...row, cell]);
  return rows;
}

// The names of an object's entries with a prefix, as they may be those of other columns.
export const prefixed = (prefix, entries) => Object.fromEntries(Object.entries(entries || {}).map(([name, value]) => [`${prefix}.${name}`, value]));

// Flat objects as CSV: a column for each name that one of them has. A list in a cell is written as JSON.
export function csvOf(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value) => {
    if (value === null || value === undefined) return '';
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

// The curves of ROC and of precision and recall: `scored` is [[score, is positive]]. Rows of one score are one point.
// {roc: [[false positive rate, true positive rate]], pr: [[recall, precision]], area, averagePrecision}, null without rows
// of both kinds.
export function curvesOf(scored) {
  const positives = scored.filter(([, positive]) => positive).length;
  const negatives = scored.length - positives;
  if (positives === 0 || negatives === 0) return null;
  const sorted = [...scored].sort((a, b) => b[0] - a[0]);
  const roc = [[0, 0]], pr = [];
  let right = 0, wrong = 0, area = 0, averagePrecision = 0;
  for (let at = 0; at < sorted.length;) {
    const score = sorted[at][0];
    const [rightBefore, wrongBefore] = [right, wrong];
    for (; at < sorted.length && sorted[at][0] === score; ++at) {
      if (sorted[at][1]) ++right;
      else ++wrong;
    }
    area += (wrong - wrongBefore) * (right + rightBefore) / 2;
    averagePrecision += (right - rightBefore) * right / (right + wrong);
    roc.push([wrong / negatives, right / positives]);
    pr.push([right / positives, right / (right + wrong)]);
  }
  return {roc, pr, area: area / positives / negatives, averagePrecision: averagePrecision / positives};
}

// At most `most` of the points, evenly, the last among them.
export function thinned(points, most) {
  if (points.length <= most) return points;
  const stride = points.length / most;
  return Array.from({length: most}, (_, at) => points[Math.min(points.length - 1, Math.floor((at + 1) * stride) - 1)]);
}
