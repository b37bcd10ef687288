// Who looks at the page, on a server that knows its callers.

import { h, show } from "./dom.js";

/** reader: may look and do nothing; the page shows no buttons then. */
export const identity = { reader: false };

/** Asks for a token, then goes on with `then`. */
export function signIn(content, then) {
  show(content, h("section.card.sign-in", {}, h("h1", {}, "Sign in"),
    h("p", {}, "This server knows its callers."), h("p.quiet", {}, "Signing in from the page is not possible yet: use rallypoint or curl with a token."),
    h("div.actions", {}, h("button", { type: "button", onclick: then }, "Try again"))));
}
