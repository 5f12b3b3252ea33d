/** The context at the cursor, message by message; the newest are in view at first. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as state from "page/state.js";
import {
  cursor,
  eventAt,
  letterAt,
  liveRanges,
  loadEvents,
  log,
  moveAt,
  openId,
  ownerOf,
  pin,
  showPane,
} from "page/open_log.js";
import { number, writeCount } from "page/format.js";
import { byKind, ranges, SPOKEN, countSpoken, isWithin, subtractRanges } from "page/lineage.js";
import { Message } from "page/event.js";
import { copy, html, Kind, Place, useEvents } from "page/parts.js";

const STEP = 15; // messages that come at an end of the list
const MOST_MESSAGES = 45;
const NEAR = 300; // pixels from an end at which more come
const FRAME = "The tools, and the frame of every request";

const isSpoken = (seq) => SPOKEN.includes(letterAt(seq));

/** Returns the last messages of some ranges up to a position, oldest first. */
function findMessagesBefore(ranges, last, most) {
  const found = [];
  for (const [low, high] of ranges.toReversed())
    for (let seq = Math.min(high, last); seq >= low && found.length < most; seq--)
      if (isSpoken(seq)) found.push(seq);
  return found.reverse();
}

function findMessagesAfter(ranges, first, most) {
  const found = [];
  for (const [low, high] of ranges)
    for (let seq = Math.max(low, first + 1); seq <= high && found.length < most; seq++)
      if (isSpoken(seq)) found.push(seq);
  return found;
}

/** What came and left since the pinned position; null if none of this agent is pinned. */
function findChanges() {
  const pinned = state.pinned.value;
  if (!pinned || pinned.agent !== openId.value || pinned.at > log.value.head) return null;
  const then = ranges(log.value, pinned.at);
  const now = liveRanges.value;
  return { at: pinned.at, came: subtractRanges(now, then), left: subtractRanges(then, now) };
}

function Sizes() {
  const kinds = byKind(log.value, liveRanges.value);
  const nameOf = (letter) => (letter === "i" ? "input" : state.KINDS[letter]);
  const sizes = kinds.map(([letter, tokens]) => [nameOf(letter), tokens]);
  const { size, outside: others } = log.value;
  const outside = others[cursor.value] || 0;
  if (size[0]) sizes.unshift(["request", size[0], FRAME]);
  if (outside) sizes.push(["outside", outside, state.OUTSIDE, "not in the log"]);
  const look = (kind, tokens) => ({ flexGrow: tokens, background: `var(--${kind})` });
  return html`<div class="sizes">
    <div class="bar" aria-hidden="true">
      ${sizes.map(([kind, tokens]) => html`<i key=${kind} class=${kind} style=${look(kind, tokens)}></i>`)}
    </div>
    <ul class="plain-list">
      ${sizes.map(([kind, tokens, why, name]) => html`<li key=${kind} title=${why}><${Kind} kind=${kind} name=${name} /> ≈ ${number(tokens)}</li>`)}
    </ul>
  </div>`;
}

function Ranges() {
  const at = cursor.value;
  const all = liveRanges.value;
  const gaps = [];
  let end = 0;
  for (const [low, high] of all) {
    if (low > end + 1) gaps.push([end + 1, low - 1, low]);
    end = high;
  }
  if (log.value.missing) return html`<span class="hint">Counting …</span>`;
  const count = log.value.count[at];
  return html`<details class="ranges">
    <summary>
      ${number(count)} live in ${writeCount(all.length, "range")}, ${number(at - count)} left behind
      or without effect
    </summary>
    <ul>
      ${gaps.slice(-40).map(([low, high, by]) => html`<li key=${by}>${number(low)}–${number(high)} left behind by the ${moveAt(by)} at <${Place} seq=${by} /></li>`)}
    </ul>
  </details>`;
}

const Range = ({ low, high }) =>
  html`<${Place} seq=${high}>${low === high ? number(low) : `${number(low)}–${number(high)}`}<//> `;

function Since({ since, only, setOnly }) {
  if (!since)
    return html`<div class="since">
      <button class="small" title="Pin this position, to see what changes (d)" onClick=${pin}>
        Pin
      </button>
    </div>`;
  const { at, came, left } = since;
  const onChange = (event) => setOnly(event.target.checked);
  return html`<details class="since">
    <summary>
      Changed since <b>${number(at)}</b>: ${number(countSpoken(log.value, came))} came,
      ${number(countSpoken(log.value, left))} left
    </summary>
    <p class="facts">
      <label
        ><input type="checkbox" checked=${only} onChange=${onChange} /> Show only what came</label
      >
      <button class="small" onClick=${() => showPane("diff")}>Compare</button>
      <button class="small" onClick=${state.setTo(state.pinned, null)}>Unpin</button>
    </p>
    ${left.length > 0 && html`<p>Left: ${left.slice(-20).map(([low, high]) => html`<${Range} key=${low} low=${low} high=${high} />`)}</p>`}
  </details>`;
}

