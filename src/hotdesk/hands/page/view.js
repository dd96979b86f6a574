// Shows one desk. Everything that comes from the desk is pixels; every text here is put in as text.
const library = import("./novnc.js");

const part = (id) => document.getElementById(id);
const LOOK = 2000;
const AGAIN = 1500;
const READING = 8000;

let rfb = null;
let live = false;
let gone = false;
let told = {};
let reading = 0;
let first = document.querySelector("meta[name=stream]").content;

function over() {
  gone = true;
  throw new Error("This page is over. Run `hotdesk watch` again.");
}

async function ask(method, path, value) {
  const body = value === undefined ? undefined : JSON.stringify(value);
  const answer = await fetch(path, { method, body }).catch(over);
  const said = await answer.json().catch(over);
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
  part("stopped").hidden = !told.stopped;
  offer(mine ? told.secrets || [] : []);
  part("screen").dataset.is = mine ? "driven" : "";
  if (rfb) {
    rfb.viewOnly = !mine;
  }
}

function offer(names) {
  const list = part("secret");
  part("secrets").hidden = part("advice").hidden = !names.length;
  if (names.join("\n") !== [...list.options].map((each) => each.value).join("\n")) {
    list.replaceChildren(...names.map((name) => new Option(name, name)));
  }
}

function complain(text) {
  part("complaint").textContent = text;
  clearTimeout(reading);
  if (!gone) {
    reading = setTimeout(() => complain(""), READING);
  }
}

async function look() {
  if (gone) {
    return;
  }
  try {
    told = told.mine ? await ask("POST", "wheel", { act: "keep" }) : await ask("GET", "state");
  } catch (error) {
    complain(error.message);
  }
  show();
}

async function turn(act, secret = "") {
  part("wheel").disabled = true;
  try {
    told = await ask("POST", "wheel", { act, secret });
    complain("");
  } catch (error) {
    complain(error.message);
  }
  show();
  if (told.mine && rfb) {
    rfb.focus();
  }
}

function markFirstFrame() {
  const canvas = part("screen").querySelector("canvas");
  if (canvas && canvas.width && canvas.getContext("2d").getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data[3]) {
    performance.mark("first frame");
  } else if (!gone) {
    requestAnimationFrame(markFirstFrame);
  }
}

// The stream is begun while noVNC still loads; what the desk says meanwhile is kept for it.
function open(handle) {
  const address = new URL("screen", location.href);
  address.protocol = "ws:";
  const socket = new WebSocket(address, ["binary", `desk.${handle}`]);
  socket.binaryType = "arraybuffer";
  const early = [];
  const keep = (message) => early.push(message);
  socket.onmessage = keep;
  const replay = () => {
    if (socket.onmessage === keep) {
      setTimeout(replay);
    } else {
      early.forEach((message) => socket.onmessage(message));
    }
  };
  return { socket, replay };
}

async function connect() {
  let handle = first;
  first = "";
  try {
    handle = handle || (await ask("POST", "stream")).handle;
  } catch (error) {
    complain(error.message);
    show();
    return gone || setTimeout(connect, AGAIN);
  }
  const { socket, replay } = open(handle);
  socket.addEventListener("close", lost);
  const { default: RFB } = await library;
  if (socket.readyState > WebSocket.OPEN) {
    return null;
  }
  rfb = new RFB(part("screen"), socket, { shared: true });
  replay();
  rfb.viewOnly = true;
  rfb.scaleViewport = true;
  rfb.background = "transparent";
  rfb.qualityLevel = 9;
  rfb.addEventListener("connect", () => {
    live = true;
    look();
  });
  return rfb;
}

async function lost() {
  live = false;
  rfb = null;
  await look();
  if (!gone) {
    setTimeout(connect, AGAIN);
  }
}

part("wheel").addEventListener("click", () => turn(told.mine ? "hand back" : "take"));
part("type").addEventListener("click", () => turn("type", part("secret").value));
connect();
look();
markFirstFrame();
setInterval(look, LOOK);
