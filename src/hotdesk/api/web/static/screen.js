// A desk's screen, live, by noVNC: view only until this person has taken over. The server's page and that of
// `hotdesk watch` show it; each passes a `source`, which is how that page talks to the desk:
//   open()             opens a WebSocket that carries RFB
//   look(mine)         who looks and who drives; `mine`: this person does, and goes on
//   turn(act, secret)  "take", "give" or "type" a secret; gives what `look` gives
//   isGone(error)      whether there is no such desk now; an error with `over` set ends the view for good
//   hasScreen()        whether the desk's image has a screen
//   control            whether this person may take over; what `look` gives may say so instead
//   quality, heading   of pictures, 0 to 9; what stands beside the state
import { LEAVE, fill, h, isLeaving, say } from "./dom.js";

const LOOK = 2000;
const AGAIN = 1500;
const FULL = 4429;
const TAKING = 30000;
const MOMENT = 300;
const DISCONNECTED = new Set(["wheel.lost", "wheel.blind"]);
const LIBRARY = new URL("./novnc.js", import.meta.url);

const moment = () => new Promise((settle) => setTimeout(settle, MOMENT));

// Keeps what a desk sends while noVNC still loads, for noVNC to read.
function buffer(socket) {
  const early = [];
  const keep = (message) => early.push(message);
  socket.onmessage = keep;
  return function replay() {
    if (socket.onmessage === keep) {
      setTimeout(replay);
    } else {
      early.forEach((message) => socket.onmessage(message));
    }
  };
}

