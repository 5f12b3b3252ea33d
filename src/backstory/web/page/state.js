/** What the page knows: signals, the API, and the texts that were fetched. No elements here. */
import { batch, computed, signal } from "@preact/signals";
import { emptyLog, filled, framed, leftBy, ranges } from "page/lineage.js";

/** The answers inside this file, if the page is not served. */
export let file = null;
export const answerFrom = (answers) => {
  file = answers;
};
const given = JSON.parse(document.querySelector("meta[name=backstory]").getAttribute("content"));
export const root = given.root;
export const canWrite = given.write;
export const user = given.user;

const CHUNK = 200; // lines that are asked for at once
const MOST_LINES = 20000;
const NEWEST = 5000; // events of the first block: those that are read first
const MOST_OUTLINED = 100000; // events of the other blocks
const MOST_EVENTS = 600;

export const route = signal({ view: "none" });
export const agents = signal(new Map());
export const title = signal(""); // of the open session
export const log = signal(emptyLog());
/** Whose log this is: the route may be ahead of it, until the outline has come. */
export const shown = computed(() => log.value.pieces.at(-1)?.[0] ?? "");
export const cursor = signal(0);
export const following = signal(true);
export const readTo = signal(0); // where reading stopped when following ended
export const unseen = computed(() => (following.value ? 0 : log.value.head - readTo.value));
export const PANES = { context: "Context", event: "Event", request: "Request", diff: "Compare" };
export const pane = signal("context");
export const format = signal(""); // of the request pane; empty: that of the last answer
export const other = signal(null); // the other side of a diff: {agent, at}
export const find = signal(null); // {q, positions, done}
export const dialog = signal(null);
/** A handler that gives a signal a value, or that of the element in which something was typed or chosen. */
export const setTo = (to, value) => () => {
  to.value = value;
};
export const setTyped = (to) => (event) => {
  to.value = event.target.value;
};
export const show = (name, more) => {
  dialog.value = { name, ...more };
};
export const toast = signal(null);
export const live = signal("off"); // off, on, lost
export const failure = signal("");
export const texts = signal(0); // counts arrivals: who reads it is drawn again
export const looks = signal(0); // the same for changes of size and colours
export const heard = signal([]); // heads of the last message of the stream
export const domain = signal(null); // [low, high] in x units if the scrubber is zoomed

export const here = () => route.value.agent;
export const agent = computed(() => agents.value.get(here()));
export const liveRanges = computed(() => ranges(log.value, cursor.value));
export const leftAt = (seq) => leftBy(liveRanges.value, seq);

export const KINDS = {
  s: "system",
  u: "user",
  i: "user", // nobody typed it: commands, environments and the like, as importers mark them
  a: "assistant",
  c: "tool_call",
  r: "tool_result",
  m: "mark",
  n: "note",
  x: "clear",
  w: "rewind",
  j: "jump",
  "?": "unknown",
};
export const OUTSIDE =
  "The provider counted these, but the log does not contain them: another program's prompt and tools";
export const WORDS = { tool_call: "call", tool_result: "result" };
/** The variable of the style sheet that has the colour of a kind. */
export const hue = (kind) => (/clear|rewind|jump/.test(kind) ? "move" : kind);
export const letterAt = (seq) => String.fromCharCode(log.value.kinds[seq - 1]);
export const kindAt = (seq) => KINDS[letterAt(seq)] || "unknown";
export { number, counted, costOf } from "page/format.js";
/** What a move is called: a clear that a summary follows is a compaction. */
export const moveAt = (seq) => (log.value.compactions.has(seq) ? "compaction" : kindAt(seq));
export const timeOf = (seq) => new Date(log.value.times[seq - 1] * 1000);

// --- asking ---

export class Failed extends Error {
  constructor(status, body) {
    super(body.error || `the server answered ${status}`);
    Object.assign(this, { status, head: body.head });
  }
}

/** The key of this run. All tabs of the browser have it; it is never sent by itself, as a cookie would be. */
const KEY = `backstory-key ${root}`;
export const readKey = () => localStorage.getItem(KEY) || "";
export const setKey = (value) => localStorage.setItem(KEY, value);
/** Loads the tabs again that have an old key, when an address of a new run was opened in another one. */
window.addEventListener("storage", (event) => {
  if (event.key === KEY && dialog.value?.name === "locked") window.location.reload();
});

