// Forms, sizes and regressions of a law at a shape, as `memtrace predict` evaluates them. Whole numbers are
// BigInts; what does not fit is undefined.

const WORD = 1n << 64n;
const DOUBLE_WORD = 1n << 128n;

/** A whole number of 128 bits. */
export const fitting = (value) => (value < DOUBLE_WORD ? value : undefined);

/** The same of 64. */
export const word = (value) => (value !== undefined && value < WORD ? value : undefined);

/** The largest of these; undefined if any is. */
const largest = (values) =>
  values.includes(undefined)
    ? undefined
    : values.reduce((most, value) => (value > most ? value : most), 0n);

const upwards = (value, unit) => (value + unit - 1n) / unit;

function powerOfTwo(length) {
  let power = 1n;
  while (power < length) power <<= 1n;
  return word(power);
}

/** All products of powers of two and of these primes, in order. */
function productsOf(primes) {
  const products = [1n];
  for (const prime of [2n, ...primes])
    for (const product of [...products])
      for (let more = product * prime; more < WORD; more *= prime) products.push(more);
  return BigUint64Array.from(products).sort();
}

const PRIMES = { real: [3n, 5n], complex: [3n, 5n, 7n, 11n] };
const products = {};

/** The smallest of those that is at least a length: there are too many to look at each for every size. */
function smooth(length, kind) {
  const all = (products[kind] ??= productsOf(PRIMES[kind]));
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle] < length) low = middle + 1;
    else high = middle;
  }
  return all[low];
}

function ruled(rule, length) {
  if (rule === "length") return length;
  if (rule === "half_plus_one") return length / 2n + 1n;
  if (rule === "power_of_two") return powerOfTwo(length);
  if (rule === "fast_real") return smooth(length, "real");
  if (rule === "fast_complex") return smooth(length, "complex");
  if (rule === "half_fast_real") {
    const fast = smooth(length, "real");
    return fast === undefined ? undefined : fast / 2n + 1n;
  }
  return rule.hops > 0 ? upwards(length, BigInt(rule.hops)) : undefined;
}

function factorAt({ variable, rule, offset, power }, shape) {
  if (shape[variable] === undefined) return undefined;
  const length = shape[variable] + BigInt(offset);
  if (length < 0n || (length === 0n && rule !== "half_plus_one")) return 0n;
  const value = length < WORD ? ruled(rule, length) : undefined;
  return value === undefined ? undefined : fitting(value ** BigInt(power));
}

/** `coefficient · ∏ factors + constant`. */
export function formAt({ coefficient, factors = [], constant = 0 }, shape) {
  let product = BigInt(coefficient);
  for (const factor of factors) {
    const value = factorAt(factor, shape);
    if (value === undefined) return undefined;
    product = fitting(product * value);
    if (product === undefined) return undefined;
  }
  const sum = product + BigInt(constant);
  return sum < 0n ? 0n : fitting(sum);
}

function lines({ line, counted }, budget, shape) {
  const [bytes, each] = [formAt(line, shape), formAt(counted, shape)];
  if (bytes === undefined || each === undefined) return undefined;
  const count = each > 0n ? BigInt(budget) / each : 0n;
  return fitting((count > 1n ? count : 1n) * bytes);
}

function units(form, size, shape) {
  const [bytes, unit] = [formAt(form, shape), BigInt(Math.max(1, size))];
  return bytes === undefined ? undefined : fitting(upwards(bytes, unit) * unit);
}

function nearest(seen, shape) {
  const apart = (a, b) => Math.log(Math.max(1, a) / Math.max(1, Number(b))) ** 2;
  let [found, least] = [0, Infinity];
  for (const { shape: known, bytes } of seen) {
    const distance = known.reduce((sum, length, axis) => sum + apart(length, shape[axis]), 0);
    if (distance < least) [found, least] = [bytes, distance];
  }
  return BigInt(found);
}

/** The best estimate of a size, bytes. */
export function sizeAt(size, shape) {
  const [[kind, of]] = Object.entries(size);
  if (kind === "exact") return formAt(of.form, shape);
  if (kind === "lines") return lines(of, of.budget, shape);
  if (kind === "units") return units(of.form, of.unit, shape);
  if (kind === "nearby") return nearest(of.seen, shape);
  if (kind === "bounded") return BigInt(of.bytes);
  if (kind === "fitted") return regressionAt(of, shape);
  const bytes = formAt(of.form, shape);
  if (bytes === undefined) return undefined;
  if (kind === "capped") return bytes < BigInt(of.cap) ? bytes : BigInt(of.cap);
  return of.block > 0 ? bytes % BigInt(of.block) : undefined; // a remainder
}

/** Its upper bound: the largest of the forms that the runs allow. */
export function sizeUpper(size, shape) {
  const [[kind, of]] = Object.entries(size);
  if (kind === "exact")
    return largest([of.form, ...(of.others ?? [])].map((form) => formAt(form, shape)));
  if (kind === "lines") return lines(of, of.budget_upper, shape);
  if (kind === "units")
    return largest([of.form, of.most].map((form) => units(form, of.unit, shape)));
  if (kind === "nearby") return largest(of.seen.map(({ bytes }) => BigInt(bytes)));
  return kind === "fitted" ? regressionUpper(of, shape) : sizeAt(size, shape);
}

/** Product of all lengths. */
export const volume = (shape) => shape.reduce((product, length) => product * BigInt(length), 1n);

/** Multiplied in the order in which compiled programs do it. */
function raised(base, power) {
  let [product, square] = [1, base];
  for (let left = power; left > 0; left >>= 1) {
    if (left & 1) product *= square;
    square *= square;
  }
  return product;
}

function monomial({ powers, up_to }, shape) {
  if (up_to !== undefined && volume(shape) > BigInt(up_to)) return 0;
  return powers.reduce((product, power, axis) => product * raised(Number(shape[axis]), power), 1);
}

const regressionValue = ({ terms }, shape) =>
  terms.reduce((sum, term) => sum + term.coefficient * monomial(term, shape), 0);

const whole = (value) => (value >= 0 && value < 2 ** 100 ? BigInt(Math.ceil(value)) : undefined);

/** A regression's estimate. */
export const regressionAt = (fit, shape) => whole(regressionValue(fit, shape));

/** The estimate plus twice the worst error. */
export const regressionUpper = (fit, shape) =>
  whole(regressionValue(fit, shape) * (1 + 2 * fit.error));
