/** All keys; and what to do without a key. */
import { COMMANDS, letters } from "page/keys.js";
import { Closing, html, Overlay } from "page/parts.js";

const SHOWN = { " ": "space", ArrowLeft: "←", ArrowRight: "→", PageDown: "PgDn", PageUp: "PgUp" };
const MORE = [
  ["⌘K", "Search everything"],
  ["Ctrl-F", "Find in this lineage"],
  ["Esc", "Close"],
];

export const Locked = ({ over }) =>
  html`<${Overlay} label="No access" locked=${true} class="move"
    ><h2>No access</h2>
    <p>${over.why}</p><//
  >`;

export function Help() {
  const turn = (event) => {
    letters.value = event.target.checked;
    localStorage.setItem("letters", letters.value ? "on" : "off");
  };
  return html`<${Overlay} label="All keys" class="help"
    ><h2>Keys</h2>
    <dl>
      ${[...COMMANDS, ...MORE].map(
        ([key, what]) =>
          html`<div key=${key}>
            <dt><kbd>${SHOWN[key] || key}</kbd></dt>
            <dd>${what}</dd>
          </div>`,
      )}
    </dl>
    <label
      ><input type="checkbox" checked=${letters.value} onChange=${turn} /> Use single-letter
      keys</label
    >
    <${Closing}
  /><//>`;
}
