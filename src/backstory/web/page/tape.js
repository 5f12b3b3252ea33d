/** The tape: one line for each event, of which only those in view exist. */
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { computed, signal } from "@preact/signals";
import * as state from "page/state.js";
import {
  cursor,
  findMissingLines,
  following,
  go,
  kindAt,
  leftAt,
  letterAt,
  loadLines,
  log,
  moveAt,
  openId,
  readTo,
  remember,
  textAt,
  newCount,
} from "page/open_log.js";
import { number, writeCount } from "page/format.js";
import { findLastIndexAtMost, shows } from "page/lineage.js";
import { Chip, html, Kind, Shape, useLater, useSize } from "page/parts.js";

const ROW = 26;
const SPARE = 6; // rows above and below those in view
const MOST_FOUND = 5000; // positions of one search
const MOST_BIRTHS = 3; // at one position; the event's pane has all of them

/** Browsers ignore heights beyond about 17 million pixels: a longer list scrolls faster. */
const MOST_PIXELS = 8e6;

/** How many pixels of the list one pixel of scrolling is. */
function factorOf(rows, view) {
  const tall = rows * ROW;
  return tall <= MOST_PIXELS ? 1 : (tall - view) / Math.max(1, MOST_PIXELS - view);
}

const FILTERS = { prompts: "u", text: "suia", tools: "cr", failed: "", moves: "mxwj", live: "" };
export const filters = signal(new Set());
const scrollOffset = signal(0);
const height = signal(400);

/** The positions that are listed; null: all of them. */
const selection = computed(() => {
  const wanted = filters.value;
  if (!wanted.size) return null;
  const letters = [...wanted].map((name) => FILTERS[name]).join("");
  const anyKind = wanted.size === 1 && wanted.has("live");
  const { head, errors } = log.value;
  const fits = (seq) =>
    anyKind || letters.includes(letterAt(seq)) || (wanted.has("failed") && errors.has(seq));
  const isLive = (seq) => seq <= cursor.value && !leftAt(seq) && shows(log.value, seq);
  const found = [];
  for (let seq = 1; seq <= head; seq++)
    if (fits(seq) && (!wanted.has("live") || isLive(seq))) found.push(seq);
  return found;
});

/** Rows below the events at which forks and sub-agents were born: [position, agent], or [position, null, how many
 *  more]. A filtered list has none. */
const births = computed(() => {
  const ends = new Map(log.value.pieces.map(([id, , high]) => [id, high]));
  const isBornHere = (one) => one.born_seq <= ends.get(one.parent) && !ends.has(one.id);
  const all = selection.value ? [] : [...state.agents.value.values()].filter(isBornHere);
  const byBirth = (one, other) =>
    one.born_seq - other.born_seq || (one.created_at < other.created_at ? -1 : 1);
  const groups = Map.groupBy(all.sort(byBirth), (one) => one.born_seq);
  const rows = [];
  for (const [seq, group] of groups) {
    for (const one of group.slice(0, MOST_BIRTHS)) rows.push([seq, one]);
    if (group.length > MOST_BIRTHS) rows.push([seq, null, group.length - MOST_BIRTHS]);
  }
  const seqs = rows.map(([seq]) => seq);
  return { of: openId.value, rows, seqs, indexes: seqs.map((seq, n) => seq + n) };
});

const length = () =>
  selection.value ? selection.value.length : log.value.head + births.value.rows.length;
/** The position or the birth in a row. */
function lineAt(index) {
  if (selection.value) return selection.value[index];
  const { rows, indexes } = births.value;
  const last = findLastIndexAtMost(indexes, index); // births up to here push the positions down
  return indexes[last] === index ? rows[last] : index - last;
}
const indexOf = (seq) =>
  selection.value
    ? Math.max(0, findLastIndexAtMost(selection.value, seq))
    : seq + findLastIndexAtMost(births.value.seqs, seq - 1);

export function findStep(by) {
  const list = selection.value;
  if (!list) return cursor.value + by;
  const place = findLastIndexAtMost(list, by > 0 ? cursor.value : cursor.value - 1);
  return list[by > 0 ? place + 1 : place] ?? cursor.value;
}
export const page = () => Math.max(1, Math.floor(height.value / ROW) - 1);

