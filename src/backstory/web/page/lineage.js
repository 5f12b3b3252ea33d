/** What is live at any position: context(n) = context(base(n)) + event n, if it shows. A frame (head, pieces and
 *  moves) is enough for that; sizes are there when every block has arrived, in any order.
 *  Pure; tests/web/test_law.py compares it with the engine's replay at every position. */

const NEVER = "x?";
const MOVING = "wj";

export function emptyLog() {
  return {
    head: 0,
    kinds: new Uint8Array(0),
    tokens: new Uint32Array(0),
    times: new Float64Array(0),
    size: new Float64Array(1),
    count: new Uint32Array(1),
    valid: new Uint8Array(0),
    partner: new Uint32Array(0),
    moves: [],
    bases: [],
    errors: new Set(),
    marks: [],
    compactions: new Map(),
    pieces: [],
    reads: new Map(), // answers, and how many tokens their providers counted before them
    outside: new Float64Array(1), // of these, those that are not in the log, at each position
    sized: 0, // the last position whose size is known
    missing: 0, // events whose block has not arrived
    format: "openai", // of the provider that answered last
  };
}

const growArray = (array, length) => {
  if (array.length >= length) return array;
  const more = new array.constructor(Math.max(length, (array.length * 1.25) | 0));
  more.set(array);
  return more;
};

export function addFrame(log, frame) {
  const { head, pieces, request, format } = frame;
  const next = { ...log, head, pieces, format };
  for (const name of ["kinds", "tokens", "times", "valid", "partner"])
    next[name] = growArray(log[name], head);
  for (const name of ["size", "count", "outside"]) next[name] = growArray(log[name], head + 1);
  next.moves = log.moves.concat(frame.moves.map(([seq]) => seq));
  next.bases = log.bases.concat(frame.moves.map(([, base]) => base));
  for (const [seq] of frame.moves) next.valid[seq - 1] = 1;
  next.missing = log.missing + head - log.head;
  next.size[0] = request; // of every context: the frame and the tools of a request
  return next;
}

/** Adds a block's columns. Changes the arrays and sets of `log`; only the object is new. */
export function addBlock(log, block) {
  const next = { ...log };
  let time = 0;
  block.tokens.forEach((tokens, index) => {
    const at = block.after + index;
    next.kinds[at] = block.kinds.charCodeAt(index);
    next.tokens[at] = tokens;
    next.times[at] = time += block.times[index];
  });
  next.marks = log.marks.concat(block.marks).sort((one, other) => one[0] - other[0]);
  for (const seq of block.errors) next.errors.add(seq);
  for (const [clear, summary] of block.compactions) next.compactions.set(clear, summary);
  for (const [seq, read] of block.reads) next.reads.set(seq, read);
  for (const [call, result] of block.calls) {
    next.partner[call - 1] = result;
    next.partner[result - 1] = call;
  }
  next.missing -= block.tokens.length;
  if (!next.missing) measure(next);
  return next;
}

/** Computes what needs all blocks. */
function measure(log) {
  let move = findLastIndexAtMost(log.moves, log.sized) + 1;
  const first = log.sized ? null : [...log.reads.keys()].sort((one, other) => one - other)[0];
  for (let n = log.sized + 1; n <= log.head; n++) {
    const isMove = log.moves[move] === n;
    const base = isMove ? log.bases[move++] : n - 1;
    const adds = shows(log, n);
    log.size[n] = log.size[base] + (adds ? log.tokens[n - 1] : 0);
    log.count[n] = log.count[base] + (adds ? 1 : 0);
    if (n === first) log.outside.fill(outsideAt(log, n, base), 0, n); // the system prompt was always sent
    log.outside[n] = log.reads.has(n) ? outsideAt(log, n, base) : log.outside[base];
  }
  log.sized = log.head;
}

/** Of the tokens that a provider counted before an answer, those that are not in the log. */
const outsideAt = (log, seq, base) => Math.max(0, log.reads.get(seq) - log.size[base]);

/** Whether an event is part of the contexts that contain its position. */
export function shows(log, seq) {
  const letter = String.fromCharCode(log.kinds[seq - 1]);
  return MOVING.includes(letter) ? log.valid[seq - 1] === 1 : !NEVER.includes(letter);
}

/** The live positions at a position, as [first, last], oldest first. */
export function ranges(log, at) {
  const found = [];
  while (at > 0) {
    const place = findLastIndexAtMost(log.moves, at);
    found.push([place < 0 ? 1 : log.moves[place], at]);
    at = place < 0 ? 0 : log.bases[place];
  }
  return found.reverse();
}

/** The index of the last value that is at most `most`, in ascending values; -1 if there is none. */
export function findLastIndexAtMost(values, most, read = (value) => value) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (read(values[middle]) <= most) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The move that left a position behind, 0 if it is in the live ranges. */
export function leftBy(live, seq) {
  const next = live[findLastIndexAtMost(live, seq - 1, ([, last]) => last) + 1];
  return next && seq < next[0] ? next[0] : 0;
}

/** The parts of some ranges that are in none of the others; both ascending. */
export function subtractRanges(ranges, others) {
  const found = [];
  for (const [first, last] of ranges) {
    let low = first;
    for (const [from, to] of others) {
      if (to < low || from > last) continue;
      if (from > low) found.push([low, from - 1]);
      low = Math.max(low, to + 1);
    }
    if (low <= last) found.push([low, last]);
  }
  return found;
}

export const isWithin = (ranges, seq) => ranges.some(([low, high]) => seq >= low && seq <= high);

/** The largest context between two positions. */
export function findLargest({ size, outside, sized }, low, high) {
  let most = 0;
  for (let n = low; n <= Math.min(high, sized); n++) most = Math.max(most, size[n] + outside[n]);
  return most;
}

export const SPOKEN = "suiacr"; // system, user, input, assistant, call, result

/** [letter, tokens, number] of each kind of message that there is in some ranges. */
export function byKind(log, ranges) {
  if (log.missing) return [];
  const tokens = new Float64Array(128);
  const numbers = new Uint32Array(128);
  for (const [low, high] of ranges) {
    for (let n = low - 1; n < high; n++) {
      tokens[log.kinds[n]] += log.tokens[n];
      numbers[log.kinds[n]] += 1;
    }
  }
  /** @type {[string, number, number][]} */
  const found = [];
  for (const letter of SPOKEN) {
    const code = letter.charCodeAt(0);
    if (numbers[code]) found.push([letter, tokens[code], numbers[code]]);
  }
  return found;
}

export const countSpoken = (log, ranges) =>
  byKind(log, ranges).reduce((sum, [, , number]) => sum + number, 0);
