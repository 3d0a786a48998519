// The tree that is drawn: call stacks with what is not the user's own folded, or whole; from the outside in,
// or inverted.

import { baseName } from "./format.js";

/** Whose code a node is. */
export const YOURS = 0;
export const LIBRARY = 1;
export const INTERPRETER = 2;
export const NATIVE = 3;
export const NOBODY = 4;

// Kinds of frames.
const PYTHON = 1;
const IMPORTING = 2;

// What of a library a folded call stack has below the user's own code.
const NOTHING = 0;
const NATIVE_FUNCTION = 1;
const PYTHON_FUNCTION = 2;

/** Innermost frames that an inverted tree has of one call stack. */
const INVERTED_MAX = 60;

/** Nodes in columns, callers before what they call; the first is the root. */
class Nodes {
  parent = [-1];
  category = [NOBODY];
  name = ["all"];
  place = [""];
  file = [0];
  line = [0];
  hash = [2166136261];
  #children = new Map();

  /** The child of a node, made if it is not there. */
  child(parent, key, describe) {
    const whole = `${parent}\u0000${key}`;
    const known = this.#children.get(whole);
    if (known !== undefined) return known;
    const made = this.parent.length;
    const { name, place = "", category, file = 0, line = 0 } = describe();
    this.#children.set(whole, made);
    this.parent.push(parent);
    this.category.push(category);
    this.name.push(name);
    this.place.push(place);
    this.file.push(file);
    this.line.push(line);
    this.hash.push(hashed(this.hash[parent], key));
    return made;
  }
}

/** The same for the same call stack on every page of a program. */
function hashed(before, text) {
  let hash = before;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 16777619);
  return hash >>> 0;
}

/** The tree, and the node of each site. */
export function tree(data, { unfolded, inverted }) {
  const nodes = new Nodes();
  const ofFrame = unfolded ? whole(data, nodes) : folded(data, nodes);
  const ofSite = Int32Array.from(data.sites.frame, (frame, site) => {
    const node = frame < 0 ? 0 : ofFrame(frame, site);
    return node || elsewhere(data, nodes, site);
  });
  const others = [
    [`(${data.tree.joined} smaller call stacks)`, data.smaller],
    [data.headline.without_stack, data.unknown],
    ["(touched parts of large mappings)", data.unknown + 1],
  ];
  const all = new Int32Array(data.unknown + 2);
  all.set(ofSite);
  for (const [name, site] of others) all[site] = nodes.child(0, name, () => ({ name, category: NOBODY }));
  return inverted ? invert(nodes, all) : { nodes, ofSite: all };
}

function described(data, frame) {
  const { frames, strings } = data;
  const [file, line, category] = [frames.file[frame], frames.line[frame], frames.category[frame]];
  const [name, library] = [strings[frames.name[frame]], strings[frames.library[frame]]];
  const source = file ? `${baseName(strings[file])}${line ? `:${line}` : ""}` : library;
  return name === "<module>" ? { name: source, category, file, line } : { name, place: source, category, file, line };
}

/** Every frame is a node. */
function whole(data, nodes) {
  const { frames } = data;
  const ofFrame = [];
  for (let frame = 0; frame < frames.parent.length; frame++) {
    const parent = frames.parent[frame] < 0 ? 0 : ofFrame[frames.parent[frame]];
    const key = `${frames.function[frame]}:${frames.file[frame]}:${frames.line[frame]}:${frames.library[frame]}`;
    ofFrame.push(nodes.child(parent, key, () => described(data, frame)));
  }
  return (frame) => ofFrame[frame];
}

/**
 * Frames of the user's own are nodes, and below them one for what they call of a library: its first Python
 * function, else its first native one. What is imported is one node.
 */
function folded(data, nodes) {
  const { frames, lines, sites, strings } = data;
  const states = [];
  const start = { node: 0, own: 0, called: NOTHING, importing: false };
  for (let frame = 0; frame < frames.parent.length; frame++) {
    const around = frames.parent[frame] < 0 ? start : states[frames.parent[frame]];
    states.push(frames.category[frame] === YOURS ? ofOwn(data, nodes, frame, around) : ofOther(data, nodes, frame, around));
  }
  return (frame, site) => {
    const { node, own, importing } = states[frame];
    if (!importing || !own) return node;
    const name = strings[lines.label[sites.line[site]]];
    return nodes.child(own, `import:${name}`, () => ({ name, category: LIBRARY }));
  };
}

function ofOwn(data, nodes, frame, around) {
  const { frames, strings } = data;
  const key = `${strings[frames.function[frame]]}:${strings[frames.file[frame]]}:${frames.line[frame]}`;
  const node = nodes.child(around.node, key, () => described(data, frame));
  return { node, own: node, called: NOTHING, importing: false };
}

function ofOther({ frames, strings }, nodes, frame, around) {
  const importing = around.importing || frames.kind[frame] === IMPORTING;
  const called = frames.kind[frame] === PYTHON ? PYTHON_FUNCTION : NATIVE_FUNCTION;
  const isShown = frames.category[frame] === LIBRARY && around.own && !importing && called > around.called;
  if (!isShown) return { ...around, importing };
  const [name, place] = [strings[frames.name[frame]], strings[frames.library[frame]]];
  const node = nodes.child(around.own, `${name} ${place}`, () => ({ name, place, category: LIBRARY }));
  return { node, own: around.own, called, importing };
}

/** What no code of the user's own has called. */
function elsewhere({ frames, lines, sites, strings }, nodes, site) {
  const name = strings[lines.label[sites.line[site]]];
  const frame = sites.frame[site];
  const around = nodes.child(0, "elsewhere", () => ({ name: "outside your code", category: INTERPRETER }));
  return nodes.child(around, name, () => ({ name, category: frame < 0 ? NATIVE : frames.category[frame] }));
}

/** From the innermost nodes out. */
function invert(nodes, ofSite) {
  const inverted = new Nodes();
  const of = Int32Array.from(ofSite, (node) => {
    let into = 0;
    for (let each = node, depth = 0; each > 0 && depth < INVERTED_MAX; each = nodes.parent[each], depth++) {
      const [name, place, category] = [nodes.name[each], nodes.place[each], nodes.category[each]];
      const [file, line] = [nodes.file[each], nodes.line[each]];
      into = inverted.child(into, `${name} ${place}`, () => ({ name, place, category, file, line }));
    }
    return into;
  });
  // The parts of a call stack are its innermost node's, and all around it only say who called.
  return { nodes: inverted, ofSite: of };
}

/** Sums by node for values by site, and children by their sums, largest first. */
export function summed({ nodes, ofSite }, bySite) {
  const sums = new Float64Array(nodes.parent.length);
  for (let site = 0; site < ofSite.length; site++) sums[ofSite[site]] += bySite[site];
  const children = Array.from(sums, () => null);
  for (let node = sums.length - 1; node > 0; node--) {
    if (sums[node] <= 0) continue;
    const parent = nodes.parent[node];
    sums[parent] += sums[node];
    (children[parent] ??= []).push(node);
  }
  for (const list of children) list?.sort((a, b) => sums[b] - sums[a] || a - b);
  return { sums, children };
}

/** Sum of the outermost nodes that a test holds for. */
export function matching({ nodes }, sums, matches) {
  const inside = new Uint8Array(sums.length);
  let total = 0;
  for (let node = 1; node < sums.length; node++) {
    inside[node] = inside[nodes.parent[node]];
    if (!inside[node] && matches(node)) {
      inside[node] = 1;
      total += sums[node];
    }
  }
  return total;
}
