// How long each view of the page takes in Chromium, at a server that `bench page` has filled.
//
// page.js URL CHROMIUM < {"repeat": 10, "views": [["overview", "/"], …]}
//
// Prints an object: for each view the milliseconds of every repetition until its first figures are
// drawn (`drawn`), until all that it asked for is drawn (`whole`), and its slowest call.

const { readFileSync } = require("node:fs");
const { chromium } = require("playwright-core");

const [, , base, executablePath] = process.argv;
const { repeat, views } = JSON.parse(readFileSync(0, "utf8"));

/** Runs in the page before its scripts: counts the calls that are under way. */
function observe() {
  const seen = { pending: 0, calls: [] };
  window.seen = seen;
  // These tell what happens later; of the first two, the first message belongs to the view.
  const streams = /Watch(Executions|Resource)$|Synchronization$|ForecastScheduler$/;
  const fetched = window.fetch;
  window.fetch = async (address, options) => {
    const method = String(address).split(".").at(-1), begun = performance.now();
    let open = !/Synchronization|Forecast/.test(method);
    if (open) seen.pending += 1;
    const close = () => {
      if (!open) return;
      open = false;
      seen.pending -= 1;
      seen.calls.push([method, performance.now() - begun]);
    };
    options?.signal?.addEventListener("abort", close);
    try {
      const response = await fetched(address, options);
      if (streams.test(method)) {
        const first = new TransformStream({ transform(chunk, out) { close(); out.enqueue(chunk); } });
        return new Response(response.body.pipeThrough(first), response);
      }
      const json = response.json.bind(response);
      response.json = () => json().finally(close);
      return response;
    } catch (error) {
      close();
      throw error;
    }
  };
}

/** Runs in the page: waits until a view stands that was asked for at `begun`. */
async function stands(begun) {
  const { seen } = window, QUIET_MS = 80, LIMIT_MS = 30000;
  let drawn = null, whole = null;
  for (;;) {
    const now = await new Promise(requestAnimationFrame).then(() => performance.now());
    const text = document.getElementById("content")?.textContent ?? "";
    if (drawn === null && text && !/^(Loading|Nothing here)/.test(text)) drawn = now - begun;
    if (drawn === null || seen.pending > 0) whole = null;
    else whole ??= now - begun;
    if (whole !== null && now - begun - whole > QUIET_MS) break;
    if (now - begun > LIMIT_MS) throw new Error(`not drawn after ${LIMIT_MS} ms: ${text.slice(0, 200)}`);
  }
  const fault = document.querySelector("main [role=alert]")?.textContent;
  if (fault) throw new Error(fault);
  const [slowest] = seen.calls.sort((a, b) => b[1] - a[1]);
  return { drawn, whole, slowest };
}

/** From another view to this one, as by a click. */
const clicked = (page, path) => page.evaluate(async ([address, source]) => {
  location.hash = "/nowhere";
  await new Promise((done) => setTimeout(done, 150));
  window.seen.calls = [];
  const begun = performance.now();
  location.hash = address;
  return new Function(`return (${source})`)()(begun);
}, [path, stands.toString()]);

async function opened(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, bypassCSP: true });
  const page = await context.newPage();
  await page.addInitScript(observe);
  return page;
}

/** A browser that has never seen the page opens the overview. */
async function first(browser) {
  const page = await opened(browser);
  await page.goto(`${base}/#/`, { waitUntil: "commit" });
  const times = await page.evaluate(stands, 0);
  await page.context().close();
  return times;
}

async function main() {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const found = {};
  const note = (name, { drawn, whole, slowest }) => {
    found[name] ??= { drawn: [], whole: [], slowest: ["", 0] };
    found[name].drawn.push(drawn);
    found[name].whole.push(whole);
    if (slowest && slowest[1] > found[name].slowest[1]) found[name].slowest = slowest;
  };
  try {
    await first(browser);
    for (let turn = 0; turn < repeat; turn += 1) note("first_load_ms", await first(browser));
    const page = await opened(browser);
    await page.goto(`${base}/#/`);
    for (let turn = 0; turn < repeat; turn += 1) {
      for (const [name, path] of views) note(name, await clicked(page, path));
    }
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(found));
}

main().catch((error) => { console.error(error); process.exit(1); });