// Gives what ends it; its `driving` says whether this person drives, so that nobody takes the screen away from them.
export function screen(panel, source) {
  const state = h("span", { class: "chip", role: "status", id: "state" });
  const driver = h("span", { class: "quiet" });
  const place = h("div", { class: "screen", role: "application", "aria-label": "The desk's screen" });
  const stopped = h("span");
  const advice = h("span", { hidden: true }, " For passwords, use the button Type secret.");
  const secret = h("select", { id: "secret", "aria-label": "Secret" });
  const type = h("button", { type: "button", id: "type", onclick: () => typeSecret() }, "Type secret");
  const secrets = h("span", { class: "row", id: "secrets", hidden: true }, secret, type);
  const banner = h("div", { class: "banner row", id: "banner", hidden: true },
    h("p", null, h("strong", null, "You have control. "), stopped, "The desk can read what you type.", advice, ` It gets every key; ${LEAVE} leads back to this page.`), secrets);
  const wheel = h("button", { type: "button", id: "wheel", "aria-keyshortcuts": "Control+Alt+G", onclick: () => (mine ? give() : take()) });
  fill(panel, h("div", { class: "row" }, state, source.heading, driver, h("span", { class: "gap" }), wheel), banner, place);
  let over = false;
  let unavailable = false;
  let gone = false;
  let connecting = false;
  let screenless = false;
  let full = false;
  let live = false;
  let mine = false;
  let turning = "";
  let turns = 0;
  let rfb = null;
  let last = {};

  function show(wheelState = last) {
    last = { control: source.control, ...wheelState };
    mine = live && Boolean(last.mine);
    state.textContent = unavailable ? "not shown" : over || gone ? "gone" : screenless ? "no screen" : !live ? "connecting"
      : last.paused ? "paused" : "live";
    state.dataset.is = over ? "gone" : state.textContent;
    driver.textContent = screenless ? "This desk has no screen. Use the terminal and the files."
      : last.holder && !last.mine ? `${last.driverName ?? "Another person"} has control`
      : live && !last.control ? "view only" : "";
    wheel.hidden = unavailable || !last.control;
    wheel.textContent = turning || (mine ? "Hand back" : "Take over");
    wheel.className = mine ? "primary" : "";
    wheel.disabled = over || gone || !live || Boolean(turning) || (!mine && Boolean(last.paused || (last.holder && !last.mine)));
    wheel.title = live || over ? "" : "The screen is not connected yet.";
    banner.hidden = !mine;
    stopped.textContent = !last.worker ? "" : last.stopped
      ? "The worker is suspended. Programs in this desk are stopped, except screen, window manager and browser. "
      : "The worker is suspended. ";
    offer(mine ? last.secrets ?? [] : []);
    place.classList.toggle("driven", mine);
    if (rfb) {
      rfb.viewOnly = !mine;
    }
  }

  function offer(names) {
    secrets.hidden = advice.hidden = !names.length;
    if (names.join("\n") !== [...secret.options].map((each) => each.value).join("\n")) {
      secret.replaceChildren(...names.map((name) => new Option(name, name)));
    }
  }

  // noVNC stops every key, Tab too: these are taken before it, and it is told to release those that are still down.
  place.addEventListener("keydown", (event) => {
    if (isLeaving(event)) {
      event.preventDefault();
      event.stopPropagation();
      window.dispatchEvent(new Event("blur"));
      wheel.focus();
    }
  }, true);

  // Does something with the wheel, whose button has another label meanwhile.
  async function turn(label, act) {
    turning = label;
    turns += 1;
    show();
    try {
      await act();
    } catch (error) {
      say(error.message, true);
    } finally {
      turning = "";
      show();
    }
  }

  // Between two steps a desk is started anew and its screen is gone for a moment: then it is taken once it is back.
  const take = () => turn("Taking over …", async () => {
    const until = Date.now() + TAKING;
    while (!over) {
      try {
        if (live) {
          show(await source.turn("take"));
          rfb?.focus();
          return;
        }
      } catch (error) {
        if (!DISCONNECTED.has(error.code)) {
          throw error;
        }
      }
      if (Date.now() > until) {
        throw new Error("The desk could not be taken over: its screen is not connected. Try again when the page shows it as live.");
      }
      await moment();
    }
  });

  const give = () => turn("Handing back …", async () => {
    show(await source.turn("give"));
    say(last.worker ? "Handed back to the worker." : "Handed back.");
  });

  const typeSecret = () => turn("Hand back", async () => {
    show(await source.turn("type", secret.value));
    rfb?.focus();
  });

  async function look() {
    if (over) {
      return;
    }
    const started = turns;
    try {
      const wheelState = await source.look(mine);
      gone = false;
      if (started === turns && !turning) {
        show(wheelState);
      }
    } catch (error) {
      fail(error);
    }
  }

  function fail(error) {
    over ||= Boolean(error.over);
    gone = source.isGone(error);
    show();
  }

  // Without what draws it there is no screen; the server says what helps.
  async function missing() {
    const answer = await fetch(LIBRARY).then((reply) => (reply.ok ? null : reply.json())).catch(() => null);
    over = unavailable = true;
    show();
    fill(place, h("p", { class: "missing", role: "alert" }, answer?.message ?? "The screen cannot be shown. Reload this page."));
    return {};
  }

  async function connect() {
    if (over || gone || screenless || connecting || rfb) {
      return;
    }
    connecting = true;
    const library = import("./novnc.js").catch(missing);
    try {
      await attach(await source.open(), library);
    } catch (error) {
      fail(error);
    } finally {
      connecting = false;
    }
  }

  async function attach(socket, library) {
    const replay = buffer(socket);
    socket.addEventListener("close", lose);
    const { default: RFB } = await library;
    if (over || !RFB || socket.readyState > WebSocket.OPEN) {
      socket.close();
      return;
    }
    rfb = new RFB(place, socket, { shared: true });
    replay();
    rfb.viewOnly = true;
    rfb.scaleViewport = true;
    rfb.background = "transparent";
    rfb.qualityLevel = source.quality;
    rfb.addEventListener("connect", () => {
      live = true;
      show();
      look();
    });
  }

  async function lose({ code, reason }) {
    const driving = mine;
    live = false;
    rfb = null;
    show({ ...last, mine: false });
    if (driving && !over) {
      say("The screen was disconnected. The desk was handed back.", true);
    }
    if (code === FULL && !full) {
      say(reason, true);
    }
    full = code === FULL;
    await look();
    screenless = screenless || (!over && !gone && !(await source.hasScreen()));
    show();
    setTimeout(connect, AGAIN);
  }

  show();
  connect();
  look();
  const timer = setInterval(() => look().then(connect), LOOK);
  const end = () => {
    if (mine) {
      source.turn("give").catch(() => {});
    }
    over = true;
    clearInterval(timer);
    rfb?.disconnect();
  };
  end.driving = () => mine || Boolean(turning);
  return end;
}
