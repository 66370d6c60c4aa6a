// @ts-check
// Elements from Python into nodes. Texts of a model only ever become text nodes: no innerHTML, no addresses fetched.

/**
 * A text, or an element: its tag, its children (Content[]; a type cannot name itself here), its attributes.
 * @typedef {string | [string, any[]] | [string, any[], Record<string, string>]} Content
 */
/**
 * [path, kept, what follows], or [path, index, a text's new end].
 * @typedef {[number[], number, Content[] | string]} Change
 */

const TAGS = new Set(
  "a blockquote br code div em h3 h4 h5 h6 hr li ol p pre strong table tbody td th thead tr ul".split(" "),
);
const ATTRIBUTES = new Set(["class", "dir", "href", "rel", "scope", "start", "target"]);
const SAFE = /^(?:https?:\/\/|mailto:)[!-~]+$/i;

/**
 * @param {string} tag
 * @param {string} [className]
 * @param {(Node | string)[]} children
 * @returns {HTMLElement}
 */
export function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/**
 * Make the node of an element; what is not on the lists of tags and attributes does not come in.
 * @param {Content} content
 * @returns {Node}
 */
export function build(content) {
  if (typeof content === "string") return document.createTextNode(content);
  const [tag, children, attributes] = content;
  const node = make(TAGS.has(tag) ? tag : "span", "", ...children.map(build));
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (ATTRIBUTES.has(name) && (name !== "href" || SAFE.test(value))) node.setAttribute(name, value);
  }
  return node;
}

/** A growing text: its node, and the number of its state. */
export class Growing {
  /** @param {HTMLElement} node */
  constructor(node) {
    this.node = node;
    this.state = 0;
  }

  /**
   * Go from one state to the next. After a gap it waits for a message that brings all of it.
   * @param {number} from
   * @param {number} to
   * @param {Change[]} changes
   * @param {Change[]} [whole]
   */
  take(from, to, changes, whole) {
    if (from !== this.state) {
      if (!whole || to <= this.state) return;
      this.node.replaceChildren();
      changes = whole;
    }
    changes.forEach((change) => this.change(change));
    this.state = to;
  }

  /** @param {Change} change */
  change([path, kept, what]) {
    /** @type {Node} */
    let at = this.node;
    for (const index of path) at = at.childNodes[index];
    if (typeof what === "string") {
      /** @type {Text} */ (at.childNodes[kept]).appendData(what);
      return;
    }
    while (at.lastChild && at.childNodes.length > kept) at.removeChild(at.lastChild);
    /** @type {Element} */ (at).append(...what.map(build));
  }
}

const BLOCKS = new Set("blockquote br h3 h4 h5 h6 hr li p pre td th".split(" "));

/**
 * The words of a node for reading aloud: a line for each block.
 * @param {Node} node
 * @returns {string}
 */
export function spoken(node) {
  if (node.nodeType === Node.TEXT_NODE) return /** @type {Text} */ (node).data;
  const words = Array.from(node.childNodes, spoken).join("");
  return BLOCKS.has(node.nodeName.toLowerCase()) ? `${words}\n` : words;
}
