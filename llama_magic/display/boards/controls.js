// @ts-check
// What ipywidgets leave out: names for the handles of sliders and for fields without a label, radio buttons that
// are one stop of Tab, a region whose sentence is announced once moves rest, keys that are the board's own,
// not commands for its cell, and a cell below it.

const REST = 600; // milliseconds
let groups = 0; // of radio buttons

/** @param {Element} board */
function name(board) {
  for (const slider of board.querySelectorAll(".widget-slider")) {
    const label = slider.querySelector(".widget-label");
    const handle = slider.querySelector("[role=slider]");
    const readout = slider.querySelector(".widget-readout");
    if (!label || !handle) continue;
    handle.setAttribute("aria-label", label.textContent ?? "");
    handle.setAttribute("aria-description", label.getAttribute("title") ?? "");
    readout?.setAttribute("role", "textbox");
    readout?.setAttribute("aria-label", `${label.textContent}, as a number`);
  }
  for (const group of board.querySelectorAll(".widget-radio-box:not([role])")) {
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-label", board.querySelector(".lm")?.textContent?.trim() ?? "");
    groups += 1;
    for (const choice of group.querySelectorAll("input")) choice.name = `lm-choice-${groups}`;
  }
  for (const field of board.querySelectorAll("input[placeholder], textarea[placeholder]")) {
    const label = field.parentElement?.querySelector(".widget-label");
    if (!label?.textContent) field.setAttribute("aria-label", field.getAttribute("title") || (field.getAttribute("placeholder") ?? ""));
  }
}

/**
 * Keep the keys of a board to it: to JupyterLab an arrow in it is the way to another cell, a letter a command (`x` cuts the cell).
 * Those with Ctrl or Command stay the host's; Escape leaves the board for its cell. Returns what ends that.
 * @param {HTMLElement} el
 */
function keys(el) {
  let within = false; // whether the focus was last in the board
  /** @type {HTMLElement | null} */
  let cell = null;
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const board = el.closest(".lm-board");
    if (!board || !(event.target instanceof Element) || !board.contains(event.target)) return;
    // Where Lumino looks first: a command is matched with the element that has the focus.
    event.target.toggleAttribute("data-lm-suppress-shortcuts", !event.ctrlKey && !event.metaKey);
    // ipywidgets' fields keep their keys to themselves: nothing else will hear of it.
    if (event.key === "Escape" && event.target.closest(".widget-text, .widget-textarea")) cell?.focus();
  };
  const onEscape = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || event.defaultPrevented || !cell) return;
    const board = el.closest(".lm-board");
    if (board && event.target instanceof Node && board.contains(event.target)) cell.focus();
  };
  const onFocus = (/** @type {Event} */ event) => {
    const board = el.closest(".lm-board");
    if (!board) return;
    within = event.target instanceof Node && board.contains(event.target);
    if (within) cell = board.closest(".jp-Cell");
  };
  const rescue = () => { // what is gone takes the focus with it
    if (within && document.activeElement === document.body) cell?.focus();
  };
  window.addEventListener("keydown", onKey, true);
  window.addEventListener("keydown", onEscape);
  document.addEventListener("focusin", onFocus);
  document.addEventListener("pointerdown", onFocus); // a click elsewhere may leave the focus to nothing
  const removed = new MutationObserver(rescue);
  requestAnimationFrame(() => removed.observe(el.closest(".lm-board") ?? el, { childList: true }));
  return () => {
    removed.disconnect();
    window.removeEventListener("keydown", onKey, true);
    window.removeEventListener("keydown", onEscape);
    document.removeEventListener("focusin", onFocus);
    document.removeEventListener("pointerdown", onFocus);
    requestAnimationFrame(rescue);
  };
}

/**
 * Put a cell below another one of the notebook; return whether there is a notebook that can be written to, with that cell.
 * @param {import("../live/parts.js").Model} model
 * @param {string} source
 * @param {string | null} below
 */
function inserted(model, source, below) {
  const notebook = model.widget_manager?.context?.model; // JupyterLab's and Notebook 7's
  const cells = notebook?.cells;
  for (let at = 0; at < (cells?.length ?? 0); at++) {
    if (cells.get(at).id !== below) continue;
    notebook.sharedModel.insertCell(at + 1, { cell_type: "code", source });
    return true;
  }
  return false;
}

export default {
  /** @param {{ model: import("../live/parts.js").Model }} given */
  initialize({ model }) {
    model.on("msg:custom", (message) => { // of the model, not of its views: one cell, however many show the board
      if (typeof message?.insert === "string") model.send({ inserted: inserted(model, message.insert, message.below) });
    });
  },
  /** @param {{ model: import("../live/parts.js").Model, el: HTMLElement }} given */
  render({ model, el }) {
    el.classList.add("lm-voice");
    const free = keys(el);
    const region = document.createElement("p");
    region.setAttribute("role", "status");
    region.setAttribute("aria-live", "polite");
    el.append(region);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    model.on("change:text", () => {
      clearTimeout(timer);
      timer = setTimeout(() => { region.textContent = model.get("text"); }, REST);
    });
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      const board = el.closest(".lm-board");
      const runs = event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey);
      if (!runs || !board || !(event.target instanceof Node) || !board.contains(event.target)) return;
      event.preventDefault();
      event.stopImmediatePropagation(); // JupyterLab would run the cell, and the board begin anew
      /** @type {NodeListOf<HTMLInputElement>} */
      const fields = board.querySelectorAll("input[placeholder], textarea[placeholder]");
      model.send({ run: Object.fromEntries([...fields].map((field) => [field.placeholder, field.value])) });
    };
    if (model.get("runs")) window.addEventListener("keydown", onKey, true); // before the host's own
    const watcher = new MutationObserver(() => name(el.closest(".lm-board") ?? el));
    const placed = new ResizeObserver(() => { // the element is rendered before it stands in the page
      const board = el.closest(".lm-board");
      if (!board) return;
      placed.disconnect();
      name(board);
      watcher.observe(board, { childList: true, subtree: true });
    });
    placed.observe(el);
    return () => {
      free();
      window.removeEventListener("keydown", onKey, true);
      clearTimeout(timer);
      watcher.disconnect();
      placed.disconnect();
    };
  },
};
