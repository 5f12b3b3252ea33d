/** What the model sees at the cursor, from the first to the last message; the newest are in view at first. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import html from "page/html.js";
import * as state from "page/state.js";
import { log, cursor, liveRanges, number } from "page/state.js";
import { byKind, ranges, shows, spokenIn, within, without } from "page/lineage.js";
import { Message } from "page/message.js";
import { copy, Kind, Place, useLater } from "page/parts.js";

const STEP = 15; // messages that come at an end of the list
const MOST = 45;
const NEAR = 300; // pixels from an end at which more come

const isSpoken = (seq) => "suiacr".includes(state.letterAt(seq)) && shows(log.value, seq);

/** Returns the last messages of some ranges up to a position, oldest first. */
function before(some, last, most) {
  const found = [];
  for (const [low, high] of [...some].reverse())
    for (let seq = Math.min(high, last); seq >= low && found.length < most; seq--)
      if (isSpoken(seq)) found.push(seq);
  return found.reverse();
}

function after(some, first, most) {
  const found = [];
  for (const [low, high] of some)
    for (let seq = Math.max(low, first + 1); seq <= high && found.length < most; seq++)
      if (isSpoken(seq)) found.push(seq);
  return found;
}

/** What came and what left since the pinned position; null if none of this agent is pinned. */
function changed() {
  const pinned = state.other.value;
  if (!pinned || pinned.agent !== state.here() || pinned.at > log.value.head) return null;
  const then = ranges(log.value, pinned.at);
  return {
    at: pinned.at,
    came: without(liveRanges.value, then),
    left: without(then, liveRanges.value),
  };
}

function Sizes() {
  const sizes = byKind(log.value, liveRanges.value).map(([letter, tokens]) => [
    state.KINDS[letter],
    tokens,
  ]);
  const outside = log.value.outside[cursor.value] || 0;
  if (outside) sizes.push(["outside", outside]);
  const total = sizes.reduce((sum, [, tokens]) => sum + tokens, 0) || 1;
  return html`<div class="sizes">
    <div class="bar" aria-hidden="true">
      ${sizes.map(
        ([kind, tokens]) =>
          html`<i
            key=${kind}
            class=${kind}
            style=${{ flexGrow: tokens / total, background: `var(--${kind})` }}
          ></i>`,
      )}
    </div>
    <ul>
      ${sizes.map(([kind, tokens]) => html`<li key=${kind} title=${kind === "outside" ? "The provider counted these tokens, but the log does not contain them: the system prompt and tools of another program, for example." : undefined}><${Kind} kind=${kind} name=${kind === "outside" && "not in the log"} /> ≈ ${number(tokens)}</li>`)}
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
  const gone = at - log.value.count[at];
  return html`<details class="ranges">
    <summary>
      ${number(log.value.count[at])} live in ${state.counted(all.length, "range")}, ${number(gone)}
      left behind or without effect
    </summary>
    <ul>
      ${gaps.slice(-40).map(([low, high, by]) => html`<li key=${by}>${number(low)}–${number(high)} left behind by the ${state.moveAt(by)} at <${Place} seq=${by} /></li>`)}
    </ul>
  </details>`;
}

function Since({ since, only, setOnly }) {
  if (!since)
    return html`<div class="since">
      <button class="small" title="Pin this position, to see what changes (d)" onClick=${state.pin}>
        Pin
      </button>
    </div>`;
  return html`<details class="since">
    <summary>
      Changed since <b>${number(since.at)}</b>: ${number(spokenIn(log.value, since.came))} came,
      ${number(spokenIn(log.value, since.left))} left
    </summary>
    <p class="facts">
      <label
        ><input
          type="checkbox"
          checked=${only}
          onChange=${(event) => setOnly(event.target.checked)}
        />
        Show only what came</label
      >
      <button
        class="small"
        onClick=${() => {
          state.pane.value = "diff";
          state.remember(false);
        }}
      >
        Compare
      </button>
      <button class="small" onClick=${state.setTo(state.other, null)}>Unpin</button>
    </p>
    ${since.left.length > 0 && html`<p>Left: ${since.left.slice(-20).map(([low, high]) => html`<${Place} key=${low} seq=${high}>${low === high ? number(low) : `${number(low)}–${number(high)}`}<//> `)}</p>`}
  </details>`;
}

async function copyText() {
  const path = `/agents/${state.here()}/text?at=${cursor.value}`;
  const answer = await state.ask(path, { raw: true });
  await copy(await answer.text(), "The whole context", "");
}

const load = state.eventFetcher();

/** Which messages are in the document: the newest, or those around what is read. The one under the eye stays where it
 *  is when others come and go. */
function useWindow(all, end) {
  const [view, setView] = useState({ last: null, most: STEP });
  const anchor = useRef(null);
  const moving = useRef(false);
  const findBox = () => end.current?.closest(".pane");
  const seqs = before(all, view.last ?? Infinity, view.most);
  const move = async (more, next) => {
    if (!more.length || moving.current) return;
    moving.current = true;
    try {
      await state.loadEvents(more); // their heights are known when they come in
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
    const last = seqs.length < MOST ? view.last : seqs[seqs.length - 1 - STEP];
    return move(before(all, seqs[0] - 1, STEP), { last, most: Math.min(seqs.length + STEP, MOST) });
  };
  const showLater = () => {
    if (view.last === null) return undefined;
    const more = after(all, view.last, STEP);
    const isEnd = more.length < STEP;
    return move(more, { last: isEnd ? null : more[more.length - 1], most: MOST });
  };
  useEffect(() => {
    setView({ last: null, most: STEP });
  }, [cursor.value, state.here(), all.length]);
  useLayoutEffect(() => {
    if (!anchor.current) return;
    const { seq, top } = anchor.current;
    anchor.current = null;
    const seen = findBox().querySelector(`.message[data-seq="${seq}"]`);
    if (seen) findBox().scrollTop += seen.getBoundingClientRect().top - top;
  }, [view]);
  useEffect(() => {
    const box = findBox();
    if (!box) return undefined;
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
  void state.texts.value;
  const since = changed();
  const all = only && since ? since.came : liveRanges.value;
  const { seqs, last, showEarlier, showLater } = useWindow(all, end);
  const missing = seqs.filter((seq) => !state.eventAt(seq));
  const hasEarlier = seqs.length > 0 && before(all, seqs[0] - 1, 1).length > 0;
  useLater(40, () => load(missing.join(",")), [missing.join(",")]);
  useLayoutEffect(() => {
    const box = end.current?.closest(".pane");
    if (box && last === null) box.scrollTop = box.scrollHeight;
  }, [cursor.value, missing.length === 0, state.here()]);
  return html`<div class="sticky">
      <${Sizes} />
      <div class="facts">
        <${Ranges} /><span class="gap"></span
        ><${Since} since=${since} only=${only} setOnly=${setOnly} />
        <button class="small" onClick=${() => copyText().catch(state.trouble)}>Copy as text</button>
      </div>
    </div>
    ${hasEarlier && html`<button class="more" onClick=${showEarlier}>Show earlier messages</button>`}
    ${!seqs.length && html`<p class="hint">${only && since ? "Nothing came in since the pinned position." : "The context is empty here."}</p>`}
    ${seqs.map((seq) => html`<${Message} key=${`${state.ownerOf(seq)}${seq}`} seq=${seq} isNew=${Boolean(since && within(since.came, seq))} />`)}
    ${last !== null && html`<button class="more" onClick=${showLater}>Show later messages</button>`}
    <i ref=${end}></i>`;
}
