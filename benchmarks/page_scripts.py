"""What the page's benchmark runs in the browser."""

FRAME = "const frame = () => new Promise((done) => requestAnimationFrame(done));"

HEAP = "() => { gc(); return performance.memory.usedJSHeapSize }"

# Steps back (1) or forward (-1); the median of their milliseconds until they are drawn.
STEP = f"""async ([steps, back]) => {{
  const {{ cursor, go }} = await import("page/state.js");
  {FRAME}
  const times = [];
  for (let n = 0; n < steps; n++) {{
    const start = performance.now();
    go(cursor.value - back);
    await frame();
    await frame();
    times.push(performance.now() - start);
  }}
  return times.sort((a, b) => a - b)[steps >> 1];
}}"""

# Until every text on the screen is there, and what is asked for a moment later has been asked for.
SETTLE = f"""async () => {{
  {FRAME}
  const waits = () => [...document.querySelectorAll(".row .text")].some((one) => !one.textContent)
    || [...document.querySelectorAll(".message")].some((one) => !one.querySelector(".body"));
  for (let calm = 0; calm < 30; calm = waits() ? 0 : calm + 1) await frame();
}}"""

# Jumps from place to place, as quickly as the screen follows; of every tenth the text is waited for.
# The most elements that there were.
JUMPS = f"""async (jumps) => {{
  const {{ go, log, textAt }} = await import("page/state.js");
  {FRAME}
  let most = 0;
  for (let n = 1; n <= jumps; n++) {{
    const at = 1 + (n * 7919 * 104729) % log.value.head;
    go(at, {{ jump: true }});
    await frame();
    await frame();
    while (n % 10 === 0 && textAt(at) === undefined) await frame();
    most = Math.max(most, document.querySelectorAll("*").length);
  }}
  return most;
}}"""

# A drag over the whole lineage: the most requests of one pane that were under way at the same time.
DRAG = f"""async () => {{
  const {{ go, log }} = await import("page/state.js");
  {FRAME}
  const real = window.fetch;
  const under = {{}};
  let most = 0;
  window.fetch = (url, options) => {{
    const name = /lines|events|request|diff/.exec(url)?.[0] || "other";
    under[name] = (under[name] || 0) + 1;
    most = Math.max(most, under[name]);
    let counts = true;
    const end = () => {{ if (counts) under[name] -= 1; counts = false; }};
    options.signal?.addEventListener("abort", end);
    return real(url, options).finally(end);
  }};
  for (let n = 0; n <= 100; n++) {{
    go(Math.max(1, Math.round(log.value.head * n / 100)));
    await frame();
    await frame();
    await frame();
  }}
  window.fetch = real;
  return most;
}}"""

# Rows that exist and are not in view.
DRAWN = """() => {
  const box = document.querySelector(".rows").getBoundingClientRect();
  return [...document.querySelectorAll(".row, .born")].map((one) => one.getBoundingClientRect())
    .filter((one) => one.bottom <= box.top || one.top >= box.bottom).length;
}"""

RANGES = """async () => {
  const { log } = await import("page/state.js");
  const { ranges } = await import("page/law.js");
  return ranges(log.value, log.value.head).length / (log.value.moves.length + 1);
}"""
