// @ts-check
// The live view of an answer. live.py puts the modules that it imports before it, into one.
import { Growing, make } from "./nodes.js";
import { announcer, count, form, gauge, GROUP, grouped, guessed, keepFocus, stopControl } from "./parts.js";
import { ended, initialize, keepWhenLost } from "./settle.js";

/**
 * What is new, as `Feed.take` of feed.py says it.
 * @typedef {import("./nodes.js").Change[]} Changes
 * @typedef {{ progress?: [number, number], rows?: [number, string, number, string][], figures?: [number, number, number],
 *   nodes?: [string | number, number, number, Changes, Changes?][], ended?: number[], guesses?: [number, number, [string, string][]] }} Message
 */

/** @param {{ model: import("./parts.js").Model, el: HTMLElement }} given */
function render({ model, el }) {
  /** @type {import("./parts.js").Head} */
  const head = model.get("head");
  let meter = gauge(head);
  const title = make("p", "lm-head", make("b", "", `${head.title}:`), " ", make("span", "lm-dim", head.model));
  const text = make("div", "lm-body");
  if (head.after) text.append(make("p", "lm-foot", head.after));
  const foot = make("p", "lm-foot", meter.words(0));
  const state = make("p", "lm-foot", "waiting for the model");
  const guesses = make("p", "lm-foot");
  guesses.hidden = true; // until something is guessed
  const region = make("div", "lm-heard");
  region.setAttribute("aria-live", "polite");
  const announce = announcer(region);
  const root = make(
    "div", "lm lm-live tex2jax_ignore mathjax_ignore",
    make("div", "lm-row", title, stopControl(model, "Stop writing; the text so far is kept")), text, meter.bar, meter.key, meter.whole,
    make("div", "lm-row lm-wrap", foot, state), guesses, region,
  );
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", `${head.title}, ${head.model}`);
  el.classList.add("jp-RenderedHTMLCommon"); // what JupyterLab does to saved HTML is done to this, too
  el.append(root);

  /** @type {Map<string | number, Growing>} */
  const channels = new Map();
  const channel = (/** @type {string | number} */ name) => {
    let growing = channels.get(name);
    if (!growing) {
      const thinks = typeof name === "string"; // `thinking 0`
      const markdown = head.markdown && !thinks;
      channels.set(name, (growing = new Growing(make("div", thinks ? "" : markdown ? "lm-text" : "lm-text lm-raw"))));
      if (!markdown) growing.node.dir = "auto"; // as html._answer: by its first letter
      if (thinks) {
        const box = [make("p", "lm-foot", "thinking"), make("div", "lm-thinking", growing.node)];
        const answer = head.form || head.samples < 2 ? null : channels.get(Number(name.split(" ")[1]));
        if (answer) answer.node.before(...box);
        else text.prepend(...box);
      } else if (head.samples < 2) text.append(growing.node);
    }
    return growing;
  };
  /** @type {ReturnType<typeof form>[]} */
  let forms = []; // of each group of samples
  const layOut = () => {
    forms = [];
    if (head.form) {
      grouped(text, head.samples, (place, first, last) => {
        forms.push(form(head.fields, first, last));
        place.append(forms[forms.length - 1].node);
      });
    } else if (head.samples > 1) {
      grouped(text, head.samples, (place, first, last) => {
        for (let i = first; i <= last; i++) {
          place.append(make("p", "lm-head lm-next", make("b", "", `sample ${i + 1}`)), channel(i).node);
        }
      });
    }
  };
  layOut();

  const read = (/** @type {Message} */ message) => {
    if (message.progress) {
      const [done, total] = message.progress;
      state.textContent = `reading the prompt: ${count(done)} of ${count(total)}`;
    }
    for (const [sample, ...row] of message.rows ?? []) {
      forms[Math.floor(sample / GROUP)].set(sample, ...row);
    }
    for (const [name, ...change] of message.nodes ?? []) {
      if (!head.form || typeof name === "string") channel(name).take(...change);
    }
    for (const sample of message.ended ?? []) channels.get(sample)?.node.classList.add("lm-ended");
    if (message.guesses) {
      guesses.hidden = false;
      guesses.replaceChildren(...guessed(...message.guesses));
    }
    return message.figures;
  };

  // A frame draws all that has come since the last one; a tab that nobody sees draws nothing.
  /** @type {Message[]} */
  let waiting = [];
  const draw = () => {
    const messages = waiting;
    waiting = [];
    const figures = messages.map(read).findLast(Boolean);
    const answer = channels.get(0);
    if (answer) announce(answer.node);
    if (!figures) return;
    const [tokens, first, rate] = figures;
    meter.set(tokens);
    foot.textContent = meter.words(tokens);
    state.textContent = `first token ${first.toFixed(2)} s` + (rate ? ` · ${rate.toFixed(0)} tok/s` : "");
  };
  const onMessage = (/** @type {Message} */ message) => {
    if (waiting.push(message) === 1) requestAnimationFrame(draw);
  };
  model.on("msg:custom", onMessage);
  const onHead = () => { // another answer of the same call begins, behind a longer prompt
    draw(); // what is still of the one before
    if (head.form) {
      channels.clear();
      text.replaceChildren(make("p", "lm-foot", "asked again, for the answer before failed its check"));
      layOut();
    }
    const next = gauge(model.get("head"));
    for (const part of /** @type {const} */ (["bar", "key", "whole"])) meter[part].replaceWith(next[part]);
    meter = next;
  };
  model.on("change:head", onHead);
  const leave = keepFocus(root);
  const free = keepWhenLost(model, () => {
    draw();
    text.querySelectorAll(".lm-text, .lm-raw").forEach((answer) => answer.classList.add("lm-ended"));
    return ended("The kernel ended before the answer did. This is what had come.", title, text);
  });
  return () => {
    free();
    model.off("msg:custom", onMessage);
    model.off("change:head", onHead);
    leave();
  };
}

export default { initialize, render };