async function copyText() {
  const path = `/agents/${openId.value}/text?at=${cursor.value}`;
  const answer = await state.ask(path, { raw: true });
  await copy(await answer.text(), "The whole context", "");
}

/** Which messages are in the document: the newest, or those around what is read. The one under the eye stays where it
 *  is when others come and go. */
function useWindow(all, end) {
  const [view, setView] = useState({ last: null, most: STEP });
  const anchor = useRef(null);
  const moving = useRef(false);
  const findBox = () => end.current.closest(".pane");
  const seqs = findMessagesBefore(all, view.last ?? Infinity, view.most);
  const move = async (more, next) => {
    if (!more.length || moving.current) return;
    moving.current = true;
    const missing = more.filter((seq) => !eventAt(seq));
    try {
      if (missing.length) await loadEvents(missing); // their heights are known when they come in
      const top = findBox().getBoundingClientRect().top;
      const seen = [...findBox().querySelectorAll(".message")].find(
        (one) => one.getBoundingClientRect().bottom > top + 60,
      );
      anchor.current = seen && { seq: seen.dataset.seq, top: seen.getBoundingClientRect().top };
      setView(next);
    } catch (error) {
      state.trouble(error);
    } finally {
      moving.current = false;
    }
  };
  const showEarlier = () => {
    const last = seqs.length < MOST_MESSAGES ? view.last : seqs.at(-1 - STEP);
    move(findMessagesBefore(all, seqs[0] - 1, STEP), {
      last,
      most: Math.min(seqs.length + STEP, MOST_MESSAGES),
    });
  };
  const showLater = () => {
    if (view.last === null) return;
    const more = findMessagesAfter(all, view.last, STEP + 1);
    move(more, { last: more[STEP] ? more[STEP - 1] : null, most: MOST_MESSAGES });
  };
  useEffect(() => {
    setView({ last: null, most: STEP });
  }, [cursor.value, openId.value, all.length]);
  useLayoutEffect(() => {
    if (!anchor.current) return;
    const { seq, top } = anchor.current;
    anchor.current = null;
    const seen = findBox().querySelector(`.message[data-seq="${seq}"]`);
    if (seen) findBox().scrollTop += seen.getBoundingClientRect().top - top;
  }, [view]);
  useEffect(() => {
    const box = findBox();
    const onScroll = () => {
      if (box.scrollTop < NEAR) showEarlier();
      else if (box.scrollHeight - box.scrollTop - box.clientHeight < NEAR) showLater();
    };
    box.addEventListener("scroll", onScroll);
    return () => box.removeEventListener("scroll", onScroll);
  });
  return { seqs, last: view.last, showEarlier, showLater };
}

export function Context() {
  const [only, setOnly] = useState(false);
  const end = useRef(null);
  const pinned = findChanges();
  const since = only ? pinned : null;
  const all = since ? since.came : liveRanges.value;
  const { seqs, last, showEarlier, showLater } = useWindow(all, end);
  const missing = useEvents(seqs);
  const hasEarlier = seqs.length > 0 && findMessagesBefore(all, seqs[0] - 1, 1).length > 0;
  useLayoutEffect(() => {
    const box = end.current.closest(".pane");
    if (last === null) box.scrollTop = box.scrollHeight;
  }, [cursor.value, missing.length === 0, openId.value]);
  const isNew = (seq) => pinned !== null && isWithin(pinned.came, seq);
  const nothing = since
    ? "Nothing came in since the pinned position."
    : "The context is empty here: step to another event.";
  return html`<div class="sticky">
      <${Sizes} />
      <div class="facts">
        <${Ranges} /><span class="gap"></span
        ><${Since} since=${pinned} only=${only} setOnly=${setOnly} />
        <button class="small" onClick=${() => copyText().catch(state.trouble)}>Copy as text</button>
      </div>
    </div>
    ${hasEarlier && html`<button class="more" onClick=${showEarlier}>Show earlier messages</button>`}
    ${!seqs.length && html`<p class="hint">${nothing}</p>`}
    ${seqs.map((seq) => html`<${Message} key=${`${ownerOf(seq)}${seq}`} seq=${seq} isNew=${isNew(seq)} />`)}
    ${last !== null && html`<button class="more" onClick=${showLater}>Show later messages</button>`}
    <i ref=${end}></i>`;
}
