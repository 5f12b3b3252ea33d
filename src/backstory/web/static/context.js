/** What the model sees at the cursor, newest in view; and how a tree of the server becomes elements. */
import { h } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import * as state from "./state.js";
import { shows } from "./law.js";

const html = htm.bind(h);
const { log, cursor, liveRanges, number } = state;
const PAGE = 15;
const MOST = 45;

const TAGS = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em",
  "strong", "s", "a", "br", "hr", "table", "thead", "tbody", "tr", "th", "td", "span", "div"]);

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
export function Message({ seq, open }) {
  const event = state.eventAt(seq);
  const kind = state.kindAt(seq);
  const [unfolded, unfold] = useState(false);
  const name = kind === "tool_call" && event && event.data ? event.data.name || "call" : state.WORDS[kind] || kind;
  const whole = event && (!event.view.folded || unfolded);
  const load = () => state.loadEvents([seq], undefined, true).then(() => unfold(true), state.trouble);
  return html`<article class=${`message k-border-${kind} ${log.value.errors.has(seq) ? "failed" : ""}`} data-seq=${seq}>
    <header><a href=${state.addressOf(state.route.value.agent, seq)} onClick=${(click) => {
      if (click.ctrlKey || click.metaKey) return;
      click.preventDefault(); state.go(seq, { jump: true });
    }}>${seq}</a> <span class=${`kind k-${kind}`}>${name}</span>
    ${log.value.errors.has(seq) && html`<span class="badge">failed</span>`}
    ${event && event.data && event.data.compacted && html`<span class="badge">summary of ${event.data.compacted.events} events, ${event.data.compacted.from}–${event.data.compacted.to}</span>`}
    ${event && html`<${Usage} data=${event.data} />`}
    ${event && event.data && event.data.copy_of && html`<span class="badge">copy of ${event.data.copy_of}</span>`}</header>
    ${!event ? html`<p class="hint">…</p>` : event.view.left_out
      ? html`<button onClick=${load}>Load ${number(event.view.left_out)} characters</button>`
      : html`<div class=${whole || open ? "body" : "body folded"}>${event.view.tree.map(elements)}</div>
        ${!whole && !open && html`<button onClick=${() => unfold(true)}>Show all</button>`}`}
    ${event && event.images.map((type, n) => html`<${Image} key=${n} seq=${seq} n=${n} />`)}
  </article>`;
}

/** Which model answered, and what it read and wrote, where the log says so. */
function Usage({ data }) {
  const asked = (data && data.request) || {};
  const usage = asked.usage || (data && data.usage) || {};
  const first = (...names) => names.map((name) => usage[name]).find((value) => typeof value === "number");
  const read = first("input_tokens", "prompt_tokens", "promptTokenCount", "inputTokens");
  const wrote = first("output_tokens", "completion_tokens", "candidatesTokenCount", "outputTokens");
  const said = [asked.model || (data && data.model), read !== undefined && `${number(read)} tokens in`, wrote !== undefined && `${number(wrote)} out`,
    typeof usage.cost === "number" && `$${usage.cost}`].filter((one) => typeof one === "string");
  return said.length > 0 && html`<span class="badge">${said.join(" · ")}</span>`;
}

/** An image comes with the key, so it is fetched and shown from memory. */
function Image({ seq, n }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    let made = "";
    state.ask(`/events/${state.ownerOf(seq)}/${seq}/image/${n}`, { raw: true }).then(async (answer) => {
      if (answer.ok) setUrl(made = URL.createObjectURL(await answer.blob()));
    }).catch(state.trouble);
    return () => made && URL.revokeObjectURL(made);
  }, [seq, n]);
  return url && html`<img src=${url} alt=${`image ${n + 1} of event ${seq}`} />`;
}

/** The newest positions of the context that the model is given, at most `most`. */
function shown(most) {
  const found = [];
  const spoken = new Set([..."suacr"].map((c) => c.charCodeAt(0)));
  for (const [low, high] of [...liveRanges.value].reverse()) {
    for (let seq = high; seq >= low && found.length < most; seq--) {
      if (spoken.has(log.value.kinds[seq - 1]) && shows(log.value, seq)) found.push(seq);
    }
  }
  return found.reverse();
}

/** Bytes of the context by kind. */
function byKind() {
  const sums = new Map();
  for (const [low, high] of liveRanges.value) {
    for (let seq = low; seq <= high; seq++) {
      if (shows(log.value, seq)) sums.set(log.value.kinds[seq - 1], (sums.get(log.value.kinds[seq - 1]) || 0) + log.value.bytes[seq - 1]);
    }
  }
  return [..."suacr"].map((letter) => [state.KINDS[letter], sums.get(letter.charCodeAt(0)) || 0]).filter(([, bytes]) => bytes);
}

function Sizes() {
  const sizes = byKind();
  const total = sizes.reduce((sum, [, bytes]) => sum + bytes, 0) || 1;
  return html`<div class="sizes"><div class="bar" aria-hidden="true">${sizes.map(([kind, bytes]) => html`<i key=${kind}
    class=${`fill-${kind}`} style=${{ flexGrow: bytes / total }}></i>`)}</div>
    <ul>${sizes.map(([kind, bytes]) => html`<li key=${kind}><b class=${`k-${kind}`}>${state.WORDS[kind] || kind}</b> ≈ ${number(state.tokensOf(bytes))}</li>`)}</ul></div>`;
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
  return html`<details class="ranges"><summary>${number(log.value.count[at])} live in ${number(all.length)} ${all.length === 1 ? "range" : "ranges"}, ${number(gone)} left behind or without effect</summary>
    <ul>${gaps.slice(-40).map(([low, high, by]) => html`<li key=${by}>${number(low)}–${number(high)} left behind by the ${state.kindAt(by)} at
      <a href=${state.addressOf(state.route.value.agent, by)} onClick=${(click) => { click.preventDefault(); state.go(by, { jump: true }); }}>${by}</a></li>`)}</ul></details>`;
}

const load = state.fetcher((name, stop) => state.loadEvents(name.split(",").map(Number), stop));

export function Context() {
  const [most, setMost] = useState(PAGE);
  const end = useRef(null);
  void state.texts.value;
  const seqs = shown(most + 1);
  const more = seqs.length > most;
  const here = more ? seqs.slice(1) : seqs;
  const missing = here.filter((seq) => !state.eventAt(seq));
  useEffect(() => {
    const waiting = setTimeout(() => load(missing.join(",")), 40);
    return () => clearTimeout(waiting);
  }, [missing.join(",")]);
  useEffect(() => { setMost(PAGE); }, [state.route.value.agent]);
  useLayoutEffect(() => {
    const box = end.current && end.current.closest(".pane");
    if (box) box.scrollTop = box.scrollHeight;
  }, [cursor.value, missing.length === 0, state.route.value.agent]);
  return html`<${Sizes} /><${Ranges} />
    ${more && html`<button class="more" disabled=${most >= MOST} onClick=${() => setMost(Math.min(most + PAGE, MOST))}>
      ${most >= MOST ? `The newest ${MOST} are shown: step back for earlier ones` : "Show earlier messages"}</button>`}
    ${!here.length && html`<p class="hint">The context is empty here.</p>`}
    ${here.map((seq) => html`<${Message} key=${`${state.ownerOf(seq)}${seq}`} seq=${seq} />`)}<i ref=${end}></i>`;
}
