// A terminal at a desk: what is typed goes there as bytes, what it writes is drawn as text.
import { LEAVE, fill, h, isLeaving } from "./dom.js";
import { may, socket, to } from "./api.js";
import { Screen } from "./vt.js";

const KEPT = 2000;
const FRAME = 16;
const BUDGET = 12;
const DRAW = 100;
const PIECE = 512;
const MOST_WAITING = 4 << 20;
const MOST_REPLIES = 64;
const MOST_UNSENT = 4096;
const SKIPPED = new TextEncoder().encode("\r\n[Output was skipped: it came faster than it can be shown.]\r\n");
const FULL = 4429;
const KEYS = {
  Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~", Insert: "\x1b[2~", PageUp: "\x1b[5~",
  PageDown: "\x1b[6~", F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F6: "\x1b[17~",
  F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~", F10: "\x1b[21~", F11: "\x1b[23~", F12: "\x1b[24~",
};
const ARROWS = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };

export function bytesOf(event, application) {
  const { key } = event;
  if (key === "Tab" && event.shiftKey) {
    return "\x1b[Z";
  }
  if (ARROWS[key]) {
    const held = (event.shiftKey ? 1 : 0) + (event.altKey ? 2 : 0) + (event.ctrlKey ? 4 : 0);
    return held ? `\x1b[1;${held + 1}${ARROWS[key]}` : `\x1b${application ? "O" : "["}${ARROWS[key]}`;
  }
  if (KEYS[key]) {
    return (event.altKey ? "\x1b" : "") + KEYS[key];
  }
  if (event.ctrlKey && !event.altKey && /^[a-z@[\\\]^_ ]$/i.test(key)) {
    return String.fromCharCode(key === " " ? 0 : key.toUpperCase().charCodeAt(0) & 31);
  }
  if (event.altKey && !event.ctrlKey && key.length === 1) {
    return `\x1b${key}`;
  }
  return "";
}

export function terminal(panel, desk) {
  if (!may("desks")) {
    fill(panel, h("p", { class: "quiet" }, "Your key lacks the permission 'desks'. Ask the server's operator for a key that has it."));
    return null;
  }
  const state = h("span", { class: "chip", role: "status" }, "connecting");
  const past = h("div");
  const now = h("div");
  const input = h("textarea", {
    class: "keys", "aria-label": `Terminal input. Press ${LEAVE} to leave it.`, "aria-keyshortcuts": "Control+Alt+G", autocapitalize: "off", autocomplete: "off", spellcheck: "false", rows: "1",
  });
  const probe = h("span", { class: "probe", "aria-hidden": "true" }, "MMMMMMMMMM");
  const view = h("div", { class: "terminal", role: "log", "aria-label": "Terminal", "aria-live": "off" }, probe, past, now, input);
  fill(panel, h("p", { class: "row" }, state, h("span", { class: "hint" }, `${LEAVE} leaves the terminal.`)), view);
  const lines = new WeakMap();
  const encoder = new TextEncoder();
  const [rows, columns] = measure();
  const link = socket(`/desks/${to(desk)}/terminal?rows=${rows}&columns=${columns}`);
  const send = (text) => text && link.readyState === WebSocket.OPEN && link.send(encoder.encode(text));
  const screen = new Screen(rows, columns, { reply: answer, scrolled: keepLine });
  let scrolled = []; // lines that left the screen and are not drawn yet
  let waiting = []; // bytes that are not written to the screen yet
  let bytes = 0;
  let replies = 0;
  let working = 0;
  let drew = 0;

  // A program that asks without end, and reads no reply, gets no more of them.
  function answer(text) {
    replies += 1;
    if (replies <= MOST_REPLIES && link.bufferedAmount < MOST_UNSENT) {
      send(text);
    }
  }

  function measure() {
    const { width, height } = probe.getBoundingClientRect();
    const across = Math.floor((view.clientWidth - 20) / ((width || 84) / 10));
    const down = Math.floor((view.clientHeight - 16) / (height || 18));
    return [Math.max(5, Math.min(200, down)), Math.max(20, Math.min(400, across))];
  }

  function keepLine(line) {
    scrolled.push(line);
    if (scrolled.length > 2 * KEPT) {
      scrolled = scrolled.slice(-KEPT);
    }
  }

  function drawPast() {
    const shown = scrolled.slice(-KEPT);
    scrolled = [];
    for (let over = past.childElementCount + shown.length - KEPT; over > 0; over -= 1) {
      past.firstChild.remove();
    }
    past.append(...shown.map((line) => drawn(line)));
  }

  // Writes what came to the screen, and draws it: for a moment at a time, so that the page still answers.
  function work() {
    const end = performance.now() + BUDGET;
    working = replies = 0;
    while (waiting.length && performance.now() < end) {
      const [first] = waiting;
      screen.write(first.subarray(0, PIECE));
      bytes -= Math.min(PIECE, first.length);
      first.length > PIECE ? (waiting[0] = first.subarray(PIECE)) : waiting.shift();
    }
    if (!waiting.length || end - drew > DRAW) {
      draw();
      drew = performance.now();
    }
    waiting.length && later();
  }

  function take(data) {
    waiting.push(data);
    bytes += data.length;
    if (bytes > MOST_WAITING) {
      screen.pending = "";
      waiting = [SKIPPED, data.subarray(-MOST_WAITING / 2)];
      bytes = waiting[0].length + waiting[1].length;
    }
    later();
  }

  // A line without the blanks at its end: text of a look after text of another.
  function drawn(line, cursor = -1) {
    const made = document.createElement("div");
    let end = line.length;
    while (end > 1 && end - 1 !== cursor && line[end - 1].text === " " && !line[end - 1].look) {
      end -= 1;
    }
    let run = "", worn = null;
    const close = () => {
      if (run) {
        const span = document.createElement("span");
        span.className = worn;
        span.textContent = run;
        made.append(span);
      }
      run = "";
    };
    for (let at = 0; at < end; at += 1) {
      const { text, look } = line[at];
      const wanted = at === cursor ? `${look} cursor` : look;
      if (wanted !== worn) {
        close();
        worn = wanted;
      }
      run += text;
    }
    close();
    return made;
  }

  function draw() {
    const below = view.scrollHeight - view.scrollTop - view.clientHeight < 40;
    drawPast();
    screen.grid.forEach((line, at) => {
      const cursor = screen.modes.cursor && at === screen.row ? screen.column : -1;
      const key = `${cursor}|${line.map((each) => each.look + each.text).join("")}`;
      const there = now.children[at];
      if (!there || lines.get(there) !== key) {
        const made = drawn(line, cursor);
        lines.set(made, key);
        there ? there.replaceWith(made) : now.append(made);
      }
    });
    while (now.children.length > screen.rows) {
      now.lastChild.remove();
    }
    if (below) {
      view.scrollTop = view.scrollHeight;
    }
  }

  const later = () => (working ||= setTimeout(work, FRAME)); // a hidden page draws no frames, but reads on
  const tell = (text) => {
    state.textContent = text;
    state.dataset.is = text;
  };
  const tellSize = () => link.readyState === WebSocket.OPEN && link.send(JSON.stringify({ rows: screen.rows, columns: screen.columns }));
  link.onopen = () => {
    tell("live");
    tellSize(); // it may have been laid out since it was asked for
    input.focus({ preventScroll: true });
  };
  link.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) {
      take(new Uint8Array(data));
    }
  };
  link.onclose = ({ code, reason }) => {
    tell(code === FULL ? "refused" : "gone");
    if (code === FULL) {
      state.after(h("span", { role: "alert" }, reason));
    }
  };
  view.addEventListener("click", () => String(getSelection()) || input.focus({ preventScroll: true }));
  input.addEventListener("keydown", (event) => {
    if (isLeaving(event) || (event.key === "Escape" && event.shiftKey)) {
      event.preventDefault();
      panel.focus();
      return;
    }
    if (event.isComposing || event.metaKey || (event.ctrlKey && (event.shiftKey || event.key === "v"))) {
      return;
    }
    const bytes = bytesOf(event, screen.modes.application);
    if (bytes) {
      event.preventDefault();
      send(bytes);
    }
  });
  input.addEventListener("input", (event) => {
    if (!event.isComposing) {
      send(input.value.replace(/\n/g, "\r"));
      input.value = "";
    }
  });
  input.addEventListener("paste", (event) => {
    event.preventDefault();
    const text = event.clipboardData.getData("text").replace(/\x1b/g, "").replace(/\r?\n/g, "\r");
    send(screen.modes.paste ? `\x1b[200~${text}\x1b[201~` : text);
  });
  const watched = new ResizeObserver(() => {
    const [down, across] = measure();
    if (down !== screen.rows || across !== screen.columns) {
      screen.resize(down, across);
      tellSize();
      later();
    }
  });
  watched.observe(view);
  return () => {
    watched.disconnect();
    clearTimeout(working);
    link.onmessage = null;
    link.close();
  };
}
