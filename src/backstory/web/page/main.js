/** The page begins here: the key, the address, the frame around every view, the keyboard and the stream. */
import { h, render } from "preact";
import { batch, effect } from "@preact/signals";
import html from "page/html.js";
import * as state from "page/state.js";
import {
  route,
  agents,
  log,
  cursor,
  following,
  dialog,
  toast,
  failure,
  live,
  root,
} from "page/state.js";
import { Page } from "page/parts.js";
import { darkness, look } from "page/lanes.js";
import { Workbench } from "page/workbench.js";
import Sessions from "page/sessions.js";
import Check from "page/check.js";
import Search from "page/search.js";
import Help from "page/help.js";
import Move from "page/moves.js";
import Overview from "page/overview.js";
import { pressed } from "page/keys.js";
import { listen } from "page/live.js";

// --- the key: an address has a code that works once, and leaves the address at once ---

async function takeKey() {
  const given = new URLSearchParams(window.location.hash.slice(1));
  if (!given.has("key") && !given.has("code")) return;
  history.replaceState(null, "", window.location.pathname + window.location.search);
  if (given.has("key")) {
    state.setKey(given.get("key"));
    return;
  }
  try {
    const { key } = await state.ask("/key", { body: { code: given.get("code") } });
    state.setKey(key);
  } catch (error) {
    if (error.status !== 401 || !state.readKey()) throw error; // a used address, in a browser that has the key
  }
}

async function arrive(to) {
  failure.value = "";
  if (to.view === "reference") {
    const found = await state.ask(`/resolve?ref=${encodeURIComponent(to.ref)}`);
    const at = found.at === null ? "" : `@${found.at}`;
    state.navigate(`${root}/s/${found.session}/a/${found.agent}${at}`, true);
    return;
  }
  if (to.view !== "workbench") return;
  const known = agents.peek();
  if (!known.has(to.agent)) await state.loadAgents(to.session);
  const found = [...agents.peek().values()].filter((one) => one.id.startsWith(to.agent));
  if (found.length !== 1)
    throw new state.Failed(404, { error: `There is no agent ${to.agent} in this session.` });
  if (found[0].id !== to.agent || found[0].session !== to.session) {
    route.value = { ...to, agent: found[0].id, session: found[0].session };
    return;
  }
  await state.loadLog(to.agent, (next) => {
    if (route.peek() !== to) return;
    if (state.shown.value === to.agent && log.value.head === next.head && opened === to)
      log.value = next;
    else openAt(to, next);
    opened = to;
  });
}

let opened = null; // the route whose log is shown

function openAt(to, next) {
  const [id, at] = (to.with || "").split("@");
  batch(() => {
    log.value = next;
    state.shown.value = to.agent;
    state.unseen.value = 0;
    state.domain.value = null;
    following.value = to.at === null;
    cursor.value = to.at === null ? next.head : Math.min(to.at, next.head);
    state.pane.value = ["context", "event", "request", "diff"].includes(to.pane)
      ? to.pane
      : "context";
    state.format.value = to.format || "";
    if (id && agents.value.has(id)) state.other.value = { agent: id, at: Number(at) || 0 };
    if (to.q) state.find.value = { q: to.q, positions: [], next: 0 };
  });
  if (to.at !== null && to.at > next.head)
    failure.value = `Position ${to.at} is after the head, ${next.head}.`;
}

effect(() => {
  const one = route.value.view === "workbench" && state.agent.value;
  document.title = one ? `${state.title.value || one.name} · backstory` : "backstory";
});

effect(() => {
  const to = route.value;
  arrive(to).catch((error) => {
    if (error.status === 404) route.value = state.MISSING;
    explain(error);
  });
});

function explain(error) {
  if (error.status === 401) state.show("locked", { why: error.message });
  else failure.value = error instanceof TypeError && !state.file ? state.SILENT : error.message;
}

window.addEventListener("popstate", () => {
  state.forget();
  route.value = state.parse(window.location);
});

function hear({ type, heads, error, why }) {
  if (type === "connected") connect().catch(explain);
  else if (type === "heads") hearHeads(heads);
  else if (type === "refused") explain(error);
  else {
    live.value = "lost";
    if (why) failure.value = why;
  }
}

/** Asks once for what was missed, and then only listens. */
async function connect() {
  if (live.value === "lost" && route.peek().session) await state.loadAgents(route.peek().session);
  if (log.peek().head && route.peek().view === "workbench") await state.catchUp();
  if (live.value === "lost") failure.value = "";
  live.value = "on";
}

