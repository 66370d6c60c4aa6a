// @ts-check
// The text under the pen. Tab comes into it, arrows move between tokens, Enter opens what else may stand there,
// Enter picks, Escape closes, and what is typed stands in place of the token. Texts of a model only ever become
// text nodes.

/**
 * [its text, its probability or null, whether it was given]
 * @typedef {[string, number | null, boolean]} Token
 */
/**
 * What may stand at a step; a row is [id, text, probability, whether it stands there].
 * @typedef {{ of: number, step: number, rows: [number, string, number, boolean][], problem: string }} Options
 */

/**
 * @param {string} tag
 * @param {string} [className]
 * @param {(Node | string)[]} children
 * @returns {HTMLElement}
 */
function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

const percent = (/** @type {number} */ share) => {
  const digits = share >= 0.0995 || share <= 0 ? 0 : share >= 0.00095 ? 1 : 2;
  return share > 0 && share < 0.00005 ? "<0.01%" : `${(100 * share).toFixed(digits)}%`; // as percent in words/tables.py
};

/** How a token is read aloud. */
const said = (/** @type {string} */ text) => text.trim() || (text.includes("\n") ? "line break" : text ? "blank" : "part of a character");

/** A token as it stands in a row: its blanks are seen. */
const seen = (/** @type {string} */ text) => text.replace(/\n/g, "↵").replace(/\t/g, "→").replace(/ /g, "·") || "‥";

