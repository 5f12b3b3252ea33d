/** The request's body at the cursor, in each of the five formats, message by message. */
import { signal } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { cursor, format, number } from "./state.js";
import { copy, Place, useLater, visible } from "./parts.js";

const FORMATS = ["openai", "openai-responses", "anthropic", "gemini", "bedrock"];
const PAGE = 30;
const found = signal(null);
const counted = signal(null);

const load = state.fetcher(async (name, stop) => {
  const [id, at, chosen, after] = name.split(" ");
  const page = await state.ask(`/agents/${id}/request?at=${at}&format=${chosen}&after=${after}&limit=${PAGE}`, { signal: stop });
  found.value = { ...page, name: `${id} ${at} ${chosen}`, after: Number(after) };
});

async function whole() {
  const answer = await state.ask(`/agents/${state.here()}/request.json?at=${cursor.value}&format=${format.value}`, { raw: true });
  return answer.text();
}

async function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await whole()], { type: "application/json" }));
  link.download = `${state.agent.value.name}-${cursor.value}-${format.value}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function count() {
  counted.value = { at: cursor.value, ...(await state.ask(`/agents/${state.here()}/tokens?at=${cursor.value}`)) };
}

const Json = ({ value }) => html`<pre tabindex="0">${visible(JSON.stringify(value, null, 2))}</pre>`;

/** The events that a message says. */
const Origins = ({ seqs }) => seqs && html`<span class="origins">${seqs.length ? "from " : "not in the log: a repair put it there"}${seqs.slice(0, 12).map((seq, index) => html`${index > 0 && ", "}<${Place} seq=${seq} key=${seq} />`)}${seqs.length > 12 && " …"}</span>`;

export default function Request() {
  const name = `${state.shown.value} ${cursor.value} ${format.value}`;
  const page = found.value?.name === name ? found.value : null;
  useLater(120, () => { if (state.shown.value) load(`${name} 0`); }, [name]);
  const tokens = counted.value?.at === cursor.value ? counted.value : null;
  const turn = (after) => () => load(`${name} ${after}`);
  return html`<div class="request"><p class="facts"><label>Format <select value=${format.value} onChange=${(event) => {
      format.value = event.target.value; state.remember(false);
    }}>${FORMATS.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
    ${page && html`<span>${number(page.total)} messages, ${number(page.bytes)} bytes</span>`}
    <span class="gap"></span>${tokens ? html`<span title=${tokens.how}>${tokens.exact ? "" : "≈ "}${number(tokens.tokens)} tokens</span>` : html`<button onClick=${() => count().catch(state.trouble)}>Count tokens</button>`}
    <button onClick=${() => whole().then((text) => copy(text, "Request")).then(() => { state.toast.value = { text: "Request copied" }; }, state.trouble)}>Copy</button>
    <button onClick=${() => download().catch(state.trouble)}>Download</button></p>
    ${!page && html`<p class="hint">Building the request …</p>`}
    ${page?.repairs.length > 0 && html`<details class="repairs" open><summary>${state.counted(page.repairs.length, "repair")}: where the request differs from the log</summary>
      <ul>${page.repairs.slice(0, 100).map((one, index) => html`<li key=${index}><b>${one.rule}</b> ${one.at && html`at <${Place} seq=${one.at} /> `}${one.why}</li>`)}</ul></details>`}
    ${page && Object.keys(page.rest).length > 0 && html`<details><summary>${Object.keys(page.rest).join(", ")}</summary><${Json} value=${page.rest} /></details>`}
    ${page?.total > PAGE && html`<p class="facts"><button disabled=${!page.after} onClick=${turn(Math.max(0, page.after - PAGE))}>Earlier</button>
      <span>${page.key} ${number(page.after + 1)}–${number(page.after + page.messages.length)}</span>
      <button disabled=${page.after + PAGE >= page.total} onClick=${turn(page.after + PAGE)}>Later</button></p>`}
    ${page?.messages.map((one, index) => html`<article class="message" key=${page.after + index}><header>${page.after + index + 1} <b>${one.role || one.type || ""}</b> <${Origins} seqs=${page.origins[index]} /></header><${Json} value=${one} /></article>`)}</div>`;
}
