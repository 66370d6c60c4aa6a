// @ts-check
// What ipywidgets leave out: names for the handles of sliders and for fields without a label, and a
// region whose sentence is announced once moves rest.

const REST = 600; // milliseconds

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
  for (const field of board.querySelectorAll("input[placeholder], textarea[placeholder]")) {
    const label = field.parentElement?.querySelector(".widget-label");
    if (!label?.textContent) field.setAttribute("aria-label", field.getAttribute("title") || (field.getAttribute("placeholder") ?? ""));
  }
}

export default {
  /** @param {{ model: import("../live/parts.js").Model, el: HTMLElement }} given */
  render({ model, el }) {
    el.classList.add("lm-voice");
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
    return () => { window.removeEventListener("keydown", onKey, true); clearTimeout(timer); watcher.disconnect(); placed.disconnect(); };
  },
};
