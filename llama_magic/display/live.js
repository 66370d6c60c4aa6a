// The live view of an answer. Model text only ever becomes text nodes: no innerHTML, no addresses fetched.
// The Markdown read here is that of lightmd.py, with the same limits; tests hold the two together.

const MAX_PARAGRAPH = 20000;
const MAX_QUOTES = 4;
const INLINE = /(?<code>(?<!`)(?<ticks>`{1,3})(?!`)(?<body>[^\n]{1,1000}?)(?<!`)\k<ticks>(?!`))|(?<image>!\[[^\]\n]{0,300}\]\([^)\n]{0,1000}\))|(?<link>\[(?<label>[^\]\n]{1,300})\]\((?<href>[^)\s]{1,1000})\))|(?<strong>\*\*(?![\s*])(?<bold>[^\n*]{1,500})(?<!\s)\*\*)|(?<em>(?<![\p{L}\p{N}_*])\*(?![\s*])(?<slant>[^\n*]{1,500})(?<!\s)\*(?![\p{L}\p{N}_*]))/gu;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]{0,100})$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$/;
const ITEM = /^([ \t]{0,24})([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DELIMITER = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const SAFE = /^(?:https?:\/\/|mailto:)[!-~]+$/i;

function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function inline(into, text) {
  let end = 0;
  if (text.length <= MAX_PARAGRAPH) {
    for (const match of text.matchAll(INLINE)) {
      const node = span(match.groups);
      if (!node) continue;
      plain(into, text.slice(end, match.index));
      into.append(node);
      end = match.index + match[0].length;
    }
  }
  plain(into, text.slice(end));
  return into;
}

function plain(into, text) {
  text.split("\n").forEach((line, index) => {
    if (index) into.append(make("br"));
    if (line) into.append(line);
  });
}

function span(found) {
  if (found.code) return make("code", "", found.body);
  if (found.link && SAFE.test(found.href)) {
    const link = make("a", "", found.label);
    Object.assign(link, { href: found.href, rel: "noopener noreferrer nofollow", target: "_blank" });
    return found.label === found.href ? link : make("span", "", link, ` (${found.href})`);
  }
  if (found.strong) return make("strong", "", found.bold);
  return found.em ? make("em", "", found.slant) : null;
}

const blank = (line) => !/[^ \t]/.test(line);
const isDelimiter = (line) => line.length < 1000 && DELIMITER.test(line);
const startsTable = (lines, at) =>
  lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("|") && isDelimiter(lines[at + 1]);
const cells = (line) => line.trim().replace(/^\|+|\|+$/g, "").split("|").map((cell) => cell.trim());

/** Read lines from `at` into one block under `into`; return the line after it. */
function block(into, lines, at, quotes) {
  const line = lines[at];
  let found;
  if (line.length > MAX_PARAGRAPH) {
    into.append(make("p", "", line));
    return at + 1;
  }
  if ((found = FENCE.exec(line))) {
    const close = new RegExp(`^ {0,3}${found[1][0]}{${found[1].length},}[ \\t]*$`);
    let end = at + 1;
    while (end < lines.length && !close.test(lines[end])) end++;
    if (found[2].trim()) into.append(make("p", "lm-foot", found[2].trim()));
    into.append(make("pre", "lm-code", make("code", "", lines.slice(at + 1, end).join("\n"))));
    return end + 1;
  }
  if ((found = HEADING.exec(line))) {
    into.append(inline(make(`h${Math.min(6, found[1].length + 2)}`), found[2]));
    return at + 1;
  }
  if (RULE.test(line)) {
    into.append(make("hr"));
    return at + 1;
  }
  if (QUOTE.test(line) && quotes < MAX_QUOTES) {
    const inner = [];
    while (at < lines.length && (found = QUOTE.exec(lines[at]))) {
      inner.push(found[1]);
      at++;
    }
    into.append(blocks(make("blockquote"), inner, quotes + 1));
    return at;
  }
  if (ITEM.test(line)) return list(into, lines, at);
  if (startsTable(lines, at)) return table(into, lines, at);
  return paragraph(into, lines, at, quotes);
}

function list(into, lines, at) {
  const open = []; // { depth, tag, node, item }
  let found;
  while (at < lines.length && (found = ITEM.exec(lines[at])) && !RULE.test(lines[at])) {
    const body = [found[3]];
    const depth = Math.min(8, Math.floor(found[1].replace(/\t/g, "    ").length / 2));
    at++;
    while (at < lines.length && lines[at].startsWith("  ") && !ITEM.test(lines[at])) {
      if (blank(lines[at]) || FENCE.test(lines[at])) break;
      body.push(lines[at++].trim());
    }
    const tag = /\d/.test(found[2][0]) ? "ol" : "ul";
    while (open.length && open.at(-1).depth > depth) open.pop();
    if (open.length && open.at(-1).depth === depth && open.at(-1).tag !== tag) open.pop();
    if (!open.length || open.at(-1).depth < depth) {
      const node = make(tag);
      if (tag === "ol" && found[2].slice(0, -1) !== "1") node.start = Number(found[2].slice(0, -1));
      (open.length ? open.at(-1).item : into).append(node);
      open.push({ depth, tag, node, item: null });
    }
    const top = open.at(-1);
    top.item = inline(make("li"), body.join("\n"));
    top.node.append(top.item);
    let next = at;
    while (next < lines.length && blank(lines[next])) next++;
    if (next < lines.length && ITEM.test(lines[next]) && !RULE.test(lines[next])) at = next;
  }
  return at;
}

function table(into, lines, at) {
  const rowOf = (tag, line) => {
    const row = make("tr");
    for (const cell of cells(line)) row.append(inline(make(tag), cell));
    return row;
  };
  const body = make("tbody");
  const head = make("thead", "", rowOf("th", lines[at]));
  for (at += 2; at < lines.length && lines[at].includes("|"); at++) body.append(rowOf("td", lines[at]));
  into.append(make("table", "lm-table", head, body));
  return at;
}

function paragraph(into, lines, at, quotes) {
  const starts = [FENCE, HEADING, RULE, ITEM, ...(quotes < MAX_QUOTES ? [QUOTE] : [])];
  const body = [lines[at++]];
  while (at < lines.length && !blank(lines[at])) {
    const line = lines[at];
    if (line.length > MAX_PARAGRAPH || starts.some((start) => start.test(line)) || startsTable(lines, at)) break;
    body.push(line);
    at++;
  }
  into.append(inline(make("p"), body.join("\n")));
  return at;
}

export function blocks(into, lines, quotes = 0) {
  for (let at = 0; at < lines.length; ) at = blank(lines[at]) ? at + 1 : block(into, lines, at, quotes);
  return into;
}

/** A growing text. Blocks before the last blank line are final; only the tail is read again. */
class Growing {
  constructor(node, markdown) {
    Object.assign(this, { node, markdown, length: 0, tail: "", last: null });
  }

  /** Take a piece that starts at `offset`; what is already here is skipped, a gap waits for the whole text. */
  take(offset, piece) {
    if (offset > this.length) return "";
    const fresh = piece.slice(this.length - offset);
    this.length += fresh.length;
    if (fresh && this.markdown) this.write(fresh);
    else if (fresh) this.node.append(fresh);
    return fresh;
  }

  write(fresh) {
    this.tail += fresh;
    if (this.tail.length > MAX_PARAGRAPH && this.last) {
      this.last.append(fresh); // a block without an end: no reading again
      this.markdown = false;
      this.node = this.last;
      return;
    }
    const cut = this.cut();
    this.last?.remove();
    if (cut) {
      blocks(this.node, this.tail.slice(0, cut).split("\n"));
      this.tail = this.tail.slice(cut);
    }
    this.last = blocks(make("div", "lm-tail"), this.tail.split("\n"));
    this.node.append(this.last);
  }

  /** Where the last final block ends: after a blank line outside fences and lists. */
  cut() {
    let at = 0;
    let cut = 0;
    let fence = null;
    let listed = false;
    for (const line of this.tail.split("\n").slice(0, -1)) {
      const end = at + line.length + 1;
      const found = FENCE.exec(line);
      if (fence) {
        if (new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`).test(line)) fence = null;
      } else if (found) {
        fence = found[1];
        listed = false;
      } else if (blank(line)) {
        if (!listed) cut = end;
      } else {
        if (listed && !ITEM.test(line) && !line.startsWith("  ")) {
          listed = false;
          cut = at;
        }
        listed = listed || ITEM.test(line);
      }
      at = end;
    }
    return cut;
  }
}

