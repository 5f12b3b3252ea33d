/** One event stream for all tabs, as a browser has few connections: the tab with the lock reads, and tells the
 *  others. (The page's policy refuses a SharedWorker.) */
import { ask, root } from "page/state.js";

const LOCK = `backstory-live ${root}`;
const FIRST_PAUSE = 500; // milliseconds before the stream is asked for again
const LONGEST_PAUSE = 15000;

/** Calls `onMessage` with {type}: connected, lost, refused or heads. A hidden tab neither reads nor waits for the lock. */
export function listen(onMessage) {
  const channel = new BroadcastChannel(LOCK);
  channel.onmessage = (event) => onMessage(event.data);
  const join = () => {
    if (!document.hidden) joinUntilHidden(channel, onMessage);
  };
  document.addEventListener("visibilitychange", join);
  join();
}

function joinUntilHidden(channel, onMessage) {
  const hidden = new AbortController();
  document.addEventListener("visibilitychange", () => hidden.abort(), { once: true });
  const tell = (message) => {
    channel.postMessage(message);
    onMessage(message);
  };
  const read = () => readUntil(hidden.signal, tell);
  // Without a secure context (a proxy on plain http) there are no locks: the tab reads for itself.
  const reading = navigator.locks
    ? navigator.locks.request(LOCK, { signal: hidden.signal }, read)
    : read();
  reading.catch((error) => {
    if (error.name !== "AbortError") onMessage({ type: "refused", error });
  });
  waitForStream(hidden.signal, onMessage);
}

/** If another tab reads, this one is connected already, and asks once for what it missed. */
async function waitForStream(signal, onMessage) {
  const { held } = navigator.locks ? await navigator.locks.query() : { held: [] };
  if (!signal.aborted && held.some((lock) => lock.name === LOCK)) onMessage({ type: "connected" });
}

async function readUntil(signal, tell) {
  let pause = FIRST_PAUSE;
  while (!signal.aborted) {
    let why = "";
    try {
      const answer = await ask("/live", { raw: true, signal });
      pause = FIRST_PAUSE;
      tell({ type: "connected" }); // every tab asks once for what it missed
      await readHeads(answer, (heads) => tell({ type: "heads", heads }));
    } catch (error) {
      if (error.status === 401) throw error;
      if (error.status) why = error.message;
    }
    if (signal.aborted) return;
    tell({ type: "lost", why });
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

async function readHeads(answer, onHeads) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = /^data: (.*)$/m.exec(part);
      if (data) onHeads(JSON.parse(data[1]));
    }
  }
}