function hearHeads(heads) {
  const here = route.peek();
  state.heard.value = heads;
  const mine = agents.peek().size ? heads.filter((one) => one.session === here.session) : [];
  if (mine.some((one) => !agents.peek().has(one.agent)))
    state.loadAgents(here.session).catch(explain);
  else if (mine.some((one) => agents.peek().get(one.agent).head !== one.head)) {
    const next = new Map(agents.peek());
    for (const one of mine)
      next.set(one.agent, { ...next.get(one.agent), head: one.head, name: one.name });
    agents.value = next;
  }
  const open = mine.find((one) => one.agent === here.agent);
  if (open && open.head > log.peek().head && log.peek().head) state.catchUp().catch(explain);
}

look.theme = localStorage.getItem("theme") || "auto";

function turn() {
  look.theme =
    look.theme === "dark" || (look.theme === "auto" && darkness.matches) ? "light" : "dark";
  localStorage.setItem("theme", look.theme);
  state.looks.value += 1;
}

const Status = () => {
  if (state.file) return html`<span class="status">saved file</span>`;
  if (live.value === "lost")
    return html`<span class="status lost" role="status">connection lost, reconnecting</span>`;
  if (route.value.view !== "workbench")
    return live.value === "on" && html`<span class="status on"><i class="dot"></i>live</span>`;
  if (following.value) return html`<span class="status on"><i class="dot"></i>following</span>`;
  const more = state.unseen.value;
  return html`<button class="status" onClick=${state.goHead} title="Go to the head and follow (g)">
    ${more ? `${state.number(more)} new` : "follow"}
  </button>`;
};

function Top() {
  const one = state.agent.value;
  return html`<header class="top">
    <b class="brand"><${Page} to=${`${root}/`}>backstory<//></b>
    ${one && route.value.view === "workbench" && html`<span class="crumb">/ <b>${one.name}</b>${[one.about.cwd, state.title.value !== one.name && state.title.value].filter(Boolean).map((part) => ` · ${part}`)}</span>`}
    <span class="gap"></span>
    <button class="search" onClick=${() => state.show("search")}>Search <kbd>/</kbd></button>
    <${Status} />
    <span class="mode" title=${state.user ? `as ${state.user}` : ""}
      >${state.canWrite ? "can write" : "read only"}</span
    >
    <button class="icon" aria-label="Light or dark" onClick=${turn}>
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <circle cx="8" cy="8" r="6.5" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M8 1.5a6.5 6.5 0 0 1 0 13z" fill="currentColor" />
      </svg>
    </button>
    <button class="icon" aria-label="All keys" onClick=${() => state.show("help")}>?</button>
  </header>`;
}

const Alert = () =>
  failure.value &&
  html`<div class="alert" role="alert">
    ${failure.value}
    <button onClick=${state.setTo(failure, "")}>Close</button>
  </div>`;

const Toast = () =>
  toast.value &&
  html`<div class="toast" role="status">
    ${toast.value.text}
    ${
      toast.value.action &&
      html`<button
        onClick=${() => {
          const run = toast.value.run;
          toast.value = null;
          run();
        }}
      >
        ${toast.value.action}
      </button>`
    }
    <button onClick=${state.setTo(toast, null)}>Close</button>
  </div>`;

const VIEWS = { workbench: Workbench, sessions: Sessions, check: Check };
const DIALOGS = { search: Search, help: Help, move: Move, locked: Help, overview: Overview };

function App() {
  const { view } = route.value;
  const over = dialog.value;
  return html`<${Top} /><${Alert} />
    ${VIEWS[view] && html`<${VIEWS[view]} />`}
    ${
      view === "missing" &&
      html`<main class="plain">
        <h1>There is nothing at this address</h1>
        <p><a href=${`${root}/`}>All sessions</a></p>
      </main>`
    }
    ${over && html`<${DIALOGS[over.name]} key=${over.name} over=${over} />`}
    <${Toast} />`;
}

window.addEventListener("keydown", (event) => {
  if (!dialog.value && pressed(event)) event.preventDefault();
});

takeKey()
  .then(() => {
    route.value = state.parse(window.location);
    if (!state.file) listen(hear);
  })
  .catch((error) => {
    route.value = { view: "none" };
    explain(error);
  });
render(h(App), document.getElementById("app"));
