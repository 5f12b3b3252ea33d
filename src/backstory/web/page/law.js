/** What is live at any position, from an outline alone: context(n) = context(base(n)) + event n, if it shows.
 *  Pure; tests/web/test_law.py compares it with the engine's replay at every position. */

/** @typedef {{head: number, kinds: Uint8Array, tokens: Uint32Array, times: Float64Array, size: Float64Array,
 *   count: Uint32Array, valid: Uint8Array, partner: Uint32Array, moves: number[], bases: number[], errors: Set<number>,
 *   marks: [number, string|null][], compactions: Map<number, number>, pieces: [string, number, number][],
 *   sums: Float64Array[], peaks: number[]}} Log */

const [NEVER, MOVING] = ["x?", "wj"].map((letters) => new Set([...letters].map((c) => c.charCodeAt(0))));

/** @returns {Log} */
export function emptyLog() {
  return { head: 0, kinds: new Uint8Array(0), tokens: new Uint32Array(0), times: new Float64Array(0),
    size: new Float64Array(1), count: new Uint32Array(1), valid: new Uint8Array(0), partner: new Uint32Array(0), moves: [],
    bases: [], errors: new Set(), marks: [], compactions: new Map(), pieces: [], sums: [], peaks: [] };
}

const grown = (array, length) => {
  if (array.length >= length) return array;
  const more = new array.constructor(Math.max(length, array.length * 1.25 | 0));
  more.set(array);
  return more;
};

/** The log with what an outline adds behind its head. @param {Log} log @returns {Log} */
export function extended(log, outline) {
  if (outline.after !== log.head) throw new Error("an outline does not follow the log");
  const next = { ...log, head: outline.head, pieces: outline.pieces };
  const room = Math.max(next.head, outline.last || 0); // of an outline that comes in pages
  for (const name of ["kinds", "tokens", "times", "valid", "partner"]) next[name] = grown(log[name], room);
  for (const name of ["size", "count"]) next[name] = grown(log[name], room + 1);
  next.moves = log.moves.concat(outline.bases.map((pair) => pair[0]));
  next.bases = log.bases.concat(outline.bases.map((pair) => pair[1]));
  next.marks = log.marks.concat(outline.marks);
  for (const seq of outline.errors) next.errors.add(seq);
  for (const [clear, summary] of outline.compactions) next.compactions.set(clear, summary);
  for (const [call, result] of outline.calls) [next.partner[call - 1], next.partner[result - 1]] = [result, call];
  next.size[0] = outline.request; // of every context: the frame and the tools of a request
  let [time, move] = [0, log.moves.length];
  for (let n = log.head + 1, i = 0; n <= next.head; n++, i++) {
    next.kinds[n - 1] = outline.kinds.charCodeAt(i);
    next.tokens[n - 1] = outline.tokens[i];
    next.times[n - 1] = time += outline.times[i];
    const based = next.moves[move] === n;
    const base = based ? next.bases[move++] : n - 1;
    next.valid[n - 1] = based ? 1 : 0;
    const adds = shows(next, n);
    next.size[n] = next.size[base] + (adds ? next.tokens[n - 1] : 0);
    next.count[n] = next.count[base] + (adds ? 1 : 0);
  }
  return next;
}

/** Whether an event is part of the contexts that contain its position. @param {Log} log */
export function shows(log, seq) {
  const kind = log.kinds[seq - 1];
  return MOVING.has(kind) ? log.valid[seq - 1] === 1 : !NEVER.has(kind);
}

/** The live positions at a position, as [first, last], oldest first. @param {Log} log */
export function ranges(log, at) {
  const found = [];
  while (at > 0) {
    const place = before(log.moves, at);
    found.push([place < 0 ? 1 : log.moves[place], at]);
    at = place < 0 ? 0 : log.bases[place];
  }
  return found.reverse();
}

/** The index of the last value that is at most `most`, in ascending values; -1 if there is none. */
export function before(values, most) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= most) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
