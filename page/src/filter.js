// Whose bytes are shown: those of one process, of one thread, or allocated in one operator; else all.

import { element } from "./dom.js";
import { seconds } from "./format.js";
import { rangeOf } from "./times.js";

/** What of it is selected, and in which groups of blocks; null for all. */
export function filterOf(data, selection) {
  if (!data.moments) return null;
  const { groups } = data.moments;
  const own = (name, options) =>
    options.find((option) => option.value === selection.get(name)) ?? null;
  const process = own("process", processes(data));
  const thread = own("thread", threads(data));
  const operator = own("operator", operators(data));
  if (!process && !thread && !operator) return null;
  const holds = (group) =>
    (!process || groups.curve[group] === process.place) &&
    (!thread || groups.thread[group] === thread.place) &&
    (!operator || ((groups.operator_bits[group] >> operator.place) & 1) === 1);
  return {
    groups: groups.curve.map((_, group) => holds(group)),
    /** The place of the process's curve, where nothing else is selected. */
    curve: process && !thread && !operator ? process.place : null,
    process: process?.value ?? thread?.process ?? null,
    thread: thread?.value ?? null,
    operator: operator?.name ?? null,
    /** A call of that operator. */
    span: operator?.span ?? null,
    words: [process, thread, operator].filter(Boolean).map(({ words }) => words),
  };
}

/** True if an operator can be shown by itself. */
export const isApart = (data, name) => Boolean(data.moments?.groups.operators.includes(name));

function processes(data) {
  const all = data.timeline.curves.map(({ process, name }, place) => {
    const pid = name.split(" ")[0];
    return { value: String(process), place, name, words: `of pid ${pid}`, process };
  });
  return all.length > 1 ? all.filter(({ process }) => process !== null) : [];
}

function threads(data) {
  const { threads } = data.moments.groups;
  const pid = (process) =>
    data.timeline.curves.find((curve) => curve.process === process)?.name.split(" ")[0];
  return threads.length > 1
    ? threads.map(([thread, process, tid], place) => {
        const name =
          tid === Number(pid(process)) ? `${tid}, the main thread` : `${tid} of ${pid(process)}`;
        return {
          value: String(thread),
          place,
          name,
          words: `of thread ${tid}`,
          process: String(process),
        };
      })
    : [];
}

const operators = (data) =>
  data.moments.groups.operators.map((name, place) => ({
    value: name,
    place,
    name,
    words: `allocated in ${name}`,
    span: data.moments.groups.operator_spans[place],
  }));

/** The controls that select it, and the selected time. */
export class Filter {
  #selects;
  #time = element("button", {
    type: "button",
    class: "chip",
    on: { click: () => this.#clear({ from: "", to: "" }) },
  });
  #all = element(
    "button",
    {
      type: "button",
      class: "quiet",
      on: { click: () => this.#clear({ process: "", thread: "", operator: "", from: "", to: "" }) },
    },
    "Show all",
  );

  constructor(data, selection) {
    Object.assign(this, { data, selection });
    const choices = data.moments
      ? [
          ["process", "all processes", processes(data)],
          ["thread", "all threads", threads(data)],
          ["operator", "all operators", operators(data)],
        ]
      : [];
    this.#selects = choices
      .filter(([, , options]) => options.length > 0)
      .map(([name, all, options]) => this.#select(name, all, options));
    this.element = element(
      "div",
      { class: "filter", role: "group", "aria-label": "Whose bytes are shown" },
      this.#selects,
      this.#time,
      this.#all,
    );
  }

  /** Shows what is selected. */
  draw() {
    const range = rangeOf(this.data, this.selection);
    const time = (place) => seconds(this.data.timeline.times[place] / 1e9);
    this.#time.textContent = range ? `${time(range[0])} to ${time(range[1])} ×` : "";
    this.#time.setAttribute(
      "aria-label",
      range ? `Select all times, not ${this.#time.textContent}` : "",
    );
    this.#time.hidden = !range;
    for (const select of this.#selects) {
      select.value = this.selection.get(select.name);
      if (select.selectedIndex < 0) select.value = "";
    }
    this.#all.hidden = !range && this.#selects.every((select) => select.value === "");
    this.element.hidden = this.#selects.length === 0 && !range;
  }

  #select(name, all, options) {
    return element(
      "select",
      {
        name,
        "aria-label": `Selected ${name}`,
        on: { change: (event) => this.selection.set({ [name]: event.target.value, zoom: "" }) },
      },
      element("option", { value: "" }, all),
      options.map(({ value, name }) => element("option", { value }, name)),
    );
  }

  #clear(parts) {
    const measure = this.selection.get("measure");
    const isGone = "to" in parts && ["largest", "growth"].includes(measure);
    this.selection.set({ ...parts, zoom: "", ...(isGone && { measure: "peak" }) });
  }
}
