/** The sessions, the latest first. The server filters all of them, not only those that are here. */
import { useEffect } from "preact/hooks";
import { computed, signal } from "@preact/signals";
import * as state from "page/state.js";
import { log } from "page/open_log.js";
import { ageOf, dayOf, momentOf, number, visible, writeCount } from "page/format.js";
import { emptyLog } from "page/lineage.js";
import { Chip, html, Page, useLater } from "page/parts.js";

const text = signal("");
const tool = signal("");
const time = signal("");
/** What is looked for. A late answer to another filter is left out. */
const filter = computed(() => [text.value.trim(), tool.value, time.value].join("\n"));
const grouping = signal("day");
const newest = signal(null);
const tools = signal({});
const freshIds = signal(new Set()); // sessions that were written to while the page was open
const waitingIds = new Set(); // those that were not looked at since

const DAY = 86400;
/** Names of times, with how many days ago they begin and end. @type {[string, number, number][]} */
const TIMES = [
  ["any time", 0, 0],
  ["last 7 days", 7, 0],
  ["last 30 days", 30, 0],
  ["2 to 4 weeks ago", 28, 14],
  ["over a month ago", 0, 30],
];
const PAUSE = 1000; // milliseconds between two looks at what was written to

function writeQuery(after) {
  const query = new URLSearchParams();
  const now = Math.floor(Date.now() / 1000);
  const [, first, last] = TIMES.find(([name]) => name === time.value) || TIMES[0];
  if (text.value.trim()) query.set("q", text.value.trim());
  if (tool.value) query.set("tool", tool.value);
  if (first) query.set("since", String(now - first * DAY));
  if (last) query.set("until", String(now - last * DAY));
  if (after) query.set("after", String(after));
  return `/sessions?${query}`;
}

async function load(stop) {
  newest.value = { ...(await state.ask(writeQuery(0), { signal: stop })), filter: filter.value };
}

async function loadMore() {
  const { sessions, filter: asked } = newest.value;
  const more = await state.ask(writeQuery(sessions.length));
  if (asked !== filter.value) return;
  const rows = new Map([...newest.value.sessions, ...more.sessions].map((one) => [one.id, one]));
  newest.value = { ...newest.value, sessions: [...rows.values()] };
}

const isFiltered = () => text.value.trim() || tool.value || time.value;

/** Reads the rows of some sessions again. Without a filter, new sessions come on top. */
async function refresh(ids) {
  const { sessions: before, filter: asked } = newest.value;
  const known = new Set(before.map((one) => one.id));
  const wanted = isFiltered() ? ids.filter((id) => known.has(id)) : ids;
  if (!wanted.length) return;
  const { sessions: rows } = await state.ask(`/sessions?ids=${wanted.slice(0, 100).join(",")}`);
  if (asked !== newest.value.filter) return;
  const { sessions, matching, total } = newest.value;
  const byId = new Map(rows.map((one) => [one.id, one]));
  const added = rows.filter((one) => !known.has(one.id));
  newest.value = {
    ...newest.value,
    sessions: [...added, ...sessions.map((one) => byId.get(one.id) || one)],
    matching: matching + added.length,
    total: total + added.length,
  };
}

/** Reads the sessions that are written to once a second at most. */
function useFreshRows() {
  useEffect(() => {
    for (const one of state.newHeads.value) waitingIds.add(one.session);
    if (waitingIds.size) freshIds.value = new Set([...freshIds.value, ...waitingIds]);
  }, [state.newHeads.value]);
  useEffect(() => {
    const timer = setInterval(() => {
      const ids = [...waitingIds];
      waitingIds.clear();
      if (ids.length && newest.value) refresh(ids).catch(state.trouble);
    }, PAUSE);
    return () => {
      clearInterval(timer);
      state.newHeads.value = [];
    };
  }, []);
}

const shorten = (folder) => folder.replace(/^\/(home|Users)\/[^/]+/, "~");

function describe({ about: { tool: by, cwd, model }, events, agents: count, name, title }) {
  const branches = count > 1 && `${number(count)} branches`;
  const isOwn = ![title, by, "main"].includes(name);
  const facts = [by, cwd && shorten(cwd), model, writeCount(events, "event"), branches];
  return visible([...facts, isOwn && name].filter(Boolean).join(" · "));
}

