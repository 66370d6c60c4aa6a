"""The least contrast of any text of a page against what stands behind it, as the page itself reckons it."""

CONTRAST = """selector => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (front, alpha, behind) => front.map((v, i) => v * alpha + behind[i] * (1 - alpha));
  const ground = (node) => { // what shines through is laid over what stands behind it
    if (!node) return [255, 255, 255];
    const [r, g, b, alpha = 1] = parse(getComputedStyle(node).backgroundColor);
    return alpha === 1 ? [r, g, b] : over([r, g, b], alpha, ground(node.parentElement));
  };
  const opacity = (node) => node ? Number(getComputedStyle(node).opacity) * opacity(node.parentElement) : 1;
  let least = 21;
  for (const root of document.querySelectorAll(selector)) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const node = walk.currentNode.parentElement;
      if (!walk.currentNode.textContent.trim() || node.tagName === "STYLE") continue;
      const behind = ground(node);
      const colour = parse(getComputedStyle(node).color);
      const front = over(colour.slice(0, 3), (colour[3] ?? 1) * opacity(node), behind);
      const [high, low] = [light(front), light(behind)].sort((a, b) => b - a);
      least = Math.min(least, (high + 0.05) / (low + 0.05));
    }
  }
  return least;
}"""
