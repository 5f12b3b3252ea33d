/** Is the store sound, and how large is it? */
import { useEffect } from "./vendor/hooks.js";
import { signal } from "./vendor/signals.js";
import html from "./html.js";
import * as state from "./state.js";
import { number } from "./state.js";

const stats = signal(null);
const findings = signal(null);

export default function Check() {
  useEffect(() => {
    state.ask("/stats").then((found) => { stats.value = found; }).catch(state.trouble);
    state.ask("/verify").then((found) => { findings.value = found.findings; }).catch(state.trouble);
  }, []);
  const all = stats.value;
  return html`<main class="plain wide"><h1>Check</h1><h2>Verify</h2>
    <div role="status">${!findings.value ? html`<p class="hint">Reading everything again …</p>` : findings.value.length
      ? html`<p class="problem">${number(findings.value.length)} problems</p><ul>${findings.value.slice(0, 200).map((one, index) => html`<li key=${index}><b>${one.severity}</b> ${one.agent || "the store"}${one.position === null ? "" : `@${one.position}`}: ${one.problem}; ${one.remedy}</li>`)}</ul>`
      : html`<p class="good">The store is sound: every event is what was written.</p>`}</div>
    <h2>In numbers</h2>${!all ? html`<p class="hint">Counting …</p>` : html`<table class="check"><tbody>
      ${["sessions", "agents", "events", "live", "dead", "bytes", "size"].map((name) => html`<tr key=${name}><th scope="row">${name}</th><td class="n">${number(all[name])}</td></tr>`)}
      ${Object.entries(all.kinds).map(([kind, count]) => html`<tr key=${`k${kind}`}><th scope="row" class=${`k-${kind}`}>${kind}</th><td class="n">${number(count)}</td></tr>`)}</tbody></table>
      <h2>Largest agents</h2><table class="check"><thead><tr><th>Agent</th><th class="n">Events</th><th class="n">Live</th><th class="n">Bytes</th></tr></thead><tbody>
      ${all.largest.map((one) => html`<tr key=${one.id}><td><a href=${`${state.root}/r/${one.id}`}>${one.name}</a></td><td class="n">${number(one.events)}</td><td class="n">${number(one.live)}</td><td class="n">${number(one.bytes)}</td></tr>`)}</tbody></table>`}</main>`;
}
