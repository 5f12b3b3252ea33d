/** The page as one file (`backstory export --to html`): what a server would answer comes out of the
 *  file itself. It contains the events of one session, and the requests at one position. */
import { addBlock, addFrame, emptyLog, leftBy, ranges, shows, SPOKEN } from "page/lineage.js";
import { answerFrom, Failed } from "page/state.js";

const answers = JSON.parse(document.getElementById("answers").textContent);

const MOST_HITS = 50;

const missing = (message) => new Failed(404, { error: message });

const logs = new Map();
function logOf(id) {
  if (!answers.logs[id]) throw missing("there is no such agent in this file");
  const { frame, outline } = answers.logs[id];
  if (!logs.has(id)) logs.set(id, addBlock(addFrame(emptyLog(), frame), outline));
  return logs.get(id);
}

const ownerOf = (id, seq) =>
  (logOf(id).pieces.find(([, low, high]) => seq >= low && seq <= high) || [id])[0];
const eventOf = (id, seq) => answers.logs[ownerOf(id, seq)].events[seq];
const lineOf = (id, seq) => answers.logs[ownerOf(id, seq)].lines[seq];
const between = (after, until) =>
  Array.from({ length: Math.max(0, until - after) }, (_, n) => after + n + 1);
const positionsOf = (id) => between(0, logOf(id).head);

/** Explains an event in the words of a server. */
function explain(id, seq, at) {
  const { kind } = eventOf(id, seq);
  const log = logOf(id);
  const by = leftBy(ranges(log, at), seq) || null;
  const answer = (why, by = null, live = false) => ({
    by,
    live,
    reason: `event ${seq} (${kind}) ${why}`,
  });
  if (kind !== "clear" && !shows(log, seq))
    return answer("is malformed, invalid or of an unknown kind: it has no effect");
  if (!by && kind === "clear") return answer("empties the context; it is never shown");
  if (!by) return answer("is in the context", null, true);
  const summary = log.compactions.get(by);
  if (summary) return answer(`was compacted by ${by}; the summary is at ${summary}`, by);
  return answer(`was left behind by the ${eventOf(id, by).kind} at ${by}`, by);
}

/** The messages of a context, each under the name of the one event that it is. */
function messagesAt(id, at) {
  const log = logOf(id);
  const live = ranges(log, at).flatMap(([low, high]) => between(low - 1, high));
  const isSpoken = (seq) => SPOKEN.includes(String.fromCharCode(log.kinds[seq - 1]));
  const spoken = live.filter(isSpoken);
  return new Map(spoken.map((seq) => [`${ownerOf(id, seq)}:${seq}`, eventOf(id, seq)]));
}

function sideOf(text) {
  const [agent, at] = text.split("@");
  return { agent, at: Number(at), messages: messagesAt(agent, Number(at)) };
}

/** The last position that two agents share. */
function findParting(left, right) {
  const ends = new Map(logOf(left.agent).pieces.map(([id, , high]) => [id, high]));
  const theirs = logOf(right.agent).pieces.filter(([id]) => ends.has(id));
  const shared = theirs.map(([id, , high]) => Math.min(high, ends.get(id)));
  return Math.min(Math.max(0, ...shared), left.at, right.at);
}

function diff(query) {
  const [left, right] = [sideOf(query.get("left")), sideOf(query.get("right"))];
  const only = (one, other) =>
    [...one.messages].filter(([name]) => !other.messages.has(name)).map(([, event]) => event);
  const [before, after] = [only(left, right), only(right, left)];
  const changes = [
    ...before.map((event) => ({ left: event, right: null, words: [] })),
    ...after.map((event) => ({ left: null, right: event, words: [] })),
  ];
  const first = Number(query.get("after"));
  return {
    common: left.messages.size - before.length,
    changes: changes.slice(first, first + 200),
    total: changes.length,
    parted: findParting(left, right),
    left,
    right,
  };
}

const textOf = (event, line) => `${line}\n${event.content || ""}`.toLowerCase();

