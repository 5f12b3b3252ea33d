/** The tape: one line for each event, of which only those in view exist. */
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { computed, signal } from "@preact/signals";
import * as state from "page/state.js";
import { log, cursor, find, following } from "page/state.js";
import { before, shows } from "page/lineage.js";
import { Chip, html, Kind, Shape, useLater, useSize } from "page/parts.js";

const ROW = 26;
const SPARE = 6; // rows above and below those in view
const MOST_FOUND = 5000; // positions of one search
const MOST_BORN = 3; // at one position; the event's pane has all of them

/** Browsers ignore the height of an element beyond about 17 million pixels: a longer list is as high as this, and
 *  scrolls faster. */
const MOST = 8e6;

/** How many pixels of the list one pixel of scrolling stands for. */
function factorOf(rows, view) {
  const tall = rows * ROW;
  return tall <= MOST ? 1 : (tall - view) / Math.max(1, MOST - view);
}

const FILTERS = { prompts: "u", text: "suia", tools: "cr", failed: "", moves: "mxwj" };
export const filters = signal(new Set());
const scrolled = signal(0);
const height = signal(400);

/** The positions that are listed; null: all of them. */
const listed = computed(() => {
  const wanted = filters.value;
  if (!wanted.size) return null;
  const letters = [...wanted].map((name) => FILTERS[name] || "").join("");
  const anyKind = wanted.size === 1 && wanted.has("live");
  const { head, errors } = log.value;
  const fits = (seq) =>
    anyKind || letters.includes(state.letterAt(seq)) || (wanted.has("failed") && errors.has(seq));
  const isLive = (seq) => seq <= cursor.value && !state.leftAt(seq) && shows(log.value, seq);
  const found = [];
  for (let seq = 1; seq <= head; seq++)
    if (fits(seq) && (!wanted.has("live") || isLive(seq))) found.push(seq);
  return found;
});

/** Forks and sub-agents that were born in the open lineage stand below the event where they were: [position, agent], or
 *  [position, null, how many more]. Lists that are filtered have none. */
