// Requests to the server that the page came from; no other address is ever asked.

// The answer of a path as JSON. Throws an Error with the server's words.
export async function ask(path, query = {}, options = {}) {
  const response = await fetch(address(path, query), options);
  const answer = await response.json().catch(() => ({error: `the board answered ${response.status}`}));
  if (!response.ok) throw new Error(answer.error || `the board answered ${response.status}`);
  return answer;
}

// The address of a path, for an image, a sound or a download.
export function address(path, query = {}) {
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
