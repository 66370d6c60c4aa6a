// @ts-check
// The parts of the live view: gauge, Stop, what is announced, the form of a structured answer.
import { make, spoken } from "./nodes.js";

/**
 * What is known before the first token.
 * @typedef {{ title: string, model: string, markdown: boolean, fields: string[], window: number, prompt: number,
 *   cached: number, max_tokens: number, parts: { label: string, kind: string, amount: number }[] }} Head
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
  bar.setAttribute("aria-hidden", "true");
  const total = Math.max(head.window, head.prompt + head.max_tokens) || 1;
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
    key.append(make("span", "lm-key", make("span", `lm-dot lm-k-${kind}`), words));
    return (/** @type {number} */ amount) => {
      node.style.width = `${(100 * amount) / total}%`;
      words.textContent = `${name} ${count(amount)}`;
    };
  };
  for (const part of head.parts) segment(part.kind, part.label)(part.amount);
  const written = segment("written", "written");
  const kept = segment("reserved", "reserved");
  const set = (/** @type {number} */ tokens) => {
    written(tokens);
    kept(Math.max(0, head.max_tokens - tokens));
  };
  set(0);
  const words = (/** @type {number} */ tokens) => {
    const reused = head.cached ? ` (${count(head.cached)} reused)` : "";
    const free = Math.max(0, head.window - head.prompt - Math.max(head.max_tokens, tokens));
    const reserved = Math.max(0, head.max_tokens - tokens);
    return (
      `${count(head.prompt)} prompt${reused} + ${count(tokens)} written of ${count(head.window)} tokens` +
      ` · ${count(reserved)} reserved · ${count(free)} free`
    );
  };
  return { bar, key, set, words };
}

/**
 * Stop is the front end's own interrupt: a message to the kernel would wait until the cell has ended.
 * @param {Model} model
 */
export function stopControl(model) {
  const kernel = model.widget_manager?.kernel;
  if (typeof kernel?.interrupt !== "function") {
    return make("span", "lm-how", "To stop: interrupt the cell (■, or press I twice)");
  }
  const button = /** @type {HTMLButtonElement} */ (make("button", "lm-stop", "Stop"));
  button.type = "button";
  button.title = "Stop writing; the text so far is kept";
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

/**
 * The fields of a structured answer: its table, and `set` for [path, offset, piece].
 * @param {string[]} fields
 */
export function form(fields) {
  const body = make("tbody");
  /** @type {Map<string, { value: HTMLElement, empty: boolean }>} */
  const rows = new Map();
  const row = (/** @type {string} */ path) => {
    let entry = rows.get(path);
    if (!entry) {
      const value = make("td", "lm-td lm-empty", "not written yet");
      body.append(make("tr", "lm-tr", make("td", "lm-td", path), value));
      rows.set(path, (entry = { value, empty: true }));
    }
    return entry;
  };
  fields.forEach(row);
  const set = (/** @type {[string, number, string]} */ [path, offset, piece]) => {
    const top = path.split(/[.[]/)[0]; // a field's first row makes room for its inner ones
    const room = rows.get(top);
    if (top !== path && room?.empty) {
      room.value.parentElement?.remove();
      rows.delete(top);
    }
    const entry = row(path);
    const known = entry.empty ? "" : entry.value.textContent ?? "";
    if (offset > known.length) return; // a gap: wait for the whole
    entry.value.textContent = known.slice(0, offset) + piece;
    entry.value.className = "lm-td";
    entry.empty = false;
  };
  const names = ["field", "value"].map((name) => make("th", "lm-th", name));
  const header = make("thead", "", make("tr", "lm-tr", ...names));
  return { node: make("table", "lm-table", header, body), set };
}
