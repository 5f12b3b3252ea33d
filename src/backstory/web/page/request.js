/** The request's body at the cursor, in each of the five formats, message by message. */
import { signal } from "@preact/signals";
import html from "page/html.js";
import * as state from "page/state.js";
import { cursor, format, log, number } from "page/state.js";
import { copy, Pager, Place, useLater } from "page/parts.js";
import { visible } from "page/format.js";

const FORMATS = ["openai", "openai-responses", "anthropic", "gemini", "bedrock"];
const PAGE = 30;
const MANY = 50000; // messages of a context whose request is only built when somebody asks for it
const found = signal(null);
const counted = signal(null);
const wanted = signal("");

const load = state.fetcher(async (name, stop) => {
  const [id, at, chosen, after] = name.split(" ");
  const page = await state.ask(
    `/agents/${id}/request?at=${at}&format=${chosen}&after=${after}&limit=${PAGE}`,
    { signal: stop },
  );
  found.value = { ...page, name: `${id} ${at} ${chosen}`, after: Number(after) };
});

/** The format of the provider that answered last, unless a person chose another one. */
const chosenFormat = () => format.value || log.value.format;

async function whole() {
  const answer = await state.ask(
    `/agents/${state.here()}/request.json?at=${cursor.value}&format=${chosenFormat()}`,
    { raw: true },
  );
  return answer.text();
}

async function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await whole()], { type: "application/json" }));
  link.download = `${state.agent.value.name}-${cursor.value}-${chosenFormat()}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function count() {
  counted.value = {
    at: cursor.value,
    ...(await state.ask(`/agents/${state.here()}/tokens?at=${cursor.value}`)),
  };
}

const Json = ({ value }) =>
  html`<pre tabindex="0">${visible(JSON.stringify(value, null, 2))}</pre>`;

const Origins = ({ seqs }) =>
  seqs &&
  html`<span class="origins"
    >${seqs.length ? "from " : "not in the log: a repair put it there"}${seqs.slice(0, 12).map((seq, index) => html`${index > 0 && ", "}<${Place} seq=${seq} key=${seq} />`)}${seqs.length > 12 && " …"}</span
  >`;

export default function Request() {
  const name = `${state.shown.value} ${cursor.value} ${chosenFormat()}`;
  const isLarge = log.value.count[cursor.value] > MANY && wanted.value !== name;
  const page = found.value?.name === name ? found.value : null;
  useLater(
    120,
    () => {
      if (state.shown.value && !isLarge) load(`${name} 0`);
    },
    [name, isLarge],
  );
  const tokens = counted.value?.at === cursor.value ? counted.value : null;
  const turn = (after) => load(`${name} ${after}`);
  return html`<div class="request">
    <p class="facts">
      <label
        >Format
        <select
          value=${chosenFormat()}
          onChange=${(event) => {
            format.value = event.target.value;
            state.remember(false);
          }}
        >
          ${FORMATS.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
        </select></label
      >
      ${page && html`<span>${number(page.total)} messages, ${number(page.bytes)} bytes</span>`}
      <span class="gap"></span
      >${tokens ? html`<span title=${tokens.how}>${tokens.exact ? "" : "≈ "}${number(tokens.tokens)} tokens</span>` : html`<button onClick=${() => count().catch(state.trouble)}>Count tokens</button>`}
      <button onClick=${() => whole().then((text) => copy(text, "Request", ""), state.trouble)}>
        Copy
      </button>
      <button onClick=${() => download().catch(state.trouble)}>Download</button>
    </p>
    ${!page && !isLarge && html`<p class="hint">Building the request …</p>`}
    ${
      isLarge &&
      html`<button onClick=${state.setTo(wanted, name)}>
        Build the request of ${number(log.value.count[cursor.value])} messages
      </button>`
    }
    ${
      page?.repairs.length > 0 &&
      html`<details class="repairs" open>
        <summary>
          ${state.counted(page.repairs.length, "repair")}: where the request differs from the log
        </summary>
        <ul>
          ${page.repairs.slice(0, 100).map((one, index) => html`<li key=${index}><b>${one.rule}</b> ${one.at && html`at <${Place} seq=${one.at} /> `}${one.why}</li>`)}
        </ul>
      </details>`
    }
    ${
      page &&
      Object.keys(page.rest).length > 0 &&
      html`<details>
        <summary>${Object.keys(page.rest).join(", ")}</summary>
        <${Json} value=${page.rest} />
      </details>`
    }
    ${page && html`<${Pager} name=${page.key} first=${page.after} most=${PAGE} total=${page.total} turn=${turn} />`}
    ${page?.messages.map(
      (one, index) =>
        html`<article class="message" key=${page.after + index}>
          <header>
            ${page.after + index + 1} <b>${one.role || one.type || ""}</b>
            <${Origins} seqs=${page.origins[index]} />
          </header>
          <${Json} value=${one} />
        </article>`,
    )}
  </div>`;
}
