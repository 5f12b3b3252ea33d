/** The tape: one line for each event, of which only those in view exist. */
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { computed, signal } from "@preact/signals";
import html from "page/html.js";
import * as state from "page/state.js";
import { log, cursor, find, following } from "page/state.js";
import { before, shows } from "page/lineage.js";
import { Kind, Shape, useLater, useSize } from "page/parts.js";

export const ROW = 26;
const SPARE = 6; // rows above and below those in view
const MOST_BORN = 3; // at one position; the event's pane has all of them

/** Browsers ignore the height of an element beyond about 17 million pixels: a longer list is as high as this, and
 *  scrolls faster. */
const MOST = 8e6;

const heightOf = (rows, tall) => Math.min(rows * tall, MOST);

/** How many pixels of the list one pixel of scrolling stands for. */
function factor(rows, tall, view) {
  const most = heightOf(rows, tall) - view;
  return rows * tall <= MOST || most <= 0 ? 1 : (rows * tall - view) / most;
}

/** Returns how far into the list an element is that was scrolled to `top`. */
const offsetAt = (top, rows, tall, view) => top * factor(rows, tall, view);
/** Returns where to scroll to, to be `offset` pixels into the list. */
const topFor = (offset, rows, tall, view) => offset / factor(rows, tall, view);

const FILTERS = { prompts: "u", text: "suia", tools: "cr", failed: "", moves: "mxwj" };
export const filters = signal(new Set());
const scrolled = signal(0);
const height = signal(400);

/** The positions that are listed; null: all of them. */
export const listed = computed(() => {
  const wanted = filters.value;
  if (!wanted.size) return null;
  const letters = new Set(
    [...wanted].flatMap((name) => [...(FILTERS[name] || "")]).map((c) => c.charCodeAt(0)),
  );
  const anyKind = ![...wanted].some((name) => name in FILTERS);
  const onlyLive = wanted.has("live");
  const { head, kinds, errors } = log.value;
  const found = [];
  for (let seq = 1; seq <= head; seq++) {
    if (!anyKind && !letters.has(kinds[seq - 1]) && !(wanted.has("failed") && errors.has(seq)))
      continue;
    if (onlyLive && (seq > cursor.value || state.leftAt(seq) || !shows(log.value, seq))) continue;
    found.push(seq);
  }
  return found;
});

/** Forks and sub-agents that were born in the open lineage stand below the event where they were: [position, agent], or
 *  [position, null, how many more]. Lists that are filtered have none. */