const born = computed(() => {
  const ends = new Map(log.value.pieces.map(([id, , high]) => [id, high]));
  const isBornHere = (one) => one.born_seq <= ends.get(one.parent) && !ends.has(one.id);
  const all = listed.value ? [] : [...state.agents.value.values()].filter(isBornHere);
  const byBirth = (one, other) =>
    one.born_seq - other.born_seq || (one.created_at < other.created_at ? -1 : 1);
  const groups = Map.groupBy(all.sort(byBirth), (one) => one.born_seq);
  const rows = [];
  for (const [seq, group] of groups) {
    for (const one of group.slice(0, MOST_BORN)) rows.push([seq, one]);
    if (group.length > MOST_BORN) rows.push([seq, null, group.length - MOST_BORN]);
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
const indexOf = (seq) =>
  listed.value ? Math.max(0, before(listed.value, seq)) : seq + before(born.value.seqs, seq - 1);

export function stepped(by) {
  const list = listed.value;
  if (!list) return cursor.value + by;
  const place = before(list, cursor.value);
  const next = by > 0 ? place + 1 : list[place] === cursor.value ? place - 1 : place;
  return list[Math.max(0, Math.min(next, list.length - 1))] ?? cursor.value;
}
export const page = () => Math.max(1, Math.floor(height.value / ROW) - 1);

/** Why an event is not in the context, in words; empty if it is. */
function whyNot(seq) {
  if (seq > cursor.value) return "after the cursor";
  const left = state.leftAt(seq);
  if (left) return `left behind by the ${state.moveAt(left)} at ${state.number(left)}`;
  return state.letterAt(seq) === "x" || shows(log.value, seq) ? "" : "has no effect";
}

/** Moves at a row, for a pointer: the keyboard has keys for them. */
function Actions({ seq }) {
  const ask = (move) => (event) => {
    event.stopPropagation();
    state.show("move", { move, at: seq });
  };
  return html`<span class="actions" aria-hidden="true">
    <span class="badge" onClick=${ask("fork")}>Fork here</span>
    <span class="badge" onClick=${ask("back")}>Back to here</span>
  </span>`;
}

function Row({ seq, index, total }) {
  const why = whyNot(seq);
  const { compactions, partner, errors } = log.value;
  const summary = compactions.get(seq);
  const replaced = `what came before is replaced by the summary at ${state.number(summary || 0)}`;
  const name = summary ? "compact" : state.letterAt(seq) === "i" && "input";
  const wasRead = seq === state.readTo.value && !following.value && state.unseen.value;
  const looks = {
    left: why.startsWith("left"),
    ahead: seq > cursor.value,
    partner: partner[cursor.value - 1] === seq,
    hit: find.value?.positions.includes(seq),
    failed: errors.has(seq),
    stopped: wasRead,
  };
  const look = Object.keys(looks).filter((name) => looks[name]);
  return html`<div
    role="option"
    id=${`row-${seq}`}
    class=${["row", ...look].join(" ")}
    aria-selected=${seq === cursor.value}
    aria-posinset=${index + 1}
    aria-setsize=${total}
    title=${why}
    onClick=${() => state.go(seq)}
  >
    <span class="seq">${state.number(seq)}</span>
    <${Kind} kind=${state.kindAt(seq)} name=${name} />
    <span class="text clip">${summary ? replaced : state.textAt(seq)}</span>
    ${why && html` <span class="unseen">(${why})</span>`}
    ${state.canWrite && html`<${Actions} seq=${seq} />`}
  </div>`;
}

function Born({ line: [seq, one, more], index, total }) {
  const open = () => {
    if (one) return state.open(one.id);
    state.pane.value = "event";
    return state.go(seq, { jump: true });
  };
  return html`<div
    role="option"
    class="born"
    aria-selected="false"
    aria-posinset=${index + 1}
    aria-setsize=${total}
    onClick=${open}
  >
    <span class="seq"></span> ${
      one
        ? html`<${Shape} of=${one} depth=${1} />
            <span>${one.spawned ? "spawned" : "forked"} <b>${one.name}</b></span>
            <span class="hint">${state.counted(one.head - one.fork_seq, "event")}</span>`
        : html`<span>and ${more} more</span>`
    }
  </div>`;
}

/** How many events each filter finds. */
const counts = computed(() => {
  const { head, kinds, errors, missing } = log.value;
  if (missing) return {};
  const byLetter = new Float64Array(128);
  for (let n = 0; n < head; n++) byLetter[kinds[n]] += 1;
  const sum = (letters) => [...letters].reduce((all, c) => all + byLetter[c.charCodeAt(0)], 0);
  const found = Object.entries(FILTERS).map(([name, letters]) => [name, sum(letters)]);
  return { ...Object.fromEntries(found), failed: errors.size };
});

function Filters() {
  const toggle = (name) => {
    const next = new Set(filters.value);
    if (!next.delete(name)) next.add(name);
    filters.value = next;
  };
  return html`<div class="filters strip" role="group" aria-label="Show only">
    ${[...Object.keys(FILTERS), "live"].map((name) => html`<${Chip} key=${name} name=${name === "live" ? "live only" : name} count=${counts.value[name]} isOn=${filters.value.has(name)} onClick=${() => toggle(name)} />`)}
    ${listed.value && html`<span class="hint">${state.number(length())} of ${state.number(log.value.head)}</span>`}
  </div>`;
}

/** Every position of this lineage: dead ones and those that never were on the screen too. */
async function search(q, stop) {
  let positions = [];
  let next = 0;
  while (next !== null && positions.length < MOST_FOUND) {
    const path = `/agents/${state.here()}/find?q=${encodeURIComponent(q)}&after=${next}`;
    const found = await state.ask(path, { signal: stop });
    positions = positions.concat(found.positions);
    next = found.next;
    if (find.value?.q === q) find.value = { q, positions, next };
  }
  if (positions.length && !positions.includes(cursor.value)) nextHit(1);
}

/** To the next hit, or the one before; it wraps. */
export function nextHit(by) {
  const { positions } = find.value || { positions: [] };
  const isPast = (seq) => (by > 0 ? seq > cursor.value : seq < cursor.value);
  const next = by > 0 ? positions.find(isPast) : positions.findLast(isPast);
  const at = next ?? positions.at(by > 0 ? 0 : -1);
  if (at) state.go(at, { jump: true });
}

function Find() {
  const box = useRef(null);
  const { q, positions, next } = find.value;
  useEffect(() => {
    box.current.focus();
  }, []);
  useLater(q ? 200 : 0, (stop) => (q ? search(q, stop) : undefined), [q, state.here()]);
  const place = positions.indexOf(cursor.value) + 1;
  const count = `${place ? `${place} of ` : ""}${state.number(positions.length)}`;
  const onInput = (event) => {
    find.value = { q: event.target.value, positions: [], next: 0 };
    state.remember(false);
  };
  const onKey = (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      event.stopPropagation();
      find.value = null;
      /** @type {HTMLElement} */ (document.querySelector(".rows")).focus();
    }
  };
  return html`<div class="find strip" role="search">
    <input
      ref=${box}
      type="search"
      value=${q}
      aria-label="Find in this lineage"
      placeholder="Find in this lineage"
      onKeyDown=${onKey}
      onInput=${onInput}
    />
    <span role="status">${q && `${count}${next === null ? "" : " …"}`}</span>
    <button onClick=${() => nextHit(-1)} aria-label="Earlier">↑</button
    ><button onClick=${() => nextHit(1)} aria-label="Later">↓</button>
    <button onClick=${state.setTo(find, null)} aria-label="Close find">Close</button>
  </div>`;
}

const Line = ({ line, index, total }) =>
  Array.isArray(line)
    ? html`<${Born} line=${line} index=${index} total=${total} />`
    : html`<${Row} seq=${line} index=${index} total=${total} />`;

/** A line keeps its element when others come above it. */
const keyOf = (line) => (Array.isArray(line) ? `b${line[1]?.id || line[0]}` : line);

export function Tape() {
  const box = useRef(null);
  const own = useRef(0); // where we scrolled to ourselves: that is not a person scrolling
  const lastBorn = useRef(null); // to notice what was born since
  const total = length();
  const factor = factorOf(total, height.value);
  const first = Math.max(0, Math.floor(scrolled.value / ROW) - SPARE);
  const last = Math.min(total, Math.ceil((scrolled.value + height.value) / ROW) + SPARE);
  const shown = Array.from({ length: last - first }, (_, n) => [first + n, lineAt(first + n)]);
  const readOffset = () => box.current.scrollTop * factor;
  const scrollTo = (offset) => {
    box.current.scrollTop = Math.max(0, offset) / factor;
    own.current = scrolled.value = readOffset();
  };

  useSize(box, (element) => {
    height.value = element.clientHeight;
  });
  useLayoutEffect(() => {
    const top = indexOf(cursor.value) * ROW;
    const view = box.current.clientHeight;
    const seen = readOffset();
    if (cursor.value && top >= seen && top + ROW <= seen + view) return;
    const near = Math.abs(top - seen) < view + 2 * ROW;
    scrollTo(near ? (top < seen ? top : top - view + ROW) : top - view / 2);
  }, [cursor.value, log.value.pieces.length && state.here(), listed.value, height.value]);
  useLayoutEffect(() => {
    // what was born above does not push away what is read
    const seen = lastBorn.current || born.value;
    lastBorn.current = born.value;
    const line = Math.floor(scrolled.peek() / ROW);
    const at = line - 1 - before(seen.places, line);
    const by = (before(born.value.seqs, at) - before(seen.seqs, at)) * ROW;
    if (by && seen.of === born.value.of) scrollTo(readOffset() + by);
  }, [born.value]);
  const missing = state.findMissingLines(shown.map(([, line]) => line).filter(Number));
  // After the connection was lost they are asked for again.
  useLater(0, (stop) => (missing ? state.loadLines(missing, stop) : undefined), [
    missing,
    state.live.value,
  ]);

  const onScroll = () => {
    const top = readOffset();
    if (following.value && top < own.current - ROW && total * ROW > height.value) {
      state.readTo.value = log.value.head;
      following.value = false;
      state.remember(false);
    }
    own.current = top;
    scrolled.value = top;
  };
  const top = first * ROW - scrolled.value + scrolled.value / factor;
  return html`<section class="tape" aria-label="Events">
    <${Filters} />
    ${!total && listed.value && html`<p class="hint strip">No event is of this kind: choose another one.</p>`}
    ${find.value && html`<${Find} />`}
    <div
      class="rows"
      role="listbox"
      tabindex="0"
      ref=${box}
      onScroll=${onScroll}
      aria-label="Events of this lineage"
      aria-activedescendant=${cursor.value ? `row-${cursor.value}` : undefined}
    >
      <div class="all" role="presentation" style=${{ height: `${Math.min(total * ROW, MOST)}px` }}>
        <div role="presentation" class="window" style=${{ transform: `translateY(${top}px)` }}>
          ${shown.map(([index, line]) => html`<${Line} key=${keyOf(line)} line=${line} index=${index} total=${total} />`)}
        </div>
      </div>
    </div>
  </section>`;
}
