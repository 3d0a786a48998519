// Source lines of the user's own with their bytes: what was allocated at a line, and below it.

import { bar, element } from "./dom.js";
import { amount } from "./format.js";
import { YOURS } from "./tree.js";

/** Files that are shown. */
const FILES_MAX = 12;

/** The listing. */
export class Source {
  constructor(data) {
    this.data = data;
    this.element = element("div", {
      class: "table-box source",
      tabindex: 0,
      role: "region",
      "aria-label": "Source lines with bytes",
    });
  }

  /** Shows values by site. */
  draw(values) {
    const files = [...byFile(this.data, values)]
      .sort((a, b) => b[1].here - a[1].here || b[1].below - a[1].below)
      .slice(0, FILES_MAX);
    const shown = files.map(([file, { lines }]) => this.#file(file, lines, values));
    this.element.replaceChildren(
      ...(shown.length
        ? shown
        : [element("p", { class: "empty" }, "Nothing was allocated below code of your own.")]),
    );
  }

  #file(file, lines, values) {
    const { sources, strings } = this.data;
    const texts = sources.filter((source) => source[0] === file);
    const known = new Set(texts.map((source) => source[1]));
    const bare = [...lines.keys()]
      .filter((line) => !known.has(line))
      .map((line) => [file, line, ""]);
    const rows = [...texts, ...bare].sort((a, b) => a[1] - b[1]);
    const near = rows.filter(([, line]) =>
      [...lines.keys()].some((own) => Math.abs(own - line) <= 3),
    );
    const out = [];
    near.forEach(([, line, text], at) => {
      if (at > 0 && line > near[at - 1][1] + 1)
        out.push(
          element(
            "tr",
            { class: "gap", "aria-hidden": "true" },
            element("td", { colspan: 4 }, "⋯"),
          ),
        );
      out.push(this.#line(line, text, lines.get(line), values));
    });
    const heads = ["here", "and below", "line", ""].map((name) =>
      element("th", { scope: "col" }, name || element("span", { class: "hidden" }, "text")),
    );
    const title = element("caption", {}, strings[file]);
    return element(
      "table",
      { class: "listing" },
      title,
      element("thead", {}, element("tr", {}, heads)),
      element("tbody", {}, out),
    );
  }

  #line(line, text, sums, values) {
    const cell = (value) =>
      element("td", { class: "number" }, value ? amount(value, values.unit) : "");
    return element(
      "tr",
      { class: sums ? "hot" : "", "data-line": line, "data-below": sums?.below ?? 0 },
      cell(sums?.here),
      element(
        "td",
        { class: "number share" },
        sums && bar(sums.below / values.total),
        sums ? amount(sums.below, values.unit) : "",
      ),
      element("td", { class: "number line-number" }, String(line)),
      element("td", {}, element("code", {}, text)),
    );
  }
}

/** By file, its lines with the bytes at them and below. */
function byFile({ frames, lines, sites, smaller }, { bySite }) {
  const files = new Map();
  const sums = (file, line) => {
    if (!files.has(file)) files.set(file, { here: 0, below: 0, lines: new Map() });
    const { lines } = files.get(file);
    if (!lines.has(line)) lines.set(line, { here: 0, below: 0 });
    return lines.get(line);
  };
  for (let site = 0; site < smaller; site++) {
    const value = bySite[site];
    if (value <= 0) continue;
    const seen = new Set();
    for (let frame = sites.frame[site]; frame >= 0; frame = frames.parent[frame]) {
      const [file, line] = [frames.file[frame], frames.line[frame]];
      if (frames.category[frame] !== YOURS || !file || !line || seen.has(`${file}:${line}`))
        continue;
      seen.add(`${file}:${line}`);
      sums(file, line).below += value;
    }
    const [file, line] = [lines.file[sites.line[site]], lines.line[sites.line[site]]];
    if (seen.has(`${file}:${line}`)) sums(file, line).here += value;
  }
  for (const file of files.values()) {
    const sums = [...file.lines.values()];
    file.here = sums.reduce((sum, line) => sum + line.here, 0);
    file.below = Math.max(...sums.map((line) => line.below));
  }
  return files;
}
