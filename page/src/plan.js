// A plan of chunks: what workers held from task to task, beside what it predicts and against their budget.

import { Chart } from "./chart.js";
import { element } from "./dom.js";
import { filterOf } from "./filter.js";
import { bytes, grouped, percent } from "./format.js";

const COLOURS = ["line-resident", "native", "library", "yours", "interpreter", "nobody"];

/** The view. */
export class Plan {
  #chart = new Chart();
  #said = element("p", { class: "status" });
  #table = element("div", {
    class: "table-box",
    tabindex: 0,
    role: "region",
    "aria-label": "Workers and choices of chunks",
  });

  constructor(data, selection) {
    Object.assign(this, { data, selection });
    this.element = element("div", {}, this.#said, this.#chart.element, this.#table);
  }

  /** Shows all workers, or the selected process. */
  draw() {
    const { plan } = this.data;
    const process = filterOf(this.data, this.selection)?.process ?? null;
    const isShown = (worker) => process === null || String(worker.process) === process;
    const workers = plan.workers.filter(isShown);
    this.#said.textContent = `${grouped(plan.tasks)} chunks of ${plan.chunk_shape.join("×")}: a worker is predicted to need ${bytes(plan.predicted_worker_bytes)} of ${bytes(plan.budget_bytes)}; its limit is ${bytes(plan.memory_limit_bytes)}`;
    this.#chart.element.hidden = workers.length === 0;
    if (workers.length) this.#chart.draw(figure(plan, workers));
    this.#table.replaceChildren(held(plan, workers, process), choices(plan));
  }
}

function figure(plan, workers) {
  const last = Math.max(2, ...workers.map(({ calls }) => calls));
  const level = (bytes) => [1, last].map((task) => [task, bytes]);
  return {
    over: "tasks that a worker has run",
    described: "Resident memory of workers over their tasks. The table below has the figures.",
    series: [
      { name: "budget", colour: "ink", dash: [6, 3], points: level(plan.budget_bytes) },
      {
        name: "predicted",
        colour: "line-law",
        dash: [2, 3],
        points: level(plan.predicted_worker_bytes),
      },
      ...workers.map(({ name, held }, at) => ({
        name: `pid ${name.split(" ")[0]}`,
        colour: COLOURS[at % COLOURS.length],
        dash: [],
        points: held,
      })),
    ],
  };
}

function held(plan, workers, process) {
  const rows = workers.map(({ process, name, calls, held }) => {
    const most = Math.max(...held.map(([, bytes]) => bytes));
    return element(
      "tr",
      { "data-process": process, "data-held": most },
      element("td", {}, name),
      number(grouped(calls)),
      number(bytes(most)),
      number(percent(most, plan.predicted_worker_bytes)),
      number(percent(most, plan.budget_bytes)),
    );
  });
  const empty =
    process !== null && plan.workers.length
      ? "The selected process is none of the workers that the page has."
      : "The trace does not say what was resident while a call ran; the kernel side does.";
  return table(
    rows.length ? "Measured" : empty,
    ["worker", "tasks", "most resident", "of predicted", "of the budget"],
    rows,
  );
}

function choices({ pareto, budget_bytes: budget }) {
  const rows = pareto.map(({ tasks, predicted_worker_bytes: needed }) =>
    element(
      "tr",
      {},
      element("td", {}, grouped(tasks)),
      number(bytes(needed)),
      number(percent(needed, budget)),
    ),
  );
  const heads = ["tasks", "a worker's peak", "of the budget"];
  return rows.length ? table("Chunks that the plan chose among", heads, rows) : "";
}

const number = (text) => element("td", { class: "number" }, text);

function table(caption, heads, rows) {
  const head = (name, at) => element("th", { scope: "col", class: at ? "number" : "" }, name);
  return element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, heads.map(head))),
    element("tbody", {}, rows),
  );
}
