// Signing in on a server that knows its callers: a wrong token, a reader, an operator.
//
// sign_in.js URL CHROMIUM

const assert = require("node:assert/strict");
const { chromium } = require("playwright-core");

const [, , base, executablePath] = process.argv;

async function opened(handle) {
  const response = await fetch(`${base}/rallypoint.v1.SchedulerService/GetScheduler`, { method: "POST", body: JSON.stringify({ settings: { display_name: handle } }),
    headers: { "content-type": "application/json", authorization: "Bearer operator-token" } });
  return (await response.json()).scheduler.handle;
}

async function signIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

async function main() {
  const handle = await opened("nightly load");
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
    const page = await context.newPage();
    await page.goto(`${base}/#/schedulers/${handle}`);
    await signIn(page, "nobody-has-this");
    await page.getByRole("alert").getByText("not valid here").waitFor();
    await signIn(page, "reader-token");
    await page.getByRole("heading", { name: "nightly load" }).waitFor();
    await page.getByText("reader · default, reader").waitFor();
    const buttons = await page.getByRole("main").getByRole("button").allTextContents();
    assert.deepEqual(buttons, [], "a reader does nothing");
    const seen = await page.evaluate(() => document.cookie);
    assert.equal(seen, "", "no script reads the token");
    const [cookie] = await context.cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
    await page.reload();
    await page.getByRole("heading", { name: "nightly load" }).waitFor();

    await page.getByRole("button", { name: "Sign out" }).click();
    await signIn(page, "operator-token");
    await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    await page.goto(`${base}/#/jobs`);
    await page.getByText("No job is defined").waitFor();
    assert.equal(await page.getByRole("button", { name: "Stop the agent" }).count(), 0, "that needs a role everywhere");
  } finally {
    await browser.close();
  }
}

main().catch((error) => { console.error(error); process.exit(1); });
