/** What the model sees at the cursor, newest in view; and how a tree of the server becomes elements. */
import { h, useEffect, useLayoutEffect, useRef, useState } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { log, cursor, liveRanges, number } from "./state.js";
import { ranges, shows } from "./law.js";
import { within, without } from "./changes.js";
import { Kind, Place, useLater } from "./parts.js";
import { byKind, spokenIn } from "./sums.js";

const PAGE = 15;
const MOST = 45;

const TAGS = new Set("p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s a br hr table thead tbody tr th td span div".split(" "));

/** Elements of a tree [tag, attributes, …children]. Anything that is not on the list is text. */
export function elements(node, place) {
  if (!Array.isArray(node)) return String(node);
  const [tag, attributes, ...children] = node;
  if (!TAGS.has(tag)) return children.map(elements);
  const given = { key: place, class: attributes.class, title: attributes.title };
  if (/^h[1-6]$/.test(tag)) return h("div", { ...given, class: `heading ${tag}`, role: "heading", "aria-level": "4" }, children.map(elements));
  if (tag === "a" && /^(https?|mailto):/i.test(attributes.href || "")) {
    Object.assign(given, { href: attributes.href, rel: "noreferrer noopener", target: "_blank" });
  }
  if (tag === "pre") given.tabIndex = 0;
  return h(tag, given, children.map(elements));
}

/** An event for reading. */
export function Message({ seq, open, isNew }) {
  const event = state.eventAt(seq);
  const kind = state.kindAt(seq);
  const [unfolded, unfold] = useState(false);
  const name = kind === "tool_call" && event?.data?.name;
  const whole = event && (!event.view.folded || unfolded);
  const load = () => state.loadEvents([seq], undefined, true).then(() => unfold(true), state.trouble);
  return html`<article class=${`message ${log.value.errors.has(seq) ? "failed" : ""}`} data-seq=${seq}>
    <header><${Place} seq=${seq} /> <${Kind} kind=${kind} name=${name} />
    ${isNew && html`<span class="badge new">new</span>`}
    ${log.value.errors.has(seq) && html`<span class="badge">failed</span>`}
    <${Compacted} seq=${seq} what=${event?.data?.compacted} />
    ${event?.usage && html`<${Usage} usage=${event.usage} />`}
    ${event?.data?.copy_of && html`<span class="badge">copy of ${event.data.copy_of}</span>`}</header>
    ${!event ? html`<p class="hint">…</p>` : event.view.left_out
      ? html`<button onClick=${load}>Load ${number(event.view.left_out)} characters</button>`
      : html`<div class=${whole || open ? "body" : "body folded"}>${event.view.tree.map(elements)}</div>
        ${!whole && !open && html`<button onClick=${() => unfold(true)}>Show all</button>`}`}
    ${event?.images.map((type, n) => html`<${Image} key=${n} seq=${seq} n=${n} held=${event.pictures} />`)}
  </article>`;
}

/** Which model answered, and what it read, wrote and cost, where the log says so. */
function Usage({ usage }) {
  const said = [usage.model, usage.read && `${number(usage.read)} tokens in`, usage.wrote && `${number(usage.wrote)} out`, usage.cost && state.costOf(usage)].filter(Boolean);
  return html`<span class="badge">${said.join(" · ")}</span>`;
}

/** What a summary stands for, and the way to see it. Another tool's summary does not say it: then it is what the clear
 *  before it left behind. */
function Compacted({ seq, what }) {
  const [clear] = [...log.value.compactions].find(([, summary]) => summary === seq) || [];
  if (!clear) return null;
  const { count, size } = log.value;
  const { to, events, tokens } = what || { to: clear - 1, events: count[clear - 1], tokens: size[clear - 1] };
  const compare = () => {
    state.other.value = { agent: state.here(), at: to };
    state.pane.value = "diff";
    state.go(seq, { jump: true });
  };
  return html`<span class="badge">summary of ${number(events)} messages${tokens ? `, ≈ ${number(tokens)} tokens` : ""}</span>
    <button class="small" onClick=${compare}>What was dropped</button>`;
}

/** An image comes with the key, so it is fetched and shown from memory. */
function Image({ seq, n, held }) {
  const [url, setUrl] = useState(held ? held[n] : "");
  useEffect(() => {
    if (held) return undefined;
    let made = "";
    state.ask(`/events/${state.ownerOf(seq)}/${seq}/image/${n}`, { raw: true }).then(async (answer) => {
      if (answer.ok) setUrl(made = URL.createObjectURL(await answer.blob()));
    }).catch(state.trouble);
    return () => made && URL.revokeObjectURL(made);
  }, [seq, n]);
  return url && html`<img src=${url} alt=${`image ${n + 1} of event ${seq}`} />`;
}

