/** The sessions, the latest written first. The server filters: over all of them, not only those that are here. */
import { useEffect, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import html from "page/html.js";
import * as state from "page/state.js";
import { ageOf, clockOf, dayOf, momentOf, number, visible } from "page/format.js";
import { Page, useLater } from "page/parts.js";

const text = signal("");
const tool = signal("");
const time = signal("");
const grouping = signal("day");
const found = signal(null);
const tools = signal({});
const fresh = signal(new Set()); // sessions that were written to while the page was open

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

const load = state.fetcher(async (name, stop) => {
  found.value = await state.ask(name, { signal: stop });
});

async function loadMore() {
  const { sessions } = found.value;
  const more = await state.ask(writeQuery(sessions.length));
  const known = new Set(sessions.map((one) => one.id));
  const rows = [...sessions, ...more.sessions.filter((one) => !known.has(one.id))];
  found.value = { ...found.value, sessions: rows };
}

const isFiltered = () => Boolean(text.value.trim() || tool.value || time.value);

/** Asks for the rows of some sessions anew, and puts new sessions on top, if there is no filter. */
async function refresh(ids) {
  const { sessions } = found.value;
  const wanted = isFiltered() ? ids.filter((id) => sessions.some((one) => one.id === id)) : ids;
  if (!wanted.length) return;
  const rows = (await state.ask(`/sessions?ids=${wanted.slice(0, 100).join(",")}`)).sessions;
  const byId = new Map(rows.map((one) => [one.id, one]));
  const known = sessions.map((one) => byId.get(one.id) || one);
  const added = rows.filter((one) => !sessions.some(({ id }) => id === one.id));
  const { matching, total } = found.value;
  found.value = {
    ...found.value,
    sessions: [...added, ...known],
    matching: matching + added.length,
    total: total + added.length,
  };
}

/** Collects the sessions that are written to, and looks at them once a second at most. */
function useFreshRows() {
  const [waiting] = useState(() => ({ ids: new Set(), timer: 0 }));
  useEffect(() => {
    const heads = state.heard.value;
    if (!heads.length) return;
    for (const one of heads) waiting.ids.add(one.session);
    fresh.value = new Set([...fresh.value, ...waiting.ids]);
    waiting.timer ||= setTimeout(() => {
      const ids = [...waiting.ids];
      waiting.ids.clear();
      waiting.timer = 0;
      if (found.value) refresh(ids).catch(state.trouble);
    }, PAUSE);
  }, [state.heard.value]);
  useEffect(
    () => () => {
      clearTimeout(waiting.timer);
      state.heard.value = [];
    },
    [],
  );
}

const shorten = (folder) => folder.replace(/^\/(home|Users)\/[^/]+/, "~");

/** One session: its title, and a grey line that says where it came from. */
export function SessionRow({ one }) {
  const { tool: by, cwd, model } = one.about;
  const facts = [
    by,
    cwd && shorten(cwd),
    model,
    state.counted(one.events, "event"),
    one.agents > 1 && state.counted(one.agents, "branch").replace("branchs", "branches"),
    one.name !== one.title && one.name !== by && one.name !== "main" && one.name,
  ];
  return html`<${Page} to=${`${state.root}/s/${one.id}/a/${one.latest}`}
    ><span class="title"
      >${fresh.value.has(one.id) && html`<i class="dot" title="written to just now"></i>`}${visible(one.title)}</span
    ><time title=${momentOf(new Date(one.updated_at))}>${ageOf(one.updated_at)}</time
    ><small
      >${visible(facts.filter(Boolean).join(" · "))}${one.tags.map((tag) => html` <span class="badge" key=${tag}>${visible(tag)}</span>`)}</small
    ><//
  >`;
}

function nameGroup(one) {
  if (grouping.value === "project") return one.about.cwd ? shorten(one.about.cwd) : "No folder";
  const date = new Date(one.updated_at);
  const today = dayOf(new Date());
  const yesterday = dayOf(new Date(Date.now() - DAY * 1000));
  return { [today]: "Today", [yesterday]: "Yesterday" }[dayOf(date)] || dayOf(date);
}

/** The sessions under the names of their groups, in the order of their newest. */
function groupRows(rows) {
  const groups = new Map();
  for (const one of rows) {
    const name = nameGroup(one);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(one);
  }
  return [...groups];
}

const Chip = ({ of, name, value, count }) =>
  html`<button
    class="chip"
    aria-pressed=${of.value === value}
    onClick=${() => {
      of.value = of.value === value ? "" : value;
    }}
  >
    ${name}${count > 0 && html` <small>${number(count)}</small>`}
  </button>`;

const Choice = ({ label, of, names }) =>
  html`<select aria-label=${label} value=${of.value} onChange=${state.setTyped(of)}>
    ${names.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}
  </select>`;

function clearFilter() {
  text.value = "";
  tool.value = "";
  time.value = "";
}

function searchText() {
  state.dialog.value = { name: "search", text: text.value };
}

function Empty({ total }) {
  if (!total)
    return html`<p class="hint">
      There is nothing in this store yet. Start with <code>backstory chat</code> or
      <code>backstory new</code>, or bring your histories with <code>backstory import</code>.
    </p>`;
  return html`<p class="hint">
    No session matches${text.value.trim() && ` “${text.value.trim()}”`}.${" "}
    ${text.value.trim() && html`<button onClick=${searchText}>Search in what was said</button> `}
    <button onClick=${clearFilter}>Clear the filter</button>
  </p>`;
}

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
        ${all && (isFiltered() ? `${number(all.matching)} of ${number(all.total)}` : state.counted(all.total, "session"))}
      </span>
    </p>
    <p class="facts chips">
      ${all && Object.entries(tools.value).map(([name, count]) => html`<${Chip} key=${name} of=${tool} name=${name} value=${name} count=${count} />`)}
      <span class="gap"></span>
      <${Choice}
        label="When it was written"
        of=${time}
        names=${TIMES.map(([name], index) => [index ? name : "", name])}
      />
      <${Choice}
        label="Group"
        of=${grouping}
        names=${[
          ["day", "by day"],
          ["project", "by folder"],
        ]}
      />
      <${Page} to=${`${state.root}/check`}>Check the store<//>
    </p>
  </div>`;
}

export default function Sessions() {
  const name = writeQuery(0).replace(/(since|until)=\d+/g, `$1=${time.value}`);
  useEffect(() => {
    state.log.value = { ...state.log.value, head: 0 };
    state.shown.value = "";
  }, []);
  useEffect(() => {
    if (!found.value || state.file) return;
    state.ask("/tools").then((counted) => {
      tools.value = counted.tools;
    }, state.trouble);
  }, [found.value === null]);
  useLater(found.value ? 150 : 0, () => load(writeQuery(0)), [name]);
  useFreshRows();
  const all = found.value;
  return html`<main class="plain wide list">
    <h1 class="unseen">Sessions</h1>
    ${!state.file && html`<${Filter} all=${all} />`} ${!all && html`<p class="hint">Loading …</p>`}
    ${all && !all.sessions.length && html`<${Empty} total=${all.total} />`}
    ${
      all &&
      groupRows(all.sessions).map(
        ([group, rows]) =>
          html`<section key=${group} aria-label=${group}>
            <h2>${group}</h2>
            <ul class="sessions">
              ${rows.map((one) => html`<li key=${one.id}><${SessionRow} one=${one} /></li>`)}
            </ul>
          </section>`,
      )
    }
    ${
      all &&
      all.sessions.length < all.matching &&
      html`<button class="more" onClick=${() => loadMore().catch(state.trouble)}>
        Show earlier sessions
      </button>`
    }
  </main>`;
}
