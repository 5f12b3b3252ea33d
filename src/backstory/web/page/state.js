/** Signals beside the open log, the API, and addresses. No elements here. */
import { computed, signal } from "@preact/signals";

/** The answers inside this file, if the page is not served. */
export let file = null;
export const answerFrom = (answers) => {
  file = answers;
};
const given = JSON.parse(document.querySelector("meta[name=backstory]").getAttribute("content"));
export const root = given.root;
export const canWrite = given.write;
export const user = given.user;

export const route = signal({ view: "none" });
export const agents = signal(new Map());
export const title = signal(""); // of the open session
export const PANES = { context: "Context", event: "Event", request: "Request", diff: "Compare" };
export const pane = signal("context");
export const format = signal(""); // of the request pane; empty: that of the last answer
export const pinned = signal(null); // the other side of a diff: {agent, at}
/** The other side, if it is in the open session. */
export const otherSide = computed(() =>
  agents.value.has(pinned.value?.agent) ? pinned.value : null,
);
export const find = signal(null); // {q, positions, next}
export const dialog = signal(null);
/** A handler that sets a signal to a value, or to that of its element. */
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
export const looks = signal(0); // counts changes of size and colours
export const newHeads = signal([]); // heads of the last message of the stream
export const domain = signal(null); // [low, high] in x units if the scrubber is zoomed

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
// --- asking ---

export class Failed extends Error {
  constructor(status, body) {
    super(body.error || `the server answered ${status}`);
    Object.assign(this, { status, head: body.head });
  }
}

/** The key of this run, for all tabs. The browser never sends it by itself, as it would a cookie. */
const KEY = `backstory-key ${root}`;
export const readKey = () => localStorage.getItem(KEY) || "";
export const setKey = (value) => localStorage.setItem(KEY, value);
/** When another tab gets a new key, a tab that was locked out loads again. */
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

/** Shows an error, unless a request was aborted. */
export function trouble(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) show("locked", { why: error.message });
  else failure.value = error instanceof TypeError ? "The server is not responding." : error.message;
}

// --- addresses ---

export const MISSING = { view: "missing" };
export const writeHref = (url) => (file ? `#${url}` : url);

export function parse(location) {
  const from = file ? file.locate(location) : location;
  const path = from.pathname.slice(root.length);
  const { pane: name, ...query } = Object.fromEntries(new URLSearchParams(from.search));
  const bench = /^\/s\/([^/]+)\/a\/([^/@]+)(?:@(\d+))?$/.exec(path);
  if (bench) {
    const [, session, agent, at] = bench;
    const shows = Object.hasOwn(PANES, name) ? name : "context";
    return { ...query, view: "workbench", session, agent, at: at ? Number(at) : null, pane: shows };
  }
  if (path.startsWith("/r/")) return { view: "reference", ref: path.slice(3) }; // still encoded
  if (path === "/check") return { view: "check" };
  return path === "/" ? { view: "sessions" } : MISSING;
}

export function addressOf(id, at) {
  const one = agents.value.get(id);
  return `${root}/s/${one?.session ?? route.value.session}/a/${id}${at === null ? "" : `@${at}`}`;
}

let waiting = 0;
let last = "";
/** Writes an address: a jump adds to the history, a step replaces it, at most every 150 ms. */
export function writeAddress(address, isJump) {
  if (isJump) {
    settle();
    history.pushState(null, "", writeHref(address));
  } else {
    forget();
    last = address;
    waiting = setTimeout(settle, 150);
  }
}

function settle() {
  if (last) history.replaceState(null, "", writeHref(last));
  forget();
}

/** Leaves the last step unwritten: another entry of the history is the current one. */
export function forget() {
  clearTimeout(waiting);
  last = "";
}

/** Opens another agent, or another position of one, and adds to the history. */
export function open(id, at = null) {
  navigate(addressOf(id, at) + (pane.value === "context" ? "" : `?pane=${pane.value}`));
}

export function navigate(url, replaces = false) {
  settle();
  history[replaces ? "replaceState" : "pushState"](null, "", writeHref(url));
  route.value = parse(window.location);
}

export async function loadAgents(session) {
  const found = await ask(`/sessions/${session}/agents`);
  if (route.peek().session !== session) return;
  title.value = found.title;
  agents.value = new Map(found.agents.map((one) => [one.id, one]));
}
