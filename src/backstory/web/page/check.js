/** Is the store sound, and how large is it? */
import { signal, useEffect } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { Kind, Page, Table } from "./parts.js";

const stats = signal(null);
const findings = signal(null);

export default function Check() {
  useEffect(() => {
    state.ask("/stats").then((found) => { stats.value = found; }).catch(state.trouble);
    state.ask("/verify").then((found) => { findings.value = found.findings; }).catch(state.trouble);
  }, []);
  const all = stats.value;
  return html`<main class="plain wide"><h1>Check</h1><h2>Verify</h2>
    <div role="status">${!findings.value ? html`<p class="hint">Reading …</p>` : findings.value.length
      ? html`<p class="problem">${state.counted(findings.value.length, "problem")}</p><ul>${findings.value.slice(0, 200).map((one, index) => html`<li key=${index}><b>${one.severity}</b> ${one.agent || "the store"}${one.position === null ? "" : `@${one.position}`}: ${one.problem}; ${one.remedy}</li>`)}</ul>`
      : html`<p class="good">The store is sound: every event is as it was written.</p>`}</div>
    <h2>Statistics</h2>${!all ? html`<p class="hint">Counting …</p>` : html`<${Table} name="check" head=${["What", "#Count"]} rows=${[["sessions"], ["agents"], ["events"], ["live"], ["dead", "left behind"], ["bytes", "bytes of events"], ["size", "bytes of the store"]].map(([name, what]) => [what || name, all[name]])} />
      <h2>Kinds of events</h2><${Table} name="check" head=${["Kind", "#Events"]} rows=${Object.entries(all.kinds).map(([kind, count]) => [html`<${Kind} kind=${kind} name=${kind} />`, count])} />
      <h2>Largest agents</h2><${Table} name="check" head=${["Agent", "#Events", "#Live", "#Bytes"]}
        rows=${all.largest.map((one) => [html`<${Page} to=${`${state.root}/r/${one.id}`}>${one.name}<//>`, one.events, one.live, one.bytes])} />`}</main>`;
}