const count = (number) => number.toLocaleString("en-US");

function gauge(head) {
  const bar = make("div", "lm-bar");
  bar.setAttribute("aria-hidden", "true");
  const total = Math.max(head.window, head.prompt + head.max_tokens) || 1;
  const segment = (kind, amount) => {
    const node = make("i", `lm-k-${kind}`);
    node.style.width = `${(100 * amount) / total}%`;
    bar.append(node);
    return node;
  };
  for (const part of head.parts) segment(part.kind, part.amount);
  const written = segment("written", 0);
  const kept = segment("reserved", head.max_tokens);
  const set = (tokens) => {
    written.style.width = `${(100 * tokens) / total}%`;
    kept.style.width = `${(100 * Math.max(0, head.max_tokens - tokens)) / total}%`;
  };
  const words = (tokens) => {
    const reused = head.cached ? ` (${count(head.cached)} reused)` : "";
    const free = Math.max(0, head.window - head.prompt - Math.max(head.max_tokens, tokens));
    const reserved = Math.max(0, head.max_tokens - tokens);
    return (
      `${count(head.prompt)} prompt${reused} + ${count(tokens)} written of ${count(head.window)} tokens` +
      ` · ${count(reserved)} reserved · ${count(free)} free`
    );
  };
  return { bar, set, words };
}

