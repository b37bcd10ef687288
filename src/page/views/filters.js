// Fields that keep what they say in the address, so that a link shows the same.

import { h } from "../dom.js";

export function choice(view, name, label, options) {
  const present = view.query.get(name) ?? "";
  return h("label", {}, label, h("select", { "data-key": name, onchange: (event) => view.set({ [name]: event.target.value, page: "" }) },
    options.map(([value, said]) => h("option", { value, selected: value === present }, said))));
}

/** `check` says what is wrong with what the field says, if something is. */
export function field(view, name, label, { placeholder = "", check = () => "" } = {}) {
  const value = view.query.get(name) ?? "";
  const fault = value && check(value);
  const id = `fault-${name}`;
  return h("div.field", {}, h("label", {}, label, h("input", { "data-key": name, type: "search", placeholder, value, "aria-invalid": fault ? "true" : null, "aria-describedby": fault ? id : null,
    onchange: (event) => view.set({ [name]: event.target.value.trim(), page: "" }) })), fault ? h("p.fault", { id, role: "alert" }, fault) : null);
}

/** What stands where a list would when a filter cannot be read. */
export const UNREADABLE = "Nothing is listed: see what is wrong with the filter above.";

const pairsOf = (text) => text.split(/[\s,]+/).filter(Boolean).map((pair) => pair.split("="));

/** "a=1 b=2" as a map. */
export const labelsOf = (text) => Object.fromEntries(pairsOf(text).map(([key, ...value]) => [key, value.join("=")]));

export const checkLabels = (text) => (pairsOf(text).every(([key, ...value]) => key && value.length) ? "" : "Write key=value, such as team=etl.");

/** What is wrong with a text that is no whole number from `least` to `most`. */
export function checkNumber(text, least, most, range) {
  const is = /^[+-]?\d+$/.test(text) && Number(text) >= least && Number(text) <= most;
  return is ? "" : `Write a whole number${range}.`;
}
