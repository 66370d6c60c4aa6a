// Light Markdown, read into elements. Model text only ever becomes text nodes: no innerHTML, no addresses fetched.
// The grammar is that of lightmd.py, with the same limits; tests hold the two together. live.js follows in the same module.

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

const depthOf = (item) => Math.min(8, Math.floor(item[1].replace(/\t/g, "    ").length / 2));

/** Read a list, or more of the `outer` one; return the line after it. Where an outer item begins is marked. */
function list(into, lines, at, outer = null, marks = []) {
  const open = outer ? [outer] : []; // { depth, tag, node, item }
  let found;
  while (at < lines.length && (found = ITEM.exec(lines[at])) && !RULE.test(lines[at])) {
    const body = [found[3]];
    const depth = depthOf(found);
    if (open.length && depth === 0) marks.push(mark(at, at, into, open[0].depth === 0 ? open[0] : null));
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

/** A place where reading can go on: its line, the last line that decided so, how many elements are final before it. */
const mark = (line, decided, into, outer = null) =>
  ({ line, decided, outer, nodes: into.childNodes.length, items: outer?.node.childNodes.length });

/** As `blocks`, where the first line may go on with the list `outer`; return the places where it can be cut. */
function marked(into, lines, outer) {
  const marks = [];
  let at = outer ? list(into, lines, 0, outer, marks) : 0;
  let listed = Boolean(outer);
  while (at < lines.length) {
    if (blank(lines[at])) {
      if (!listed) marks.push(mark(at, at, into)); // a list may go on after it
      at++;
      continue;
    }
    marks.push(mark(at, at + 1, into)); // the next line may make a table of it
    listed = ITEM.test(lines[at]) && !RULE.test(lines[at]) && lines[at].length <= MAX_PARAGRAPH;
    at = listed ? list(into, lines, at, null, marks) : block(into, lines, at, 0);
  }
  return marks;
}

/**
 * A growing text. What can no longer change is left alone: blocks before the last, items of a list before
 * the last, code in a fence that is still open. Only the tail after it is read again, so the work is in
 * proportion to the text.
 */
export class Growing {
  constructor(node, markdown) {
    Object.assign(this, { node, markdown, length: 0, fresh: "", tail: "", from: mark(0, 0, node), code: null });
  }

  /** Take a piece that starts at `offset`; what is already here is skipped, a gap waits for the whole text. */
  take(offset, piece) {
    if (offset > this.length) return "";
    const fresh = piece.slice(this.length - offset);
    this.length += fresh.length;
    this.fresh += fresh;
    return fresh;
  }

  /** Show what was taken. */
  draw() {
    const fresh = this.fresh;
    this.fresh = "";
    if (!fresh) return;
    if (!this.markdown) this.node.append(fresh);
    else if (this.code?.take(fresh)) this.tail += fresh;
    else this.write(fresh);
  }

  write(fresh) {
    this.tail += fresh;
    this.code = null;
    this.back();
    const lines = this.tail.split("\n");
    const marks = marked(this.node, lines, this.from.outer);
    const last = marks.findLast((one) => one.line > 0 && one.decided < lines.length - 1); // the last line may grow
    if (last) {
      this.from = last;
      this.tail = lines.slice(last.line).join("\n");
    } else if (this.tail.length > MAX_PARAGRAPH) {
      this.markdown = false; // a block without an end: no reading again
      this.node.append((this.node = make("div", "lm-raw")));
    }
    this.code = Code.of(this.node, this.tail);
  }

  /** Take the tail's elements out again. */
  back() {
    const { outer, nodes, items } = this.from;
    while (this.node.childNodes.length > nodes) this.node.lastChild.remove();
    while (outer && outer.node.childNodes.length > items) outer.node.lastChild.remove();
  }
}

const closes = (fence) => new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`);

/** An open fence at the end of a text: its code grows by appending, until a line may close it. */
class Code {
  static of(node, tail) {
    const [first, ...lines] = tail.split("\n");
    const fence = FENCE.exec(first);
    const text = node.lastChild?.querySelector?.("code")?.firstChild;
    if (!fence || !lines.length || !text || lines.some((line) => closes(fence[1]).test(line))) return null;
    return Object.assign(new Code(), { close: closes(fence[1]), text, line: lines.at(-1) });
  }

  take(fresh) {
    const lines = (this.line + fresh).split("\n");
    if (lines.some((line) => this.close.test(line))) return false;
    this.text.appendData(fresh);
    this.line = lines.at(-1);
    return true;
  }
}
