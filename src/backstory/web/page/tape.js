/** The tape: one line for each event, of which only those in view exist. */
import { computed, signal, useEffect, useLayoutEffect, useRef } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { log, cursor, following } from "./state.js";
import { before, shows } from "./law.js";
import Find from "./find.js";
import { Kind, Shape, useSize } from "./parts.js";

export const ROW = 26;
const SPARE = 6; // rows above and below those in view
const MOST_BORN = 3; // at one position; the event's pane has all of them

const FILTERS = { prompts: "u", prose: "sua", tools: "cr", errors: "", moves: "mxwj" };
export const filters = signal(new Set());
const scrolled = signal(0);
const height = signal(400);

/** The positions that are listed; null: all of them. */
export const listed = computed(() => {
  const wanted = filters.value;
  if (!wanted.size) return null;
  const letters = new Set([...wanted].flatMap((name) => [...(FILTERS[name] || "")]).map((c) => c.charCodeAt(0)));
  const anyKind = ![...wanted].some((name) => name in FILTERS);
  const onlyLive = wanted.has("live");
  const { head, kinds, errors } = log.value;
  const found = [];
  for (let seq = 1; seq <= head; seq++) {
    if (!anyKind && !letters.has(kinds[seq - 1]) && !(wanted.has("errors") && errors.has(seq))) continue;
    if (onlyLive && (seq > cursor.value || state.leftAt(seq) || !shows(log.value, seq))) continue;
    found.push(seq);
  }
  return found;
});

/** Forks and sub-agents that were born in the open lineage stand below the event where they were: [position, agent], or
 *  [position, null, how many more]. Lists that are filtered have none. */
const born = computed(() => {
  const owners = new Map(log.value.pieces.map(([id, low, high]) => [id, high]));
  const all = listed.value ? [] : [...state.agents.value.values()].filter((one) => one.born_seq <= owners.get(one.parent) && !owners.has(one.id));
  all.sort((one, other) => one.born_seq - other.born_seq || (one.created_at < other.created_at ? -1 : 1));
  const rows = [];
  let crowd = 0;
  for (const one of all) {
    const last = rows[rows.length - 1];
    crowd = last && last[0] === one.born_seq ? crowd + 1 : 1;
    if (crowd <= MOST_BORN) rows.push([one.born_seq, one]);
    else if (crowd === MOST_BORN + 1) rows.push([one.born_seq, null, 1]);
    else last[2] += 1;
  }
  const seqs = rows.map(([seq]) => seq);
  return { of: state.here(), rows, seqs, places: seqs.map((seq, n) => seq + n) };
});

const length = () => (listed.value ? listed.value.length : log.value.head + born.value.rows.length);
/** What stands at a place of the list: a position, or one that was born. */
function lineAt(index) {
  if (listed.value) return listed.value[index];
  const known = before(born.value.places, index);
  return born.value.places[known] === index ? born.value.rows[known] : index - known;
}
const indexOf = (seq) => (listed.value ? Math.max(0, before(listed.value, seq)) : seq + before(born.value.seqs, seq - 1));

/** One line up or down among those that are listed. */
export function stepped(by) {
  const list = listed.value;
  if (!list) return cursor.value + by;
  const place = before(list, cursor.value);
  const next = by > 0 ? place + 1 : list[place] === cursor.value ? place - 1 : place;
  return list[Math.max(0, Math.min(next, list.length - 1))] ?? cursor.value;
}
export const page = () => Math.max(1, Math.floor(height.value / ROW) - 1);

function Row({ seq, index, total }) {
  const kind = state.kindAt(seq);
  const at = cursor.value;
  const left = seq > at ? 0 : state.leftAt(seq);
  const ahead = seq > at;
  const inert = !ahead && !left && kind !== "clear" && !shows(log.value, seq);
  const why = left ? `left behind by the ${state.moveAt(left)} at ${left}` : ahead ? "after the cursor" : inert ? "has no effect" : "";
  const summary = log.value.compactions.get(seq);
  const text = summary ? `what came before is replaced by the summary at ${summary}` : state.textAt(seq);
  const partner = log.value.partner[at - 1] === seq;
  const hit = state.find.value?.positions.includes(seq);
  const look = [left && "left", ahead && "ahead", partner && "partner", hit && "hit", log.value.errors.has(seq) && "failed",
    seq === state.readTo.value && !following.value && state.unseen.value && "stopped"].filter(Boolean).join(" ");
  return html`<div role="option" id=${`row-${seq}`} class=${`row ${look}`} aria-selected=${seq === at}
    aria-posinset=${index + 1} aria-setsize=${total} title=${why} onClick=${() => state.go(seq)}>
    <span class="seq">${seq}</span> <${Kind} kind=${kind} name=${summary && "compact"} /> <span class="text">${text === undefined ? "" : text}</span>
    ${why && html` <span class="unseen">(${why})</span>`}
  </div>`;
}

