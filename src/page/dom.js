// Elements without markup in strings: what the service says is always text, never HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "rect", "text", "title", "a.svg"]);

/** h("a.link", { href }, "text", …): an element. Listeners are given as `onclick` and so on. */
export function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const svg = SVG_TAGS.has(tag);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  return fill(element, classes, attributes, children);
}

/** A link inside a picture. */
export function svgLink(attributes, ...children) {
  return fill(document.createElementNS(SVG, "a"), [], attributes, children);
}

function fill(element, classes, attributes, children) {
  const names = [...classes, attributes.class].filter(Boolean).join(" ");
  if (names) element.setAttribute("class", names);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false || key === "class") continue;
    if (key.startsWith("on")) listen(element, key.slice(2), value);
    else if (key === "width%") element.style.width = `${value}%`;
    else if (key === "value" && "value" in element) element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const LISTENERS = Symbol("listeners");

function listen(element, type, listener) {
  element[LISTENERS] ??= {};
  if (!element[LISTENERS][type]) element.addEventListener(type, dispatch);
  element[LISTENERS][type] = listener;
}

function dispatch(event) {
  return event.currentTarget[LISTENERS]?.[event.type]?.(event);
}

/** Shows `children` in `root`. What is there and alike stays, with its focus and its scroll. */
export function show(root, ...children) {
  const next = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  align(root, next);
}

function align(root, next) {
  next.forEach((wanted, index) => {
    const present = root.childNodes[index];
    if (!present) root.append(wanted);
    else if (!alike(present, wanted)) root.replaceChild(wanted, present);
    else if (present.nodeType === Node.TEXT_NODE) {
      if (present.data !== wanted.data) present.data = wanted.data;
    } else update(present, wanted);
  });
  while (root.childNodes.length > next.length) root.lastChild.remove();
}

function alike(one, other) {
  return one.nodeName === other.nodeName && (one.id ?? "") === (other.id ?? "")
    && (one.dataset?.key ?? "") === (other.dataset?.key ?? "");
}

function update(present, wanted) {
  // The policy of the page allows no style attributes, but styles.
  if (present.style?.cssText !== wanted.style?.cssText) present.style.cssText = wanted.style.cssText;
  for (const { name } of [...present.attributes]) {
    if (name !== "style" && !wanted.hasAttribute(name) && !(name === "open" && present.nodeName === "DETAILS")) present.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (name !== "style" && present.getAttribute(name) !== value) present.setAttribute(name, value);
  }
  for (const [type, listener] of Object.entries(wanted[LISTENERS] ?? {})) listen(present, type, listener);
  const isField = ["INPUT", "SELECT", "TEXTAREA"].includes(present.nodeName);
  if (isField && document.activeElement === present) return;
  align(present, [...wanted.childNodes]);
  if (isField) present.value = wanted.value;
}
