// Laws of a model: what was measured beside what they say, and what they say of any shape.

import { Chart } from "../chart.js";
import { announce, element } from "../dom.js";
import { filterOf, isApart } from "../filter.js";
import { bytes, grouped } from "../format.js";
import { evaluated, isEvaluable, shapeOf } from "./bytes.js";
import { proofWords } from "./confidence.js";

const HEADS = ["run", "shape", "measured", "law", "measured − law", "at most"];

/** The view. */
export class Laws {
  #chart = new Chart();
  #which;
  #said = element("p", { class: "status" });
  #input = element("input", {
    type: "text",
    name: "shape",
    autocomplete: "off",
    spellcheck: "false",
  });
  #label = element("span");
  #answer = element("output", { class: "answer" });
  #form;
  #shown;
  #table = element("div", {
    class: "table-box",
    tabindex: 0,
    role: "region",
    "aria-label": "Runs",
  });

  constructor(data, selection) {
    Object.assign(this, { data, laws: data.laws.shown, selection });
    this.#which = element(
      "select",
      { "aria-label": "Law", on: { change: () => this.#choose(this.#which.value) } },
      this.laws.map(({ law }, at) =>
        element("option", { value: nameOf(law, at) }, nameOf(law, at)),
      ),
    );
    this.#form = element(
      "form",
      { class: "evaluate", on: { submit: (event) => this.#evaluate(event) } },
      element("label", {}, this.#label, this.#input),
      element("button", { type: "submit" }, "Evaluate"),
      this.#answer,
    );
    this.#shown = element("div", {}, this.#form, this.#chart.element, this.#table);
    this.element = element("div", { class: "laws" }, this.#which, this.#said, this.#shown);
  }

  /** Shows a law of the selected operator: the one that is selected by its name, else the first. */
  draw() {
    const name = this.selection.get("law");
    const operator = filterOf(this.data, this.selection)?.operator ?? null;
    const isOwn = ({ law }) => operator === null || law.key.operator === operator;
    const named = this.laws.findIndex((each, at) => isOwn(each) && nameOf(each.law, at) === name);
    const chosen = named >= 0 ? named : this.laws.findIndex(isOwn);
    this.#which.selectedIndex = chosen;
    this.#which.hidden = this.laws.length < 2 && chosen >= 0;
    this.#shown.hidden = chosen < 0;
    if (chosen < 0) this.#said.textContent = `The page has no law for ${operator}.`;
    else this.#draw(this.laws[chosen]);
  }

  #draw({ law, curve, runs, left_out: leftOut }) {
    this.shown = law;
    const trained = law.variables
      .map(({ name, min, max }) => `${name} ${min} to ${max}`)
      .join(", ");
    this.#said.textContent = `${law.key.operator} ${law.key.dtype}: ${proofWords(law.proof)}; fitted to runs of ${trained}${this.#more()}`;
    this.#chart.element.hidden = !curve;
    if (curve) this.#chart.draw(figure(curve));
    this.#table.replaceChildren(table(runs, leftOut));
    const names = law.variables.map(({ name }) => name).join(",");
    this.#label.textContent = `Working peak at ${names} = `;
    this.#input.disabled = !isEvaluable(law);
    this.#input.value = this.selection.get("shape");
    this.#say();
  }

  #more() {
    const { left_out: leftOut } = this.data.laws;
    return leftOut ? `. Left out: ${grouped(leftOut)} more ${leftOut === 1 ? "law" : "laws"}` : "";
  }

  /** Selects a law, and its operator where another one is selected. */
  #choose(name) {
    const { law } = this.laws.find(({ law }, at) => nameOf(law, at) === name);
    const { operator } = law.key;
    const isOther = this.selection.get("operator") !== "";
    const own = isApart(this.data, operator) ? operator : "";
    this.selection.set({ law: name, shape: "", ...(isOther && { operator: own }) });
  }

  #evaluate(event) {
    event.preventDefault();
    this.selection.set({ shape: this.#input.value.trim() });
    announce(this.#answer.textContent);
  }

  #say() {
    const text = this.#input.value.trim();
    const answer = this.#answer;
    delete answer.dataset.peak;
    delete answer.dataset.upper;
    answer.classList.remove("wrong");
    if (this.#input.disabled) {
      answer.textContent = "The page cannot evaluate this law; memtrace predict does.";
    } else if (text === "") {
      answer.textContent = "";
    } else {
      try {
        const shape = shapeOf(text);
        if (!shape) throw new Error("write lengths like 200,200,100");
        this.#show(evaluated(this.shown, shape));
      } catch (error) {
        answer.classList.add("wrong");
        answer.textContent = `${error.message}.`;
      }
    }
  }

  #show({ peak, upper, confidence, because, input, output }) {
    const size = (count) => `${bytes(Number(count))} (${grouped(count)} bytes)`;
    const unproven = because ? `: ${because}` : "";
    Object.assign(this.#answer.dataset, { peak, upper, confidence, input, output });
    this.#answer.replaceChildren(
      element("b", {}, size(peak)),
      `, at most ${size(upper)}, ${confidence}${unproven}; input ${size(input)}, output ${size(output)}`,
    );
  }
}

/** A law over one of its variables, with its bound, and the runs that were measured. */
function figure(curve) {
  const others = curve.others.map(([name, length]) => `${name}=${grouped(length)}`).join(", ");
  const over = others ? `${curve.variable}, at ${others}` : curve.variable;
  const [low, high] = curve.range.map(grouped);
  const words = `${curve.verified ? "verified range" : "range of the runs"}: ${low} to ${high}`;
  const column = (rows, at) => rows.map((row) => [row[0], row[at]]);
  return {
    over,
    described: `Working peak over ${over}; ${words}. The table below has the figures.`,
    shaded: { range: curve.range, words },
    series: [
      { name: "law", colour: "line-law", dash: [], points: column(curve.law, 1) },
      { name: "at most", colour: "line-mapped", dash: [4, 3], points: column(curve.law, 2) },
      { name: "measured", colour: "line-resident", points: curve.measured },
      { name: "measured at other lengths", colour: "native", points: column(curve.elsewhere, 1) },
    ],
  };
}

/** A law's operator and types, and its place, which tells those of other parameters apart. */
const nameOf = ({ key }, at) => `${at + 1}: ${key.operator} ${key.dtype}`;

function table(runs, leftOut) {
  const number = (text) => element("td", { class: "number" }, text);
  const rows = runs.map(({ of, shape, measured, law, upper }) =>
    element(
      "tr",
      { "data-shape": shape.join(","), "data-measured": measured, "data-law": law },
      element("td", {}, of),
      element("td", {}, shape.join("×")),
      number(grouped(measured)),
      number(grouped(law)),
      number(`${measured < law ? "−" : "+"}${grouped(Math.abs(measured - law))}`),
      number(grouped(upper)),
    ),
  );
  const heads = HEADS.map((head, at) =>
    element("th", { scope: "col", class: at > 1 ? "number" : "" }, head),
  );
  const left = leftOut ? ` Left out: ${grouped(leftOut)} that needed less.` : "";
  const caption = `Bytes of the runs that it was fitted to, and of calls in this trace. Those of one shape and one size are one row.${left}`;
  return element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, heads)),
    element("tbody", {}, rows),
  );
}
