// Events of the journal as they come, for as long as they are followed. A stream that ended is opened again. A hidden
// page has none: without HTTP/2 a browser makes six connections to a server, for all its tabs together.
import { BASE, get, signedOut } from "./api.js";

const FIRST_DELAY = 1000;
const MAX_DELAY = 30000;

const streams = new Set();
let tell = () => {};

// Says what happens when it changes whether every stream is open.
export const onLive = (act) => (tell = act);

// Opens every stream anew, as after signing in.
export const resume = () => streams.forEach((each) => each.open());

// Calls `take` for each event, and `missed` whenever some may have been missed. Gives what ends it.
export function follow(path, take, missed = () => {}) {
  const stream = { open, close, live: true };
  let source = null, timer = 0, last = "", delay = FIRST_DELAY, whole = true;

  const show = (live) => {
    stream.live = live;
    tell([...streams].every((each) => each.live));
  };

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
    whole = false;
  }

  function open() {
    source && close();
    clearTimeout(timer);
    if (document.hidden || !streams.has(stream)) {
      whole = false; // also of a page that was opened in the background
      return;
    }
    const address = new URL(BASE + path, location.href);
    last && address.searchParams.set("after", last);
    source = new EventSource(address);
    source.onopen = opened;
    source.onmessage = heard;
    source.onerror = failed;
  }

  function opened() {
    delay = FIRST_DELAY;
    show(true);
    whole || missed();
    whole = true;
  }

  function heard({ data, lastEventId }) {
    last = lastEventId;
    let row;
    try {
      row = JSON.parse(data);
    } catch {
      return; // what is no JSON is no event
    }
    take(row, lastEventId);
  }

  // A browser resumes a lost connection by itself, but gives up after any other answer than a stream.
  async function failed() {
    whole = false;
    show(false);
    if (source?.readyState !== EventSource.CLOSED) {
      return;
    }
    close();
    try {
      await get("/session");
    } catch (error) {
      if (error.status === 401) {
        return void signedOut();
      }
    }
    timer = setTimeout(open, delay);
    delay = Math.min(2 * delay, MAX_DELAY);
  }

  streams.add(stream);
  open();
  return () => {
    streams.delete(stream);
    close();
    show(true);
  };
}

document.addEventListener("visibilitychange", () => streams.forEach((each) => (document.hidden ? each.close() : each.open())));