function search(query) {
  const words = query.get("q").toLowerCase().replace(/["*]/g, "").split(/\s+/);
  const hits = answers.agents.flatMap((agent) => searchIn(agent, words)).slice(0, MOST_HITS);
  const groups = hits.length ? [{ session: answers.session, hits }] : [];
  return { groups, next: null, behind: 0 };
}

function searchIn({ id, name, head }, words) {
  const { events, lines } = answers.logs[id];
  const live = ranges(logOf(id), head);
  const fits = ({ seq, ...event }) =>
    words.every((word) => textOf(event, lines[seq]).includes(word));
  const found = Object.values(events).filter(fits);
  return found.map(({ seq, kind }) => ({
    agent: id,
    ref: `${name}@${seq}`,
    seq,
    kind,
    live: !leftBy(live, seq),
    snippet: lines[seq],
    spans: [],
  }));
}

function find(id, query) {
  const wanted = query.get("q").toLowerCase();
  const fits = (seq) => textOf(eventOf(id, seq), lineOf(id, seq)).includes(wanted);
  return { next: null, positions: positionsOf(id).filter(fits) };
}

function requestOf(id, query) {
  const { agent, at } = answers.open;
  if (agent === id && at === Number(query.get("at"))) return answers.requests[query.get("format")];
  const { name } = answers.agents.find((one) => one.id === agent);
  throw missing(
    `This file holds only the request at position ${at} of ${name}. \`backstory web\` shows the others.`,
  );
}

function requestPage(id, query) {
  const found = requestOf(id, query);
  const after = Number(query.get("after"));
  const cut = (rows) => rows.slice(after, after + Number(query.get("limit")));
  return { ...found, messages: cut(found.messages), origins: cut(found.origins) };
}

function lines(id, query) {
  const until = Math.min(Number(query.get("until")), logOf(id).head);
  const seqs = between(Number(query.get("after")), until);
  return { lines: seqs.map((seq) => [seq, lineOf(id, seq)]) };
}

function events(id, query) {
  const seqs = query.get("seqs").split(",").map(Number);
  return { events: seqs.map((seq) => eventOf(id, seq)).filter(Boolean) };
}

/** What the server would answer to each path below /api/agents/<id>. */
const OF_AGENTS = {
  frame: (id) => answers.logs[id].frame,
  outline: (id) => answers.logs[id].outline,
  usage: (id) => ({ models: answers.logs[id].models }),
  explain: (id, query, seq) => explain(id, Number(seq), Number(query.get("at"))),
  request: requestPage,
  lines,
  events,
  find,
};

function answerOf(path) {
  const { pathname, searchParams: query } = new URL(path, "file:///");
  const [, what, id, part, more] = pathname.split("/");
  if (what === "agents" && part in OF_AGENTS) return OF_AGENTS[part](id, query, more);
  if (what === "diff") return diff(query);
  if (what === "search") return search(query);
  if (what !== "sessions") throw missing("This is not in this file: `backstory web` shows it.");
  if (id) return { title: answers.title, agents: answers.agents };
  return { sessions: [answers.session], matching: 1, total: 1 };
}

/** The context as text. */
function writeContext(id, at) {
  const write = ({ kind, seq, content, data }) =>
    `--- ${kind} ${seq}\n${content || JSON.stringify(data)}\n`;
  return [...messagesAt(id, at).values()].map(write).join("\n");
}

/** The whole request or context, for the clipboard and for a download. */
function rawOf(path) {
  const { pathname, searchParams: query } = new URL(path, "file:///");
  const [, , id, what] = pathname.split("/");
  if (what === "text") return new Response(writeContext(id, Number(query.get("at"))));
  if (what !== "request.json") throw missing("This is not in this file.");
  const { messages, key, rest } = requestOf(id, query);
  return new Response(JSON.stringify({ ...rest, [key]: messages }));
}

const opening = `/s/${answers.open.session}/a/${answers.open.agent}@${answers.open.at}`;
/** The address is behind the #: a file has no other place for it. */
const locate = ({ hash }) => new URL(/^#\//.test(hash) ? hash.slice(1) : opening, "file:///");

/** Takes the place of what the file shows without a script. */
function takeOver() {
  document.querySelector("style:not(#page)").remove();
  document.getElementById("page").removeAttribute("media");
  const app = document.createElement("div");
  app.id = "app";
  document.body.replaceChildren(app);
}

answerFrom({ answerOf, rawOf, locate });
takeOver();
