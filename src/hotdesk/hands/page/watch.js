// The page of `hotdesk watch`: one desk's screen, and the state of the desk as its owner reports it.
import { h, say } from "./dom.js";
import { screen } from "./screen.js";

const desk = h("h1");
const viewers = h("span", { class: "quiet" });
const ending = h("span", { class: "wrong", role: "alert" });
let handle = document.querySelector("meta[name=stream]").content;

async function ask(method, path, value) {
  const answer = await fetch(path, { method, body: JSON.stringify(value) }).catch(() => null);
  const reply = await answer?.json().catch(() => null);
  if (answer?.ok && reply) {
    return reply;
  }
  const error = new Error(reply?.error ?? "`hotdesk watch`, which serves this page, has ended. Run it again.");
  error.over = !reply || Boolean(reply.gone);
  if (error.over) {
    ending.textContent = error.message;
  }
  throw error;
}

function describe(reply) {
  desk.textContent = reply.desk;
  document.title = `Desk ${reply.desk}`;
  viewers.textContent = reply.viewers > 1 ? `${reply.viewers} viewers` : "";
  return { ...reply, driverName: reply.holder };
}

function look(mine) {
  const request = mine ? ask("POST", "wheel", { act: "keep" }) : ask("GET", "state");
  return request.then(describe).catch((error) => {
    if (!error.over) {
      say(error.message, true);
    }
    throw error;
  });
}

// The page itself contains the handle of its first stream.
async function open() {
  const used = handle || (await ask("POST", "stream")).handle;
  handle = "";
  const socket = new WebSocket(new URL("screen", location.href.replace("http:", "ws:")), ["binary", `desk.${used}`]);
  socket.binaryType = "arraybuffer";
  return socket;
}

// For measurements: when the picture was first drawn.
function markFirstFrame() {
  const canvas = document.querySelector("canvas");
  if (canvas?.width && canvas.getContext("2d").getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data[3]) {
    performance.mark("first frame");
  } else {
    requestAnimationFrame(markFirstFrame);
  }
}

screen(document.getElementById("main"), {
  heading: [desk, viewers, ending],
  quality: 9,
  open,
  look,
  turn: (act, secret = "") => ask("POST", "wheel", { act: act === "give" ? "hand back" : act, secret }).then(describe),
  isGone: () => false,
  hasScreen: () => true,
});
markFirstFrame();
