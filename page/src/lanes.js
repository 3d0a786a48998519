// Operators over time, in lanes below the plot.

import { colour, context, element } from "./dom.js";
import { isApart } from "./filter.js";
import { bytes, grouped, seconds } from "./format.js";

const ROW = 13;
const ROWS_MAX = 6;
const NARROWEST = 1;

/** The lanes. A click selects the time of a span, and its operator. */
export class Lanes {
  #canvas = element("canvas", {
    class: "lanes",
    role: "img",
    "aria-label": "Operators over time; the table of operators has the same",
  });
  #placed = [];
  #scale = null;
  #marked = null;
  #filter = null;

  constructor(data, selection) {
    this.data = data;
    this.#placed = placed(data.lanes);
    const left = data.lanes.left_out + data.lanes.start.length - this.#placed.length;
    const leftOut =
      left > 0 && element("p", { class: "faint" }, `${grouped(left)} more calls are not drawn`);
    this.element = element("div", { class: "lanes-box" }, this.#canvas, leftOut);
    this.#canvas.addEventListener("click", (event) => this.#click(event, selection));
    this.#canvas.addEventListener("mousemove", (event) => this.#hover(event));
  }

  /** Draws them below a plot. */
  draw(left, width, end) {
    this.#scale = { left, width, end };
    const rows = this.#placed.reduce((most, { row }) => Math.max(most, row + 1), 0);
    this.element.hidden = rows === 0;
    if (rows === 0) return;
    const drawing = context(this.#canvas, left + width, rows * ROW + 2);
    drawing.textBaseline = "middle";
    drawing.font = "10.5px system-ui, sans-serif";
    const [tint, line, ink] = [colour("lane"), colour("page"), colour("ink")];
    for (const span of this.#placed) {
      const { start, length, row, operator } = span;
      const [x, wide] = [left + (start / end) * width, Math.max(NARROWEST, (length / end) * width)];
      drawing.globalAlpha = this.#isSelected(span) ? 1 : 0.35;
      drawing.fillStyle = tint;
      drawing.fillRect(x, row * ROW, wide, ROW - 2);
      drawing.fillStyle = line;
      drawing.fillRect(x, row * ROW, 0.5, ROW - 2);
      if (wide < 48) continue;
      drawing.save();
      drawing.beginPath();
      drawing.rect(x, row * ROW, wide - 3, ROW);
      drawing.clip();
      drawing.fillStyle = ink;
      drawing.fillText(this.data.lanes.operators[operator], x + 4, row * ROW + ROW / 2 - 1);
      drawing.restore();
    }
    drawing.globalAlpha = 1;
  }

  /** Dims what is outside of a stretch of time, and what others ran. */
  mark(range, filter) {
    this.#marked = range ?? null;
    this.#filter = filter;
    if (this.#scale) this.draw(this.#scale.left, this.#scale.width, this.#scale.end);
  }

  #isSelected({ start, length, operator, process }) {
    const [range, filter] = [this.#marked, this.#filter];
    return (
      (!range || (start <= range[1] && start + length >= range[0])) &&
      (filter?.process ?? String(process)) === String(process) &&
      (filter?.operator ?? this.data.lanes.operators[operator]) ===
        this.data.lanes.operators[operator]
    );
  }

  #at(event) {
    if (!this.#scale) return undefined;
    const { left, width, end } = this.#scale;
    const box = this.#canvas.getBoundingClientRect();
    const time = ((event.clientX - box.left - left) / width) * end;
    const row = Math.floor((event.clientY - box.top) / ROW);
    const slack = (2 / width) * end;
    return this.#placed.find(
      (span) =>
        span.row === row && time >= span.start - slack && time <= span.start + span.length + slack,
    );
  }

  #hover(event) {
    const span = this.#at(event);
    const { operators } = this.data.lanes;
    this.#canvas.title = span
      ? `${operators[span.operator]}: working peak ${bytes(span.peak)}, ${seconds(span.length)}`
      : "";
  }

  #click(event, selection) {
    const span = this.#at(event);
    if (!span) return;
    const operator = this.data.lanes.operators[span.operator];
    const key = `span:${operator}`;
    const isKnown = this.data.measures.some((measure) => `span:${measure.operator}` === key);
    const [from, to] = [span.start.toFixed(6), (span.start + span.length).toFixed(6)];
    selection.set({
      operator: isApart(this.data, operator) ? operator : "",
      from,
      to,
      measure: isKnown ? key : this.data.moments ? "largest" : "peak",
      zoom: "",
    });
  }
}

/** Spans with the row that they have room in: below those that they are inside of. */
function placed(lanes) {
  const until = [];
  const spans = lanes.start.map((start, at) => {
    const span = {
      start: start / 1e6,
      length: lanes.length[at] / 1e6,
      operator: lanes.operator[at],
      process: lanes.process[at],
      peak: lanes.working_peak[at],
    };
    let row = lanes.depth[at];
    while (row < ROWS_MAX && until[row] > span.start) row++;
    if (row < ROWS_MAX) until[row] = span.start + span.length;
    return { ...span, row };
  });
  return spans.filter(({ row }) => row < ROWS_MAX);
}
