// The same tree as rows: an ARIA treegrid that the keyboard reaches.

import { bar, element } from "./dom.js";
import { amount, percent } from "./format.js";

/** Rows that are shown at most. */
const ROWS_MAX = 400;
/** Rows of one node that are shown before the others are joined. */
const CHILDREN_MAX = 40;

/** The rows. `zoom` and `point` are called with nodes. */
export class TreeGrid {
  #body = element("tbody");
  #shown = null;
  #open = new Set();
  #rows = [];

  constructor({ zoom, point }) {
    const heads = ["frame", "", "share"].map((name) => element("th", { scope: "col" }, name));
    this.amountHead = heads[1];
    const table = element(
      "table",
      { role: "treegrid", "aria-label": "Frames by size" },
      element("thead", {}, element("tr", {}, heads)),
      this.#body,
    );
    this.element = element("div", { class: "treegrid", tabindex: -1 }, table);
    this.#body.addEventListener("keydown", (event) => this.#key(event, zoom));
    this.#body.addEventListener("focusin", (event) => point(Number(event.target.dataset.node)));
    this.#body.addEventListener("click", (event) => this.#click(event));
    this.#body.addEventListener("dblclick", (event) => zoom(nodeOf(event)));
  }

  /** Shows a tree from a node on; the largest path is open. */
  draw(shown) {
    const { sums, children, root } = shown;
    this.#shown = shown;
    this.#open = new Set([root]);
    for (let node = root; children[node]?.length; node = children[node][0]) {
      this.#open.add(node);
      if (sums[children[node][0]] < sums[root] / 4) break;
    }
    const hadFocus = this.#body.contains(document.activeElement);
    this.#render(root);
    if (hadFocus) this.#focus(root);
  }

  #render(focused) {
    const { children, root, unit } = this.#shown;
    this.amountHead.textContent = unit;
    this.#rows = [];
    const add = (node, level) => {
      if (this.#rows.length >= ROWS_MAX) return;
      this.#rows.push(this.#row(node, level, node === focused));
      if (!this.#open.has(node)) return;
      const list = children[node] ?? [];
      list.slice(0, CHILDREN_MAX).forEach((child) => add(child, level + 1));
      if (list.length > CHILDREN_MAX)
        this.#rows.push(this.#joined(list.slice(CHILDREN_MAX), level + 1));
    };
    add(root, 1);
    this.#body.replaceChildren(...this.#rows);
    this.#body.dataset.total = this.#shown.sums[0];
  }

  #row(node, level, isFocused) {
    const { tree, sums, children, unit, total, matches, text } = this.#shown;
    const { nodes } = tree;
    const isOpen = this.#open.has(node);
    const hasMore = Boolean(children[node]?.length);
    const name = node === 0 ? this.#shown.what : nodes.name[node];
    const frame = element(
      "td",
      {
        role: "gridcell",
        class: `frame category-${nodes.category[node]}`,
        title: [name, nodes.place[node], text(node)].filter(Boolean).join("  "),
      },
      element(
        "span",
        { class: "twist", "aria-hidden": "true" },
        hasMore ? (isOpen ? "▾" : "▸") : "",
      ),
      element("span", { class: "name" }, name),
      element("span", { class: "place" }, nodes.place[node]),
    );
    frame.style.paddingInlineStart = `${4 + 12 * Math.min(level - 1, 14)}px`;
    const row = element(
      "tr",
      {
        role: "row",
        "aria-level": level,
        "aria-expanded": hasMore ? String(isOpen) : undefined,
        tabindex: isFocused ? 0 : -1,
        class: matches && node > 0 && !matches(node) ? "dim" : "",
        "data-node": node,
        "data-value": sums[node],
      },
      frame,
      element("td", { role: "gridcell", class: "number" }, amount(sums[node], unit)),
      element(
        "td",
        { role: "gridcell", class: "number share" },
        bar(sums[node] / total),
        percent(sums[node], total),
      ),
    );
    return row;
  }

  #joined(list, level) {
    const { sums, unit, total } = this.#shown;
    const value = list.reduce((sum, node) => sum + sums[node], 0);
    const frame = element(
      "td",
      { role: "gridcell", class: "frame category-4" },
      `(${list.length} smaller)`,
    );
    frame.style.paddingInlineStart = `${18 + 12 * Math.min(level - 1, 14)}px`;
    return element(
      "tr",
      { role: "row", "aria-level": level, "data-value": value },
      frame,
      element("td", { role: "gridcell", class: "number" }, amount(value, unit)),
      element("td", { role: "gridcell", class: "number" }, percent(value, total)),
    );
  }

  #click(event) {
    const node = nodeOf(event);
    if (Number.isNaN(node)) return;
    if (event.target.classList.contains("twist")) this.#toggle(node, !this.#open.has(node));
    this.#focus(node);
  }

  #toggle(node, open) {
    if (open) this.#open.add(node);
    else this.#open.delete(node);
    this.#render(node);
    this.#focus(node);
  }

  #focus(node) {
    const row = this.#rows.find((each) => Number(each.dataset.node) === node);
    if (!row) return;
    this.#rows.forEach((each) => each.setAttribute("tabindex", each === row ? 0 : -1));
    row.focus();
  }

  #key(event, zoom) {
    const node = nodeOf(event);
    if (Number.isNaN(node)) return;
    const { tree, children, root } = this.#shown;
    const rows = this.#rows.filter((row) => row.dataset.node !== undefined);
    const at = rows.findIndex((row) => Number(row.dataset.node) === node);
    const go = (place) =>
      this.#focus(Number(rows[Math.max(0, Math.min(rows.length - 1, place))].dataset.node));
    const isOpen = this.#open.has(node) && children[node]?.length;
    const actions = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => (isOpen ? go(at + 1) : children[node]?.length && this.#toggle(node, true)),
      ArrowLeft: () =>
        isOpen ? this.#toggle(node, false) : node !== root && this.#focus(tree.nodes.parent[node]),
      Enter: () => zoom(node),
      Escape: () => zoom(Math.max(0, tree.nodes.parent[root])),
    };
    if (!actions[event.key]) return;
    actions[event.key]();
    event.preventDefault();
  }
}

function nodeOf(event) {
  return Number(event.target.closest("tr")?.dataset.node ?? NaN);
}
