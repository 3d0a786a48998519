// Operators by the shapes of their inputs. A click selects one: its time, and what it held at its working peak.

import { bar, element } from "./dom.js";
import { isApart } from "./filter.js";
import { bytes, grouped, seconds } from "./format.js";

const COLUMNS = [
  ["operator", (row) => row.operator],
  ["inputs", (row) => row.inputs],
  ["calls", (row) => row.calls, "number"],
  ["working peak", (row) => row.working_peak[1], "number"],
  ["least", (row) => row.working_peak[0], "number"],
  ["temporary", (row) => row.temporary_peak, "number"],
  ["output", (row) => row.output, "number"],
  ["views", (row) => row.views, "number"],
  ["one-time", (row) => row.one_time, "number"],
  ["time", (row) => row.seconds, "number"],
  ["peaks of calls", (row) => row.peaks.length],
];

/** The table. */
export class Operators {
  #sort = { column: 3, down: true };

  constructor(data, selection) {
    this.data = data;
    this.selection = selection;
    this.element = element("div", {
      class: "table-box",
      tabindex: 0,
      role: "region",
      "aria-label": "Operators by the shapes of their inputs",
    });
  }

  /** Shows those that have the words. */
  draw(_, query) {
    this.query = query;
    const rows = this.data.operators.filter((row) =>
      `${row.operator} ${row.inputs}`.toLowerCase().includes(query),
    );
    const [, of] = COLUMNS[this.#sort.column];
    const sign = this.#sort.down ? -1 : 1;
    rows.sort(
      (a, b) => sign * (typeof of(a) === "string" ? of(a).localeCompare(of(b)) : of(a) - of(b)),
    );
    const most = Math.max(1, ...rows.map((row) => row.working_peak[1]));
    const heads = COLUMNS.map(([name, , kind], at) => this.#head(name, kind, at));
    const caption = rows.length
      ? `Bytes that calls allocated and did not release, at their peak. A row selects its operator.${leftOut(this.data.operators_left_out)}`
      : "No operator was recorded: memtrace record --operator MODULE:FUNCTION names one.";
    const table = element(
      "table",
      { class: "operators" },
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, heads)),
      element(
        "tbody",
        {},
        rows.map((row) => this.#row(row, most)),
      ),
    );
    const buttons = () => [...this.element.querySelectorAll("button")];
    const focused = buttons().indexOf(document.activeElement);
    this.element.replaceChildren(table);
    buttons()[focused]?.focus();
  }

  #head(name, kind, at) {
    const isSorted = this.#sort.column === at;
    const sort = () => {
      this.#sort = { column: at, down: isSorted ? !this.#sort.down : kind === "number" };
      this.draw(null, this.query);
      this.element.querySelectorAll("th button")[at].focus();
    };
    const order = isSorted ? (this.#sort.down ? "descending" : "ascending") : "none";
    const arrow = isSorted ? (this.#sort.down ? " ▾" : " ▴") : "";
    return element(
      "th",
      { scope: "col", class: kind ?? "", "aria-sort": order },
      element("button", { type: "button", on: { click: sort } }, name + arrow),
    );
  }

  #row(row, most) {
    const key = `span:${row.operator}`;
    const isSelected = this.#isSelected(key, row);
    const number = (text) => element("td", { class: "number" }, text);
    const peak = row.working_peak[1];
    return element(
      "tr",
      { class: isSelected ? "selected" : "" },
      element(
        "td",
        {},
        element(
          "button",
          {
            type: "button",
            class: "link",
            "aria-pressed": String(isSelected),
            on: { click: () => this.#select(key, row) },
          },
          row.operator,
        ),
      ),
      element(
        "td",
        { class: "shape" },
        row.inputs || "–",
        row.data_dependent &&
          element("em", { title: "Calls with these inputs needed different memory" }, " varies"),
      ),
      number(
        row.calls === row.calls_of_operator
          ? grouped(row.calls)
          : `${grouped(row.calls)} of ${grouped(row.calls_of_operator)}`,
      ),
      element("td", { class: "number share" }, bar(peak / most), bytes(peak)),
      number(bytes(row.working_peak[0])),
      number(bytes(row.temporary_peak)),
      number(bytes(row.output)),
      number(row.views ? grouped(row.views) : ""),
      number(row.one_time ? bytes(row.one_time) : ""),
      number(seconds(row.seconds)),
      element("td", {}, sparkline(row.peaks)),
    );
  }

  #isSelected(key, row) {
    const operator = this.selection.get("operator");
    return operator ? operator === row.operator : this.selection.get("measure") === key;
  }

  #select(key, row) {
    const isKnown = this.data.measures.some((measure) => `span:${measure.operator}` === key);
    const [from, to] = row.time.map((time) => time.toFixed(6));
    if (this.#isSelected(key, row))
      this.selection.set({ measure: "peak", operator: "", from: "", to: "", zoom: "" });
    else
      this.selection.set({
        operator: isApart(this.data, row.operator) ? row.operator : "",
        measure: isKnown ? key : this.data.moments ? "largest" : "peak",
        from,
        to,
        zoom: "",
      });
  }
}

/** What the table does not have, as a sentence. */
function leftOut({ calls, shapes }) {
  const parts = [
    calls > 0 && `${grouped(calls)} smaller calls`,
    shapes > 0 && `${grouped(shapes)} smaller shapes`,
  ].filter(Boolean);
  return parts.length ? ` Left out: ${parts.join(", ")}.` : "";
}

/** Peaks of calls in their order, as bars. */
function sparkline(peaks) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const most = Math.max(1, ...peaks);
  const width = 3;
  const described = `Working peaks of ${peaks.length} calls: ${peaks.slice(0, 6).map(bytes).join(", ")}${peaks.length > 6 ? ", …" : ""}`;
  for (const [name, value] of Object.entries({
    class: "sparkline",
    role: "img",
    "aria-label": described,
    width: peaks.length * width,
    height: 16,
  }))
    svg.setAttribute(name, value);
  peaks.forEach((peak, at) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const height = Math.max(1, (15 * peak) / most);
    for (const [name, value] of Object.entries({
      x: at * width,
      y: 16 - height,
      width: width - 1,
      height,
    }))
      bar.setAttribute(name, value);
    svg.append(bar);
  });
  return svg;
}
