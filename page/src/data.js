// The data that the page carries: deflated JSON, in base64.

import { visible } from "./format.js";

/** Reads it. Every text is made safe to look at, once. */
export async function load(text) {
  const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(stream).text());
  data.trace = { path: data.page.trace }; // as it is, for queries
  data.page = cleaned(data.page);
  data.sources = cleaned(data.sources);
  data.laws = cleaned(data.laws);
  data.plan = cleaned(data.plan);
  return prepared(data);
}

function cleaned(value) {
  if (typeof value === "string") return visible(value);
  if (Array.isArray(value)) {
    const plain = value.length === 0 || typeof value[0] === "number";
    return plain && !value.some((each) => typeof each === "string") ? value : value.map(cleaned);
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, cleaned(each)]));
  }
  return value;
}

function prepared({ page, sources, laws, plan, trace }) {
  const { strings } = page.tree;
  const texts = new Map(sources.map(([file, line, text]) => [`${file}:${line}`, text]));
  const smaller = page.tree.sites.id.length;
  const unknown = smaller + 1;
  return {
    ...page,
    trace,
    laws,
    plan,
    strings,
    frames: page.tree.frames,
    folded: page.tree.folded,
    sites: page.tree.sites,
    lines: page.tree.lines,
    /** The numbers of the call stacks that are joined, and of what has none. */
    smaller,
    unknown,
    /** What has no call stack of its own: what to call it, and its number among the sites. */
    without: [
      [`(${page.tree.joined} smaller call stacks)`, smaller],
      [page.headline.without_stack, unknown],
      ["(touched parts of large mappings)", unknown + 1],
    ],
    /** The text of a source line, if the page has it. */
    text: (file, line) => texts.get(`${file}:${line}`),
    sources,
  };
}
