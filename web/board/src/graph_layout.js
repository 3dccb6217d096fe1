// Places the nodes of a graph in layers, from its inputs down. Scopes that are closed are one node each.

// The nodes that are shown: those outside of closed scopes, and the closed scopes. `open` holds names of open scopes.
export function visibleGraph(nodes, open) {
  // The outermost closed scope of a name, or the name itself.
  const shownName = (name) => {
    const parts = name.split('/');
    let scope = '';
    for (let at = 0; at + 1 < parts.length; ++at) {
      scope = scope === '' ? parts[at] : `${scope}/${parts[at]}`;
      if (!open.has(scope)) return scope;
    }
    return name;
  };
  const shown = new Map();
  for (const node of nodes) {
    const name = shownName(node.name);
    if (!shown.has(name)) shown.set(name, {name, op: '', shape: '', parameters: 0, count: 0, isScope: false, inputs: new Set()});
    const entry = shown.get(name);
    ++entry.count;
    entry.parameters += node.parameters;
    if (name === node.name) {
      entry.op = node.op;
      entry.shape = node.shapes.length ? `[${node.shapes[0].map((length) => (length < 0 ? '?' : length)).join(', ')}]` : '';
    } else {
      entry.isScope = true;
    }
  }
  for (const node of nodes) {
    const to = shownName(node.name);
    for (const input of node.inputs) {
      const from = shownName(input.replace(/^\^/, '').replace(/:\d+$/, ''));
      if (from !== to && shown.has(from)) shown.get(to).inputs.add(from);
    }
  }
  return [...shown.values()];
}

// Gives each node x, y (in cells) by layers: a node is below all its inputs, except in circles.
export function place(nodes) {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const layer = new Map();
  const state = new Map();
  const order = [];
  // Depth first without recursion, as chains may be long.
  for (const root of nodes) {
    const stack = [[root, [...root.inputs]]];
    if (state.has(root.name)) continue;
    state.set(root.name, 1);
    while (stack.length > 0) {
      const [node, rest] = stack[stack.length - 1];
      if (rest.length === 0) {
        state.set(node.name, 2);
        order.push(node);
        stack.pop();
        continue;
      }
      const next = byName.get(rest.pop());
      if (next && !state.has(next.name)) {
        state.set(next.name, 1);
        stack.push([next, [...next.inputs]]);
      }
    }
  }
  for (const node of order) {
    let below = 0;
    for (const input of node.inputs) if (layer.has(input)) below = Math.max(below, layer.get(input) + 1);
    layer.set(node.name, below);
  }
  const layers = [];
  for (const node of order) {
    const at = layer.get(node.name);
    (layers[at] = layers[at] || []).push(node);
  }
  // Each node under the middle of its inputs, as far as the others let it.
  const column = new Map();
  layers.forEach((members) => {
    const wanted = new Map(members.map((node, at) => {
      const places = [...node.inputs].filter((input) => column.has(input)).map((input) => column.get(input));
      return [node.name, places.length ? places.reduce((a, b) => a + b, 0) / places.length : at];
    }));
    members.sort((a, b) => wanted.get(a.name) - wanted.get(b.name));
    let free = -Infinity;
    for (const node of members) {
      const at = Math.max(wanted.get(node.name), free);
      column.set(node.name, at);
      free = at + 1;
    }
  });
  const least = Math.min(...column.values());
  return nodes.map((node) => ({...node, x: column.get(node.name) - least, y: layer.get(node.name)}));
}
