/** Components are functions that return elements. One is drawn again when its properties change, or a signal that it
 *  read; what it keeps between two times is in hooks, as in other libraries, but these are all there are. */
import { Component, h as made, render } from "./vendor/preact.js";
import { effect } from "./signals.js";

export * from "./signals.js";
export { render };

let here = null; // the component that is being drawn
let place = 0; // of its next hook

const differs = (one, other) => !other || one.length !== other.length || one.some((value, n) => !Object.is(value, other[n]));

const finish = (hooks) => {
  for (const hook of hooks) {
    hook.end?.();
    hook.end = hook.run?.();
    hook.run = undefined;
  }
};

/** @param {(props: any) => any} draw */
const componentOf = (draw) => class extends /** @type {any} */ (Component) {
  hooks = [];

  shouldComponentUpdate(props, state) {
    const [next, last] = [props, this.props].map((one) => Object.entries(one).flat());
    return state !== this.state || differs(next, last);
  }

  render(props) {
    let [first, found] = [true, null];
    this.stop?.();
    this.stop = effect(() => {
      if (!first) { this.setState({}); return; }
      first = false;
      [here, place] = [this, 0];
      found = draw(props);
    });
    return found;
  }

  componentDidMount() {
    const waiting = (soon) => this.hooks.filter((hook) => hook.run && (hook.soon || !soon));
    finish(waiting(true));
    if (waiting(false).length) setTimeout(() => { if (this.stop) finish(waiting(false)); });
  }

  componentDidUpdate() { this.componentDidMount(); }

  componentWillUnmount() {
    this.stop();
    this.stop = null;
    for (const hook of this.hooks) hook.end?.();
  }
};

const components = new Map();
/** An element ("p", or "p.hint" with its class), or a component with its properties.
 *  @param {any} type @param {any} [props] @param {any[]} children */
export function h(type, props, ...children) {
  if (typeof type !== "function") {
    const dot = type.indexOf(".");
    return dot < 0 ? made(type, props, ...children) : made(type.slice(0, dot), { ...props, class: type.slice(dot + 1) }, ...children);
  }
  if (!components.has(type)) components.set(type, componentOf(type));
  return made(components.get(type), props, ...children);
}

const hook = (start) => (here.hooks[place++] ||= start);
const run = (soon) => (act, needs) => {
  const one = hook({ soon });
  if (!needs || differs(needs, one.needs)) Object.assign(one, { needs, run: act });
};
export const useRef = (current) => hook({ current });
export const [useEffect, useLayoutEffect] = [run(false), run(true)];
export function useState(value) {
  const [one, owner] = [hook({ value }), here];
  return [one.value, (next) => { one.value = next; owner.setState({}); }];
}