/** @param {string} path @param {{body?: object, signal?: AbortSignal, raw?: boolean}} [options] @returns {Promise<any>} */
export async function ask(path, { body, signal: stop, raw } = {}) {
  if (file) return raw ? file.rawOf(path) : file.answerOf(path);
  const key = readKey();
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  if (body) headers["content-type"] = "application/json";
  const options = {
    headers,
    signal: stop,
    method: body ? "POST" : "GET",
    body: body && JSON.stringify(body),
  };
  const answer = await fetch(`${root}/api${path}`, options);
  if (raw && answer.ok) return answer;
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Failed(answer.status, found);
  return found;
}

/** Shows what went wrong; what was given up on purpose is nobody's business. */
export function trouble(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) show("locked", { why: error.message });
  else failure.value = error instanceof TypeError ? "The server is not responding." : error.message;
}

// --- addresses ---

export const MISSING = { view: "missing" };
const put = (url) => (file ? `#${url}` : url);

export function parse(location) {
  const from = file ? file.locate(location) : location;
  const path = from.pathname.slice(root.length);
  const { pane: name, ...query } = Object.fromEntries(new URLSearchParams(from.search));
  const bench = /^\/s\/([^/]+)\/a\/([^/@]+)(?:@(\d+))?$/.exec(path);
  if (bench) {
    const [, session, agent, at] = bench;
    const shows = name in PANES ? name : "context";
    return { ...query, view: "workbench", session, agent, at: at ? Number(at) : null, pane: shows };
  }
  if (path.startsWith("/r/")) return { view: "reference", ref: path.slice(3) }; // still encoded
  if (path === "/check") return { view: "check" };
  return path === "/" ? { view: "sessions" } : MISSING;
}

export function addressOf(id, at) {
  const one = agents.value.get(id);
  return `${root}/s/${one ? one.session : route.value.session}/a/${id}${at === null ? "" : `@${at}`}`;
}

export function address() {
  const query = new URLSearchParams();
  if (pane.value !== "context") query.set("pane", pane.value);
  if (pane.value === "request" && format.value) query.set("format", format.value);
  if (pane.value === "diff" && other.value)
    query.set("with", `${other.value.agent}@${other.value.at}`);
  if (find.value?.q) query.set("q", find.value.q);
  const path = addressOf(here(), following.value ? null : cursor.value);
  return path + (query.size ? `?${query}` : "");
}

let waiting = 0;
let last = "";
/** Writes where we are into the address: a jump adds to the history, a step replaces it, at most every 150 ms. */
export function remember(jumped) {
  if (route.value.view !== "workbench") return;
  if (jumped) {
    settle();
    history.pushState(null, "", put(address()));
  } else {
    forget();
    last = address();
    waiting = setTimeout(settle, 150);
  }
}

function settle() {
  if (last) history.replaceState(null, "", put(last));
  forget();
}

/** Leaves the last step unwritten: its entry of the history is not the current one any more. */
export function forget() {
  clearTimeout(waiting);
  last = "";
}

export const reference = (seq) => `${agent.value ? agent.value.name : ""}@${seq}`;
export const link = (seq) => new URL(put(addressOf(here(), seq)), window.location.href).href;

// --- moving about ---

export function go(position, { jump = false, follow = false } = {}) {
  const at = Math.max(0, Math.min(position, log.value.head));
  batch(() => {
    if (following.value || at === log.value.head) readTo.value = log.value.head;
    following.value = follow;
    cursor.value = at;
  });
  remember(jump);
}

export function showPane(name) {
  pane.value = name;
  remember(false);
}

/** Compares with this position from now on. */
export function pin() {
  other.value = { agent: here(), at: cursor.value };
  toast.value = { text: `Comparing with ${reference(cursor.value)} from now on` };
}

export const goHead = () => go(log.value.head, { jump: true, follow: true });

