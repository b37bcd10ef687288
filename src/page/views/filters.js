// Fields that keep what they say in the address, so that a link shows the same.

import { h } from "../dom.js";

export function choice(view, name, label, options) {
  const present = view.query.get(name) ?? "";
  return h("label", {}, label, h("select", { "data-key": name, onchange: (event) => view.set({ [name]: event.target.value, page: "" }) },
    options.map(([value, said]) => h("option", { value, selected: value === present }, said))));
}

export function field(view, name, label, placeholder = "") {
  return h("label", {}, label, h("input", { "data-key": name, type: "search", placeholder, value: view.query.get(name) ?? "",
    onchange: (event) => view.set({ [name]: event.target.value.trim(), page: "" }) }));
}

/** "a=1 b=2" as a map. */
export function labelsOf(text) {
  const pairs = text.split(/[\s,]+/).filter(Boolean).map((pair) => pair.split("="));
  return Object.fromEntries(pairs.map(([key, ...value]) => [key, value.join("=")]));
}
