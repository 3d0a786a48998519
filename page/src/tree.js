// The tree that is drawn: folded call stacks or whole ones, from the outside in or inverted.

import { baseName } from "./format.js";

/** What is nobody's code. */
const NOBODY = 4;

/** Whose code a frame is, if it is the user's own. */
export const YOURS = 0;

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

  /** The child of a node that has this text, made if it is not there. */
  child(parent, { name, place = "", category = NOBODY, file = 0, line = 0 }) {
    const key = `${parent}\u0000${name}\u0000${place}\u0000${file}`;
    const known = this.#children.get(key);
    if (known !== undefined) return known;
    const made = this.parent.length;
    this.#children.set(key, made);
    this.parent.push(parent);
    this.category.push(category);
    this.name.push(name);
    this.place.push(place);
    this.file.push(file);
    this.line.push(line);
    this.hash.push(hashed(this.hash[parent], `${name}\u0000${place}`));
    return made;
  }

  /** What a child has to be one. */
  of(node) {
    const [name, place, category] = [this.name[node], this.place[node], this.category[node]];
    return { name, place, category, file: this.file[node], line: this.line[node] };
  }
}

/** The same for the same call stack in every trace of a program. */
function hashed(before, text) {
  let hash = before;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 16777619);
  return hash >>> 0;
}

/** The tree, and the node of each site. */
export function tree(data, { unfolded, inverted }) {
  const nodes = new Nodes();
  const [frames, innermost] = unfolded
    ? [data.frames, data.sites.frame]
    : [data.folded, data.sites.folded];
  const ofFrame = [];
  for (let frame = 0; frame < frames.parent.length; frame++) {
    const parent = frames.parent[frame] < 0 ? 0 : ofFrame[frames.parent[frame]];
    ofFrame.push(nodes.child(parent, described(data, frames, frame)));
  }
  const ofSite = new Int32Array(data.unknown + 2);
  innermost.forEach(
    (frame, site) =>
      (ofSite[site] = frame < 0 ? nodes.child(0, { name: "an unknown place" }) : ofFrame[frame]),
  );
  for (const [name, site] of data.without) ofSite[site] = nodes.child(0, { name });
  return inverted ? invert(nodes, ofSite) : { nodes, ofSite };
}

function described({ strings }, frames, frame) {
  const [file, line, category] = [frames.file[frame], frames.line[frame], frames.category[frame]];
  const [name, library] = [strings[frames.name[frame]], strings[frames.library[frame]]];
  const place = file ? `${baseName(strings[file])}${line ? `:${line}` : ""}` : library;
  return name === "<module>"
    ? { name: place, category, file, line }
    : { name, place, category, file, line };
}

/** From the innermost nodes out: below each is who called it. */
function invert(nodes, ofSite) {
  const inverted = new Nodes();
  const of = Int32Array.from(ofSite, (node) => {
    let into = 0;
    for (
      let each = node, depth = 0;
      each > 0 && depth < INVERTED_MAX;
      each = nodes.parent[each], depth++
    ) {
      into = inverted.child(into, nodes.of(each));
    }
    return into;
  });
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