/** Opens another agent, or another position of one, and adds to the history. */
export function open(id, at = null) {
  navigate(addressOf(id, at) + (pane.value === "context" ? "" : `?pane=${pane.value}`));
}

export function navigate(url, replaces = false) {
  settle();
  history[replaces ? "replaceState" : "pushState"](null, "", put(url));
  route.value = parse(window.location);
}

/** The agent whose own event this is. */
export function ownerOf(seq) {
  for (const [id, low, high] of log.value.pieces) if (seq >= low && seq <= high) return id;
  return here();
}

// --- what was fetched; events never change, so nothing is fetched twice while it is kept ---

const lines = new Map(); // by owner and position
const events = new Map();

const keep = (map, name, most, value) => {
  map.delete(name);
  map.set(name, value);
  while (map.size > most) map.delete(map.keys().next().value);
};

const nameOf = (seq) => `${ownerOf(seq)}:${seq}`;
export const textAt = (seq) => (texts.value >= 0 ? lines.get(nameOf(seq)) : undefined);
export const eventAt = (seq) => (texts.value >= 0 ? events.get(nameOf(seq)) : undefined);

/** Returns "agent after until" for the lines of some positions that are not here yet, or "". */
export function findMissingLines(seqs) {
  const missing = seqs.find((seq) => textAt(seq) === undefined);
  if (missing === undefined) return "";
  // From where the known texts end; in the middle of nowhere, as much before as behind what is in view.
  const isEdge = missing > 1 && textAt(missing - 1) !== undefined;
  const after = Math.max(0, isEdge ? missing - 1 : (missing - 1 - (CHUNK - seqs.length) / 2) | 0);
  let until = Math.min(after + CHUNK, log.value.head);
  for (let seq = missing + 1; seq < until; seq++) if (textAt(seq) !== undefined) until = seq - 1;
  return `${here()} ${after} ${until}`;
}

export async function loadLines(name, stop) {
  const [id, after, until] = name.split(" ");
  const found = await ask(`/agents/${id}/lines?after=${after}&until=${until}`, { signal: stop });
  if (id !== here()) return;
  for (const [seq, text] of found.lines) keep(lines, nameOf(seq), MOST_LINES, text);
  texts.value += 1;
}

export async function loadEvents(seqs, { stop = undefined, full = false } = {}) {
  const id = here();
  const path = `/agents/${id}/events?seqs=${seqs.join(",")}${full ? "&full=1" : ""}`;
  const found = await ask(path, { signal: stop });
  if (id !== here()) return;
  for (const event of found.events) keep(events, nameOf(event.seq), MOST_EVENTS, event);
  texts.value += 1;
}

// --- loading ---

const logs = new Map();

export async function loadAgents(session) {
  const found = await ask(`/sessions/${session}/agents`);
  title.value = found.title;
  agents.value = new Map(found.agents.map((one) => [one.id, one]));
}

const loads = new Map(); // one at a time for each agent

/** Brings an agent's log up to date. `tell` is called with each log that knows more. */
export async function loadLog(id, tell) {
  while (loads.has(id)) await loads.get(id).catch(() => {});
  const load = loadBlocks(id, tell).finally(() => loads.delete(id));
  loads.set(id, load);
  await load;
}

/** Asks for the frame and the newest events, then for those before. */
async function loadBlocks(id, tell) {
  const known = logs.get(id) || emptyLog();
  const frame = await ask(`/agents/${id}/frame?after=${known.head}`);
  let next = frame.head > known.head || !known.pieces.length ? framed(known, frame) : known;
  let most = file ? Infinity : NEWEST;
  for (let until = next.head; until > known.head; most = MOST_OUTLINED) {
    const after = Math.max(known.head, until - most);
    next = filled(next, await ask(`/agents/${id}/outline?after=${after}&until=${until}`));
    until = after;
    if (until > known.head) tell(next);
  }
  keep(logs, id, 4, next);
  tell(next);
}

/** Loads what is new of the open agent: it moves the cursor only while following. */
export async function catchUp() {
  const id = here();
  await loadLog(id, (next) => {
    if (id !== here() || shown.value !== id) return;
    batch(() => {
      log.value = next;
      if (following.value) cursor.value = next.head;
    });
  });
}
