/** Bytes and numbers of what the model is given, by kind, over ranges of positions. They come from sums that are kept
 *  for every 256th position, so that a step on a long log costs no more than one on a short log. No elements. */
import { shows } from "./law.js";

const BLOCK = 256;

/** The largest context between two positions, from the largest of every block of positions. */
export function largest(log, low, high) {
  const { peaks, size, head } = log;
  for (let block = peaks.length; (block + 1) * BLOCK <= head + 1; block++) {
    peaks.push(size.subarray(block * BLOCK, (block + 1) * BLOCK).reduce((most, one) => Math.max(most, one), 0));
  }
  let most = 0;
  for (let n = low; n <= high; n++) {
    if (n % BLOCK === 0 && n + BLOCK <= high && n / BLOCK < peaks.length) {
      most = Math.max(most, peaks[n / BLOCK]);
      n += BLOCK - 1;
    } else if (size[n] > most) most = size[n];
  }
  return most;
}

const SPOKEN = "suacr"; // system, user, assistant, call, result
const KINDS = SPOKEN.length;

/** Tokens of each kind, then numbers of each kind, from the first position to `seq`. */
function upTo(log, seq) {
  const known = Math.min(log.sums.length, Math.floor(seq / BLOCK));
  const sums = known ? log.sums[known - 1].slice() : new Float64Array(2 * KINDS);
  for (let n = known * BLOCK + 1; n <= seq; n++) {
    const kind = SPOKEN.indexOf(String.fromCharCode(log.kinds[n - 1]));
    if (kind >= 0 && shows(log, n)) {
      sums[kind] += log.tokens[n - 1];
      sums[KINDS + kind] += 1;
    }
    if (n % BLOCK === 0) log.sums[n / BLOCK - 1] = sums.slice();
  }
  return sums;
}

/** [letter, tokens, number] of each kind that there is in some ranges. @returns {[string, number, number][]} */
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
