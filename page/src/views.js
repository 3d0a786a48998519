// The views of what is selected, and the controls above them.

import { amount, bytes, grouped, percent, seconds } from "./format.js";
import { announce, byId, element } from "./dom.js";
import { Filter, filterOf } from "./filter.js";
import { Histograms } from "./histograms.js";
import { Icicle } from "./icicle.js";
import { Laws } from "./law/view.js";
import { Lines } from "./lines.js";
import { Operators } from "./operators.js";
import { Plan } from "./plan.js";
import { Source } from "./source.js";
import { TreeGrid } from "./treegrid.js";
import { matching, summed, tree } from "./tree.js";
import { rangeOf } from "./times.js";
import { keyOf, measuresOf, values } from "./values.js";
import { Waterfalls } from "./waterfall.js";

const NAMES = {
  flame: "Flame graph",
  lines: "Lines",
  operators: "Operators",
  source: "Source",
  law: "Law",
  plan: "Plan",
  resident: "Resident",
  blocks: "Blocks",
};
const CATEGORIES = ["your code", "libraries", "interpreter", "native"];

/** Everything below the timeline. */
export class Views {
  #trees = new Map();
  #views;
  #tabs = {};

  constructor(parent, data, selection) {
    Object.assign(this, { data, selection });
    const act = { zoom: (node) => this.#zoom(node), point: (node) => this.icicle.mark(node) };
    this.icicle = new Icicle({
      zoom: act.zoom,
      point: (node) => announce(this.#sentence(node)),
      describe: (node) => this.#described(node),
    });
    this.treegrid = new TreeGrid(act);
    this.lines = new Lines(data, (sql) => this.#query(sql));
    this.operators = new Operators(data, selection);
    this.source = new Source(data);
    this.filter = new Filter(data, selection);
    this.status = element("p", { class: "status" });
    const flame = element(
      "div",
      { class: "flame" },
      element("div", { class: "flame-main" }, this.icicle.element, legend()),
      this.treegrid.element,
    );
    this.#views = {
      flame: { element: flame, draw: (_, query) => this.#flame(query) },
      lines: this.lines,
      operators: this.operators,
      source: this.source,
      ...(data.laws.shown.length > 0 && { law: new Laws(data, selection) }),
      ...(data.plan && { plan: new Plan(data, selection) }),
      ...(data.waterfalls.length > 0 && { resident: new Waterfalls(data, selection) }),
      ...(data.histograms && { blocks: new Histograms(data) }),
    };
    const panels = Object.entries(this.#views).map(([view, { element: panel }]) =>
      element(
        "div",
        { id: `panel-${view}`, role: "tabpanel", "aria-labelledby": `tab-${view}`, class: "panel" },
        panel,
      ),
    );
    this.dialog = element("dialog", { "aria-label": "Query" });
    parent.append(this.filter.element, this.#controls(), this.status, ...panels, this.dialog);
    selection.follow((changed) => {
      this.filter.draw();
      if (this.#isShown(changed)) this.draw();
    });
  }

  /** Shows the view that is selected. */
  draw() {
    const wanted = this.selection.get("view");
    const view = this.#views[wanted] ? wanted : "flame";
    document.body.dataset.view = view;
    for (const name of Object.keys(this.#views)) {
      byId(`panel-${name}`).hidden = name !== view;
      this.#tabs[name].setAttribute("aria-selected", String(name === view));
      this.#tabs[name].tabIndex = name === view ? 0 : -1;
    }
    this.values = values(this.data, this.selection);
    this.#measures();
    this.filter.draw();
    const query = this.selection.get("query").toLowerCase();
    if (this.search.value.toLowerCase() !== query) this.search.value = query;
    this.#say(query);
    this.#views[view].draw(this.values, query);
  }

  /** Time changes what is shown only where it is what is shown, or where it should be and cannot. */
  #isShown(changed) {
    const isOfTime = ["largest", "growth"].includes(this.selection.get("measure"));
    return (
      isOfTime || !this.data.moments || changed.some((name) => name !== "from" && name !== "to")
    );
  }

  #controls() {
    const tab = (view) => {
      const made = element(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${view}`,
          "aria-controls": `panel-${view}`,
          on: { click: () => this.selection.set({ view }) },
        },
        NAMES[view],
      );
      this.#tabs[view] = made;
      return made;
    };
    const tabs = element(
      "div",
      { role: "tablist", "aria-label": "Views", on: { keydown: (event) => this.#tabKey(event) } },
      Object.keys(this.#views).map(tab),
    );
    this.select = element("select", {
      "aria-label": "What is shown",
      on: { change: (event) => this.selection.set({ measure: event.target.value, zoom: "" }) },
    });
    this.search = element("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": "Search names, files and source text",
      on: { input: (event) => this.selection.set({ query: event.target.value }) },
    });
    this.unfolded = this.#toggle(
      "unfolded",
      "All frames",
      "Show the frames of libraries and the interpreter too",
    );
    this.inverted = this.#toggle("inverted", "Inverted", "Start from where memory was allocated");
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.matches("input, textarea, select")) return;
      event.preventDefault();
      this.search.focus();
    });
    return element(
      "div",
      { class: "controls" },
      tabs,
      this.select,
      element("span", { class: "flame-only" }, this.unfolded, this.inverted),
      this.search,
    );
  }

  #toggle(name, text, title) {
    const flip = () =>
      this.selection.set({ [name]: this.selection.get(name) ? "" : "1", zoom: "" });
    return element("button", { type: "button", title, on: { click: flip } }, text);
  }

  #tabKey(event) {
    const names = Object.keys(this.#views);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = names.indexOf(event.target.id.slice("tab-".length));
    const next = names[(at + step + names.length) % names.length];
    this.selection.set({ view: next });
    this.#tabs[next].focus();
    event.preventDefault();
  }

  /** The choices of what is shown. */
  #measures() {
    const { data, selection } = this;
    const range = rangeOf(data, selection);
    const filter = filterOf(data, selection);
    const named = measuresOf(data, filter).map((measure) => [
      keyOf(measure),
      titleOf(filter && measure.key === "peak" ? { key: "peak" } : measure),
    ]);
    const ofTime =
      range && data.moments
        ? [
            ["largest", "selected time, at its largest"],
            ["growth", "selected time, what was added"],
          ]
        : [];
    const options = [...ofTime, ...named].map(([value, text]) => {
      const option = element("option", { value }, text);
      option.selected = value === this.values.key;
      return option;
    });
    this.select.replaceChildren(...options);
    for (const name of ["unfolded", "inverted"])
      this[name].setAttribute("aria-pressed", String(Boolean(selection.get(name))));
  }

  #say(query) {
    const { total, unit, what, released, time } = this.values;
    const exact = unit === "bytes" ? ` (${grouped(total)} bytes)` : "";
    const parts = [
      element("b", { id: "total", "data-total": total }, amount(total, unit)),
      `${exact} ${what}`,
    ];
    if (time !== undefined && time !== null) parts.push(`, at ${seconds(time / 1e9)}`);
    if (released) parts.push(`; elsewhere ${bytes(released)} less`);
    if (!this.data.moments && rangeOf(this.data, this.selection))
      parts.push(
        " – the trace has no row for every block, so a stretch of time cannot be shown by itself",
      );
    this.found = element("span", { class: "found" });
    this.status.replaceChildren(...parts, query ? this.found : "");
  }

  #tree() {
    const how = {
      unfolded: Boolean(this.selection.get("unfolded")),
      inverted: Boolean(this.selection.get("inverted")),
    };
    const key = JSON.stringify(how);
    if (!this.#trees.has(key)) this.#trees.set(key, tree(this.data, how));
    return this.#trees.get(key);
  }

  #flame(query) {
    const made = this.#tree();
    const { sums, children } = summed(made, this.values.bySite);
    const zoomed = made.nodes.hash.indexOf(Number(this.selection.get("zoom")));
    const root = this.selection.get("zoom") && zoomed > 0 && sums[zoomed] > 0 ? zoomed : 0;
    const text = (node) =>
      this.data.text(made.nodes.file[node], made.nodes.line[node])?.trim() ?? "";
    const matches =
      query &&
      ((node) =>
        `${made.nodes.name[node]} ${made.nodes.place[node]} ${text(node)}`
          .toLowerCase()
          .includes(query));
    if (matches) {
      const found = matching(made, sums, matches);
      this.found.textContent = ` · ${amount(found, this.values.unit)} (${percent(found, sums[0])}) match`;
      this.found.dataset.found = found;
    }
    const shown = {
      tree: made,
      sums,
      children,
      root,
      matches,
      text,
      unit: this.values.unit,
      total: sums[0],
      what: this.values.what,
    };
    this.shown = shown;
    this.icicle.draw(shown);
    this.treegrid.draw(shown);
  }

  #zoom(node) {
    const { tree, root } = this.shown;
    const target = node === root && node > 0 ? tree.nodes.parent[node] : node;
    this.selection.set({ zoom: target > 0 ? tree.nodes.hash[target] : "" });
    announce(this.#sentence(target));
  }

  #sentence(node) {
    const { tree, sums, unit, total } = this.shown;
    return `${tree.nodes.name[node]} ${tree.nodes.place[node]}, ${amount(sums[node], unit)}, ${percent(sums[node], total)}`;
  }

  #described(node) {
    const { tree, sums, unit, total, text } = this.shown;
    const { nodes } = tree;
    const exact = unit === "bytes" ? ` · ${grouped(sums[node])} bytes` : "";
    const file = this.data.strings[nodes.file[node]];
    return [
      element("b", {}, node === 0 ? this.values.what : nodes.name[node]),
      element("div", {}, `${amount(sums[node], unit)} · ${percent(sums[node], total)}${exact}`),
      element(
        "div",
        { class: "faint" },
        file ? `${file}${nodes.line[node] ? `:${nodes.line[node]}` : ""}` : nodes.place[node],
      ),
      text(node) && element("code", {}, text(node)),
    ].filter(Boolean);
  }

  #query(sql) {
    const area = element("textarea", { readonly: true, rows: 10, "aria-label": "SQL for DuckDB" });
    area.value = sql;
    const close = element(
      "button",
      { type: "button", on: { click: () => this.dialog.close() } },
      "Close",
    );
    const said = element("p", {}, "A query of the trace, for DuckDB.");
    navigator.clipboard?.writeText(sql).then(
      () => (said.textContent = "Copied: a query of the trace, for DuckDB."),
      () => {},
    );
    this.dialog.replaceChildren(said, area, close);
    this.dialog.showModal();
    area.select();
  }
}

function titleOf({ key, operator, total, unit }) {
  const names = {
    peak: "at the peak",
    end: "at the end",
    device: "on devices",
    untouched: "never touched",
    temporary: "temporary blocks",
    span: `in ${operator}`,
  };
  return total === undefined ? names[key] : `${names[key]} – ${amount(total, unit)}`;
}

function legend() {
  const entries = CATEGORIES.map((name, at) =>
    element("span", { class: `entry category-${at}` }, name),
  );
  return element(
    "p",
    { class: "legend categories" },
    entries,
    element("span", { class: "faint" }, "A click zooms, a second one goes back. / searches."),
  );
}
