// From what was live to what was resident, where the resident memory of a process peaked.

import { element } from "./dom.js";
import { filterOf } from "./filter.js";
import { bytes, grouped, seconds } from "./format.js";

const UNKNOWN = "The trace does not say what of the selected process was resident.";

/** The view: a waterfall of each process, or of the selected one. */
export class Waterfalls {
  constructor(data, selection) {
    Object.assign(this, { data, selection });
    this.element = element("div", {
      class: "table-box",
      tabindex: 0,
      role: "region",
      "aria-label": "From live to resident memory",
    });
  }

  /** Shows them. */
  draw() {
    const { waterfalls } = this.data;
    const process = filterOf(this.data, this.selection)?.process ?? null;
    const own = waterfalls.filter((each) => process === null || String(each.process) === process);
    this.element.replaceChildren(
      ...(own.length ? own.map(table) : [element("p", { class: "empty" }, UNKNOWN)]),
    );
  }
}

/** What is added and taken away, in order; a sum has what was reached by then. */
function steps(of) {
  const live = of.live_bytes;
  const touched = live - (of.untouched_bytes ?? 0);
  return [
    { name: "live", from: 0, to: live, isSum: true },
    { name: "never touched", from: live, to: touched },
    { name: "touched", from: 0, to: touched, isSum: true },
    ...added(touched, [
      ["stack of the first thread", of.stack_bytes ?? 0],
      ["data of the program", of.data_bytes ?? 0],
      ["files: code, libraries, mapped files", of.file_bytes],
      ["other: allocators, more stacks", of.unexplained_bytes],
    ]),
    { name: "resident", from: 0, to: of.resident_bytes, isSum: true },
  ];
}

function added(begin, parts) {
  let reached = begin;
  return parts.map(([name, part]) => ({ name, from: reached, to: (reached += part) }));
}

function table(of) {
  const all = steps(of);
  const most = Math.max(1, ...all.flatMap(({ from, to }) => [from, to]));
  const when = of.seconds === null ? "" : `, ${seconds(of.seconds)} after the start`;
  const heads = ["", "bytes", ""].map((name) =>
    element("th", { scope: "col" }, name || element("span", { class: "hidden" }, "part")),
  );
  return element(
    "table",
    { class: "waterfall", "data-process": of.process },
    element("caption", {}, `${of.name}: resident memory at its peak${when}`),
    element("thead", {}, element("tr", {}, heads)),
    element(
      "tbody",
      {},
      all.map((step) => row(step, most)),
    ),
  );
}

function row({ name, from, to, isSum }, most) {
  const change = isSum ? to : to - from;
  const block = element("span", {
    class: isSum ? "block sum" : change < 0 ? "block less" : "block",
    "aria-hidden": "true",
  });
  const share = (value) => `${(100 * Math.max(0, value)) / most}%`;
  block.style.marginInlineStart = share(Math.min(from, to));
  block.style.width = share(Math.abs(to - from));
  const sign = isSum ? "" : change < 0 ? "− " : "+ ";
  return element(
    "tr",
    { "data-part": name, "data-bytes": change, class: isSum ? "sum" : "" },
    element("th", { scope: "row" }, name),
    element(
      "td",
      { class: "number", title: `${grouped(Math.abs(change))} bytes` },
      `${sign}${bytes(Math.abs(change))}`,
    ),
    element("td", { class: "course" }, block),
  );
}
