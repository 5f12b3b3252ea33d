/** Elements from templates: html`<p class="hint">…</p>`. */
import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export default htm.bind(h);