/** One session: its title, and a grey line with its origin. */
const SessionRow = ({ one }) =>
  html`<${Page} to=${`${state.root}/s/${one.id}/a/${one.latest}`}
    ><span class="title clip"
      >${freshIds.value.has(one.id) && html`<i class="dot" title="written to just now"></i>`}${visible(one.title)}</span
    ><time title=${momentOf(new Date(one.updated_at))}>${ageOf(one.updated_at)}</time
    ><small class="clip"
      >${describe(one)}${one.tags.map((tag) => html` <span class="badge" key=${tag}>${visible(tag)}</span>`)}</small
    ><//
  >`;

function nameGroup(one) {
  if (grouping.value === "project") return one.about.cwd ? shorten(one.about.cwd) : "No folder";
  const today = dayOf(new Date());
  const yesterday = dayOf(new Date(Date.now() - DAY * 1000));
  const day = dayOf(new Date(one.updated_at));
  return { [today]: "Today", [yesterday]: "Yesterday" }[day] || day;
}

const Group = ([name, rows]) =>
  html`<section key=${name} aria-label=${name}>
    <h2>${name}</h2>
    <ul class="sessions plain-list">
      ${rows.map((one) => html`<li key=${one.id}><${SessionRow} one=${one} /></li>`)}
    </ul>
  </section>`;

function Tools() {
  const toggle = (name) => state.setTo(tool, tool.value === name ? "" : name);
  return Object.entries(tools.value).map(
    ([name, count]) =>
      html`<${Chip}
        key=${name}
        name=${name}
        count=${count}
        isOn=${tool.value === name}
        onClick=${toggle(name)}
      />`,
  );
}

const Choice = ({ label, of, names }) =>
  html`<select aria-label=${label} value=${of.value} onChange=${state.setTyped(of)}>
    ${names.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}
  </select>`;

function clearFilter() {
  text.value = "";
  tool.value = "";
  time.value = "";
}

function Empty({ total }) {
  const words = text.value.trim();
  if (!total)
    return html`<p class="hint">
      There is nothing in this store yet. Start with <code>backstory chat</code> or
      <code>backstory new</code>, or bring your histories with <code>backstory import</code>.
    </p>`;
  return html`<p class="hint">
    No session matches${words && ` “${words}”`}.${" "}
    ${words && html`<button onClick=${() => state.show("search", { text: words })}>Search in what was said</button> `}
    <button onClick=${clearFilter}>Clear the filter</button>
  </p>`;
}

const BY_TIME = TIMES.map(([name], index) => [index ? name : "", name]);
const BY_GROUP = [
  ["day", "by day"],
  ["project", "by folder"],
];

function Filter({ all }) {
  return html`<div class="finding">
    <p class="facts">
      <input
        class="filter"
        type="search"
        autofocus
        placeholder="Find by title, prompt, folder, tool, model, tag …"
        aria-label="Filter sessions"
        value=${text.value}
        onInput=${state.setTyped(text)}
      />
      <span class="hint" role="status">
        ${all && (isFiltered() ? `${number(all.matching)} of ${number(all.total)}` : writeCount(all.total, "session"))}
      </span>
    </p>
    <p class="facts">
      ${all && html`<${Tools} />`}
      <span class="gap"></span>
      <${Choice} label="When it was written" of=${time} names=${BY_TIME} />
      <${Choice} label="Group" of=${grouping} names=${BY_GROUP} />
      <${Page} to=${`${state.root}/check`}>Check the store<//>
    </p>
  </div>`;
}

function Rows({ all: { sessions, matching, total } }) {
  if (!sessions.length) return html`<${Empty} total=${total} />`;
  return html`${[...Map.groupBy(sessions, nameGroup)].map(Group)}
  ${
    sessions.length < matching &&
    html`<button class="more" onClick=${() => loadMore().catch(state.trouble)}>
      Show earlier sessions
    </button>`
  }`;
}

export default function Sessions() {
  const all = newest.value;
  useEffect(() => {
    log.value = emptyLog();
  }, []);
  useLater(
    0,
    async (stop) => {
      if (all && !state.file) tools.value = (await state.ask("/tools", { signal: stop })).tools;
    },
    [!all],
  );
  useLater(all ? 150 : 0, load, [filter.value]);
  useFreshRows();
  return html`<main class="plain list">
    <h1 class="unseen">Sessions</h1>
    ${!state.file && html`<${Filter} all=${all} />`}
    ${all ? html`<${Rows} all=${all} />` : html`<p class="hint">Loading …</p>`}
  </main>`;
}
