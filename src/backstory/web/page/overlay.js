/** A dialog of the browser's own: Esc closes it, and the focus goes back to where it was. */
import { h } from "./vendor/preact.js";
import { useEffect, useRef } from "./vendor/hooks.js";
import * as state from "./state.js";

export function close() {
  state.dialog.value = null;
}

export function Overlay({ label, children, locked, ...more }) {
  const box = useRef(null);
  useEffect(() => {
    const back = /** @type {HTMLElement} */ (document.activeElement);
    box.current.showModal();
    return () => back && back.isConnected && back.focus();
  }, []);
  return h("dialog", { ref: box, "aria-label": label, onCancel: (event) => { event.preventDefault(); if (!locked) close(); },
    onClick: (event) => { if (event.target === box.current && !locked) close(); }, ...more }, children);
}