/** Why an event is not in the context; empty if it is. */
function whyNot(seq) {
  if (seq > cursor.value) return "after the cursor";
  const left = leftAt(seq);
  if (left) return `left behind by the ${moveAt(left)} at ${number(left)}`;
  return letterAt(seq) === "x" || shows(log.value, seq) ? "" : "has no effect";
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
  const replaced = `what came before is replaced by the summary at ${number(summary || 0)}`;
  const name = summary ? "compact" : letterAt(seq) === "i" && "input";
  const wasRead = seq === readTo.value && !following.value && newCount.value;
  const looks = {
    left: why.startsWith("left"),
    ahead: seq > cursor.value,
    partner: partner[cursor.value - 1] === seq,
    hit: state.find.value?.positions.includes(seq),
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
    onClick=${() => go(seq)}
  >
    <span class="seq">${number(seq)}</span>
    <${Kind} kind=${kindAt(seq)} name=${name} />
    <span class="text clip">${summary ? replaced : textAt(seq)}</span>
    ${why && html` <span class="unseen">(${why})</span>`}
    ${state.canWrite && html`<${Actions} seq=${seq} />`}
  </div>`;
}

function Birth({ line: [seq, one, more], index, total }) {
  const open = () => {
    if (one) return state.open(one.id);
    state.pane.value = "event";
    return go(seq, { jump: true });
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
            <span class="hint">${writeCount(one.head - one.fork_seq, "event")}</span>`
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
    ${Object.keys(FILTERS).map((name) => html`<${Chip} key=${name} name=${name === "live" ? "live only" : name} count=${counts.value[name]} isOn=${filters.value.has(name)} onClick=${() => toggle(name)} />`)}
    ${selection.value && html`<span class="hint">${number(length())} of ${number(log.value.head)}</span>`}
  </div>`;
}

/** Searches every position of this lineage, dead ones too. */
async function search(q, stop) {
  let positions = [];
  let next = 0;
  while (next !== null && positions.length < MOST_FOUND) {
    const path = `/agents/${openId.value}/find?q=${encodeURIComponent(q)}&after=${next}`;
    const found = await state.ask(path, { signal: stop });
    positions = positions.concat(found.positions);
    next = found.next;
    if (state.find.value?.q === q) state.find.value = { q, positions, next };
  }
  if (positions.length && !positions.includes(cursor.value)) nextHit(1);
}

/** To the next hit, or the one before; it wraps. */
export function nextHit(by) {
  const { positions } = state.find.value || { positions: [] };
  const isPast = (seq) => (by > 0 ? seq > cursor.value : seq < cursor.value);
  const next = by > 0 ? positions.find(isPast) : positions.findLast(isPast);
  const at = next ?? positions.at(by > 0 ? 0 : -1);
  if (at) go(at, { jump: true });
}

function Find() {
  const box = useRef(null);
  const { q, positions, next } = state.find.value;
  useEffect(() => {
    box.current.focus();
  }, []);
  useLater(q ? 200 : 0, (stop) => (q ? search(q, stop) : undefined), [q, openId.value]);
  const place = positions.indexOf(cursor.value) + 1;
  const count = `${place ? `${place} of ` : ""}${number(positions.length)}`;
  const onInput = (event) => {
    state.find.value = { q: event.target.value, positions: [], next: 0 };
    remember(false);
  };
  const onKey = (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      event.stopPropagation();
      state.find.value = null;
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
    <button onClick=${state.setTo(state.find, null)} aria-label="Close find">Close</button>
  </div>`;
}

const Line = ({ line, index, total }) =>
  Array.isArray(line)
    ? html`<${Birth} line=${line} index=${index} total=${total} />`
    : html`<${Row} seq=${line} index=${index} total=${total} />`;

/** A line keeps its element when others come above it. */
const keyOf = (line) => (Array.isArray(line) ? `b${line[1]?.id || line[0]}` : line);

export function Tape() {
  const box = useRef(null);
  const own = useRef(0); // where we scrolled to: no person did
  const lastBirths = useRef(null); // to notice what was born since
  const total = length();
  const factor = factorOf(total, height.value);
  const first = Math.max(0, Math.floor(scrollOffset.value / ROW) - SPARE);
  const last = Math.min(total, Math.ceil((scrollOffset.value + height.value) / ROW) + SPARE);
  const shown = Array.from({ length: last - first }, (_, n) => [first + n, lineAt(first + n)]);
  const readOffset = () => box.current.scrollTop * factor;
  const scrollTo = (offset) => {
    box.current.scrollTop = offset / factor;
    own.current = scrollOffset.value = readOffset();
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
  }, [cursor.value, log.value.pieces.length && openId.value, selection.value, height.value]);
  useLayoutEffect(() => {
    // Births above keep what is read in its place.
    const old = lastBirths.current || births.value;
    lastBirths.current = births.value;
    const row = Math.floor(scrollOffset.peek() / ROW);
    const above = row - 1 - findLastIndexAtMost(old.indexes, row); // the last position above
    const count = ({ seqs }) => findLastIndexAtMost(seqs, above);
    const more = count(births.value) - count(old);
    if (more && old.of === births.value.of) scrollTo(readOffset() + more * ROW);
  }, [births.value]);
  const missing = findMissingLines(shown.map(([, line]) => line).filter(Number));
  // After the connection was lost they are asked for again.
  useLater(0, (stop) => (missing ? loadLines(missing, stop) : undefined), [
    missing,
    state.live.value,
  ]);

  const onScroll = () => {
    const top = readOffset();
    if (following.value && top < own.current - ROW && total * ROW > height.value) {
      readTo.value = log.value.head;
      following.value = false;
      remember(false);
    }
    own.current = top;
    scrollOffset.value = top;
  };
  const top = first * ROW - scrollOffset.value + scrollOffset.value / factor;
  return html`<section class="tape" aria-label="Events">
    <${Filters} />
    ${!total && selection.value && html`<p class="hint strip">No event is of this kind: choose another one.</p>`}
    ${state.find.value && html`<${Find} />`}
    <div
      class="rows"
      role="listbox"
      tabindex="0"
      ref=${box}
      onScroll=${onScroll}
      aria-label="Events of this lineage"
      aria-activedescendant=${cursor.value ? `row-${cursor.value}` : undefined}
    >
      <div
        class="all"
        role="presentation"
        style=${{ height: `${Math.min(total * ROW, MOST_PIXELS)}px` }}
      >
        <div role="presentation" class="window" style=${{ transform: `translateY(${top}px)` }}>
          ${shown.map(([index, line]) => html`<${Line} key=${keyOf(line)} line=${line} index=${index} total=${total} />`)}
        </div>
      </div>
    </div>
  </section>`;
}
