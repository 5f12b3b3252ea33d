/** The tape: one line for each event, of which only those in view exist. */
import { useEffect, useLayoutEffect, useRef } from "./vendor/hooks.js";
import { computed, signal } from "./vendor/signals.js";
import html from "./html.js";
import * as state from "./state.js";
import { log, cursor, following } from "./state.js";
import { before, shows } from "./law.js";
import Find from "./find.js";

export const ROW = 26;
const SPARE = 6; // rows above and below those in view

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

const length = () => (listed.value ? listed.value.length : log.value.head);
const seqOf = (index) => (listed.value ? listed.value[index] : index + 1);
const indexOf = (seq) => (listed.value ? Math.max(0, before(listed.value, seq)) : seq - 1);

/** One line up or down among those that are listed. */
export function stepped(by) {
  const list = listed.value;
  if (!list) return cursor.value + by;
  const place = before(list, cursor.value);
  const next = by > 0 ? place + 1 : list[place] === cursor.value ? place - 1 : place;
  return list[Math.max(0, Math.min(next, list.length - 1))] ?? cursor.value;
}
export const page = () => Math.max(1, Math.floor(height.value / ROW) - 1);

/** The children that were born at each position of the open lineage. */
const births = computed(() => {
  const found = new Map();
  const owners = new Map(log.value.pieces.map(([id, low, high]) => [id, [low, high]]));
  for (const one of state.agents.value.values()) {
    const piece = owners.get(one.parent);
    if (!piece || one.born_seq > piece[1] || one.id === state.route.value.agent) continue;
    found.set(one.born_seq, [...(found.get(one.born_seq) || []), one]);
  }
  return found;
});

function Row({ seq, index, total }) {
  const kind = state.kindAt(seq);
  const at = cursor.value;
  const left = seq > at ? 0 : state.leftAt(seq);
  const ahead = seq > at;
  const inert = !ahead && !left && kind !== "clear" && !shows(log.value, seq);
  const why = left ? `left behind by the ${state.moveAt(left)} at ${left}` : ahead ? "after the cursor" : inert ? "has no effect" : "";
  const summary = log.value.compactions.get(seq);
  const text = summary ? `a summary at ${summary} stands for what was before` : state.textAt(seq);
  const partner = log.value.partner[at - 1] === seq;
  const born = births.value.get(seq) || [];
  const hit = state.find.value && state.find.value.positions.includes(seq);
  const look = [left && "left", ahead && "ahead", partner && "partner", hit && "hit", log.value.errors.has(seq) && "failed",
    seq === state.readTo.value && !following.value && state.unseen.value && "stopped"].filter(Boolean).join(" ");
  return html`<div role="option" id=${`row-${seq}`} class=${`row ${look}`} aria-selected=${seq === at}
    aria-posinset=${index + 1} aria-setsize=${total} title=${why} onClick=${() => state.go(seq)}>
    <span class="seq">${seq}</span> <span class=${`kind k-${kind}`}>${summary ? "compact" : state.WORDS[kind] || kind}</span> <span class="text">${text === undefined ? "" : text}</span>
    ${why && html` <span class="unseen">(${why})</span>`}
    ${born.slice(0, 2).map((one) => html` <span class="birth" key=${one.id} onClick=${(event) => {
      event.stopPropagation(); state.open(one.id);
    }}>${one.spawned ? "spawned" : "forked"} ${one.name}</span>`)}
    ${born.length > 2 && html` <span class="birth" onClick=${() => { state.pane.value = "event"; }}>${born.length - 2} more</span>`}
  </div>`;
}

function Filters() {
  const toggle = (name) => {
    const next = new Set(filters.value);
    if (!next.delete(name)) next.add(name);
    filters.value = next;
  };
  return html`<div class="filters" role="group" aria-label="Show only">
    ${[...Object.keys(FILTERS), "live"].map((name) => html`<button key=${name} aria-pressed=${filters.value.has(name)}
      onClick=${() => toggle(name)}>${name === "live" ? "live only" : name}</button>`)}
    ${listed.value && html`<span class="hint">${state.number(length())} of ${state.number(log.value.head)}</span>`}</div>`;
}

export function Tape() {
  const box = useRef(null);
  const own = useRef(0); // where we scrolled to ourselves: that is not a person scrolling
  const total = length();
  const first = Math.max(0, Math.floor(scrolled.value / ROW) - SPARE);
  const last = Math.min(total, Math.ceil((scrolled.value + height.value) / ROW) + SPARE);
  const rows = [];
  for (let index = first; index < last; index++) rows.push(index);
  void state.texts.value;

  useEffect(() => {
    const watcher = new ResizeObserver(() => { height.value = box.current ? box.current.clientHeight : 400; });
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
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
  }, [cursor.value, log.value.pieces.length && state.route.value.agent, listed.value, height.value]);
  const top = scrolled.value;
  useEffect(() => { if (scrolled.peek() === top) state.wantLines(rows.map(seqOf)); }); // else it is drawn again at once

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
          ${rows.map((index) => html`<${Row} key=${seqOf(index)} seq=${seqOf(index)} index=${index} total=${total} />`)}
        </div></div></div></section>`;
}