const isSpoken = (seq) => "suacr".includes(state.letterAt(seq)) && shows(log.value, seq);

/** The newest positions that the model is given of some ranges, at most `most`. */
function shown(some, most) {
  const found = [];
  for (const [low, high] of [...some].reverse()) {
    for (let seq = high; seq >= low && found.length < most; seq--) if (isSpoken(seq)) found.push(seq);
  }
  return found.reverse();
}

/** What came and what left since the pinned position; null if none of this agent is pinned. */
function changed() {
  const pinned = state.other.value;
  if (!pinned || pinned.agent !== state.here() || pinned.at > log.value.head) return null;
  const then = ranges(log.value, pinned.at);
  return { at: pinned.at, came: without(liveRanges.value, then), left: without(then, liveRanges.value) };
}

function Sizes() {
  const sizes = byKind(log.value, liveRanges.value).map(([letter, tokens]) => [state.KINDS[letter], tokens]);
  const total = sizes.reduce((sum, [, tokens]) => sum + tokens, 0) || 1;
  return html`<div class="sizes"><div class="bar" aria-hidden="true">${sizes.map(([kind, tokens]) => html`<i key=${kind}
    style=${{ flexGrow: tokens / total, background: `var(--${kind})` }}></i>`)}</div>
    <ul>${sizes.map(([kind, tokens]) => html`<li key=${kind}><${Kind} kind=${kind} /> ≈ ${number(tokens)}</li>`)}</ul></div>`;
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
  const gone = at - log.value.count[at];
  return html`<details class="ranges"><summary>${number(log.value.count[at])} live in ${state.counted(all.length, "range")}, ${number(gone)} left behind or without effect</summary>
    <ul>${gaps.slice(-40).map(([low, high, by]) => html`<li key=${by}>${number(low)}–${number(high)} left behind by the ${state.moveAt(by)} at <${Place} seq=${by} /></li>`)}</ul></details>`;
}

function Since({ since, only, setOnly }) {
  if (!since) return html`<div class="since"><button class="small" title="Pin this position, to see what changes (d)" onClick=${state.pin}>Pin</button></div>`;
  return html`<details class="since"><summary>Changed since <b>${number(since.at)}</b>: ${number(spokenIn(log.value, since.came))} came, ${number(spokenIn(log.value, since.left))} left</summary>
    <p class="facts"><label><input type="checkbox" checked=${only} onChange=${(event) => setOnly(event.target.checked)} /> Show only what came</label>
      <button class="small" onClick=${() => { state.pane.value = "diff"; state.remember(false); }}>Compare</button> <button class="small" onClick=${() => { state.other.value = null; }}>Unpin</button></p>
    ${since.left.length > 0 && html`<p>Left: ${since.left.slice(-20).map(([low, high]) => html`<${Place} key=${low} seq=${high}>${low === high ? number(low) : `${number(low)}–${number(high)}`}<//> `)}</p>`}</details>`;
}

const load = state.eventFetcher();

export function Context() {
  const [most, setMost] = useState(PAGE);
  const [only, setOnly] = useState(false);
  const end = useRef(null);
  void state.texts.value;
  const since = changed();
  const seqs = shown(only && since ? since.came : liveRanges.value, most + 1);
  const more = seqs.length > most;
  const here = more ? seqs.slice(1) : seqs;
  const missing = here.filter((seq) => !state.eventAt(seq));
  useLater(40, () => load(missing.join(",")), [missing.join(",")]);
  useEffect(() => { setMost(PAGE); }, [state.here()]);
  useLayoutEffect(() => {
    const box = end.current?.closest(".pane");
    if (box) box.scrollTop = box.scrollHeight;
  }, [cursor.value, missing.length === 0, state.here()]);
  return html`<div class="sticky"><${Sizes} /><div class="facts"><${Ranges} /><${Since} since=${since} only=${only} setOnly=${setOnly} /></div></div>
    ${more && html`<button class="more" disabled=${most >= MOST} onClick=${() => setMost(Math.min(most + PAGE, MOST))}>
      ${most >= MOST ? `The newest ${MOST} are shown: step back for earlier ones` : "Show earlier messages"}</button>`}
    ${!here.length && html`<p class="hint">${only && since ? "Nothing came in since the pinned position." : "The context is empty here."}</p>`}
    ${here.map((seq) => html`<${Message} key=${`${state.ownerOf(seq)}${seq}`} seq=${seq} isNew=${Boolean(since && within(since.came, seq))} />`)}<i ref=${end}></i>`;
}