const born = computed(() => {
  const owners = new Map(log.value.pieces.map(([id, low, high]) => [id, high]));
  const all = listed.value
    ? []
    : [...state.agents.value.values()].filter(
        (one) => one.born_seq <= owners.get(one.parent) && !owners.has(one.id),
      );
  all.sort(
    (one, other) => one.born_seq - other.born_seq || (one.created_at < other.created_at ? -1 : 1),
  );
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

function Row({ seq, index, total }) {
  const kind = state.kindAt(seq);
  const at = cursor.value;
  const left = seq > at ? 0 : state.leftAt(seq);
  const ahead = seq > at;
  const inert = !ahead && !left && kind !== "clear" && !shows(log.value, seq);
  const why = left
    ? `left behind by the ${state.moveAt(left)} at ${left}`
    : ahead
      ? "after the cursor"
      : inert
        ? "has no effect"
        : "";
  const summary = log.value.compactions.get(seq);
  const text = summary
    ? `what came before is replaced by the summary at ${summary}`
    : state.textAt(seq);
  const partner = log.value.partner[at - 1] === seq;
  const hit = find.value?.positions.includes(seq);
  const look = [
    left && "left",
    ahead && "ahead",
    partner && "partner",
    hit && "hit",
    log.value.errors.has(seq) && "failed",
    seq === state.readTo.value && !following.value && state.unseen.value && "stopped",
  ]
    .filter(Boolean)
    .join(" ");
  return html`<div
    role="option"
    id=${`row-${seq}`}
    class=${`row ${look}`}
    aria-selected=${seq === at}
    aria-posinset=${index + 1}
    aria-setsize=${total}
    title=${why}
    onClick=${() => state.go(seq)}
  >
    <span class="seq">${state.number(seq)}</span>
    <${Kind} kind=${kind} name=${summary ? "compact" : state.letterAt(seq) === "i" && "input"} />
    <span class="text">${text === undefined ? "" : text}</span>
    ${why && html` <span class="unseen">(${why})</span>`}
  </div>`;
}

function Born({ line: [seq, one, more], index, total }) {
  const open = () => {
    if (one) state.open(one.id);
    else {
      state.go(seq, { jump: true });
      state.pane.value = "event";
    }
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

const counts = computed(() => {
  const { head, kinds, errors, missing } = log.value;
  if (missing) return {};
  const byLetter = new Float64Array(128);
  for (let n = 0; n < head; n++) byLetter[kinds[n]] += 1;
  const found = { failed: errors.size };
  for (const [name, letters] of Object.entries(FILTERS))
    for (const letter of letters) found[name] = (found[name] || 0) + byLetter[letter.charCodeAt(0)];
  return found;
});

function Filters() {
  const toggle = (name) => {
    const next = new Set(filters.value);
    if (!next.delete(name)) next.add(name);
    filters.value = next;
  };
  return html`<div class="filters" role="group" aria-label="Show only">
    ${[...Object.keys(FILTERS), "live"].map(
      (name) =>
        html`<button
          key=${name}
          class="chip"
          aria-pressed=${filters.value.has(name)}
          onClick=${() => toggle(name)}
        >
          ${name === "live" ? "live only" : name}${counts.value[name] > 0 && html` <small>${state.number(counts.value[name])}</small>`}
        </button>`,
    )}
    ${listed.value && html`<span class="hint">${state.number(length())} of ${state.number(log.value.head)}</span>`}
  </div>`;
}

/** Every position of this lineage: dead ones and those that never were on the screen too. */
const search = state.fetcher(async (q, stop) => {
  let positions = [];
  let next = 0;
  while (next !== null && positions.length < 5000) {
    const found = await state.ask(
      `/agents/${state.here()}/find?q=${encodeURIComponent(q)}&after=${next}`,
      { signal: stop },
    );
    positions = positions.concat(found.positions);
    next = found.next;
    if (find.value?.q === q) find.value = { q, positions, next };
  }
  if (positions.length && !positions.includes(cursor.value)) nextHit(1);
});

/** To the next hit, or the one before; it wraps. */
export function nextHit(by) {
  const { positions } = find.value || { positions: [] };
  if (!positions.length) return;
  const later = positions.findIndex((seq) => seq > cursor.value);
  const earlier = positions.findLastIndex((seq) => seq < cursor.value);
  const place = by > 0 ? (later < 0 ? 0 : later) : earlier < 0 ? positions.length - 1 : earlier;
  state.go(positions[place], { jump: true });
}

function Find() {
  const box = useRef(null);
  const { q, positions, next } = find.value;
  useEffect(() => {
    box.current.focus();
  }, []);
  useLater(q ? 200 : 0, () => search(q), [q, state.here()]);
  const place = positions.indexOf(cursor.value);
  const onKey = (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      event.stopPropagation();
      find.value = null;
      /** @type {HTMLElement} */ (document.querySelector(".rows")).focus();
    }
  };
  return html`<div class="find" role="search">
    <input
      ref=${box}
      type="search"
      value=${q}
      aria-label="Find in this lineage"
      placeholder="Find in this lineage"
      onKeyDown=${onKey}
      onInput=${(event) => {
        find.value = { q: event.target.value, positions: [], next: 0 };
        state.remember(false);
      }}
    />
    <span role="status"
      >${q ? `${place >= 0 ? `${place + 1} of ` : ""}${state.number(positions.length)}${next === null ? "" : " …"}` : ""}</span
    >
    <button onClick=${() => nextHit(-1)} aria-label="Earlier">↑</button
    ><button onClick=${() => nextHit(1)} aria-label="Later">↓</button>
    <button onClick=${state.setTo(find, null)} aria-label="Close find">Close</button>
  </div>`;
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
  const readOffset = () => offsetAt(box.current.scrollTop, total, ROW, box.current.clientHeight);
  const scrollTo = (offset) => {
    box.current.scrollTop = topFor(Math.max(0, offset), total, ROW, box.current.clientHeight);
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
    const at =
      Math.floor(scrolled.peek() / ROW) -
      1 -
      before(seen.places, Math.floor(scrolled.peek() / ROW));
    const by = (before(born.value.seqs, at) - before(seen.seqs, at)) * ROW;
    if (!by || seen.of !== born.value.of) return;
    scrollTo(readOffset() + by);
  }, [born.value]);
  const top = scrolled.value;
  useEffect(() => {
    if (scrolled.peek() === top) state.wantLines(rows.map(([, line]) => line).filter(Number));
  }); // else it is drawn again at once

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
  return html`<section class="tape" aria-label="Events">
    <${Filters} />
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
      <div class="all" role="presentation" style=${{ height: `${heightOf(total, ROW)}px` }}>
        <div
          role="presentation"
          class="window"
          style=${{ transform: `translateY(${first * ROW - scrolled.value + topFor(scrolled.value, total, ROW, height.value)}px)` }}
        >
          ${rows.map(([index, line]) => (line[0] === undefined ? html`<${Row} key=${line} seq=${line} index=${index} total=${total} />` : html`<${Born} key=${`b${line[1]?.id || line[0]}`} line=${line} index=${index} total=${total} />`))}
        </div>
      </div>
    </div>
  </section>`;
}
