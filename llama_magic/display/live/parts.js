// @ts-check
// The parts of the live view: gauge, Stop, what is announced, the form of a structured answer.
import { make, spoken } from "./nodes.js";

/**
 * What is known before the first token.
 * @typedef {{ title: string, model: string, after: string, markdown: boolean, form: boolean, fields: string[], samples: number,
 *   window: number, prompt: number, cached: number, max_tokens: number, parts: { label: string, kind: string, amount: number }[] }} Head
 */
/**
 * What of anywidget's model is used here.
 * @typedef {{ get(name: string): any, on(event: string, handler: (value: any) => void): void,
 *   off(event: string, handler: (value: any) => void): void, send(content: any): void, widget_manager?: any }} Model
 */

export const count = (/** @type {number} */ number) => number.toLocaleString("en-US");

/**
 * The gauge: its bar, its key, `set` for the tokens written so far, and its `words`.
 * @param {Head} head
 */
export function gauge(head) {
  const bar = make("div", "lm-bar");
  const used = make("span", "lm-used");
  const whole = make("div", "lm-whole", used);
  for (const part of [bar, whole]) part.setAttribute("aria-hidden", "true");
  const most = head.prompt + head.max_tokens;
  const total = (2 * most < head.window ? most : Math.max(head.window, most)) || 1; // as doc.Bar.enlarged
  whole.hidden = total >= head.window;
  const key = make("p", "lm-legend");
  /**
   * @param {string} kind
   * @param {string} label
   */
  const segment = (kind, label) => {
    const node = make("span", `lm-part lm-k-${kind}`);
    const words = make("span");
    const name = /\d$/.test(label) ? `${label}:` : label; // as doc.Segment.words
    bar.append(node);
    if (key.childNodes.length) key.append(" · ");
    key.append(make("span", `lm-dot lm-k-${kind}`, "\u00a0\u00a0\u00a0"), "\u00a0", words); // as html._legend
    return (/** @type {number} */ amount) => {
      node.style.width = `${(100 * amount) / total}%`;
      words.textContent = `${name} ${count(amount)}`.replaceAll(" ", "\u00a0");
    };
  };
  for (const part of head.parts) segment(part.kind, part.label)(part.amount);
  const written = segment("written", "written");
  const kept = segment("reserved", "reserved");
  const set = (/** @type {number} */ tokens) => {
    written(tokens);
    kept(Math.max(0, head.max_tokens - tokens));
    used.style.width = `${(100 * (head.prompt + tokens)) / (head.window || 1)}%`;
  };
  set(0);
  const words = (/** @type {number} */ tokens) => {
    const reused = head.cached ? ` (${count(head.cached)} reused)` : "";
    const free = Math.max(0, head.window - head.prompt - Math.max(head.max_tokens, tokens));
    const reserved = Math.max(0, head.max_tokens - tokens);
    const kept = reserved ? ` · ${count(reserved)} reserved` : "";
    return (
      `${head.samples > 1 ? "longest sample: " : ""}${count(head.prompt)} prompt${reused} + ${count(tokens)} written of ${count(head.window)} tokens` +
      `${kept} · ${count(free)} free`
    );
  };
  return { bar, key, whole, set, words };
}

/**
 * What became of the guesses: how many came, and the end of the text with those that did underlined, the others crossed out.
 * @param {number} came
 * @param {number} made
 * @param {[string, string][]} parts text and kind of each stretch
 * @returns {(Node | string)[]}
 */
export function guessed(came, made, parts) {
  /** @type {Record<string, string>} */
  const tags = { accepted: "ins", struck: "del" };
  const text = parts.map(([words, kind]) => (tags[kind] ? make(tags[kind], "", words) : words));
  return [`${count(came)} of ${count(made)} guesses accepted: …`, ...text];
}

/**
 * Stop is the front end's own interrupt: a message to the kernel would wait until the cell has ended.
 * @param {Model} model
 * @param {string} title
 */
export function stopControl(model, title) {
  const kernel = model.widget_manager?.kernel;
  if (typeof kernel?.interrupt !== "function") {
    return make("span", "lm-how", "To stop: interrupt the cell (■, or press I twice)");
  }
  const button = /** @type {HTMLButtonElement} */ (make("button", "lm-stop", "Stop"));
  button.type = "button";
  button.title = title;
  button.addEventListener("click", () => {
    button.disabled = true;
    button.textContent = "stopping…";
    Promise.resolve(kernel.interrupt()).catch(() => {
      button.disabled = false;
      button.textContent = "Stop";
    });
  });
  return button;
}

