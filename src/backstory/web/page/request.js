/** The request at the cursor in each of the five formats, message by message. */
import { signal } from "@preact/signals";
import * as state from "page/state.js";
import { cursor, log, openAgent, openId, remember } from "page/open_log.js";
import { number, writeCount } from "page/format.js";
import { copy, html, Json, Pager, Place, usePages, Waiting } from "page/parts.js";

const FORMATS = ["openai", "openai-responses", "anthropic", "gemini", "bedrock"];
const MESSAGES_PER_PAGE = 30;
const MANY = 50000; // messages: a longer request is built only on demand
const tokenCount = signal(null);
const largePath = signal("");

/** The format of the provider that answered last, unless a person chose another one. */
const readFormat = () => state.format.value || log.value.format;

const pathOf = (name) => `/agents/${openId.value}/${name}?at=${cursor.value}`;

async function readWhole() {
  const path = `${pathOf("request.json")}&format=${readFormat()}`;
  const answer = await state.ask(path, { raw: true });
  return answer.text();
}

const copyWhole = async () => copy(await readWhole(), "Request", "");

async function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await readWhole()], { type: "application/json" }));
  link.download = `${openAgent.value.name}-${cursor.value}-${readFormat()}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function count() {
  const path = pathOf("tokens");
  tokenCount.value = { path, ...(await state.ask(path)) };
}

function choose(event) {
  state.format.value = event.target.value;
  remember(false);
}

function Tokens() {
  const tokens = tokenCount.value;
  if (tokens?.path !== pathOf("tokens"))
    return html`<button onClick=${() => count().catch(state.trouble)}>Count tokens</button>`;
  return html`<span title=${tokens.how}
    >${tokens.exact ? "" : "≈ "}${number(tokens.tokens)} tokens</span
  >`;
}

const Repairs = ({ all }) =>
  html`<details class="repairs" open>
    <summary>${writeCount(all.length, "repair")}: where the request differs from the log</summary>
    <ul>
      ${all.slice(0, 100).map((one, index) => html`<li key=${index}><b>${one.rule}</b> ${one.at && html`at <${Place} seq=${one.at} /> `}${one.why}</li>`)}
    </ul>
  </details>`;

const Origins = ({ seqs }) =>
  seqs &&
  html`<span class="origins"
    >${seqs.length ? "from " : "not in the log: a repair put it there"}${seqs.slice(0, 12).map((seq, index) => html`${index > 0 && ", "}<${Place} seq=${seq} key=${seq} />`)}${seqs.length > 12 && " …"}</span
  >`;

const RequestMessage = ({ of, number: position, seqs }) =>
  html`<article class="message card">
    <header>
      ${position} <b>${of.role || of.type || ""}</b>
      <${Origins} seqs=${seqs} />
    </header>
    <${Json} value=${of} />
  </article>`;

const RequestPage = ({ page, after, turn }) =>
  html`${page.repairs.length > 0 && html`<${Repairs} all=${page.repairs} />`}
    ${
      Object.keys(page.rest).length > 0 &&
      html`<details>
        <summary>${Object.keys(page.rest).join(", ")}</summary>
        <${Json} value=${page.rest} />
      </details>`
    }
    <${Pager}
      name=${page.key}
      first=${after}
      most=${MESSAGES_PER_PAGE}
      total=${page.total}
      turn=${turn}
    />
    ${page.messages.map((one, index) => html`<${RequestMessage} key=${index} of=${one} number=${after + index + 1} seqs=${page.origins[index]} />`)}`;

export default function Request() {
  const path = `${pathOf("request")}&format=${readFormat()}&limit=${MESSAGES_PER_PAGE}`;
  const messages = log.value.count[cursor.value];
  const isLarge = messages > MANY && largePath.value !== path;
  const { value: page, error, after, turn } = usePages(isLarge ? "" : path, 120);
  return html`<div class="request">
    <p class="facts">
      <label
        >Format
        <select value=${readFormat()} onChange=${choose}>
          ${FORMATS.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
        </select></label
      >
      ${page && html`<span>${number(page.total)} messages, ${number(page.bytes)} bytes</span>`}
      <span class="gap"></span><${Tokens} />
      <button onClick=${() => copyWhole().catch(state.trouble)}>Copy</button>
      <button onClick=${() => download().catch(state.trouble)}>Download</button>
    </p>
    ${!page && !isLarge && html`<${Waiting} error=${error} text="Building the request …" />`}
    ${
      isLarge &&
      html`<button onClick=${state.setTo(largePath, path)}>
        Build the request of ${number(messages)} messages
      </button>`
    }
    ${page && html`<${RequestPage} page=${page} after=${after} turn=${turn} />`}
  </div>`;
}
