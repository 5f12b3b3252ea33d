/** The page as one file (`backstory export --to html`): what a server would answer comes out of the file itself.
 *  It holds the events of one session, and the requests at one position. A script of its own (static/file.js), which
 *  runs before the page's in such a file and is not part of what a server serves. */
import { leftBy } from "./changes.js";
import { emptyLog, extended, ranges, shows } from "./law.js";

const held = JSON.parse(document.getElementById("answers").textContent);

const KINDS = { s: "system", u: "user", a: "assistant", c: "tool_call", r: "tool_result" };
const logs = new Map();
function logOf(id) {
  if (!held.logs[id]) throw new Missing("there is no such agent in this file");
  if (!logs.has(id)) logs.set(id, extended(emptyLog(), held.logs[id].outline));
  return logs.get(id);
}

class Missing extends Error {
  status = 404;
}

const ownerOf = (id, seq) => (logOf(id).pieces.find(([, low, high]) => seq >= low && seq <= high) || [id])[0];
const eventOf = (id, seq) => held.logs[ownerOf(id, seq)].events[seq];
const lineOf = (id, seq) => held.logs[ownerOf(id, seq)].lines[seq];
const positions = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, n) => from + n + 1);

function explain(id, seq, at) {
  const by = leftBy(ranges(logOf(id), at), seq);
  const event = eventOf(id, seq);
  const said = `event ${seq} (${event ? event.kind : "unknown"})`;
  return { by: by || null, live: !by, reason: by ? `${said} was left behind by the ${eventOf(id, by).kind} at ${by}` : `${said} is in the context` };
}

/** The messages of a context, each under the name of the one event that it is. */
function messages(id, at) {
  const log = logOf(id);
  const found = new Map();
  for (const [low, high] of ranges(log, at)) {
    for (let seq = low; seq <= high; seq++) {
      if (KINDS[String.fromCharCode(log.kinds[seq - 1])] && shows(log, seq)) found.set(`${ownerOf(id, seq)}:${seq}`, eventOf(id, seq));
    }
  }
  return found;
}

function diff(left, right) {
  const [[mine, from], [theirs, to]] = [left.split("@"), right.split("@")];
  const [a, b] = [messages(mine, Number(from)), messages(theirs, Number(to))];
  const only = (one, other) => [...one].filter(([name]) => !other.has(name)).map(([, event]) => event);
  const changes = [...only(a, b).map((event) => ({ op: "-", left: event, right: null, words: [] })), ...only(b, a).map((event) => ({ op: "+", left: null, right: event, words: [] }))];
  const shared = logOf(mine).pieces.flatMap(([id, , high]) => logOf(theirs).pieces.filter(([one]) => one === id).map(([, , end]) => Math.min(high, end)));
  return { common: a.size - only(a, b).length, changes, total: changes.length, parted: Math.min(Math.max(0, ...shared), Number(from), Number(to)), left: { agent: mine, at: Number(from) }, right: { agent: theirs, at: Number(to) } };
}

const text = (event, line) => `${line}\n${event.content || ""}`.toLowerCase();

function search(words) {
  const wanted = words.toLowerCase().split(/\s+/).map((word) => word.replace(/["*]/g, ""));
  const hits = [];
  for (const one of held.agents) {
    const { events, lines } = held.logs[one.id];
    for (const [seq, event] of Object.entries(events)) {
      if (hits.length >= 50 || !wanted.every((word) => text(event, lines[seq]).includes(word))) continue;
      const live = !leftBy(ranges(logOf(one.id), one.head), Number(seq));
      hits.push({ agent: one.id, session: one.session, ref: `${one.name}@${seq}`, seq: Number(seq), kind: event.kind, live, snippet: lines[seq], spans: [] });
    }
  }
  return { hits, next: null, behind: 0 };
}

function usage(id) {
  return { next: null, models: positions(0, logOf(id).head).map((seq) => eventOf(id, seq)).filter((event) => event && event.usage).map((event) => event.usage) };
}

function requestOf(id, query) {
  const { agent, at } = held.open;
  if (agent !== id || at !== Number(query.get("at"))) throw new Missing(`This file holds only the request at position ${at} of ${held.agents.find((one) => one.id === agent).name}. \`backstory web\` shows the others.`);
  return held.requests[query.get("format") || "openai"];
}

function request(id, query) {
  const found = requestOf(id, query);
  const after = Number(query.get("after"));
  return { ...found, messages: found.messages.slice(after, after + 30), origins: found.origins.slice(after, after + 30) };
}

/** What the server would answer to a path below /api. */
function answerOf(path) {
  const { pathname, searchParams: query } = new URL(path, "file:///");
  const [, what, id, part, more] = pathname.split("/");
  const number = (name) => Number(query.get(name)) || 0;
  switch (what === "agents" || what === "sessions" ? `${what}/${part || ""}` : what) {
    case "sessions/": return { sessions: [held.session], more: false };
    case "sessions/agents": return { title: held.title, agents: held.agents };
    case "sessions/curve": return { curve: held.curve };
    case "agents/outline": return number("after") ? { ...held.logs[id].outline, after: number("after"), head: number("after"), kinds: "", bases: [], marks: [], errors: [], calls: [], compactions: [] } : held.logs[id].outline;
    case "agents/lines": return { lines: positions(number("after"), Math.min(number("until"), logOf(id).head)).map((seq) => [seq, lineOf(id, seq)]) };
    case "agents/events": return { events: query.get("seqs").split(",").map((seq) => eventOf(id, Number(seq))).filter(Boolean) };
    case "agents/explain": return explain(id, Number(more), number("at"));
    case "agents/find": return { next: null, positions: positions(0, logOf(id).head).filter((seq) => text(eventOf(id, seq), lineOf(id, seq)).includes(query.get("q").toLowerCase())) };
    case "agents/usage": return usage(id);
    case "agents/request": return request(id, query);
    case "diff": return diff(query.get("left"), query.get("right"));
    case "search": return search(query.get("q"));
    default: throw new Missing("This is not in this file: `backstory web` shows it.");
  }
}

/** The whole request, for the clipboard and for a download. */
function rawOf(path) {
  const { pathname, searchParams: query } = new URL(path, "file:///");
  if (!pathname.endsWith("/request.json")) throw new Missing("This is not in this file.");
  const { messages: all, key, rest } = requestOf(pathname.split("/")[2], query);
  return new Response(JSON.stringify({ ...rest, [key]: all }));
}

/** Where the page begins. */
const opening = () => `/s/${held.open.session}/a/${held.open.agent}@${held.open.at}`;

/** Takes the place of what the file shows without a script. */
function takeOver() {
  document.querySelector("style:not(#page)").remove();
  document.getElementById("page").removeAttribute("media");
  const app = document.createElement("div");
  app.id = "app";
  document.body.replaceChildren(app);
}

Object.assign(window, { backstoryFile: { answerOf, rawOf, opening, takeOver } });