/**
 * A view that is gone takes the focus with it: give it to its cell, where it was in the view.
 * @param {HTMLElement} root
 * @returns {() => void} what is to be called when the view goes
 */
export function keepFocus(root) {
  /** @type {HTMLElement | null} */
  let cell = null;
  root.addEventListener("focusin", () => { cell = root.closest(".jp-Cell"); });
  root.addEventListener("focusout", (event) => { if (event.relatedTarget) cell = null; });
  return () => requestAnimationFrame(() => {
    if (document.activeElement === document.body) cell?.focus({ preventScroll: true });
  });
}

/**
 * Whole sentences for screen readers, at most one announcement every two seconds.
 * @param {HTMLElement} region
 */
export function announcer(region) {
  let heard = 0;
  let due = 0;
  return (/** @type {Node} */ node) => {
    if (Date.now() < due) return;
    const fresh = spoken(node).trimEnd().slice(heard);
    const end = Math.max(...[". ", "! ", "? ", "\n"].map((mark) => fresh.lastIndexOf(mark)));
    if (end < 0) return;
    due = Date.now() + 2000;
    heard += end + 1;
    const said = fresh.slice(0, end + 1);
    const long = said.length > 1000; // then its end, from a whole word on
    region.textContent = long ? `… ${said.slice(said.indexOf(" ", said.length - 1000) + 1)}` : said;
  };
}

const outer = (/** @type {string} */ path) => path.split(/[.[]/)[0];

export const GROUP = 5; // samples side by side; those beyond are folded

/**
 * A place for samples: the first few stand in `node` itself, the others in a fold below.
 * @param {HTMLElement} node
 * @param {number} samples
 * @param {(place: HTMLElement, first: number, last: number) => void} fill is given the place of each group
 */
export function grouped(node, samples, fill) {
  fill(node, 0, Math.min(GROUP, samples) - 1);
  for (let first = GROUP; first < samples; first += GROUP) {
    const last = Math.min(first + GROUP, samples) - 1;
    const words = first === last ? `sample ${first + 1}` : `samples ${first + 1} to ${last + 1}`;
    const fold = make("details", "lm-fold", make("summary", "lm-sum", words));
    node.append(fold);
    fill(fold, first, last);
  }
}

/**
 * The fields of structured answers: a table with a column for each sample, and `set` for [path, offset, piece].
 * @param {string[]} fields
 * @param {number} first
 * @param {number} last
 */
export function form(fields, first, last) {
  const columns = last - first + 1;
  const body = make("tbody");
  /** @type {Map<string, { node: HTMLElement, values: HTMLElement[], empty: boolean[] }>} */
  const rows = new Map();
  const row = (/** @type {string} */ path) => {
    let entry = rows.get(path);
    if (!entry) {
      const values = Array.from({ length: columns }, () => make("td", "lm-td lm-empty", "not yet"));
      const node = make("tr", "lm-tr", make("td", "lm-td", path), ...values);
      const kin = [...rows.keys()].findLast((other) => outer(other) === outer(path));
      if (kin === undefined) body.append(node);
      else rows.get(kin)?.node.after(node); // below what else is in that field, as in what is saved
      rows.set(path, (entry = { node, values, empty: values.map(() => true) }));
    }
    return entry;
  };
  fields.forEach(row);
  const set = (/** @type {number} */ sample, /** @type {string} */ path, /** @type {number} */ offset, /** @type {string} */ piece) => {
    const at = sample - first;
    const top = outer(path); // a field's first row makes room for its inner ones
    const room = rows.get(top);
    const entry = row(path);
    if (top !== path && room?.empty.every(Boolean)) {
      room.node.remove();
      rows.delete(top);
    }
    const value = entry.values[at];
    const known = entry.empty[at] ? "" : value.textContent ?? "";
    if (offset > known.length) return; // a gap: wait for the whole
    value.textContent = known.slice(0, offset) + piece;
    value.className = "lm-td";
    entry.empty[at] = false;
  };
  const titles = columns === 1 && first === 0 ? ["value"] : Array.from({ length: columns }, (_, i) => `sample ${first + i + 1}`);
  const header = make("thead", "", make("tr", "lm-tr", ...["field", ...titles].map((name) => make("th", "lm-th", name))));
  return { node: make("div", "lm-box", make("table", "lm-table", header, body)), set };
}
