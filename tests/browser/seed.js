// What there is to be seen: schedulers that run, wait and fail, a lock, jobs and resources.

const later = (ms) => new Promise((done) => setTimeout(done, ms));

/** Calls methods of the server at `base`. */
function caller(base) {
  return async (method, message = {}) => {
    const response = await fetch(`${base}/rallypoint.v1.${method}`, {
      method: "POST", headers: { "content-type": "application/json", "rallypoint-caller": "etl@warehouse" }, body: JSON.stringify(message),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method}: ${JSON.stringify(answer)}`);
    return answer;
  };
}

/** Repeats `look` until it returns something. */
async function until(what, look) {
  for (let tries = 0; tries < 300; tries += 1) {
    const found = await look();
    if (found) return found;
    await later(100);
  }
  throw new Error(`never: ${what}`);
}

async function schedulers(call) {
  const open = async (settings) => (await call("SchedulerService/GetScheduler", { settings })).scheduler.handle;
  const exec = (handle, tasks) => call("SchedulerService/ExecAsync", { handle, tasks });
  const sql = (statement, order, options) => ({ sql: { statement }, order, options });

  const ended = await open({ display_name: "nightly load", labels: { team: "warehouse" } });
  await exec(ended, [100, 200, 300].flatMap((order) => [0.05, 0.1, 0.15].map((s) => sql(`select pg_sleep(${s}), 'part of ${order}'`, order))));
  await exec(ended, [sql("insert into nowhere select 1", 300, { labels: { name: "totals" } }), sql("select 1 as one, 'a text' as two, 9007199254740992 + 1 as three union select 2, null, null", 300, { result_rows: 10 }), sql("create table if not exists orders (total numeric)", 300)]);
  await call("SchedulerService/ReleaseScheduler", { handle: ended, wait: true });

  const halted = await open({ display_name: "month-end report", on_failure: "ON_FAILURE_HALT" });
  await exec(halted, [sql("select 1/0 as share", 20), sql("select 2", 30), sql("select 3", 30)]);

  // The lock is held by a task, so that its process is known.
  const locker = await open({ display_name: "long migration" });
  await exec(locker, [sql("lock table orders; select pg_sleep(600)")]);
  const pid = await until("the lock is held", async () => {
    const { executions } = await call("StatusService/ListExecutions");
    return executions.find((run) => run.handle === locker && run.backend_pid && run.state === "EXECUTION_STATE_RUNNING")?.backend_pid;
  });
  await later(300);
  const held = await open({ display_name: "orders import" });
  const retry = { max_attempts: 1000, initial_backoff: "0.1s", max_backoff: "0.1s" };
  await exec(held, [sql("update orders set total = total * 1.1", 1, { session: { statement_timeout: "4s" }, retry }), sql("select 'afterwards'", 2)]);
  const waiting = await open({ display_name: "backfill", max_parallelism: 1 });
  await exec(waiting, [1, 2].flatMap((order) => [1, 2, 3].map((part) => sql(`select pg_sleep(60), 'part ${part}'`, order))));
  return { ended, halted, locker, held, waiting, pid };
}

async function rest(call) {
  await call("ResourceService/CreateResource", { name: "orders", settings: { capacity: 1 } });
  await call("ResourceService/CreateResource", { name: "tenant/*", settings: { capacity: 2 } });
  await call("ResourceService/TryAcquire", { resources: [{ name: "orders" }], owner: "import/7", reason: "the evening import", lease: "3600s" });
  await call("JobService/CreateJob", { name: "refresh totals", settings: { schedule: { interval: { every: "86400s" } }, steps: [{ sql: { statement: "select 42" } }] } });
  await call("JobService/CreateJob", { name: "nightly", settings: { schedule: { cron: "30 2 * * *", time_zone: "Europe/Vienna" }, steps: [{ noop: {} }] } });
}

/** Makes all of it, and returns the handles. */
async function seed(base) {
  const call = caller(base);
  const handles = await schedulers(call);
  await rest(call);
  await until("an attempt at the lock has failed", async () => {
    const { attempts } = await call("SchedulerService/ListAttempts", { id: { handle: handles.held, seq: 1 } });
    return attempts.some((attempt) => attempt.error);
  });
  return { call, ...handles };
}

module.exports = { seed, until };
