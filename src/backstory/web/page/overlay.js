/** A dialog of the browser's own: Esc closes it, and the focus goes back to where it was. */
import { h, useEffect, useRef } from "./components.js";
import * as state from "./state.js";

export function close() {
  state.dialog.value = null;
}

export function Overlay({ label, children, locked, ...more }) {
  const box = useRef(null);
  useEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return h("dialog", { ref: box, "aria-label": label, onCancel: (event) => { event.preventDefault(); if (!locked) close(); },
    onClick: (event) => { if (event.target === box.current && !locked) close(); }, ...more }, children);
}
