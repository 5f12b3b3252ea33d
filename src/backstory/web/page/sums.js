/** Bytes and numbers of what the model is given, by kind, over ranges of positions. They come from sums that are kept
 *  for every 64th position, so that a step on a long log costs no more than one on a short log. No elements. */
import { shows } from "./law.js";

const SPOKEN = "suacr"; // system, user, assistant, call, result
const KINDS = SPOKEN.length;
const EVERY = 64;

/** Bytes of each kind, then numbers of each kind, from the first position to `seq`. */
function upTo(log, seq) {
  const known = Math.min(log.sums.length, Math.floor(seq / EVERY));
  const sums = known ? log.sums[known - 1].slice() : new Float64Array(2 * KINDS);
  for (let n = known * EVERY + 1; n <= seq; n++) {
    const kind = SPOKEN.indexOf(String.fromCharCode(log.kinds[n - 1]));
    if (kind >= 0 && shows(log, n)) {
      sums[kind] += log.bytes[n - 1];
      sums[KINDS + kind] += 1;
    }
    if (n % EVERY === 0) log.sums[n / EVERY - 1] = sums.slice();
  }
  return sums;
}

/** [letter, bytes, number] of each kind that there is in some ranges. @returns {[string, number, number][]} */
export function byKind(log, ranges) {
  const sums = new Float64Array(2 * KINDS);
  for (const [low, high] of ranges) {
    const before = upTo(log, low - 1);
    upTo(log, high).forEach((sum, n) => { sums[n] += sum - before[n]; });
  }
  const found = [...SPOKEN].map((letter, n) => /** @type {[string, number, number]} */ ([letter, sums[n], sums[KINDS + n]]));
  return found.filter(([, , number]) => number);
}

/** How many messages there are in some ranges. */
export const spokenIn = (log, ranges) => byKind(log, ranges).reduce((sum, [, , number]) => sum + number, 0);
