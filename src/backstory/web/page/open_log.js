/** The open log: its agent, the cursor, the texts that were fetched, and what is new. No elements here. */
import { batch, computed, effect, signal } from "@preact/signals";
import * as state from "page/state.js";
import { agents, ask, pane, route } from "page/state.js";
import { emptyLog, addBlock, addFrame, leftBy, ranges } from "page/lineage.js";

const CHUNK = 200; // lines that are asked for at once
const MOST_LINES = 20000;
const NEWEST = 5000; // events of the first block: those that are read first
const MOST_OUTLINED = 100000; // events of the other blocks
const MOST_EVENTS = 600;

export const log = signal(emptyLog());
/** Whose log this is. The route is ahead of it until the next outline has come. */
export const openId = computed(() => log.value.pieces.at(-1)?.[0] ?? "");
export const openAgent = computed(() => agents.value.get(openId.value));
export const cursor = signal(0);
export const following = signal(true);
export const readTo = signal(0); // where reading stopped when following ended
export const newCount = computed(() => (following.value ? 0 : log.value.head - readTo.value));
export const liveRanges = computed(() => ranges(log.value, cursor.value));
const texts = signal(0); // counts arrivals: who reads it is drawn again

export const leftAt = (seq) => leftBy(liveRanges.value, seq);
export const letterAt = (seq) => String.fromCharCode(log.value.kinds[seq - 1]);
export const kindAt = (seq) => state.KINDS[letterAt(seq)] || "unknown";
/** What a move is called: a clear that a summary follows is a compaction. */
export const moveAt = (seq) => (log.value.compactions.has(seq) ? "compaction" : kindAt(seq));
export const timeOf = (seq) => new Date(log.value.times[seq - 1] * 1000);
export const reference = (seq) => `${openAgent.value?.name || ""}@${seq}`;
export const link = (seq) =>
  new URL(state.writeHref(state.addressOf(openId.value, seq)), window.location.href).href;

// --- the cursor ---

function writeQuery() {
  const query = new URLSearchParams();
  const { format, otherSide, find } = state;
  if (pane.value !== "context") query.set("pane", pane.value);
  if (pane.value === "request" && format.value) query.set("format", format.value);
  if (pane.value === "diff" && otherSide.value)
    query.set("with", `${otherSide.value.agent}@${otherSide.value.at}`);
  if (find.value?.q) query.set("q", find.value.q);
  return query.size ? `?${query}` : "";
}

/** Writes where we are into the address, unless it names what comes next. */
export function remember(isJump) {
  if (route.value.agent !== openId.value) return;
  const path = state.addressOf(openId.value, following.value ? null : cursor.value);
  state.writeAddress(path + writeQuery(), isJump);
}

export function go(position, { jump = false, follow = false } = {}) {
  const at = Math.max(0, Math.min(position, log.value.head));
  batch(() => {
    if (following.value || at === log.value.head) readTo.value = log.value.head;
    following.value = follow;
    cursor.value = at;
  });
  remember(jump);
}

export const goHead = () => go(log.value.head, { jump: true, follow: true });

export function showPane(name) {
  pane.value = name;
  remember(false);
}

/** Compares with this position from now on. */
export function pin() {
  state.pinned.value = { agent: openId.value, at: cursor.value };
  state.toast.value = { text: `Comparing with ${reference(cursor.value)} from now on` };
}

// --- texts: events never change, so nothing is fetched twice ---

const lines = new Map(); // by owner and position
const events = new Map();

const keep = (map, name, most, value) => {
  map.delete(name);
  map.set(name, value);
  while (map.size > most) map.delete(map.keys().next().value);
};

/** The agent whose own event this is. */
export function ownerOf(seq) {
  for (const [owner, low, high] of log.value.pieces) if (seq >= low && seq <= high) return owner;
  return openId.value;
}

const nameOf = (seq) => `${ownerOf(seq)}:${seq}`;
export const textAt = (seq) => (texts.value >= 0 ? lines.get(nameOf(seq)) : undefined);
export const eventAt = (seq) => (texts.value >= 0 ? events.get(nameOf(seq)) : undefined);

/** Returns the path of the lines of some positions that are not here yet, or "". */
export function findMissingLines(seqs) {
  const missing = seqs.find((seq) => textAt(seq) === undefined);
  if (missing === undefined) return "";
  // After the known texts; if there are none, around what is in view.
  const isEdge = missing > 1 && textAt(missing - 1) !== undefined;
  const after = Math.max(0, isEdge ? missing - 1 : (missing - 1 - (CHUNK - seqs.length) / 2) | 0);
  let until = Math.min(after + CHUNK, log.value.head);
  for (let seq = missing + 1; seq < until; seq++) if (textAt(seq) !== undefined) until = seq - 1;
  return `lines?after=${after}&until=${until}`;
}

/** Returns an answer about the open agent, or nothing if another one was opened in the meantime. */
async function askOpen(path, stop) {
  const asked = openId.value;
  const found = await ask(`/agents/${asked}/${path}`, { signal: stop });
  return openId.value === asked ? found : { lines: [], events: [] };
}

export async function loadLines(path, stop) {
  const found = await askOpen(path, stop);
  for (const [seq, text] of found.lines) keep(lines, nameOf(seq), MOST_LINES, text);
  texts.value += 1;
}

export async function loadEvents(seqs, { stop = undefined, full = false } = {}) {
  const found = await askOpen(`events?seqs=${seqs.join(",")}${full ? "&full=1" : ""}`, stop);
  for (const event of found.events) keep(events, nameOf(event.seq), MOST_EVENTS, event);
  texts.value += 1;
}

// --- loading ---

const logs = new Map();
const loads = new Map(); // one at a time for each agent

/** Brings an agent's log up to date. `tell` is called with each log that knows more. */
export async function loadLog(owner, tell) {
  while (loads.has(owner)) await loads.get(owner).catch(() => {});
  const load = loadBlocks(owner, tell).finally(() => loads.delete(owner));
  loads.set(owner, load);
  await load;
}

/** Asks for the frame and the newest events, then for those before. */
async function loadBlocks(owner, tell) {
  const known = logs.get(owner) || emptyLog();
  const frame = await ask(`/agents/${owner}/frame?after=${known.head}`);
  let next = frame.head > known.head || !known.pieces.length ? addFrame(known, frame) : known;
  let most = state.file ? Infinity : NEWEST;
  for (let until = next.head; until > known.head; most = MOST_OUTLINED) {
    const after = Math.max(known.head, until - most);
    next = addBlock(next, await ask(`/agents/${owner}/outline?after=${after}&until=${until}`));
    until = after;
    if (until > known.head) tell(next);
  }
  keep(logs, owner, 4, next);
  tell(next);
}

/** Loads what is new of the open agent: it moves the cursor only while following. */
export async function catchUp() {
  const open = openId.peek();
  if (!open) return;
  await loadLog(open, (next) => {
    if (openId.peek() !== open) return;
    batch(() => {
      log.value = next;
      if (following.value) cursor.value = next.head;
    });
  });
}

effect(() => {
  if (openAgent.value?.head > log.value.head) catchUp().catch(state.trouble);
});
