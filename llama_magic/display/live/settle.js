// @ts-check
// What becomes of a view that has ended: a page that was loaded since then gets the static output from it. One whose
// kernel has ended before it leaves what was written.
import { make, spoken } from "./nodes.js";

const joined = (/** @type {string | string[] | undefined} */ text) => (Array.isArray(text) ? text.join("") : text);

/**
 * See to it that the cell holds the static output that the kernel left; return whether it does.
 *
 * The page that runs the cell has it already. One that was loaded since then has the saved view of a widget,
 * or what the cell held before: JupyterLab gives it no output of that run (as of 4.6). `late`: the run had
 * ended before this page knew of it.
 * @param {import("./parts.js").Model} model
 * @param {boolean} late
 * @returns {boolean}
 */
function settle(model, late) {
  const { cell: id, run, view, bundle } = model.get("left");
  const cells = model.widget_manager?.context?.model?.cells;
  if (!cells) return true; // not JupyterLab or Notebook 7: nothing that we could do
  for (let at = 0; at < cells.length; at++) {
    const cell = cells.get(at);
    if (cell.id !== id || !cell.outputs) continue;
    const outputs = Array.from({ length: cell.outputs.length }, (_, index) => cell.outputs.get(index).data ?? {});
    const place = outputs.findIndex((data) => data[VIEW]?.model_id === view);
    if (place < 0 && outputs.some((data) => joined(data["text/plain"]) === bundle["text/plain"] && !data[VIEW])) return true;
    // The page that runs the cell shows what its code wants: the answer may lie in an Output widget, say.
    if (place < 0 && !late && cell.executionState !== "idle") return cell.executionState === "running";
    const output = { output_type: "display_data", data: bundle, metadata: {} };
    if (place >= 0) {
      cell.outputs.set(place, output);
      const table = joined(outputs[place + 1]?.["text/html"])?.includes("lm-below-line"); // of an experiment on its way
      if (table) cell.outputs.set(place + 1, { ...output, data: { "text/plain": "", "text/html": "" } });
    } else {
      if (cell.executionCount !== null && cell.executionCount !== run) cell.outputs.clear(); // of an earlier run
      cell.outputs.add(output);
    }
    cell.executionCount = run;
    return true;
  }
  return false;
}

const VIEW = "application/vnd.jupyter.widget-view+json";
const ENDS = new Set(["restarting", "autorestarting", "terminating", "dead"]); // of a kernel, in JupyterLab's words

/**
 * When the kernel ends before the answer does, put what the view shows by then in its place, or nothing would be kept of it.
 * @param {import("./parts.js").Model} model
 * @param {() => Record<string, string>} shown the bundle of what is shown
 * @returns {() => void} what ends that
 */
export function keepWhenLost(model, shown) {
  const context = model.widget_manager?.context;
  const signal = context?.sessionContext?.statusChanged;
  const onStatus = (/** @type {unknown} */ _, /** @type {string} */ status) => {
    const { view, bundle } = model.get("left");
    if (bundle || !ENDS.has(status)) return;
    for (let at = 0; at < (context.model?.cells?.length ?? 0); at++) {
      const { outputs } = context.model.cells.get(at);
      for (let place = 0; place < (outputs?.length ?? 0); place++) {
        if (outputs.get(place).data?.[VIEW]?.model_id !== view) continue;
        outputs.set(place, { output_type: "display_data", data: shown(), metadata: {} });
      }
    }
  };
  signal?.connect(onStatus);
  return () => signal?.disconnect(onStatus);
}

/**
 * What is kept of a view whose kernel has ended before it: some of its nodes, and that it is so.
 * @param {string} note
 * @param {HTMLElement[]} nodes
 * @returns {Record<string, string>}
 */
export function ended(note, ...nodes) {
  const foot = make("p", "lm-foot", note);
  foot.setAttribute("style", "margin:0;font-size:88%;opacity:0.75"); // as base.css has it: what is saved has no style sheet
  const kept = make("div", "lm tex2jax_ignore mathjax_ignore", ...nodes, foot);
  kept.setAttribute("style", "border-left:2px solid #2f80d8;padding:2px 0 2px 14px");
  return { "text/html": kept.outerHTML, "text/plain": spoken(kept) };
}

/**
 * Tell the kernel that its answer stands where it belongs: then it closes the widget.
 * @param {{ model: import("./parts.js").Model }} given
 */
export function initialize({ model }) {
  const end = (/** @type {boolean} */ late) => {
    if (settle(model, late)) model.send({ settled: true });
  };
  if (model.get("left").bundle) end(true);
  else model.on("change:left", () => { if (model.get("left").bundle) end(false); });
}
