// Asks before something is done, and says what came of it.

import { h } from "./dom.js";
import { sentence } from "./format.js";

/** Asks; resolves to the fields of the form, or to nothing when it is left.
    fields: [{ name, label, value, options, area, required }]. */
export function ask({ title, text, confirm, danger = false, fields = [] }) {
  return new Promise((decided) => {
    const input = (field) => {
      if (field.options) return h("select", { name: field.name }, field.options.map(([value, said]) => h("option", { value }, said)));
      return h(field.area ? "textarea" : "input", { name: field.name, value: field.value ?? "", required: field.required, maxlength: field.area ? undefined : 1000 });
    };
    const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), text ? h("p", {}, text) : null,
      fields.map((field) => h("label", {}, field.label, input(field))),
      h("div.actions", {}, h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"),
        h("button.main", { type: "submit", value: "yes", class: danger ? "danger" : "" }, confirm)));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => {
      const values = Object.fromEntries(new FormData(form));
      const confirmed = dialog.returnValue === "yes";
      dialog.remove();
      decided(confirmed ? values : null);
    } }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Says that something failed. */
export async function sayFailed(what, error) {
  await ask({ title: what, text: sentence(error.message), confirm: "All right" });
}

/** A button that asks first, then does it and has the view read again; for those who have the role. */
export function action(view, { name, title, text, confirm, danger, fields, main, run, needs = "submitter", everywhere = false }) {
  if (!view.may(needs, everywhere)) return null;
  return h("button", { type: "button", class: [danger && "danger", main && "main"].filter(Boolean).join(" "), onclick: async () => {
    const values = await ask({ title: title ?? `${name}?`, text, confirm: confirm ?? name, danger, fields });
    if (!values) return;
    try {
      await run(values);
    } catch (error) {
      await sayFailed(`${name} was not done`, error);
    }
    view.again();
  } }, name);
}
