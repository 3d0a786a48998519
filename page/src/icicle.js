// The flame graph: an icicle from the top, on a canvas.

import { colour, context, element } from "./dom.js";
import { amount, percent } from "./format.js";

const ROW = 24;
const GAP = 1;
const NARROWEST = 1.5;
const CATEGORIES = ["yours", "library", "interpreter", "native", "nobody"];

/** The picture. `zoom` and `point` are called with nodes. */
export class Icicle {
  #canvas = element("canvas", {
    class: "icicle",
    tabindex: 0,
    role: "application",
    "aria-roledescription": "flame graph",
    "aria-label":
      "Flame graph: arrow keys move, Enter zooms, Escape zooms out. The tree beside it has the same rows.",
  });
  #tip = element("div", { class: "tip hidden", role: "presentation" });
  #shown = null;
  #boxes = [];
  #pointed = -1;

  constructor({ zoom, point, describe }) {
    this.element = element("div", { class: "icicle-box" }, this.#canvas, this.#tip);
    this.#canvas.addEventListener("mousemove", (event) => this.#hover(event, describe));
    this.#canvas.addEventListener("mouseleave", () => this.#leave());
    this.#canvas.addEventListener("click", (event) => {
      const box = this.#at(event);
      if (box) zoom(box.node);
    });
    this.#canvas.addEventListener("keydown", (event) => this.#key(event, zoom, point));
  }

  /** Draws a tree from a node on. */
  draw(shown) {
    this.#shown = shown;
    const width = this.element.clientWidth || 600;
    this.#boxes = boxes(shown, width);
    const deepest = this.#boxes.reduce((most, box) => Math.max(most, box.depth), 0);
    const drawing = context(this.#canvas, width, (deepest + 1) * ROW);
    const inks = {
      text: colour("ink"),
      faint: colour("faint-ink"),
      page: colour("page"),
      line: colour("focus"),
    };
    const fills = CATEGORIES.map((name) => [colour(`${name}-tint`), colour(name)]);
    drawing.textBaseline = "middle";
    drawing.direction = "ltr";
    for (const box of this.#boxes)
      paint(drawing, box, shown, fills, inks, this.#pointed === box.node);
  }

  /** Marks a node, as the tree does when the cursor is in one of its rows. */
  mark(node) {
    this.#pointed = node;
    if (this.#shown) this.draw(this.#shown);
  }

  #at(event) {
    const { left, top } = this.#canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return this.#boxes.find(
      (box) =>
        box.node >= 0 && Math.floor(y / ROW) === box.depth && x >= box.x && x < box.x + box.width,
    );
  }

  #hover(event, describe) {
    const box = this.#at(event);
    if (!box) return this.#leave();
    this.#tip.replaceChildren(...describe(box.node));
    this.#tip.classList.remove("hidden");
    const { left, top, width } = this.element.getBoundingClientRect();
    const x = Math.min(event.clientX - left + 12, width - this.#tip.offsetWidth - 4);
    this.#tip.style.transform = `translate(${Math.max(0, x)}px, ${event.clientY - top + 16}px)`;
  }

  #leave() {
    this.#tip.classList.add("hidden");
  }

  #key(event, zoom, point) {
    const { tree, children, root } = this.#shown;
    const { parent } = tree.nodes;
    const now = this.#boxes.some((box) => box.node === this.#pointed) ? this.#pointed : root;
    const siblings = children[parent[now]] ?? [now];
    const beside = (step) => siblings[siblings.indexOf(now) + step] ?? now;
    const moves = {
      ArrowUp: () => Math.max(0, parent[now]),
      ArrowDown: () => children[now]?.[0] ?? now,
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
      Home: () => root,
    };
    if (moves[event.key]) {
      const node = moves[event.key]();
      this.mark(node);
      point(node);
    } else if (event.key === "Enter" || event.key === " ") zoom(now);
    else if (event.key === "Escape" || event.key === "Backspace") zoom(Math.max(0, parent[root]));
    else return;
    event.preventDefault();
  }
}

/** Where nodes are: those around the root as wide as it, and what it is made of below. */
function boxes({ tree, sums, children, root }, width) {
  const around = [];
  for (let node = root; node >= 0; node = tree.nodes.parent[node]) around.unshift(node);
  const placed = around.map((node, depth) => ({ node, depth, x: 0, width, around: node !== root }));
  const open = [placed[placed.length - 1]];
  while (open.length) {
    const { node, depth, x, width } = open.pop();
    const scale = width / sums[node];
    let from = x;
    let narrow = 0;
    for (const child of children[node] ?? []) {
      const box = { node: child, depth: depth + 1, x: from, width: sums[child] * scale };
      from += box.width;
      if (box.width < NARROWEST) narrow += box.width;
      else placed.push(box) && open.push(box);
    }
    // Largest come first, so those too narrow to see are at the end.
    if (narrow >= NARROWEST)
      placed.push({ node: -1, depth: depth + 1, x: from - narrow, width: narrow });
  }
  return placed;
}

function paint(drawing, box, shown, fills, inks, isPointed) {
  const { tree, sums, unit, total, matches, text } = shown;
  const { nodes } = tree;
  const [x, y, width, height] = [box.x, box.depth * ROW, Math.max(1, box.width - GAP), ROW - GAP];
  const [tint, strong] = fills[box.node < 0 ? 4 : nodes.category[box.node]];
  const is = box.node < 0 || !matches || matches(box.node);
  drawing.globalAlpha = box.around ? 0.55 : is ? 1 : 0.25;
  drawing.fillStyle = tint;
  drawing.fillRect(x, y, width, height);
  drawing.fillStyle = strong;
  drawing.fillRect(x, y, Math.min(3, width), height);
  if (isPointed) {
    drawing.globalAlpha = 1;
    drawing.strokeStyle = inks.line;
    drawing.lineWidth = 2;
    drawing.strokeRect(x + 1, y + 1, width - 2, height - 2);
  }
  if (box.node < 0 || width < 24) return void (drawing.globalAlpha = 1);
  const parts =
    box.node === 0
      ? [["600 12px ", `${amount(total, unit)} ${shown.what}`, inks.text]]
      : [
          ["600 12px ", nodes.name[box.node], inks.text],
          ["12px ", nodes.place[box.node], inks.faint],
          [
            "12px ",
            `${amount(sums[box.node], unit)} · ${percent(sums[box.node], total)}`,
            inks.text,
          ],
          ["mono", text(box.node), inks.faint],
        ];
  let at = x + 8;
  for (const [font, word, ink] of parts) {
    const room = x + width - 4 - at;
    if (!word || room < 16) continue;
    drawing.font =
      font === "mono" ? "11.5px ui-monospace, monospace" : `${font}system-ui, sans-serif`;
    drawing.fillStyle = ink;
    const fitting = fitted(drawing, word, room);
    drawing.fillText(fitting.text, at, y + height / 2 + 0.5);
    at += fitting.width + 10;
  }
  drawing.globalAlpha = 1;
}

/** As much of a text as there is room for. */
function fitted(drawing, text, room) {
  const { width } = drawing.measureText(text);
  if (width <= room) return { text, width };
  const letters = Math.floor((text.length * (room - 8)) / width);
  return { text: letters > 0 ? `${text.slice(0, letters)}…` : "", width: room };
}
