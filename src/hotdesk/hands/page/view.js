// Shows one desk. Everything that comes from the desk is pixels; every text here is put in as text.
import RFB from "./novnc/core/rfb.js";

const part = (id) => document.getElementById(id);
const LOOK = 2000;
const AGAIN = 1500;
const READING = 8000;

let rfb = null;
let live = false;
let gone = false;
let told = {};
let reading = 0;

async function ask(method, path, value) {
  const answer = await fetch(path, {
    method,
    body: value === undefined ? undefined : JSON.stringify(value),
  });
  const said = await answer.json().catch(() => ({ error: "This page is over. Run `hotdesk watch` again." }));
  if (!answer.ok) {
    gone = gone || Boolean(said.gone);
    throw new Error(said.error || "It did not work.");
  }
  return said;
}

function show() {
  const state = gone ? "gone" : !live ? "connecting" : told.paused ? "paused" : "live";
  part("state").textContent = state;
  part("state").dataset.is = state;
  part("desk").textContent = told.desk || "";
  document.title = told.desk ? `Desk ${told.desk}` : "Desk";
  part("viewers").textContent = told.viewers > 1 ? `${told.viewers} are looking` : "";
  const mine = live && Boolean(told.mine);
  part("driver").textContent = told.holder && !mine ? `${told.holder} is driving` : told.control ? "" : "view only";
  const wheel = part("wheel");
  wheel.hidden = !told.control;
  wheel.textContent = mine ? "Hand back" : "Take the wheel";
  wheel.dataset.is = mine ? "mine" : "";
  wheel.disabled = !live || gone || Boolean(told.holder && !mine);
  part("banner").hidden = !mine;
  part("screen").dataset.is = mine ? "driven" : "";
  if (rfb) {
    rfb.viewOnly = !mine;
  }
}

function complain(text) {
  part("complaint").textContent = text;
  clearTimeout(reading);
  reading = setTimeout(() => complain(""), READING);
}

async function look() {
  try {
    told = told.mine ? await ask("POST", "wheel", { act: "keep" }) : await ask("GET", "state");
  } catch (error) {
    complain(error.message);
  }
  show();
}

async function turn() {
  const act = told.mine ? "hand back" : "take";
  part("wheel").disabled = true;
  try {
    told = await ask("POST", "wheel", { act });
    complain("");
  } catch (error) {
    complain(error.message);
  }
  show();
  if (told.mine && rfb) {
    rfb.focus();
  }
}

async function connect() {
  let handle;
  try {
    ({ handle } = await ask("POST", "stream"));
  } catch (error) {
    complain(error.message);
    show();
    return gone || setTimeout(connect, AGAIN);
  }
  const address = new URL("screen", location.href);
  address.protocol = "ws:";
  rfb = new RFB(part("screen"), address.href, { shared: true, wsProtocols: ["binary", `desk.${handle}`] });
  rfb.viewOnly = true;
  rfb.scaleViewport = true;
  rfb.background = "transparent";
  rfb.qualityLevel = 9;
  rfb.addEventListener("connect", () => {
    live = true;
    look();
  });
  rfb.addEventListener("disconnect", async () => {
    live = false;
    rfb = null;
    await look();
    if (!gone) {
      setTimeout(connect, AGAIN);
    }
  });
  return rfb;
}

part("wheel").addEventListener("click", turn);
connect();
look();
setInterval(look, LOOK);
