// Who looks at the page, on a server that knows its callers.

import { ApiError, call, session } from "./api.js";
import { h, show } from "./dom.js";
import { sentence } from "./format.js";

const ROLES = ["", "reader", "submitter", "operator", "admin"];
const NAMESPACE = "rallypoint-namespace";

/** Who it is: nobody yet. */
export const identity = { knows_callers: false, name: "", namespace: "", role: "", everywhere: "" };

/** The namespace that is shown. */
export const namespace = () => identity.namespace || session.namespace || "default";

/** Whether who looks has a role, in the namespace or in all of them. */
export function may(role, everywhere = false) {
  return ROLES.indexOf(everywhere ? identity.everywhere : identity.role) >= ROLES.indexOf(role);
}

async function ask(method, message, namespace) {
  const named = namespace ? { "rallypoint-namespace": namespace } : {};
  let response;
  try {
    response = await fetch("/session", { method, headers: { "content-type": "application/json", "rallypoint-page": "1", ...named }, body: message && JSON.stringify(message) });
  } catch {
    throw new ApiError({ message: "the server cannot be reached" }, 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(answer, response.status);
  return answer;
}

/** Finds out who looks. */
export async function recognise() {
  session.namespace = localStorage.getItem(NAMESPACE) ?? "";
  Object.assign(identity, await ask("GET", undefined, session.namespace));
  return !identity.knows_callers || (identity.name !== "" && identity.role !== "");
}

export async function signOut() {
  await ask("DELETE");
  localStorage.removeItem(NAMESPACE);
  location.reload();
}

/** Nobody has a certificate here, of which the service speaks too. */
function refusal(error) {
  if (error.reason !== "IDENTITY_INVALID") return sentence(error.message);
  return "This token is not valid here: it is unknown, not valid yet or no longer, or meant for another server.";
}

/** Asks for a token, then goes on with `then`. */
export function signIn(content, then) {
  const fault = h("p.notice.bad", { role: "alert", hidden: true });
  const submit = async (event) => {
    event.preventDefault();
    const { token, namespace } = Object.fromEntries(new FormData(event.target));
    try {
      Object.assign(identity, await ask("POST", { token }, namespace.trim()));
      session.namespace = namespace.trim();
      localStorage.setItem(NAMESPACE, session.namespace);
      // The door has the last word: it says which namespaces there are for this caller.
      await call("StatusService/GetStatus");
      then();
    } catch (error) {
      fault.hidden = false;
      fault.textContent = refusal(error);
    }
  };
  show(content, h("section.card.sign-in", {}, h("h1", {}, "Sign in"),
    h("p.quiet", {}, "This server knows its callers. The token is kept by the browser where no script can read it, and sent to this server alone."), fault,
    h("form.stack-form", { onsubmit: submit }, h("label", {}, "Token", h("input", { name: "token", type: "password", autocomplete: "current-password", required: true, autofocus: true })),
      h("label", {}, "Namespace, if you have several", h("input", { name: "namespace", autocomplete: "off", value: session.namespace })),
      h("div.actions", {}, h("button.main", { type: "submit" }, "Sign in")))));
}

/** Who it is, and how to leave. */
export function whoami() {
  if (!identity.knows_callers || !identity.name) return null;
  return h("span.who", {}, `${identity.name} · ${identity.namespace}, ${identity.role}`, " ", h("button.link", { type: "button", onclick: signOut }, "Sign out"));
}
