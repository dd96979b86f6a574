// A kernel of JavaScript. Code runs in the main thread, as in a browser's console: `await` at the top, names that may be
// declared anew. A second thread takes the orders, so that code that never ends can be ended.
// Orders come as lines: a number and JSON. Events go out as lines of JSON.
"use strict";
const fs = require("fs");
const inspector = require("inspector");
const readline = require("readline");
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");

const [BEGUN, ENDED] = [0, 1]; // the numbers of the newest code that did so, which both threads share

if (isMainThread) {
  const { createRequire } = require("module");
  const [orders, events] = process.argv.slice(2).map(Number);
  process.argv.splice(1);
  globalThis.require = createRequire(process.cwd() + "/cell.js");
  const resolve = (name) => (/^\.{0,2}\//.test(name) ? globalThis.require.resolve(name) : name);
  Object.defineProperty(globalThis, "__import", { value: (name) => import(resolve(name)) });
  process.on("SIGINT", () => {}); // the other thread hears of it by an order
  process.on("uncaughtException", (e) => console.error(e));
  process.on("unhandledRejection", (e) => console.error(e));
  const numbers = new Int32Array(new SharedArrayBuffer(8));
  serve(new Worker(__filename, { workerData: { orders, numbers } }), events, numbers);
} else {
  listen();
}

// Take the orders; code that never ends is ended here.
function listen() {
  const { orders, numbers } = workerData;
  const session = new inspector.Session();
  session.connectToMainThread();

  // Code that has ended is not interrupted, since that would hit the code after it; for code that has not begun, wait.
  function interrupt(number) {
    if (Atomics.load(numbers, ENDED) >= number) return;
    if (Atomics.load(numbers, BEGUN) < number) return setTimeout(interrupt, 5, number);
    session.post("Runtime.terminateExecution", {}, () => {});
    parentPort.postMessage({ interrupt: true, number });
  }

  const lines = readline.createInterface({ input: fs.createReadStream(null, { fd: orders }) });
  lines.on("close", () => process.exit());
  lines.on("line", (line) => {
    const cut = line.indexOf(" ");
    const order = { ...JSON.parse(line.slice(cut)), number: Number(line.slice(0, cut)) };
    if (order.interrupt) interrupt(order.number);
    else parentPort.postMessage(order);
  });
}

// Carry out orders.
function serve(listener, events, numbers) {
  const session = new inspector.Session();
  session.connect();
  const post = (method, told) =>
    new Promise((done, failed) => session.post(method, told, (e, value) => (e ? failed(e) : done(value))));

  function tell(event) {
    const data = Buffer.from(JSON.stringify(event) + "\n");
    for (let at = 0; at < data.length; ) {
      try {
        at += fs.writeSync(events, data, at);
      } catch (e) {
        if (e.code !== "EAGAIN") throw e;
      }
    }
  }

  const evaluate = (code) => post("Runtime.evaluate", { expression: code, replMode: true, awaitPromise: true });

  // Ask the main thread for a value that JSON can hold.
  async function ask(expression, id) {
    const told = { functionDeclaration: expression, objectId: id, returnByValue: true };
    return (await post("Runtime.callFunctionOn", told)).result?.value;
  }

  async function shown(result) {
    const event = { type: "result", is_main_result: true };
    if (result.objectId === undefined) {
      event.text = "value" in result ? String(result.value) : result.unserializableValue ?? String(result.subtype);
    } else {
      Object.assign(event, await ask(DESCRIBE, result.objectId));
    }
    tell(event);
  }

  async function failed({ exception, text }) {
    const plain = { name: "Error", value: String(exception?.value ?? exception?.description ?? text) };
    const told = exception?.objectId === undefined ? undefined : await ask(EXPLAIN, exception.objectId);
    tell({ type: "error", traceback: plain.value, ...plain, ...told });
  }

  let stop = () => {};

  async function run(code) {
    const stopped = new Promise((done) => (stop = () => done({ exceptionDetails: { text: "interrupted" } })));
    const ended = (e) => ({ exceptionDetails: { text: /terminated/.test(e.message) ? "interrupted" : e.message } });
    const cell = process.compileCell ? process.compileCell(code) : code; // of another language
    const done = await Promise.race([evaluate(transformed(cell)).catch(ended), stopped]);
    stop = () => {};
    if (done.exceptionDetails) await failed(done.exceptionDetails);
    else if (done.result.type !== "undefined") await shown(done.result);
  }

  async function carryOut({ code, env, number }) {
    Atomics.store(numbers, BEGUN, number);
    const before = Object.keys(env).map((key) => [key, process.env[key]]);
    Object.assign(process.env, env);
    try {
      await run(code);
    } catch (e) {
      tell({ type: "error", name: e.name ?? "Error", value: String(e.message ?? e), traceback: String(e) });
    }
    for (const [key, value] of before) value === undefined ? delete process.env[key] : (process.env[key] = value);
    await new Promise((done) => setImmediate(done)); // what was said is on its way
    Atomics.store(numbers, ENDED, number);
    tell({ type: "end", number });
  }

  let turn = Promise.resolve();
  listener.on("exit", () => process.exit());
  listener.on("message", (order) => {
    if (order.interrupt) return Atomics.load(numbers, ENDED) < order.number && stop(); // for what awaits
    turn = turn.then(() => carryOut(order));
  });
}

// `import` at the top, in a form that may stand anywhere.
function transformed(code) {
  return code
    .replace(
      /^[ \t]*import\s+(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\}|\*\s+as\s+([\w$]+))?\s*(?:from\s*)?(["'])([^"'\n]+)\4[ \t]*;?/gm,
      (_, main, names, all, __, from) => {
        const found = `await __import(${JSON.stringify(from)})`;
        if (all) return `var ${all} = ${found};` + (main ? ` var ${main} = ${all}.default;` : "");
        const parts = [main && `default: ${main}`, names && names.replace(/\s+as\s+/g, ": ")].filter(Boolean);
        return parts.length ? `var { ${parts.join(", ")} } = ${found};` : `${found};`;
      },
    )
    .replace(/(^|[^\w$.])import\s*\(/g, "$1__import(");
}

const DESCRIBE = `function () {
  const told = { text: require("util").inspect(this) };
  for (const [form, method] of [["html", "_toHtml"], ["svg", "_toSvg"], ["png", "_toPng"], ["markdown", "_toMarkdown"]])
    if (typeof this[method] === "function") told[form] = String(this[method]());
  try {
    if (Array.isArray(this) || Object.getPrototypeOf(this) === Object.prototype) told.json = JSON.parse(JSON.stringify(this));
  } catch {}
  return told;
}`;

const EXPLAIN = `function () {
  if (!(this instanceof Error)) return { value: require("util").inspect(this) };
  return { name: String(this.name), value: String(this.message), traceback: String(this.stack).split(/\\n +at Session\\.post/)[0] };
}`;
