// A desk's screen, live, by noVNC: view only until this person has the wheel.
import { button, fill, h, say } from "./dom.js";
import { get, may, post, socket, to } from "./api.js";

const LOOK = 2000;
const AGAIN = 1500;

export function screen(panel, desk) {
  const state = h("span", { class: "chip", role: "status" }, "connecting");
  const driver = h("span", { class: "quiet" });
  const place = h("div", { class: "screen", role: "application", "aria-label": "The desk's screen" });
  const banner = h("p", { class: "banner", hidden: true }, h("strong", null, "You are driving. "),
    "Programs in this desk are stopped except screen, window manager and browser. The desk can read what you type.");
  const wheel = button("Take over", () => turn(mine ? "give" : "take"));
  wheel.hidden = !may("desks");
  fill(panel, h("div", { class: "row" }, state, driver, h("span", { class: "gap" }), wheel), banner, place);
  let over = false;
  let live = false;
  let mine = false;
  let rfb = null;

  function show(told = {}) {
    mine = Boolean(told.mine);
    state.textContent = over ? "gone" : !live ? "connecting" : told.paused ? "paused" : "live";
    state.dataset.is = state.textContent;
    driver.textContent = told.holder && !mine ? "Somebody is driving" : "";
    wheel.textContent = mine ? "Hand back" : "Take over";
    wheel.className = mine ? "primary" : "";
    banner.hidden = !mine;
    place.classList.toggle("driven", mine);
    if (rfb) {
      rfb.viewOnly = !mine;
    }
  }

  async function turn(act) {
    show(await post(`/desks/${to(desk)}/wheel`, { act }));
    if (mine) {
      rfb?.focus();
    } else {
      say("Handed back to the worker.");
    }
  }

  async function look() {
    if (over) {
      return;
    }
    try {
      show(await get(`/desks/${to(desk)}/wheel`));
    } catch (error) {
      over = over || error.status === 404 || error.status === 410;
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

  async function connect() {
    if (over) {
      return;
    }
    const { default: RFB } = await import("./novnc.js").catch(missing);
    if (over || !RFB) {
      return;
    }
    rfb = new RFB(place, socket(`/desks/${to(desk)}/screen`), { shared: true });
    rfb.viewOnly = true;
    rfb.scaleViewport = true;
    rfb.background = "transparent";
    rfb.qualityLevel = 8;
    rfb.addEventListener("connect", () => {
      live = true;
      look();
    });
    rfb.addEventListener("disconnect", () => {
      live = false;
      rfb = null;
      look();
      setTimeout(connect, AGAIN);
    });
  }

  connect();
  look();
  const timer = setInterval(look, LOOK);
  return () => {
    if (mine) {
      post(`/desks/${to(desk)}/wheel`, { act: "give" }).catch(() => {});
    }
    over = true;
    clearInterval(timer);
    rfb?.disconnect();
  };
}
