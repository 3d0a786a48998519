// Lines of the program with what was allocated there: sortable, searchable, and each as a query.

import { bar, element } from "./dom.js";
import { amount, bytes, grouped, percent } from "./format.js";
import { sqlOf } from "./sql.js";

/** Rows that are shown at most. */
const ROWS_MAX = 300;

const COLUMNS = [
  { key: "value", name: "", number: true },
  { key: "share", name: "share", number: true },
  { key: "blocks", name: "blocks in all", number: true },
  { key: "requested", name: "bytes in all", number: true },
  { key: "label", name: "allocated at" },
];

/** The table. */
export class Lines {
  #sort = { key: "value", down: true };

  constructor(data, showQuery) {
    this.data = data;
    this.showQuery = showQuery;
    this.element = element("div", {
      class: "table-box",
      tabindex: 0,
      role: "region",
      "aria-label": "Lines by size",
    });
  }

  /** Shows values by site, of lines that have the words. */
  draw(values, query) {
    this.last = [values, query];
    const rows = merged(this.data, values).filter((row) => row.value > 0 || values.total === 0);
    const wanted = rows.filter((row) => `${row.label} ${row.text}`.toLowerCase().includes(query));
    const { key, down } = this.#sort;
    const order = (a, b) =>
      key === "label" ? a.label.localeCompare(b.label) : (a[key] ?? 0) - (b[key] ?? 0);
    wanted.sort((a, b) => (down ? order(b, a) : order(a, b)) || b.value - a.value);
    const heads = COLUMNS.map((column) => this.#head(column, values));
    const body = element(
      "tbody",
      { "data-total": values.total },
      wanted.slice(0, ROWS_MAX).map((row) => this.#row(row, values)),
    );
    const sum = wanted.reduce((sum, row) => sum + row.value, 0);
    const shown =
      wanted.length > ROWS_MAX ? `The ${ROWS_MAX} first of ${grouped(wanted.length)} lines. ` : "";
    const caption = query
      ? `${shown}${amount(sum, values.unit)} of ${amount(values.total, values.unit)} match.`
      : shown;
    this.element.replaceChildren(
      element(
        "table",
        { class: "lines" },
        element("caption", {}, caption),
        element("thead", {}, element("tr", {}, heads, element("td"))),
        body,
      ),
    );
  }

  #head({ key, name, number }, values) {
    const isSorted = this.#sort.key === key;
    const sort = () => {
      this.#sort = { key, down: isSorted ? !this.#sort.down : key !== "label" };
      this.draw(...this.last);
      this.element.querySelector(`[data-sort="${key}"]`).focus();
    };
    const arrow = isSorted ? (this.#sort.down ? " ▾" : " ▴") : "";
    const button = element(
      "button",
      { type: "button", "data-sort": key, on: { click: sort } },
      (name || values.unit) + arrow,
    );
    const order = isSorted ? (this.#sort.down ? "descending" : "ascending") : "none";
    return element(
      "th",
      { scope: "col", class: number ? "number" : "", "aria-sort": order },
      button,
    );
  }

  #row(row, values) {
    const query = () => this.showQuery(sqlOf(this.data, values, row));
    const copy =
      row.sites.length > 0 &&
      element(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Copy ${row.label} as SQL`,
          on: { click: query },
        },
        "SQL",
      );
    return element(
      "tr",
      {
        "data-value": row.value,
        "data-file": row.file || undefined,
        "data-line": row.line || undefined,
      },
      element("td", { class: "number" }, amount(row.value, values.unit)),
      element(
        "td",
        { class: "number share" },
        bar(row.value / values.total),
        percent(row.value, values.total),
      ),
      element("td", { class: "number" }, row.blocks === null ? "" : grouped(row.blocks)),
      element("td", { class: "number" }, row.requested === null ? "" : bytes(row.requested)),
      element(
        "td",
        { class: "label" },
        element("span", { class: "name", title: row.file }, row.label),
        element("code", {}, row.text),
      ),
      element("td", {}, copy),
    );
  }
}

/** Values of sites by line; what has no line is a row of its own. */
export function merged(data, { bySite }) {
  const { lines, sites, strings } = data;
  const rows = lines.label.map((label, at) => {
    const [file, line] = [lines.file[at], lines.line[at]];
    const text = data.text(file, line)?.trim() ?? "";
    return {
      label: strings[label],
      file: strings[file],
      line,
      text,
      value: 0,
      blocks: 0,
      requested: 0,
      sites: [],
    };
  });
  for (let site = 0; site < data.smaller; site++) {
    const row = rows[sites.line[site]];
    row.value += bySite[site];
    row.blocks += sites.blocks[site];
    row.requested += sites.requested[site];
    row.sites.push(sites.id[site]);
  }
  for (const [label, site] of data.without) {
    if (bySite[site] > 0)
      rows.push({
        label,
        file: "",
        line: 0,
        text: "",
        value: bySite[site],
        blocks: null,
        requested: null,
        sites: [],
      });
  }
  rows.forEach((row) => (row.share = row.value));
  return rows;
}