/** @param {{ model: import("../live/parts.js").Model, el: HTMLElement }} given */
function render({ model, el }) {
  el.classList.add("lm-sheet");
  const words = make("div", "lm-words");
  words.setAttribute("role", "listbox");
  words.setAttribute("aria-orientation", "horizontal");
  words.setAttribute("aria-label", "The answer, token by token. Arrows move; Enter shows what else may stand at a token; what you type stands in its place.");
  const title = make("p", "");
  const rows = make("div", "");
  rows.setAttribute("role", "listbox");
  rows.setAttribute("aria-label", "What may stand here. Enter picks, Escape closes.");
  const note = make("p", "");
  note.setAttribute("role", "status");
  const field = /** @type {HTMLInputElement} */ (make("input"));
  field.spellcheck = false;
  field.setAttribute("aria-label", "Or write something else; Enter lets the answer go on from it.");
  const panel = make("div", "lm-panel", title, rows, note, make("label", "", "or write", field));
  panel.setAttribute("role", "group");
  panel.hidden = true;
  const page = make("div", "lm-page tex2jax_ignore mathjax_ignore", words, panel);
  el.append(page);

  let open = -1; // the step whose panel is shown
  let at = 0; // the step that Tab comes to
  let typed = false; // whether the panel was opened by typing: then the focus stays in the field
  /** @type {Token[]} */
  let shown = [];
  const nodes = () => /** @type {HTMLElement[]} */ ([...words.children]);

  /** Bring the tokens of the page up to date; nodes that stay the same stay, and so does the focus. */
  const draw = () => {
    /** @type {Token[]} */
    const tokens = model.get("tokens");
    while (words.children.length > tokens.length + 1) words.lastElementChild?.remove();
    while (words.children.length < tokens.length + 1) {
      const node = make("span", "lm-tok");
      node.setAttribute("role", "option");
      node.tabIndex = -1;
      words.append(node);
    }
    const list = nodes();
    tokens.forEach(([text, share, given], step) => {
      const now = `${text}\0${share}\0${given}\0${tokens.length}`;
      const node = list[step];
      if (node.dataset.now === now) return;
      node.dataset.now = now;
      node.className = `lm-tok${given ? " lm-given" : ""}${text ? "" : " lm-nothing"}`;
      node.textContent = text.replace(/\n/g, "↵\n");
      node.style.setProperty("--lm-unsure", share === null ? "0" : (0.9 * (1 - share)).toFixed(2));
      const known = share === null ? "" : `, ${percent(share)}`;
      node.title = `token ${step + 1} (step ${step})${known}`;
      node.setAttribute("aria-label", `${said(text)}${known}${given ? ", given" : ""}`);
    });
    const last = list[tokens.length];
    const end = model.get("writing") ? `… ${model.get("end") || "is being written"}` : `▸ ${model.get("end")}`;
    last.dataset.now = "";
    last.className = "lm-tok lm-last";
    last.textContent = end;
    last.style.removeProperty("--lm-unsure");
    last.title = "the end: write here to go on";
    last.setAttribute("aria-label", `the end, ${end.slice(2)}; what you type goes on from here`);
    shown = tokens;
    at = Math.min(at, tokens.length);
    list.forEach((node, step) => {
      node.tabIndex = step === at ? 0 : -1;
      node.classList.toggle("lm-open", step === open);
      node.setAttribute("aria-selected", String(step === open));
    });
    place();
  };

  /** Put the panel below its token; the page grows with it, for an output that cannot be overrun. */
  const place = () => {
    page.style.minHeight = "";
    if (open < 0) return;
    const node = nodes()[open];
    const lines = node.getClientRects();
    const line = lines[lines.length - 1] ?? node.getBoundingClientRect();
    const box = page.getBoundingClientRect();
    panel.style.left = `${Math.max(0, Math.min(line.left - box.left, page.clientWidth - panel.offsetWidth))}px`;
    panel.style.top = `${line.bottom - box.top + 4}px`;
    page.style.minHeight = `${panel.offsetTop + panel.offsetHeight + 8}px`;
  };

  const focus = (/** @type {number} */ step) => {
    const list = nodes();
    at = Math.max(0, Math.min(step, list.length - 1));
    list.forEach((node, index) => { node.tabIndex = index === at ? 0 : -1; });
    list[at].focus();
  };

  /** The token in the line above or below that is nearest. */
  const across = (/** @type {number} */ step, /** @type {1 | -1} */ way) => {
    const list = nodes();
    const place = (/** @type {HTMLElement} */ node) => node.getClientRects()[0] ?? node.getBoundingClientRect();
    const from = place(list[step]);
    let found = step;
    for (let next = step + way; next >= 0 && next < list.length; next += way) {
      const rect = place(list[next]);
      if (Math.abs(rect.top - from.top) < from.height / 2) continue; // the same line
      const near = place(list[found]);
      const other = found !== step && Math.abs(rect.top - near.top) >= near.height / 2;
      if (other) break; // a line further on
      if (found === step || Math.abs(rect.left - from.left) < Math.abs(near.left - from.left)) found = next;
    }
    return found;
  };

  const close = (/** @type {boolean} */ back) => {
    const step = open;
    open = -1;
    panel.hidden = true;
    draw();
    if (back && step >= 0) focus(step);
  };

  /**
   * Put a first letter into the field, behind the blank that the token begins with.
   * @param {string} key
   */
  const begin = (key) => {
    const lead = /^\s*/.exec(shown[open]?.[0] ?? "")?.[0] ?? "";
    field.value = (/\s/.test(key) ? "" : lead) + key;
  };

  /** @param {number} step @param {string} text what was typed, to begin with */
  const show = (step, text = "") => {
    open = at = step;
    typed = text !== "";
    const token = shown[step]?.[0] ?? "";
    title.textContent = step < shown.length ? `token ${step + 1}: what may stand here` : "the end: what comes next";
    panel.setAttribute("aria-label", title.textContent);
    rows.replaceChildren();
    field.value = "";
    if (text) begin(text);
    field.placeholder = seen(token || " …");
    panel.hidden = false;
    const busy = model.widget_manager?.kernel?.status === "busy" && !model.get("writing");
    note.textContent = busy ? "The kernel is at work: this is answered when its cell has ended, or is stopped." : "asking the model…";
    if (step >= shown.length) note.textContent = "Enter goes on from here.";
    else model.send({ open: step, of: model.get("of") });
    draw();
    if (text === "" && step < shown.length) nodes()[step].focus();
    else {
      field.focus();
      field.setSelectionRange(field.value.length, field.value.length);
    }
  };

  const pick = (/** @type {number} */ step, /** @type {object} */ what) => {
    close(true);
    model.send({ pick: step, of: model.get("of"), ...what });
  };

  const offered = (/** @type {Options} */ options) => {
    if (open < 0 || options.step !== open || options.of !== model.get("of")) return;
    note.textContent = options.problem;
    rows.replaceChildren(...options.rows.map(([id, text, share, here]) => {
      const bar = make("span", "lm-share");
      bar.style.setProperty("--lm-p", `${(100 * share).toFixed(1)}%`);
      const row = make("div", "lm-may", make("span", "", seen(text)), bar, make("span", "", percent(share)));
      row.setAttribute("role", "option");
      row.setAttribute("aria-label", `${said(text)}, ${percent(share)}${here ? ", stands here" : ""}`);
      row.setAttribute("aria-selected", String(here));
      row.tabIndex = -1;
      row.dataset.id = String(id);
      return row;
    }));
    place();
    const first = /** @type {HTMLElement | null} */ (rows.firstElementChild);
    const waits = page.contains(document.activeElement) && document.activeElement !== field;
    if (first && waits && !typed) first.focus();
    else if (!first && waits) field.focus();
  };

  /** @param {KeyboardEvent} event @param {number} step @returns {boolean} whether it was for us */
  const onToken = (event, step) => {
    const moves = { ArrowRight: step + 1, ArrowLeft: step - 1, Home: 0, End: shown.length };
    if (event.key in moves) focus(moves[/** @type {keyof moves} */ (event.key)]);
    else if (event.key === "ArrowDown") focus(across(step, 1));
    else if (event.key === "ArrowUp") focus(across(step, -1));
    else if (event.key === "Enter" || event.key === " ") show(step);
    else if (event.key.length === 1) show(step, event.key);
    else return false;
    return true;
  };

  /** @param {KeyboardEvent} event @param {HTMLElement} target @returns {boolean} */
  const onPanel = (event, target) => {
    const list = /** @type {HTMLElement[]} */ ([...rows.children]);
    const here = list.indexOf(target);
    if (event.key === "ArrowDown") (list[here + 1] ?? field).focus();
    else if (event.key === "ArrowUp") (target === field ? list[list.length - 1] : list[Math.max(0, here - 1)])?.focus();
    else if (event.key === "Enter" && target === field) {
      if (field.value || open === shown.length) pick(open, { text: field.value });
    } else if ((event.key === "Enter" || event.key === " ") && here >= 0) pick(open, { token: Number(target.dataset.id) });
    else if (event.key.length === 1 && (here >= 0 || !field.value)) {
      field.focus();
      if (field.value) field.value += event.key;
      else begin(event.key);
    } else return false;
    return true;
  };

  // On the window, before the host's own: in JupyterLab's command mode a letter is a command for the cell.
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const target = event.target;
    if (!(target instanceof HTMLElement) || !page.contains(target)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const step = nodes().indexOf(target);
    let ours = true;
    if (event.key === "Escape") close(true);
    else if (event.key === "Enter" && event.shiftKey) ours = true; // it would run the cell, and the board begin anew
    else ours = step >= 0 ? onToken(event, step) : onPanel(event, target);
    if (!ours) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  window.addEventListener("keydown", onKey, true);
  words.addEventListener("click", (event) => {
    const node = /** @type {HTMLElement} */ (event.target).closest(".lm-tok");
    if (!node) return;
    const step = nodes().indexOf(/** @type {HTMLElement} */ (node));
    if (step === open) close(true);
    else {
      focus(step);
      show(step);
    }
  });
  rows.addEventListener("click", (event) => {
    const row = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (event.target).closest(".lm-may"));
    if (row) pick(open, { token: Number(row.dataset.id) });
  });
  const turned = () => {
    if (open >= 0) close(page.contains(document.activeElement));
  };
  const sized = new ResizeObserver(place);
  sized.observe(words);
  model.on("change:tokens", draw);
  model.on("change:end", draw);
  model.on("change:writing", draw);
  model.on("change:of", turned);
  model.on("msg:custom", offered);
  draw();
  return () => {
    window.removeEventListener("keydown", onKey, true);
    sized.disconnect();
    model.off("change:tokens", draw);
    model.off("change:end", draw);
    model.off("change:writing", draw);
    model.off("change:of", turned);
    model.off("msg:custom", offered);
  };
}

export default { render };
