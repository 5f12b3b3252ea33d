/** The page as one file (`backstory export --to html`): what a server would answer comes out of the
 *  file itself. It contains the events of one session, and the requests at one position. */
import { emptyLog, filled, framed, leftBy, ranges, shows } from "page/lineage.js";
import { answerFrom } from "page/state.js";

const held = JSON.parse(document.getElementById("answers").textContent);

const SPOKEN = "suiacr"; // system, user, input, assistant, call, result
const logs = new Map();
function logOf(id) {
  if (!held.logs[id]) throw new Missing("there is no such agent in this file");
  const { frame, outline } = held.logs[id];
  if (!logs.has(id)) logs.set(id, filled(framed(emptyLog(), frame), outline));
  return logs.get(id);
}

class Missing extends Error {
  status = 404;
}

const ownerOf = (id, seq) =>
  (logOf(id).pieces.find(([, low, high]) => seq >= low && seq <= high) || [id])[0];
const eventOf = (id, seq) => held.logs[ownerOf(id, seq)].events[seq];
const lineOf = (id, seq) => held.logs[ownerOf(id, seq)].lines[seq];
const positions = (from, to) =>
  Array.from({ length: Math.max(0, to - from) }, (_, n) => from + n + 1);

function explain(id, seq, at) {
  const by = leftBy(ranges(logOf(id), at), seq);
  const event = eventOf(id, seq);
  const said = `event ${seq} (${event ? event.kind : "unknown"})`;
  return {
    by: by || null,
    live: !by,
    reason: by
      ? `${said} was left behind by the ${eventOf(id, by).kind} at ${by}`
      : `${said} is in the context`,
  };
}

/** The messages of a context, each under the name of the one event that it is. */
function messages(id, at) {
  const log = logOf(id);
  const found = new Map();
  for (const [low, high] of ranges(log, at)) {
    for (let seq = low; seq <= high; seq++) {
      if (SPOKEN.includes(String.fromCharCode(log.kinds[seq - 1])) && shows(log, seq))
        found.set(`${ownerOf(id, seq)}:${seq}`, eventOf(id, seq));
    }
  }
  return found;
}

function diff(left, right) {
  const [[mine, from], [theirs, to]] = [left.split("@"), right.split("@")];
  const [a, b] = [messages(mine, Number(from)), messages(theirs, Number(to))];
  const only = (one, other) =>
    [...one].filter(([name]) => !other.has(name)).map(([, event]) => event);
  const changes = [
    ...only(a, b).map((event) => ({ op: "-", left: event, right: null, words: [] })),
    ...only(b, a).map((event) => ({ op: "+", left: null, right: event, words: [] })),
  ];
  const shared = logOf(mine).pieces.flatMap(([id, , high]) =>
    logOf(theirs)
      .pieces.filter(([one]) => one === id)
      .map(([, , end]) => Math.min(high, end)),
  );
  return {
    common: a.size - only(a, b).length,
    changes,
    total: changes.length,
    parted: Math.min(Math.max(0, ...shared), Number(from), Number(to)),
    left: { agent: mine, at: Number(from) },
    right: { agent: theirs, at: Number(to) },
  };
}

const text = (event, line) => `${line}\n${event.content || ""}`.toLowerCase();

