/** Elements from templates: html`<p class="hint">…</p>`. A line break is a space, as in HTML and for
 *  prettier (htm alone would drop it), and nothing at the ends of a template. */
import { h } from "preact";
import htm from "htm";

const build = htm.bind(h);
const templates = new WeakMap(); // the texts of a template, without line breaks

export default function html(texts, ...values) {
  if (!templates.has(texts)) {
    const spaced = [...texts];
    spaced[0] = spaced[0].replace(/^\s*\n\s*/, "");
    spaced.push(spaced.pop().replace(/\s*\n\s*$/, ""));
    templates.set(
      texts,
      spaced.map((text) => text.replace(/\s*\n\s*/g, " ")),
    );
  }
  return build(templates.get(texts), ...values);
}
