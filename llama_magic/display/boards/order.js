// @ts-check
// The stages of a chain, side by side in their order: dragged, or moved by Alt and an arrow key, or by two buttons.

const BEGUN = 4; // pixels after which a press is a drag

/** @typedef {{ get: (name: string) => any, set: (name: string, value: any) => void, save_changes: () => void,
 *   on: (name: string, handler: () => void) => void }} Model */

/** @param {string} tag @param {string} [text] @param {Record<string, string>} [attributes] */
function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

class Row {
  /** @param {Model} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    this.chosen = "";
    this.shown = "";
    this.list = element("ol", "", { class: "lm-stages", "aria-label": "stages of the chain, the first first" });
    this.heard = element("p", "", { class: "lm-voice", role: "status", "aria-live": "polite" });
    this.earlier = element("button", "← Earlier", { type: "button", class: "jupyter-button widget-button" });
    this.later = element("button", "Later →", { type: "button", class: "jupyter-button widget-button" });
    this.earlier.addEventListener("click", () => this.move(this.chosen, -1));
    this.later.addEventListener("click", () => this.move(this.chosen, 1));
    this.keys = element("small", "drag a stage, or choose it and press Alt with ← or →", { id: `lm-${Math.random()}`.replace(".", "") });
    const buttons = element("div", "", { class: "lm-moves" });
    buttons.append(this.earlier, this.later, this.keys);
    el.append(this.list, buttons, this.heard);
    this.draw();
  }

  /** The stages as the kernel says them; nothing is touched where that is what stands there. */
  draw() {
    const [names, words, end] = [this.model.get("names"), this.model.get("words"), this.model.get("end")];
    const now = JSON.stringify([names, words, end]);
    if (now === this.shown) return;
    this.shown = now;
    const focused = this.list.contains(document.activeElement);
    if (!names.includes(this.chosen)) this.chosen = names[0] ?? "";
    this.list.replaceChildren(element("li", "logits", { class: "lm-end" }), ...names.map((/** @type {string} */ name) => this.stage(name, words[name] ?? "")), element("li", end, { class: "lm-end" }));
    this.choose(this.chosen, focused);
  }

  /** @param {string} name @param {string} words */
  stage(name, words) {
    const chip = element("button", name, { type: "button", class: "lm-stage", "data-stage": name, "aria-describedby": this.keys.id });
    if (words) chip.append(" ", element("small", words));
    if (words === "off" || words === "not used") chip.classList.add("lm-off");
    chip.addEventListener("focus", () => this.choose(name));
    chip.addEventListener("keydown", (event) => this.key(event, name));
    chip.addEventListener("pointerdown", (event) => this.press(event, chip, name));
    const item = element("li");
    item.append(chip);
    return item;
  }

  /** @returns {HTMLElement[]} the stages' places, as they stand */
  places() {
    return [...this.list.children].filter((item) => item instanceof HTMLElement && !item.classList.contains("lm-end")).map((item) => /** @type {HTMLElement} */ (item));
  }

  names() {
    return this.places().map((item) => /** @type {HTMLElement} */ (item.firstElementChild).dataset.stage ?? "");
  }

  /** @param {string} name @param {boolean} [focus] */
  choose(name, focus = false) {
    this.chosen = name;
    for (const item of this.places()) {
      const chip = /** @type {HTMLElement} */ (item.firstElementChild);
      const is = chip.dataset.stage === name;
      chip.setAttribute("aria-pressed", String(is));
      chip.tabIndex = is ? 0 : -1; // one stop of Tab; arrows go from one to the next
      if (is && focus) chip.focus();
    }
    const names = this.names();
    const place = names.indexOf(name);
    this.earlier.toggleAttribute("disabled", place <= 0);
    this.later.toggleAttribute("disabled", place === names.length - 1);
    this.earlier.setAttribute("aria-label", `${name} earlier`);
    this.later.setAttribute("aria-label", `${name} later`);
  }