/** A fork or a sub-agent, one click away. */
function Born({ line: [seq, one, more], index, total }) {
  const open = () => { if (one) state.open(one.id); else { state.go(seq, { jump: true }); state.pane.value = "event"; } };
  return html`<div role="option" class="born" aria-selected="false" aria-posinset=${index + 1} aria-setsize=${total} onClick=${open}>
    <span class="seq"></span> ${one ? html`<${Shape} of=${one} depth=${1} /> <span>${one.spawned ? "spawned" : "forked"} <b>${one.name}</b></span>
    <span class="hint">${state.counted(one.head - one.fork_seq, "event")}</span>` : html`<span>and ${more} more</span>`}</div>`;
}

function Filters() {
  const toggle = (name) => {
    const next = new Set(filters.value);
    if (!next.delete(name)) next.add(name);
    filters.value = next;
  };
  const total = length();
  return html`<div class="filters" role="group" aria-label="Show only">
    ${[...Object.keys(FILTERS), "live"].map((name) => html`<button key=${name} aria-pressed=${filters.value.has(name)}
      onClick=${() => toggle(name)}>${name === "live" ? "live only" : name}</button>`)}
    ${listed.value && html`<span class="hint">${state.number(total)} of ${state.number(log.value.head)}</span>`}</div>`;
}

export function Tape() {
  const box = useRef(null);
  const own = useRef(0); // where we scrolled to ourselves: that is not a person scrolling
  const lastBorn = useRef(null); // to notice what was born since
  const total = length();
  const first = Math.max(0, Math.floor(scrolled.value / ROW) - SPARE);
  const last = Math.min(total, Math.ceil((scrolled.value + height.value) / ROW) + SPARE);
  const rows = [];
  for (let index = first; index < last; index++) rows.push([index, lineAt(index)]);
  void state.texts.value;

  useSize(box, (element) => { height.value = element.clientHeight; });
  useLayoutEffect(() => {
    const element = box.current;
    const top = indexOf(cursor.value) * ROW;
    const view = element.clientHeight;
    if (cursor.value && top >= element.scrollTop && top + ROW <= element.scrollTop + view) return;
    const near = Math.abs(top - element.scrollTop) < view + 2 * ROW;
    const target = near ? (top < element.scrollTop ? top : top - view + ROW) : top - view / 2;
    element.scrollTop = Math.max(0, target);
    own.current = element.scrollTop;
    scrolled.value = element.scrollTop;
  }, [cursor.value, log.value.pieces.length && state.here(), listed.value, height.value]);
  useLayoutEffect(() => { // what was born above does not push away what is read
    const seen = lastBorn.current || born.value;
    lastBorn.current = born.value;
    const at = Math.floor(scrolled.peek() / ROW) - 1 - before(seen.places, Math.floor(scrolled.peek() / ROW));
    const by = (before(born.value.seqs, at) - before(seen.seqs, at)) * ROW;
    if (!by || seen.of !== born.value.of) return;
    box.current.scrollTop += by;
    own.current = scrolled.value = box.current.scrollTop;
  }, [born.value]);
  const top = scrolled.value;
  useEffect(() => { if (scrolled.peek() === top) state.wantLines(rows.map(([, line]) => line).filter(Number)); }); // else it is drawn again at once

  const onScroll = (event) => {
    const top = event.currentTarget.scrollTop;
    if (following.value && top < own.current - ROW && total * ROW > height.value) {
      state.readTo.value = log.value.head;
      following.value = false;
      state.remember(false);
    }
    own.current = top;
    scrolled.value = top;
  };
  return html`<section class="tape" aria-label="Events"><${Filters} />
    ${state.find.value && html`<${Find} />`}
    <div class="rows" role="listbox" tabindex="0" ref=${box} onScroll=${onScroll} aria-label="Events of this lineage"
      aria-activedescendant=${cursor.value ? `row-${cursor.value}` : undefined}>
      <div class="all" role="presentation" style=${{ height: `${total * ROW}px` }}>
        <div role="presentation" class="window" style=${{ transform: `translateY(${first * ROW}px)` }}>
          ${rows.map(([index, line]) => (line[0] === undefined ? html`<${Row} key=${line} seq=${line} index=${index} total=${total} />` : html`<${Born} key=${`b${line[1]?.id || line[0]}`} line=${line} index=${index} total=${total} />`))}
        </div></div></div></section>`;
}
