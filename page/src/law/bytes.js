// A law at a shape: its working peak with the bound, its inputs and its outputs, to the byte as `memtrace
// predict` gives them.

import { alikeAxes, confidence, isGuess, restsOnFits } from "./confidence.js";
import { peakOf } from "./sequence.js";
import {
  fitting,
  regressionAt,
  regressionUpper,
  sizeAt,
  sizeUpper,
  volume,
  word,
} from "./sizes.js";

const NEGLIGIBLE = 0.001;
const MARGIN = 0.02;
const UNEVEN = 0.05;
const GROWS = 1.25;
const APART = 2;
const BEYOND = (1n << 128n) - 1n;

/** Lengths of a text such as `100,200`; null if it is none. */
export function shapeOf(text) {
  const lengths = text.trim().split(/\s*[,×x]\s*/);
  const isLength = (length) => /^\d{1,20}$/.test(length) && word(BigInt(length)) !== undefined;
  return lengths.every(isLength) ? lengths.map(BigInt) : null;
}

/** False where the page cannot say what `memtrace predict` says: figures beyond 2^53, or a law that has learned. */
export function isEvaluable(law) {
  const isKnown = (value) =>
    typeof value === "object" && value !== null
      ? Object.values(value).every(isKnown)
      : typeof value !== "number" || Number.isSafeInteger(value) || !Number.isInteger(value);
  return (!law.learned || law.proof.exact !== undefined) && isKnown(law);
}

/** What the law says; throws a sentence where it says nothing. */
export function evaluated(law, shape) {
  check(law, shape);
  const known = (bytes) => {
    if (word(bytes) === undefined)
      throw new Error(`the shape ${shape.join("×")} is too large for any memory`);
    return bytes;
  };
  const { proof, because } = confidence(law, shape);
  const fitted = fittedUpper(law, shape);
  const peak = known(working(law, shape));
  const upper = known(
    fitted === undefined || because === null ? fitted : widened(law, shape, fitted),
  );
  const arrays = (list) => list.reduce((sum, array) => added(sum, arrayBytes(array, shape)), 0n);
  return {
    peak,
    upper: upper > peak ? upper : peak,
    confidence: proof,
    because,
    input: known(arrays(law.inputs.filter((array) => !array.device))),
    output: known(arrays(law.outputs)),
  };
}

function check({ key, variables }, shape) {
  if (shape.length !== variables.length) {
    const names = variables.map(({ name }) => name).join(", ");
    throw new Error(
      `${key.operator} takes ${variables.length} dimensions (${names}), the shape ${shape.join("×")} has ${shape.length}`,
    );
  }
  if (shape.includes(0n))
    throw new Error(`the shape ${shape.join("×")} is empty: give lengths of at least 1`);
}

const added = (a, b) => (a === undefined || b === undefined ? undefined : fitting(a + b));

function arrayBytes({ item_bytes: item, shape: axes }, shape) {
  const times = (product, axis) => {
    const length = sizeAt(axis, shape);
    return product === undefined || length === undefined ? undefined : fitting(product * length);
  };
  return axes.reduce(times, BigInt(item));
}

function working({ body, residual }, shape) {
  const { symbolic, regression } = body;
  if (!symbolic) return regressionAt(regression, shape);
  return added(peakOf(symbolic, (size) => sizeAt(size, shape))?.bytes, sizeAt(residual, shape));
}

/** The bound by what was fitted. */
function fittedUpper(law, shape) {
  const { body, worst } = law;
  if (worst) return worstUpper(worst, shape);
  if (!body.symbolic) return regressionUpper(body.regression, shape);
  return added(sequenceUpper(body.symbolic, shape), residualUpper(law, shape));
}

const sequenceUpper = (sequence, shape) =>
  peakOf(sequence, (size) => sizeUpper(size, shape))?.bytes;

function worstUpper({ body, residual, factor }, shape) {
  const fitted = body.symbolic
    ? added(sequenceUpper(body.symbolic, shape), sizeUpper(residual, shape))
    : regressionUpper(body.regression, shape);
  if (fitted === undefined) return undefined;
  const bytes = Math.ceil(Number(fitted) * factor);
  if (!(bytes < 2 ** 128)) return undefined;
  return BigInt(bytes) > fitted ? BigInt(bytes) : fitted;
}

/** Small blocks grow as the most stretched axis where a run has shown that, else as the volume. */
function residualUpper({ variables, proof, residual }, shape) {
  const stretches = variables.map(({ max }, axis) => Number(shape[axis]) / Math.max(1, max));
  const isProven = proof.exact !== undefined || proof.worst_case !== undefined;
  const growth = isProven
    ? stretches.reduce((most, stretch) => Math.max(most, stretch), 1)
    : residual.fitted !== undefined
      ? 1
      : stretches.reduce((product, stretch) => product * Math.max(1, stretch), 1);
  const upper = sizeUpper(residual, shape);
  if (upper === undefined) return undefined;
  const bytes = Number(upper) * growth;
  return bytes < 2 ** 100 ? BigInt(Math.ceil(bytes)) : undefined;
}

const larger = (a, b) => (a > b ? a : b);

const whole = (bytes) => (bytes < 2 ** 100 ? BigInt(Math.ceil(bytes)) : BEYOND);

/** A bound that no run has proven. */
function widened(law, shape, fitted) {
  const upper = larger(fitted, whole(Number(fitted) * Math.max(1, law.short)));
  if (!restsOnGuesses(law, shape, NEGLIGIBLE * Number(upper))) return upper;
  return larger(whole(Number(upper) * (1 + MARGIN)), floor(law, shape));
}

function restsOnGuesses(law, shape, negligible) {
  if (law.worst) return false;
  if (law.short > 1) return true;
  const { regression } = law.body;
  return regression ? isGuess(regression, alikeAxes(law)) : restsOnFits(law, shape, negligible);
}

/** What whole runs needed, between them and beyond the largest; 0 below the smallest. */
function floor({ trained_on: trained }, shape) {
  const own = Number(volume(shape));
  const runs = trained.map((run) => [
    Number(volume(run.shape)),
    Math.max(1, run.working_peak_bytes),
  ]);
  const [below, above] = [
    outermost(
      runs.filter(([cells]) => cells <= own),
      (a, b) => b > a,
    ),
    outermost(
      runs.filter(([cells]) => cells >= own),
      (a, b) => b < a,
    ),
  ];
  if (!below) return 0n;
  const power = above
    ? slope(below, above)
    : exponent(
        outermost(runs, (a, b) => b < a),
        below,
      );
  return whole(below[1] * (own / below[0]) ** power * (1 + UNEVEN));
}

/** The run that is farther out by its volume; of one volume, that which needed more. */
function outermost(runs, isFarther) {
  let found;
  for (const run of runs)
    if (!found || isFarther(found[0], run[0]) || (run[0] === found[0] && run[1] > found[1]))
      found = run;
  return found;
}

const slope = (below, above) =>
  above[0] > below[0] ? Math.log(above[1] / below[1]) / Math.log(above[0] / below[0]) : 0;

function exponent(smallest, largest) {
  if (largest[0] < APART * smallest[0]) return 1;
  return largest[1] < GROWS * smallest[1] ? 0 : Math.max(1, slope(smallest, largest));
}