  /** @param {KeyboardEvent} event @param {string} name */
  key(event, name) {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab would go to the next cell
    const names = this.names();
    if (event.altKey) this.move(name, by, true);
    else this.choose(names[Math.max(0, Math.min(names.length - 1, names.indexOf(name) + by))], true);
  }

  /** @param {string} name @param {number} by @param {boolean} [focus] */
  move(name, by, focus = false) {
    const places = this.places();
    const at = this.names().indexOf(name);
    const [mine, other] = [places[at], places[at + by]];
    if (!mine || !other) return;
    this.swap(mine, other);
    this.choose(name, focus);
    this.done(name);
  }

  /** @param {string} name */
  done(name) {
    const names = this.names();
    this.heard.textContent = `${name} is now stage ${names.indexOf(name) + 1} of ${names.length}.`;
    this.shown = JSON.stringify([names, this.model.get("words"), this.model.get("end")]);
    this.model.set("names", names);
    this.model.save_changes();
  }

  /** @param {PointerEvent} event @param {HTMLElement} chip @param {string} name */
  press(event, chip, name) {
    if (event.button !== 0) return;
    const item = /** @type {HTMLElement} */ (chip.parentElement);
    const before = this.names();
    const [x, y] = [event.clientX, event.clientY];
    let dragged = false;
    chip.setPointerCapture(event.pointerId);
    const onMove = (/** @type {PointerEvent} */ now) => {
      if (!dragged && Math.hypot(now.clientX - x, now.clientY - y) < BEGUN) return;
      dragged = true;
      chip.classList.add("lm-dragged");
      this.follow(item, now.clientX, now.clientY);
    };
    const onKey = (/** @type {KeyboardEvent} */ now) => {
      if (now.key !== "Escape") return;
      now.preventDefault();
      now.stopPropagation();
      end();
      this.put(before);
    };
    const end = () => {
      chip.classList.remove("lm-dragged");
      chip.removeEventListener("pointermove", onMove);
      chip.removeEventListener("pointerup", onUp);
      chip.removeEventListener("pointercancel", onCancel);
      window.removeEventListener("keydown", onKey, true);
    };
    const onUp = () => {
      end();
      this.choose(name, true);
      if (this.names().join() !== before.join()) this.done(name);
    };
    const onCancel = () => { end(); this.put(before); };
    chip.addEventListener("pointermove", onMove);
    chip.addEventListener("pointerup", onUp);
    chip.addEventListener("pointercancel", onCancel);
    window.addEventListener("keydown", onKey, true);
  }

  /** Let a stage change places with the one under the pointer, once its middle is passed. */
  /** @param {HTMLElement} item @param {number} x @param {number} y */
  follow(item, x, y) {
    const places = this.places();
    const other = places.find((place) => {
      const { left, right, top, bottom } = place.getBoundingClientRect();
      return x >= left && x <= right && y >= top && y <= bottom;
    });
    if (!other || other === item) return;
    const { left, width } = other.getBoundingClientRect();
    const later = places.indexOf(other) > places.indexOf(item);
    const otherLine = Math.abs(other.offsetTop - item.offsetTop) > item.offsetHeight / 2;
    const passed = later ? x > left + width / 2 : x < left + width / 2;
    if (otherLine || passed) this.swap(item, other);
  }

  /** Bring a stage to the place of another. It is the others that are moved: an element that is taken out of the
   *  page loses the focus, and the pointer. */
  /** @param {HTMLElement} item @param {HTMLElement} other */
  swap(item, other) {
    const places = this.places();
    const [from, to] = [places.indexOf(item), places.indexOf(other)];
    if (from < to) item.before(...places.slice(from + 1, to + 1));
    else item.after(...places.slice(to, from));
  }

  /** @param {string[]} names */
  put(names) {
    const end = this.list.lastElementChild;
    const places = this.places();
    const standing = this.names();
    for (const name of names) end?.before(places[standing.indexOf(name)]);
  }
}

export default {
  /** @param {{ model: Model, el: HTMLElement }} given */
  render({ model, el }) {
    const row = new Row(model, el);
    for (const name of ["names", "words", "end"]) model.on(`change:${name}`, () => row.draw());
  },
};
