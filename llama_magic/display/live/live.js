// The live view of an answer. nodes.js stands before it in the same module (see live.py).

const count = (number) => number.toLocaleString("en-US");

function gauge(head) {
  const bar = make("div", "lm-bar");
  bar.setAttribute("aria-hidden", "true");
  const total = Math.max(head.window, head.prompt + head.max_tokens) || 1;
  const key = make("ul", "lm-legend");
  const segment = (kind, label) => {
    const node = make("i", `lm-k-${kind}`);
    const words = make("span");
    const name = /\d$/.test(label) ? `${label}:` : label; // as doc.Segment.words
    bar.append(node);
    key.append(make("li", "", make("i", `lm-k-${kind}`), words));
    return (amount) => {
      node.style.width = `${(100 * amount) / total}%`;
      words.textContent = `${name} ${count(amount)}`;
    };
  };
  for (const part of head.parts) segment(part.kind, part.label)(part.amount);
  const written = segment("written", "written");
  const kept = segment("reserved", "reserved");
  const set = (tokens) => {
    written(tokens);
    kept(Math.max(0, head.max_tokens - tokens));
  };
  set(0);
  const words = (tokens) => {
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
  let heard = 0;
  let due = 0;
  return (node) => {
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
    make("div", "lm-row", title, stopControl(model)), text, meter.bar, meter.key,
    make("div", "lm-row lm-wrap", foot, state), region,
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
      channels.set(name, new Growing(node));
    }
    return channels.get(name);
  };
  let table = null;
  if (head.fields.length) text.append((table = form(head.fields)).node);

  const read = (message) => {
    if (message.progress) {
      const [done, total] = message.progress;
      state.textContent = `reading the prompt: ${count(done)} of ${count(total)}`;
    }
    for (const row of message.rows ?? []) {
      if (!table) text.append((table = form([])).node);
      table.set(row);
    }
    for (const [name, ...change] of message.nodes ?? []) {
      if (!table) channel(name).take(...change);
    }
    return message.figures;
  };

  // A frame draws all that has come since the last one; a tab that nobody sees draws nothing.
  let waiting = [];
  const draw = () => {
    const messages = waiting;
    waiting = [];
    const figures = messages.map(read).findLast(Boolean);
    if (channels.has(0)) announce(channels.get(0).node);
    if (!figures) return;
    const [tokens, first, rate] = figures;
    meter.set(tokens);
    foot.textContent = meter.words(tokens);
    state.textContent = `first token ${first.toFixed(2)} s` + (rate ? ` · ${rate.toFixed(0)} tok/s` : "");
  };
  const onMessage = (message) => {
    if (waiting.push(message) === 1) requestAnimationFrame(draw);
  };
  model.on("msg:custom", onMessage);
  return () => model.off("msg:custom", onMessage);
}

const joined = (text) => (Array.isArray(text) ? text.join("") : text);

/**
 * See to it that the cell holds the static output that the kernel left; return whether it does.
 *
 * The page that runs the cell has it already. One that was loaded since then has the saved view of a widget,
 * or what the cell held before: JupyterLab gives it no output of that run (as of 4.6). `late`: the run had
 * ended before this page knew of it.
 */
function settle(model, late) {
  const { cell: id, run, view, bundle } = model.get("left");
  const cells = model.widget_manager?.context?.model?.cells;
  if (!cells) return true; // not JupyterLab or Notebook 7: nothing that we could do
  for (let at = 0; at < cells.length; at++) {
    const cell = cells.get(at);
    if (cell.id !== id || !cell.outputs) continue;
    const outputs = Array.from({ length: cell.outputs.length }, (_, index) => cell.outputs.get(index).data ?? {});
    if (outputs.some((data) => joined(data["text/plain"]) === bundle["text/plain"] && !data[VIEW])) return true;
    const place = outputs.findIndex((data) => data[VIEW]?.model_id === view);
    // The page that runs the cell shows what its code wants: the answer may lie in an Output widget, say.
    if (place < 0 && !late && cell.executionState !== "idle") return cell.executionState === "running";
    const output = { output_type: "display_data", data: bundle, metadata: {} };
    if (place >= 0) cell.outputs.set(place, output);
    else {
      if (cell.executionCount !== null && cell.executionCount !== run) cell.outputs.clear(); // of an earlier run
      cell.outputs.add(output);
    }
    cell.executionCount = run;
    return true;
  }
  return false;
}

const VIEW = "application/vnd.jupyter.widget-view+json";

/** Tell the kernel that its answer stands where it belongs: then it closes the widget. */
function initialize({ model }) {
  const end = (late) => {
    if (settle(model, late)) model.send({ settled: true });
  };
  if (model.get("left").bundle) end(true);
  else model.on("change:left", () => end(false));
}

export default { initialize, render };