/** Stop is the front end's own interrupt: a message to the kernel would wait until the cell has ended. */
function stopControl(model) {
  const kernel = model.widget_manager?.kernel;
  if (typeof kernel?.interrupt !== "function") {
    return make("span", "lm-how", "To stop: interrupt the cell (■, or press I twice)");
  }
  const button = make("button", "lm-stop", "Stop");
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

/** Whole sentences for screen readers, at most one announcement every two seconds. */
function announcer(region) {
  let heard = "";
  let due = 0;
  return (fresh) => {
    heard += fresh;
    const end = Math.max(heard.lastIndexOf(". "), heard.lastIndexOf("! "), heard.lastIndexOf("? "), heard.lastIndexOf("\n"));
    if (end < 0 || Date.now() < due) return;
    due = Date.now() + 2000;
    region.textContent = heard.slice(0, end + 1).slice(-1000);
    heard = heard.slice(end + 1);
  };
}

function form(fields) {
  const body = make("tbody");
  const rows = new Map();
  const row = (path) => {
    if (!rows.has(path)) {
      const value = make("td", "lm-empty", "not written yet");
      body.append(make("tr", "", make("td", "", path), value));
      rows.set(path, { value, empty: true });
    }
    return rows.get(path);
  };
  fields.forEach(row);
  const set = ([path, offset, piece]) => {
    const top = path.split(/[.[]/)[0]; // a field's first row makes room for its inner ones
    if (top !== path && rows.get(top)?.empty) {
      rows.get(top).value.parentNode.remove();
      rows.delete(top);
    }
    const entry = row(path);
    const known = entry.empty ? "" : entry.value.textContent;
    if (offset > known.length) return; // a gap: wait for the whole
    entry.value.textContent = known.slice(0, offset) + piece;
    entry.value.className = "";
    entry.empty = false;
  };
  const header = make("thead", "", make("tr", "", make("th", "", "field"), make("th", "", "value")));
  return { node: make("table", "lm-table", header, body), set };
}

function render({ model, el }) {
  const head = model.get("head");
  const meter = gauge(head);
  const title = make("p", "lm-head", make("b", "", head.title), ` ${head.model}`);
  const text = make("div", "lm-body");
  const foot = make("p", "lm-foot", meter.words(0));
  const state = make("p", "lm-foot", "waiting for the model");
  const region = make("div", "lm-heard");
  region.setAttribute("aria-live", "polite");
  const announce = announcer(region);
  const root = make(
    "div", "lm lm-live tex2jax_ignore mathjax_ignore",
    make("div", "lm-row", title, stopControl(model)), text, meter.bar, make("div", "lm-row lm-wrap", foot, state), region,
  );
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", `${head.title}, ${head.model}`);
  el.append(root);

  const channels = new Map();
  const channel = (name) => {
    if (!channels.has(name)) {
      const markdown = head.markdown && name !== "thinking";
      const className = name === "thinking" ? "lm-thinking" : markdown ? "lm-text" : "lm-text lm-raw";
      const node = make("div", className);
      if (name !== "thinking" && name > 0) text.append(make("p", "lm-head", make("b", "", `sample ${name + 1}`)));
      name === "thinking" ? text.prepend(node) : text.append(node);
      channels.set(name, new Growing(node, markdown));
    }
    return channels.get(name);
  };
  let table = null;
  if (head.fields.length) text.append((table = form(head.fields)).node);

  const onMessage = (message) => {
    if (message.progress) {
      const [done, total] = message.progress;
      state.textContent = `reading the prompt: ${count(done)} of ${count(total)}`;
    }
    for (const row of message.rows ?? []) {
      if (!table) text.append((table = form([])).node);
      table.set(row);
    }
    for (const [name, offset, piece] of message.text ?? []) {
      if (table) continue;
      const fresh = channel(name).take(offset, piece);
      if (name === 0) announce(fresh);
    }
    if (message.figures) {
      const [tokens, first, rate] = message.figures;
      meter.set(tokens);
      foot.textContent = meter.words(tokens);
      state.textContent = `first token ${first.toFixed(2)} s` + (rate ? ` · ${rate.toFixed(0)} tok/s` : "");
    }
  };
  model.on("msg:custom", onMessage);
  return () => model.off("msg:custom", onMessage);
}

export default { render };
