// The colours of runs: distinct for ten, also for most readers who do not tell all colours apart; beyond that, hues in
// steps of the golden angle.
const FIRST = ['#4269d0', '#e07b00', '#c7352f', '#2f9e8f', '#3f8f3a', '#a463c4', '#97694b', '#d6569a', '#7a7f88', '#a08a00'];

export function colorOf(number) {
  if (number < FIRST.length) return FIRST[number];
  return `hsl(${Math.round((number * 137.508) % 360)} 60% 50%)`;
}

// The run that a run belongs to: "a" for "a/eval" where both are there. Both have one colour; what is below is dashed.
export function familyOf(runs) {
  const numberOf = new Map(runs.map((run, number) => [run.name, number]));
  const family = [];
  let colors = 0;
  const colorByRun = new Map();
  const parentOf = (name) => {
    for (let end = name.lastIndexOf('/'); end > 0; end = name.lastIndexOf('/', end - 1)) {
      const parent = numberOf.get(name.slice(0, end));
      if (parent !== undefined) return parent;
    }
    return name !== '.' ? numberOf.get('.') : undefined;
  };
  runs.forEach((run, number) => {
    if (parentOf(run.name) === undefined) colorByRun.set(number, colorOf(colors++));
  });
  runs.forEach((run, number) => {
    const parent = parentOf(run.name);
    let top = number;
    for (let next = parent; next !== undefined; next = parentOf(runs[next].name)) top = next;
    family.push({color: colorByRun.get(top), parent, dashed: parent !== undefined});
  });
  return family;
}
