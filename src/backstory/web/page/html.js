/** Elements from templates: html`<p class="hint">…</p>`. */
import { h } from "./components.js";
import htm from "./vendor/htm.js";

export default htm.bind(h);
