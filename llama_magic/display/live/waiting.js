// @ts-check
// The line above the table of an experiment that runs. waiting.py puts the modules that it imports before it, into one.
import { make } from "./nodes.js";
import { keepFocus, stopControl } from "./parts.js";
import { ended, initialize, keepWhenLost } from "./settle.js";

/** @param {{ model: import("./parts.js").Model, el: HTMLElement }} given */
function render({ model, el }) {
  const words = make("span", "lm-foot");
  const row = make("div", "lm-row", words, stopControl(model, "Stop here; what is done is kept"));
  const root = make("div", "lm lm-live lm-above", row);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "experiment");
  const say = () => { words.textContent = model.get("words"); };
  say();
  model.on("change:words", say);
  el.classList.add("jp-RenderedHTMLCommon");
  el.append(root);
  const leave = keepFocus(root);
  const free = keepWhenLost(model, () => ended("The kernel ended before the experiment did. This is what had come."));
  return () => {
    free();
    model.off("change:words", say);
    leave();
  };
}

export default { initialize, render };
