// Calls every server through stock grpc-js, right and wrong, until stdin ends; prints each answer as a line of JSON.
//
//     NODE_PATH=…/node_modules node caller.js 127.0.0.1:50051,127.0.0.1:50052
//
// It judges nothing: whoever reads the lines does. tests/python/caller.py does the same.
'use strict';

const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const PROTO = path.join(__dirname, '..', '..', 'proto');
const NOBODY = '01890000-0000-7000-8000-000000000000';
const TIMEOUT_MS = 20000;
const CALLER = new grpc.Metadata();
CALLER.set('rallypoint-caller', 'stock');
const OPTIONS = {
  'grpc.keepalive_time_ms': 2000,
  'grpc.keepalive_timeout_ms': 2000,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 500,
};

const files = ['rallypoint/v1/scheduler.proto', 'rallypoint/v1/status.proto'];
const api = grpc.loadPackageDefinition(loader.loadSync(files, { includeDirs: [PROTO], longs: Number })).rallypoint.v1;

let stopped = false;
process.stdin.on('end', () => { stopped = true; }).resume();

const codeName = (code) => Object.keys(grpc.status).find((name) => grpc.status[name] === code) || String(code);

/** `wanted`: the code, and the reason when it is an error. */
function tell(call, wanted, error, cancelled = false) {
  const details = error && error.metadata ? error.metadata.get('grpc-status-details-bin') : [];
  console.log(JSON.stringify({
    call,
    wanted: wanted[0],
    code: error ? codeName(error.code) : 'OK',
    with_reason: wanted.length > 1 && details.some((bytes) => bytes.includes(wanted[1])),
    cancelled,
    message: error ? String(error.details) : '',
  }));
}

/** Makes a unary call; resolves to the answer, or to null. */
function ask(client, call, request, wanted, { timeout = TIMEOUT_MS, name = call } = {}) {
  return new Promise((resolve) => {
    client[call](request, CALLER, { deadline: Date.now() + timeout }, (error, answer) => {
      tell(name, wanted, error);
      resolve(error ? null : answer);
    });
  });
}

/** Reads a stream to its end, or cancels it after `cancelAfter` milliseconds. */
function read(client, request, wanted, cancelAfter) {
  return new Promise((resolve) => {
    const stream = client.Synchronization(request, { deadline: Date.now() + TIMEOUT_MS });
    const cancelled = cancelAfter !== undefined;
    let over = false;
    const finish = (error) => {
      if (!over) {
        over = true;
        tell(cancelled ? 'Cancelled' : 'Synchronization', wanted, error, cancelled);
        resolve();
      }
    };
    stream.on('data', () => {}).on('error', finish).on('end', () => finish(null));
    if (cancelled) {
      setTimeout(() => stream.cancel(), cancelAfter);
    }
  });
}

async function converse(client, status) {
  await ask(status, 'GetStatus', {}, ['OK']);
  await ask(client, 'ExecAsync', { handle: 'x' }, ['INVALID_ARGUMENT', 'ID_MALFORMED']);
  await ask(client, 'DescribeScheduler', { handle: NOBODY }, ['NOT_FOUND', 'HANDLE_NOT_FOUND']);
  await ask(client, 'GetTask', {}, ['INVALID_ARGUMENT', 'ID_MALFORMED']);
  const many = Array.from({ length: 10001 }, () => ({ noop: {} }));
  await ask(client, 'ExecAsync', { handle: NOBODY, tasks: many }, ['INVALID_ARGUMENT', 'TOO_MANY_TASKS']);
  await read(client, { handle: NOBODY }, ['NOT_FOUND', 'HANDLE_NOT_FOUND']);
  const opened = await ask(client, 'GetScheduler', {}, ['OK']);
  if (opened === null) {
    return;
  }
  const { handle } = opened.scheduler;
  const tasks = [1, 1, 2].map((order) => ({ noop: {}, order }));
  await ask(client, 'ExecAsync', { handle, tasks }, ['OK']);
  await read(client, { handle, until: { forever: {} } }, ['CANCELLED'], 20);
  for (const timeout of [1, 5, 10]) {
    const request = { handle, tasks: tasks.slice(2) };
    await ask(client, 'ExecAsync', request, ['DEADLINE_EXCEEDED'], { timeout, name: 'Hurried' });
  }
  await read(client, { handle }, ['OK']);
  if (await ask(client, 'ReleaseScheduler', { handle, wait: true }, ['OK']) === null) {
    return;
  }
  await ask(client, 'ExecAsync', { handle, tasks }, ['FAILED_PRECONDITION', 'HANDLE_RELEASED'], { name: 'Late' });
}

async function main(addresses) {
  const channels = addresses.map((address) => [
    new api.SchedulerService(address, grpc.credentials.createInsecure(), OPTIONS),
    new api.StatusService(address, grpc.credentials.createInsecure(), OPTIONS),
  ]);
  while (!stopped) {
    for (const [client, status] of channels) {
      await converse(client, status);
    }
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
  process.exit(0);
}

main(process.argv[2].split(','));
