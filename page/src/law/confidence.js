// How far the proof of a law reaches, as analysis/src/model/confidence.rs and unproven.rs say it.

import { peakOf } from "./sequence.js";
import { regressionAt, sizeAt, volume } from "./sizes.js";

const NEGLIGIBLE = 0.001;
const ELONGATION = 2;
const FITTED_EXACTLY = 1e-9;

/** What a bound rests on at a shape, and if that is nothing, why. */
export function confidence(law, shape) {
  const because = doubt(law, shape);
  return { proof: because === null ? proofWords(law.proof) : "unverified", because };
}

/** A proof in words. */
export function proofWords(proof) {
  if (proof === "unverified") return proof;
  const [[kind, of]] = Object.entries(proof);
  return { exact: "exact", worst_case: "worst case" }[kind] ?? `calibrated ${of.runs}`;
}

const verifiedShape = ({ proof }) => (proof.exact ?? proof.worst_case)?.shape;

function shapes(law) {
  const trained = law.trained_on.map((run) => run.shape);
  return verifiedShape(law) ? [...trained, verifiedShape(law)] : trained;
}

/** Why what a law was proven by says nothing of a shape; null if it does. */
function doubt(law, shape) {
  const lengths = shape.map(Number);
  const axis = (test) => law.variables.find((variable, at) => test(variable, lengths[at]))?.name;
  const never = axis(({ min, max }, length) => min === max && length !== min);
  if (never) return `${never} had one value in all runs`;
  if (law.proof === "unverified") return "no run has verified the law";
  const volumes = law.trained_on.map((run) => volume(run.shape));
  const own = volume(shape);
  const beyond = volumes.every((known) => own > known);
  const isRegression = law.body.regression !== undefined;
  if (isRegression && beyond)
    return "it is larger than any run, and a regression says nothing there";
  const thin = axis(({ min }, length) => length < Math.ceil(min / 2));
  if (thin) return `${thin} is less than half of what it was in any run`;
  if (!isRegression && volumes.every((known) => own < known)) return "it is smaller than any run";
  const pair = elongated(law, lengths);
  if (pair) return `${pair[0]} is over twice as long next to ${pair[1]} as in any run`;
  const within = (known) => known.every((length, at) => lengths[at] <= length);
  if (law.choices?.length && !shapes(law).some(within))
    return "libraries took several courses in the runs, and it is beyond those that verified the law";
  if (law.proof.calibrated && beyond) return "it is larger than any run that calibrated the bound";
  if (verifiedShape(law) && dependsOnFits(law, shape))
    return "its peak there depends on a block that no form gives";
  return null;
}

function elongated(law, lengths) {
  const known = shapes(law);
  const ratio = (shape, i, j) => shape[i] / Math.max(1, shape[j]);
  for (let i = 0; i < lengths.length; i++) {
    for (let j = 0; j < lengths.length; j++) {
      const seen = known.reduce((most, shape) => Math.max(most, ratio(shape, i, j)), 0);
      if (ratio(lengths, i, j) > ELONGATION * seen)
        return [law.variables[i].name, law.variables[j].name];
    }
  }
  return null;
}

function dependsOnFits(law, shape) {
  const { symbolic, regression } = law.body;
  const peak = symbolic
    ? peakOf(symbolic, (size) => sizeAt(size, shape))?.bytes
    : regressionAt(regression, shape);
  return peak === undefined || restsOnFits(law, shape, NEGLIGIBLE * Number(peak));
}

/** True if the peak depends on what only regressions say, by more than so many bytes. */
export function restsOnFits(law, shape, negligible) {
  const { symbolic } = law.body;
  if (!symbolic) return true;
  const alike = alikeAxes(law);
  const isOfGuess = (size) => size.fitted !== undefined && isGuess(size.fitted, alike);
  const bytes = (size) => Number(sizeAt(size, shape) ?? Infinity);
  const beside = isOfGuess(law.residual) ? bytes(law.residual) : 0;
  if (!symbolic.sizes.some(isOfGuess)) return beside > negligible;
  const peak = peakOf(symbolic, (size) => sizeAt(size, shape));
  if (!peak) return true;
  const larger = peakOf(symbolic, (size) => {
    const own = sizeAt(size, shape);
    return own !== undefined && isOfGuess(size) ? own + own / 2n : own;
  });
  const raised = larger ? Number(larger.bytes - peak.bytes) : Infinity;
  const guessed = symbolic.sizes.map((size, at) =>
    peak.counts[at] > 0 && isOfGuess(size) ? bytes(size) * peak.counts[at] : 0,
  );
  const live = guessed.reduce((sum, part) => sum + part, 0);
  return Math.max(raised, live, beside) > negligible;
}

/** True for a regression, unless it has no error and no other is like it. */
export const isGuess = (fit, alike) =>
  fit.error > FITTED_EXACTLY ||
  fit.terms.some(({ powers }) => powers.some((power, axis) => power > 0 && alike[axis]));

/** Whether each axis has the same proportion to another one in all runs. */
export function alikeAxes({ variables, trained_on: runs }) {
  const alike = (a, b) =>
    runs.slice(1).every(({ shape }, at) => {
      const before = runs[at].shape;
      return BigInt(before[a]) * BigInt(shape[b]) === BigInt(shape[a]) * BigInt(before[b]);
    });
  return variables.map((_, a) => variables.some((_, b) => a !== b && alike(a, b)));
}
