/** One box for everything: events of all sessions, agents, marks, positions and commands. */
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import html from "page/html.js";
import * as state from "page/state.js";
import { momentOf, ageOf, visible } from "page/format.js";
import { COMMANDS } from "page/keys.js";
import { close, Overlay, useLater } from "page/parts.js";

const text = signal("");
const groups = signal([]); // {session, hits}
const next = signal(null); // where the following page begins
const note = signal("");
const place = signal(0);
const wanted = signal(""); // the words whose first hit is opened as soon as it comes

const RETRY = 1000; // milliseconds after which an index that is behind is asked again

const load = state.fetcher(async (asked, stop) => {
  const { q, after } = JSON.parse(asked);
  for (;;) {
    const path = `/search?q=${encodeURIComponent(q)}&after=${after}`;
    const found = await state.ask(path, { signal: stop });
    groups.value = after ? joinGroups(groups.value, found.groups) : found.groups;
    next.value = found.next;
    note.value = describe(found, after);
    if (found.groups.length && wanted.value === q) return openFirst();
    if (!found.behind || after) return undefined;
    await new Promise((done) => setTimeout(done, RETRY));
    if (stop.aborted) return undefined;
  }
});

function describe({ behind, total, groups: found }, after) {
  if (behind)
    return `Searching … ${Math.floor((100 * (total - behind)) / total)} % of the events so far`;
  return found.length || after ? "" : "No event matches.";
}

/** The groups of two pages: a session may have hits in both. */
function joinGroups(before, more) {
  const joined = new Map(before.map((one) => [one.session.id, one]));
  for (const one of more) {
    const known = joined.get(one.session.id);
    joined.set(one.session.id, known ? { ...known, hits: [...known.hits, ...one.hits] } : one);
  }
  return [...joined.values()];
}

const loadMore = () => load(JSON.stringify({ q: text.value.trim(), after: next.value }));

/** Marks of the open lineage, agents of its session, a position, commands. */
function findNear(asked) {
  const low = asked.toLowerCase();
  const found = [];
  if (/^@?\d+$/.test(asked) && state.agent.value) {
    const at = Number(asked.replace("@", ""));
    found.push({
      title: `Go to position ${state.number(at)}`,
      what: state.agent.value.name,
      run: () => state.go(at, { jump: true }),
    });
  }
  for (const one of state.agents.value.values())
    if (found.length < 6 && one.name.toLowerCase().includes(low))
      found.push({
        title: one.name,
        what: one.spawned ? "sub-agent" : "branch",
        run: () => state.open(one.id),
      });
  for (const [seq, label] of state.log.value.marks)
    if (found.length < 8 && label && label.toLowerCase().includes(low))
      found.push({
        title: label,
        what: `mark, ${state.reference(seq)}`,
        run: () => state.go(seq, { jump: true }),
      });
  for (const [keys, what, run] of COMMANDS)
    if (found.length < 12 && what.toLowerCase().includes(low))
      found.push({ title: what, what: `command, ${keys}`, run });
  if (/[@/]/.test(asked))
    found.push({
      title: `Open the reference ${asked}`,
      what: "reference",
      run: () => state.navigate(`${state.root}/r/${encodeURIComponent(asked)}`),
    });
  return found;
}

const openHit = (session, hit) => () =>
  state.navigate(`${state.root}/s/${session.id}/a/${hit.agent}@${hit.seq}?pane=event`);

function openFirst() {
  const [{ session, hits }] = groups.value;
  wanted.value = "";
  close();
  openHit(session, hits[0])();
}

function Marked({ hit }) {
  const parts = [];
  let end = 0;
  for (const [low, high] of hit.spans) {
    parts.push(hit.snippet.slice(end, low));
    parts.push(html`<mark key=${low}>${hit.snippet.slice(low, high)}</mark>`);
    end = high;
  }
  return html`<span class="snippet">${parts}${hit.snippet.slice(end)}</span>`;
}

const SessionHead = ({ of }) =>
  html`<p class="hit-session" role="presentation">
    <b>${visible(of.title)}</b>
    <small title=${momentOf(new Date(of.updated_at))}
      >${[of.about.cwd, of.about.tool, ageOf(of.updated_at)].filter(Boolean).join(" · ")}</small
    >
  </p>`;

function Option({ index, run, children }) {
  return html`<div
    role="option"
    id=${`hit-${index}`}
    class="result"
    aria-selected=${index === place.value}
    onClick=${run}
    onMouseMove=${state.setTo(place, index)}
  >
    ${children}
  </div>`;
}

/** Everything that can be chosen, in the order in which it stands. */
function listOptions(asked) {
  const options = [];
  for (const { session, hits } of asked ? groups.value : [])
    hits.forEach((hit, index) =>
      options.push({ hit, head: index ? null : session, run: openHit(session, hit) }),
    );
  return [...options, ...(asked ? findNear(asked) : [])];
}

export default function Search({ over }) {
  const box = useRef(null);
  const asked = text.value.trim();
  useEffect(() => {
    if (over.text) text.value = over.text;
    box.current.focus();
    box.current.select();
    return () => load("");
  }, []);
  useEffect(() => {
    place.value = 0;
    wanted.value = "";
    groups.value = [];
    next.value = null;
    note.value = asked ? "Searching …" : "";
  }, [asked]);
  useLater(asked ? 150 : 0, () => load(asked && JSON.stringify({ q: asked, after: 0 })), [asked]);
  const options = listOptions(asked);
  const choose = (one) => {
    close();
    one.run();
  };
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && options.length) {
      event.preventDefault();
      place.value = (place.value + step + options.length) % options.length;
      document.getElementById(`hit-${place.value}`)?.scrollIntoView({ block: "nearest" });
    }
    if (event.key === "Escape") {
      event.preventDefault();
      close();
    }
    if (event.key !== "Enter") return;
    const isWaiting = !groups.value.length && note.value.startsWith("Searching");
    if (isWaiting && !place.value && !/^@?\d+$/.test(asked)) wanted.value = asked;
    else if (options[place.value]) choose(options[place.value]);
  };
  return html`<${Overlay} label="Search" class="search-box"
    ><input
      ref=${box}
      type="search"
      value=${text.value}
      placeholder="Words, a branch, a mark, a position, a command"
      aria-label="Search"
      role="combobox"
      aria-expanded=${options.length > 0}
      aria-controls="hits"
      aria-activedescendant=${options.length ? `hit-${place.value}` : undefined}
      onInput=${state.setTyped(text)}
      onKeyDown=${onKey}
    />
    <p class="hint" role="status">
      ${note.value || (asked ? "" : 'All words must match. Use "quotes" for a phrase, begin* for a prefix.')}
    </p>
    <div id="hits" role="listbox" aria-label="Results">
      ${options.map(
        (one, index) =>
          html`${one.head && html`<${SessionHead} key=${one.head.id} of=${one.head} />`}
            <${Option} key=${index} index=${index} run=${() => choose(one)}>
              ${
                one.hit
                  ? html`<small
                        >${one.hit.ref} ·
                        ${state.WORDS[one.hit.kind] || one.hit.kind}${one.hit.live ? "" : " · left behind"}</small
                      ><${Marked} hit=${one.hit} />`
                  : html`<span>${one.title}</span><small>${one.what}</small>`
              }
            <//>`,
      )}
    </div>
    ${next.value !== null && groups.value.length > 0 && html`<button class="more" onClick=${loadMore}>Show more events</button>`}<//
  >`;
}