function search(words) {
  const wanted = words
    .toLowerCase()
    .split(/\s+/)
    .map((word) => word.replace(/["*]/g, ""));
  const hits = [];
  for (const one of held.agents) {
    const { events, lines } = held.logs[one.id];
    for (const [seq, event] of Object.entries(events)) {
      if (hits.length >= 50 || !wanted.every((word) => text(event, lines[seq]).includes(word)))
        continue;
      hits.push({
        agent: one.id,
        ref: `${one.name}@${seq}`,
        seq: Number(seq),
        kind: event.kind,
        live: !leftBy(ranges(logOf(one.id), one.head), Number(seq)),
        snippet: lines[seq],
        spans: [],
      });
    }
  }
  return { groups: hits.length ? [{ session: held.session, hits }] : [], next: null, behind: 0 };
}

/** The columns of some events of an outline. */
function blockOf(id, after, until) {
  const { outline } = held.logs[id];
  const isIn = ([seq]) => seq > after && seq <= until;
  const times = outline.times.slice(after, until);
  if (after) times[0] = logOf(id).times[after];
  return {
    after,
    kinds: outline.kinds.slice(after, until),
    tokens: outline.tokens.slice(after, until),
    times,
    errors: outline.errors.filter((seq) => isIn([seq])),
    marks: outline.marks.filter(isIn),
    calls: outline.calls.filter(isIn),
    reads: outline.reads.filter(isIn),
    compactions: outline.compactions.filter(isIn),
  };
}

function usage(id) {
  return {
    next: null,
    models: positions(0, logOf(id).head)
      .map((seq) => eventOf(id, seq))
      .filter((event) => event && event.usage)
      .map((event) => event.usage),
  };
}

function requestOf(id, query) {
  const { agent, at } = held.open;
  if (agent !== id || at !== Number(query.get("at")))
    throw new Missing(
      `This file holds only the request at position ${at} of ${held.agents.find((one) => one.id === agent).name}. \`backstory web\` shows the others.`,
    );
  return held.requests[query.get("format")];
}

function request(id, query) {
  const found = requestOf(id, query);
  const after = Number(query.get("after"));
  return {
    ...found,
    messages: found.messages.slice(after, after + 30),
    origins: found.origins.slice(after, after + 30),
  };
}

/** What the server would answer to a path below /api. */
function answerOf(path) {
  const { pathname, searchParams: query } = new URL(path, "file:///");
  const [, what, id, part, more] = pathname.split("/");
  const number = (name) => Number(query.get(name)) || 0;
  switch (what === "agents" || what === "sessions" ? `${what}/${part || ""}` : what) {
    case "sessions/":
      return { sessions: [held.session], matching: 1, total: 1 };
    case "sessions/agents":
      return { title: held.title, agents: held.agents };
    case "agents/frame": {
      const { frame } = held.logs[id];
      return number("after") ? { ...frame, moves: [] } : frame;
    }
    case "agents/outline":
      return blockOf(id, number("after"), number("until"));
    case "agents/lines":
      return {
        lines: positions(number("after"), Math.min(number("until"), logOf(id).head)).map((seq) => [
          seq,
          lineOf(id, seq),
        ]),
      };
    case "agents/events":
      return {
        events: query
          .get("seqs")
          .split(",")
          .map((seq) => eventOf(id, Number(seq)))
          .filter(Boolean),
      };
    case "agents/explain":
      return explain(id, Number(more), number("at"));
    case "agents/find":
      return {
        next: null,
        positions: positions(0, logOf(id).head).filter((seq) =>
          text(eventOf(id, seq), lineOf(id, seq)).includes(query.get("q").toLowerCase()),
        ),
      };
    case "agents/usage":
      return usage(id);
    case "agents/request":
      return request(id, query);
    case "diff":
      return diff(query.get("left"), query.get("right"));
    case "search":
      return search(query.get("q"));
    default:
      throw new Missing("This is not in this file: `backstory web` shows it.");
  }
}

/** The context as text. */
const textOf = (id, at) =>
  [...messages(id, at).values()]
    .map(
      (event) => `--- ${event.kind} ${event.seq}\n${event.content || JSON.stringify(event.data)}\n`,
    )
    .join("\n");

/** The whole request or context, for the clipboard and for a download. */
function rawOf(path) {
  const { pathname, searchParams: query } = new URL(path, "file:///");
  const [, , id, what] = pathname.split("/");
  if (what === "text") return new Response(textOf(id, Number(query.get("at"))));
  if (what !== "request.json") throw new Missing("This is not in this file.");
  const { messages: all, key, rest } = requestOf(id, query);
  return new Response(JSON.stringify({ ...rest, [key]: all }));
}

const opening = `/s/${held.open.session}/a/${held.open.agent}@${held.open.at}`;
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
