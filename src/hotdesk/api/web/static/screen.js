// A desk's screen, live, by noVNC: view only until this person has taken over.
import { fill, h, say } from "./dom.js";
import { get, may, post, socket, to } from "./api.js";

const LOOK = 2000;
const AGAIN = 1500;
const TAKING = 30000;
const MOMENT = 300;
const DISCONNECTED = new Set(["wheel.lost", "wheel.blind"]);
const SCREENLESS = new Set(["base", "office"]);

const name = () => [...crypto.getRandomValues(new Uint8Array(12))].map((each) => each.toString(16).padStart(2, "0")).join("");
const moment = () => new Promise((settle) => setTimeout(settle, MOMENT));

// Gives what ends it; its `driving` says whether this person drives, so that nobody takes the screen away from them.
export function screen(panel, desk) {
  const viewer = name();
  const state = h("span", { class: "chip", role: "status" }, "connecting");
  const driver = h("span", { class: "quiet" });
  const place = h("div", { class: "screen", role: "application", "aria-label": "The desk's screen" });
  const stopped = h("span");
  const banner = h("p", { class: "banner", hidden: true }, h("strong", null, "You are driving. "), stopped,
    "The desk can read what you type.");
  const wheel = h("button", { type: "button", disabled: true, onclick: () => (mine ? give() : take()) }, "Take over");
  wheel.hidden = !may("desks");
  fill(panel, h("div", { class: "row" }, state, driver, h("span", { class: "gap" }), wheel), banner, place);
  let over = false;
  let gone = false;
  let connecting = false;
  let screenless = false;
  let live = false;
  let mine = false;
  let turning = "";
  let turns = 0;
  let rfb = null;
  let last = {};

  function show(told = last) {
    last = told;
    mine = live && Boolean(told.mine);
    state.textContent = over || gone ? "gone" : screenless ? "no screen" : !live ? "connecting" : told.paused ? "paused" : "live";
    state.dataset.is = state.textContent;
    driver.textContent = screenless ? "This desk has no screen. Use the terminal and the files."
      : told.holder && !told.mine ? "Somebody else is driving" : "";
    wheel.textContent = turning || (mine ? "Hand back" : "Take over");
    wheel.className = mine ? "primary" : "";
    wheel.disabled = over || gone || !live || Boolean(turning) || (!mine && Boolean(told.paused || (told.holder && !told.mine)));
    wheel.title = live || over ? "" : "The screen is not connected yet.";
    banner.hidden = !mine;
    stopped.textContent = !told.worker ? "" : told.stopped
      ? "The worker waits. Programs in this desk are stopped except screen, window manager and browser. "
      : "The worker waits. ";
    place.classList.toggle("driven", mine);
    if (rfb) {
      rfb.viewOnly = !mine;
    }
  }

  async function turn(words, act) {
    turning = words;
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

  const ask = (act) => post(`/desks/${to(desk)}/wheel`, { act, viewer });

  // Between two steps a desk is started anew and its screen is gone for a moment: then it is taken once it is back.
  const take = () => turn("Taking over …", async () => {
    const until = Date.now() + TAKING;
    while (!over) {
      try {
        if (live) {
          show(await ask("take"));
          rfb?.focus();
          return;
        }
      } catch (error) {
        if (!DISCONNECTED.has(error.code)) {
          throw error;
        }
      }
      if (Date.now() > until) {
        throw new Error("The desk could not be taken over: its screen is not connected. Try again when it is live.");
      }
      await moment();
    }
  });

  const give = () => turn("Handing back …", async () => {
    show(await ask("give"));
    say(last.worker ? "Handed back to the worker." : "Handed back.");
  });

  async function look() {
    if (over) {
      return;
    }
    const asked = turns;
    try {
      const told = await get(`/desks/${to(desk)}/wheel?viewer=${viewer}`);
      gone = false;
      if (asked === turns && !turning) {
        show(told);
      }
      connect();
    } catch (error) {
      gone = error.status === 404 || error.status === 410;
      show();
    }
  }

  // Without what draws it there is no screen; the server says what helps.
  async function missing() {
    const told = await fetch("/web/novnc.js").then((answer) => (answer.ok ? null : answer.json())).catch(() => null);
    over = true;
    wheel.hidden = true;
    show();
    state.textContent = "not shown";
    fill(place, h("p", { class: "missing", role: "alert" }, told?.message ?? "The screen cannot be shown. Reload this page."));
    return {};
  }

  async function isScreenless() {
    return get(`/desks/${to(desk)}`).then((told) => SCREENLESS.has(told.image), () => false);
  }

  async function connect() {
    if (over || gone || screenless || connecting || rfb) {
      return;
    }
    connecting = true;
    const { default: RFB } = await import("./novnc.js").catch(missing).finally(() => (connecting = false));
    if (over || !RFB) {
      return;
    }
    rfb = new RFB(place, socket(`/desks/${to(desk)}/screen?viewer=${viewer}`), { shared: true });
    rfb.viewOnly = true;
    rfb.scaleViewport = true;
    rfb.background = "transparent";
    rfb.qualityLevel = 8;
    rfb.addEventListener("connect", () => {
      live = true;
      show();
      look();
    });
    rfb.addEventListener("disconnect", async () => {
      const lost = live && mine;
      live = false;
      rfb = null;
      show({ ...last, mine: false });
      if (lost && !over) {
        say("The screen was disconnected. The desk was handed back.", true);
      }
      screenless = screenless || (!over && await isScreenless());
      show();
      setTimeout(connect, AGAIN);
    });
  }

  connect();
  look();
  const timer = setInterval(look, LOOK);
  const end = () => {
    if (mine) {
      ask("give").catch(() => {});
    }
    over = true;
    clearInterval(timer);
    rfb?.disconnect();
  };
  end.driving = () => mine || Boolean(turning);
  return end;
}
