// The peak of a sequence of allocations whose blocks have given bytes.

import { fitting } from "./sizes.js";

/** The largest live sum, and how many blocks of each size are live then; undefined where that does not fit. */
export function peakOf({ steps, sizes }, bytesOf) {
  const bytes = sizes.map(bytesOf);
  if (bytes.includes(undefined)) return undefined;
  let [live, most, at] = [0n, 0n, 0];
  for (let step = 0; step < steps.length; step++) {
    const size = bytes[Math.abs(steps[step]) - 1];
    if (size === undefined) return undefined;
    live = fitting(steps[step] > 0 ? live + size : live - size);
    if (live === undefined || live < 0n) return undefined;
    if (steps[step] > 0 && live > most) [most, at] = [live, step];
  }
  const counts = sizes.map(() => 0);
  for (const step of steps.slice(0, at + 1)) counts[Math.abs(step) - 1] += Math.sign(step);
  return { bytes: most, counts };
}
