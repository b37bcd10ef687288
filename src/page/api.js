// The JSON gateway: calls, streams, and errors with what the service says about them.

import { forReaders } from "./words.js";

const PACKAGE = "/rallypoint.v1.";

/** An error of the service: `google.rpc.Status`, or that it was not reached. */
export class ApiError extends Error {
  constructor(status, http) {
    super(forReaders(status.message) || "the server did not answer");
    this.code = status.code ?? 14;
    this.http = http;
    const info = (status.details || []).find((detail) => detail.reason);
    this.reason = info?.reason ?? "";
    this.metadata = info?.metadata ?? {};
  }
}

/** The namespace of the page's calls, where the caller has several. */
export const session = { namespace: "" };

function headers() {
  const common = { "content-type": "application/json", "rallypoint-page": "1" };
  return session.namespace ? { ...common, "rallypoint-namespace": session.namespace } : common;
}

/** Calls `Service/Method`. */
export async function call(method, message = {}, signal) {
  let response;
  try {
    response = await fetch(PACKAGE + method, {
      method: "POST", headers: headers(), body: JSON.stringify(message), signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ message: "the server cannot be reached" }, 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(answer, response.status);
  return answer;
}

/** Follows a stream until `signal` aborts: opened again when it breaks, behind its last event.
    `ended` hears of an end that is meant. */
export async function follow(method, message, signal, { heard, state = () => {}, ended = () => {} }) {
  let last = "";
  for (let pause = 500; !signal.aborted; pause = Math.min(pause * 2, 10000)) {
    try {
      const more = last ? { "last-event-id": last } : {};
      const response = await fetch(PACKAGE + method, {
        method: "POST", headers: { ...headers(), ...more }, body: JSON.stringify(message), signal,
      });
      if (!response.ok) throw new ApiError(await response.json().catch(() => ({})), response.status);
      state(true);
      pause = 500;
      const status = await read(response.body, (event) => {
        if (event.id) last = event.id;
        heard(event.data);
      });
      if (status?.code === 0) return ended();
    } catch (error) {
      if (signal.aborted) return;
      // What asking again does not mend.
      if ([3, 5, 7, 11, 16].includes(error.code)) return ended(error);
    }
    state(false);
    await new Promise((done) => setTimeout(done, pause));
  }
}

/** Reads server-sent events; returns the status at the end, if there is one. */
async function read(body, heard) {
  const text = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await text.read();
    if (done) return null;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { name: "message", id: "", data: null };
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) event.name = line.slice(7);
        if (line.startsWith("id: ")) event.id = line.slice(4);
        if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
      }
      if (event.name === "status") return event.data;
      if (event.data) heard(event);
    }
  }
}

/** All pages of a list, up to `most` rows. */
export async function pages(method, message, field, most, signal) {
  const rows = [];
  let token = "";
  do {
    const page = await call(method, { ...message, page_token: token }, signal);
    rows.push(...page[field]);
    token = page.next_page_token;
  } while (token && rows.length < most);
  return { rows, more: Boolean(token), token };
}
