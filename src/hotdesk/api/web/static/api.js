// Talks to the server: the session's cookie goes by itself, what changes something carries the CSRF token.

export const BASE = "/api/v1";
export const session = { csrf: "", name: "", tenant: "", powers: [] };
export const may = (power) => session.powers.includes(power);
export const to = (...parts) => parts.map((each) => encodeURIComponent(each)).join("/");
export const path = (name) => to(...name.split("/"));

let left = () => {};

// Says what happens when the session is over.
export const onLeft = (act) => (left = act);

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export async function call(method, path, value, signal) {
  const headers = { accept: "application/json" };
  let body;
  if (method !== "GET") {
    headers["x-csrf-token"] = session.csrf;
    headers["idempotency-key"] = crypto.randomUUID();
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
    if (answer.status === 401 && path !== "/session") {
      left();
    }
    throw new Refused(answer.status, said?.code ?? "", said?.message ?? `The server responded with status ${answer.status}.`);
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

// All of a list, page after page; a list this long is not looked at anyway.
export async function list(path, most = 1000) {
  const found = [];
  let next = null;
  do {
    const mark = path.includes("?") ? "&" : "?";
    const page = await get(`${path}${mark}limit=200${next ? `&after=${encodeURIComponent(next)}` : ""}`);
    found.push(...page.items);
    next = page.next;
  } while (next && found.length < most);
  return found;
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

// Events as they come, until ended; a browser resumes by itself from the last id it saw.
export function follow(path, take) {
  const source = new EventSource(BASE + path);
  source.onmessage = (message) => {
    try {
      take(JSON.parse(message.data), message.lastEventId);
    } catch {
      // what is no JSON is no event
    }
  };
  return () => source.close();
}

export function socket(path) {
  const address = new URL(BASE + path, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const made = new WebSocket(address, ["binary"]);
  made.binaryType = "arraybuffer";
  return made;
}
