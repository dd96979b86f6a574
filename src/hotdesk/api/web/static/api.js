// Talks to the server: the session's cookie goes by itself, what changes something carries the CSRF token.

export const BASE = "/api/v1";
export const session = { csrf: "", name: "", tenant: "", powers: [] };
export const may = (power) => session.powers.includes(power);
export const to = (...parts) => parts.map((each) => encodeURIComponent(each)).join("/");
export const path = (name) => to(...name.split("/"));

const ENDED = "Your session has ended. Sign in, then try again.";

let left = () => {};

// Says what happens when the session is over; it is given the method of the request that noticed.
export const onLeft = (act) => (left = act);
export const signedOut = (method = "GET") => left(method);

// Whether an answer about who is signed in names the person this page was opened by.
export const isSame = (told) => ["tenant", "name", "powers"].every((each) => String(told[each]) === String(session[each]));

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export async function call(method, path, value, signal) {
  const key = crypto.randomUUID();
  try {
    return await send(method, path, value, signal, key);
  } catch (error) {
    if (error.code !== "session.token") {
      throw error;
    }
    // Another tab signed in again, and the browser's session has another token now.
    await renew(method);
    return send(method, path, value, signal, key);
  }
}

async function renew(method) {
  const told = await get("/session").catch((error) => {
    error.status === 401 && left(method);
    throw error;
  });
  if (!isSame(told)) {
    location.reload(); // what this page shows is another person's
    throw new Refused(403, "session.other", "Another person signed in with this browser.");
  }
  session.csrf = told.csrf;
}

async function send(method, path, value, signal, key) {
  const headers = { accept: "application/json" };
  let body;
  if (method !== "GET") {
    headers["x-csrf-token"] = session.csrf;
    headers["idempotency-key"] = key;
  }
  if (value instanceof Blob) {
    headers["content-type"] = "application/octet-stream";
    body = value;
  } else if (value !== undefined) {
    headers["content-type"] = "application/json";
    body = JSON.stringify(value);
  }
  const answer = await fetch(BASE + path, { method, headers, body, signal, cache: "no-store" }).catch((error) => {
    throw signal?.aborted ? error : new Refused(0, "network", "The server does not respond. Check that it is running.");
  });
  const text = await answer.text();
  let said = null;
  try {
    said = JSON.parse(text);
  } catch {
    // nothing was said, or nothing of ours
  }
  if (!answer.ok) {
    const over = answer.status === 401 && path !== "/session";
    over && left(method);
    throw new Refused(answer.status, said?.code ?? "", over ? ENDED : said?.message ?? `The server responded with status ${answer.status}.`);
  }
  return said;
}

export const get = (place, signal) => call("GET", place, undefined, signal);
export const post = (path, value = {}) => call("POST", path, value);

// The same for one thing by its name, whatever somebody typed for a name.
export const find = (place, what) => get(place).catch((error) => {
  throw [404, 422].includes(error.status) ? new Refused(404, error.code, `${what[0].toUpperCase()}${what.slice(1)} was not found.`) : error;
});

export const put = (path, value) => call("PUT", path, value);
export const remove = (path) => call("DELETE", path);

// A list, page after page; `cut` is true of one that is longer than what is given.
export async function list(path, most = 1000) {
  const found = [];
  let next = null;
  do {
    const mark = path.includes("?") ? "&" : "?";
    const page = await get(`${path}${mark}limit=200${next ? `&after=${encodeURIComponent(next)}` : ""}`);
    found.push(...page.items);
    next = page.next;
  } while (next && found.length < most);
  found.cut = Boolean(next);
  return found;
}

// Reads and shows, as often as it is called: a reply that a later one overtook is not shown.
export function newest(read, show) {
  let asked = 0, shown = 0;
  return async () => {
    const mine = ++asked;
    const found = await read();
    if (mine > shown) {
      shown = mine;
      await show(found);
    }
  };
}

// Sends files for a job; gives what the job names them by.
export async function upload(files) {
  const sent = [];
  for (const each of files) {
    const { id } = await call("POST", `/uploads?name=${encodeURIComponent(each.name)}`, each);
    sent.push({ upload: id, name: each.name });
  }
  return sent;
}

export function socket(path) {
  const address = new URL(BASE + path, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const made = new WebSocket(address, ["binary"]);
  made.binaryType = "arraybuffer";
  return made;
}
