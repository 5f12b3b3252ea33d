/** Values that know who reads them: a signal is set, a computed value is made anew when somebody asks and something that it
 *  read has changed, an effect runs again. No elements here; tests/web/test_signals.py has its rules. */

let reader = null; // the computed value or effect that runs now: what it reads is written down
let depth = 0; // of batches
const waiting = new Set(); // effects that may have to run when the batch ends

class Signal {
  version = 0;

  readers = new Set();

  constructor(value) { this.now = value; }

  get value() {
    this.refresh();
    if (reader) {
      reader.reads.set(this, this.version);
      this.readers.add(reader);
    }
    return this.now;
  }

  set value(next) {
    batch(() => {
      if (this.take(next)) this.tell();
    });
  }

  /** The value, for somebody who need not know when it changes. */
  peek() {
    this.refresh();
    return this.now;
  }

  refresh() {}

  take(next) {
    if (next === this.now) return false;
    this.now = next;
    this.version += 1;
    return true;
  }

  tell() { for (const one of [...this.readers]) one.stale(); }
}

class Computed extends Signal {
  reads = new Map();

  old = true;

  due = true;

  constructor(make) {
    super();
    this.make = make;
  }

  stale() {
    if (this.old) return;
    this.old = true;
    this.tell();
  }

  refresh() {
    if (!this.old) return;
    if (this.due || changed(this)) {
      this.due = true; // as long as it fails
      this.take(run(this, this.make));
      this.due = false;
    }
    this.old = false;
  }
}

const changed = ({ reads }) => [...reads].some(([one, version]) => {
  one.refresh();
  return one.version !== version;
});

const forget = (owner) => {
  for (const one of owner.reads.keys()) one.readers.delete(owner);
  owner.reads.clear();
};

function run(owner, act) {
  forget(owner);
  const before = reader;
  reader = owner;
  try {
    return act();
  } finally {
    reader = before;
  }
}

/** @template T @param {T} value @returns {{value: T, peek(): T}} */
export const signal = (value) => new Signal(value);
/** @template T @param {() => T} make @returns {{readonly value: T, peek(): T}} */
export const computed = (make) => new Computed(make);

/** Runs now, and again whenever something that it read has changed; returns what ends it. */
export function effect(act) {
  const owner = { reads: new Map(), stale: () => waiting.add(owner), act };
  run(owner, act);
  return () => {
    forget(owner);
    waiting.delete(owner);
  };
}

/** Does something, and runs the effects of all that it changes only then. */
export function batch(act) {
  depth += 1;
  try {
    return act();
  } finally {
    try {
      while (depth === 1 && waiting.size) {
        const [owner] = waiting;
        waiting.delete(owner);
        if (changed(owner)) run(owner, owner.act);
      }
    } finally {
      depth -= 1;
    }
  }
}

// The bundle says .$ where the sources say .value: there are hundreds of them.
Object.defineProperty(Signal.prototype, "$", Object.getOwnPropertyDescriptor(Signal.prototype, "value"));
