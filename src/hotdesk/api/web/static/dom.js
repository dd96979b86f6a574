// Builds the page. Every text goes in as text; what could hide or steer is shown as its escape.

const HIDDEN =
  /(?! )[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b-\u180f\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;

function escaped(character) {
  const code = character.codePointAt(0);
  const known = { 9: "\\t", 10: "\\n", 13: "\\r" }[code];
  const digits = (width) => code.toString(16).padStart(width, "0");
  return known || (code < 0x100 ? `\\x${digits(2)}` : code < 0x10000 ? `\\u${digits(4)}` : `\\U${digits(8)}`);
}

// One line of text that hides nothing.
export const clean = (text) => String(text ?? "").replace(HIDDEN, escaped);

// Several lines of it.
export const cleanLines = (text) => String(text ?? "").split(/\r?\n/).map(clean).join("\n");

// Attributes that people see or hear.
const SHOWN = new Set(["alt", "aria-label", "download", "title"]);

// An element: attributes, `on…` listeners, and what is inside; text is cleaned.
export function h(tag, attributes, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) {
      made.addEventListener(name.slice(2), value);
    } else if (value === true) {
      made.setAttribute(name, "");
    } else if (value !== false && value != null) {
      made.setAttribute(name, SHOWN.has(name) ? clean(value) : value);
    }
  }
  made.append(...inside.flat(9).filter((each) => each != null && each !== false).map(asNode));
  return made;
}

const asNode = (value) => (value instanceof Node ? value : document.createTextNode(clean(value)));

// A block of text with its lines.
export function block(text, attributes = {}) {
  const made = h("pre", { tabindex: "0", ...attributes });
  made.textContent = cleanLines(text);
  return made;
}

export const fill = (place, ...inside) => place.replaceChildren(...inside.flat(9).filter(Boolean).map(asNode));

// Draws again only where what is shown changed; the focus, scrolling and what was folded out stay.
export function keep(place, value, draw) {
  const key = JSON.stringify(value);
  if (place.dataset.shown !== key) {
    place.dataset.shown = key;
    const restore = remember(place);
    fill(place, draw(value));
    restore();
  }
}

const CONTROLS = "a, button, input, select, textarea, summary, [tabindex]";
const STAYING = { details: "open", ".scroll": "scrollTop" };

// What an element is known by after it was drawn anew: its name, its row's, and which one of these it is.
function named(place, selector) {
  const times = new Map();
  return [...place.querySelectorAll(selector)].map((each) => {
    const row = each.closest("li, tr")?.querySelector(".name, code")?.textContent ?? "";
    const folds = each.closest("summary") ?? each.querySelector(":scope > summary");
    const own = each.getAttribute("href") || each.getAttribute("aria-label") || (folds ? folds.textContent.replace(/\d+/g, "") : each.textContent);
    const name = [each.localName, row, own].join("|");
    times.set(name, (times.get(name) || 0) + 1);
    return [`${name}|${times.get(name)}`, each];
  });
}

function remember(place) {
  const was = document.activeElement;
  const inside = place !== was && place.contains(was);
  const [focused] = (inside && named(place, CONTROLS).find(([, each]) => each === was)) || [];
  const kept = Object.entries(STAYING).map(([selector, what]) =>
    [selector, what, new Map(named(place, selector).map(([name, each]) => [name, each[what]]))]);
  return () => {
    for (const [selector, what, values] of kept) {
      named(place, selector).forEach(([name, each]) => values.has(name) && (each[what] = values.get(name)));
    }
    if (inside) {
      const now = focused && named(place, CONTROLS).find(([name]) => name === focused)?.[1];
      (now || document.getElementById("main")).focus({ preventScroll: true });
    }
  };
}

export function button(label, act, attributes = {}) {
  const made = h("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", () => busy(made, act));
  return made;
}

// Has a control wait until its act is over, and says what went wrong; whoever has only a keyboard stays near it.
export async function busy(control, act, tell = (text) => say(text, true)) {
  control.disabled = true;
  try {
    await act();
  } catch (error) {
    tell(error.message);
  } finally {
    control.disabled = false;
    if (document.activeElement === document.body) {
      (control.isConnected ? control : document.getElementById("main")).focus({ preventScroll: true });
    }
  }
}

// A form whose button waits until its act is over.
export function form(name, act, ...inside) {
  const made = h("form", { class: name }, inside);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(event.submitter, act);
  });
  return made;
}

let reading = 0;
let said = null;

// Tells the outcome of an act: inside an open dialog, because what is behind it can be neither seen nor heard.
export function say(text, bad = false) {
  const place = [...document.querySelectorAll("dialog[open] > .told")].at(-1) ?? document.getElementById("said");
  said?.replaceChildren();
  said = place;
  place.textContent = clean(text);
  place.dataset.is = bad ? "bad" : "good";
  clearTimeout(reading);
  reading = setTimeout(() => (place.textContent = ""), bad ? 12000 : 5000);
}

// The keys that lead out of a screen or terminal, which get all others; no browser uses them.
export const LEAVE = "Ctrl+Alt+G";
export const isLeaving = (event) => event.ctrlKey && event.altKey && !event.getModifierState("AltGraph") && event.code === "KeyG";

let numbers = 0;

// A labelled control; `hint` is read with it.
export function field(label, control, hint = "") {
  control.id ||= `f${++numbers}`;
  const told = hint && h("p", { class: "hint", id: `${control.id}-hint` }, hint);
  if (told) {
    control.setAttribute("aria-describedby", told.id);
  }
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, told);
}

export const facts = (pairs) =>
  h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== "" && value != null).map(([name, value]) => [
    h("dt", null, name),
    h("dd", null, value),
  ]));

export const chip = (state) => h("span", { class: "chip", "data-is": state }, state || "unknown");

// Says so where a list is longer than what is shown of it.
export const cut = (found) => found.cut && h("p", { class: "quiet" }, `Only the first ${count(found.length || 1000)} are shown.`);

export const empty = (title, ...inside) => h("div", { class: "empty" }, h("h2", null, title), h("p", null, inside));

// Asks before something that cannot be undone.
export function confirm(title, words, yes) {
  return new Promise((settle) => {
    const shown = dialog(title, [
      h("p", null, words),
      h("div", { class: "row end" }, [
        h("button", { type: "button", class: "plain", onclick: () => shown.close() }, "Cancel"),
        h("button", { type: "button", class: "danger", onclick: () => shown.close("yes") }, yes),
      ]),
    ]);
    shown.addEventListener("close", () => settle(shown.returnValue === "yes"));
  });
}

export function dialog(title, inside, wide = false) {
  const id = `d${++numbers}`;
  const shown = h("dialog", { "aria-labelledby": id, class: wide ? "wide" : "" }, [
    h("header", null, h("h2", { id }, title), h("button", {
      type: "button", class: "plain", "aria-label": "Close", onclick: () => shown.close(),
    }, "✕")),
    h("p", { class: "told", role: "alert" }),
    inside,
  ]);
  shown.addEventListener("close", () => shown.remove());
  document.body.append(shown);
  shown.showModal();
  return shown;
}

// Tabs that arrow keys move among; what is in one is made when it is first opened and ended when it is left.
export function tabs(label, parts, chosen, onchange = () => {}) {
  const panel = h("div", { role: "tabpanel", class: "panel", tabindex: "-1", id: `p${++numbers}` });
  let end = () => {};
  const heads = parts.map(([name, title]) => h("button", {
    type: "button", role: "tab", id: `${panel.id}-${name}`, "aria-controls": panel.id, onclick: () => open(name),
  }, title));
  const list = h("div", { role: "tablist", "aria-label": label, class: "tabs" }, heads);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const now = heads.indexOf(document.activeElement);
      const next = heads[(now + step + heads.length) % heads.length];
      next.focus();
      next.click();
    }
  });
  function open(name) {
    const index = Math.max(0, parts.findIndex((each) => each[0] === name));
    heads.forEach((head, at) => {
      head.setAttribute("aria-selected", String(at === index));
      head.tabIndex = at === index ? 0 : -1;
    });
    end();
    panel.replaceChildren();
    delete panel.dataset.shown;
    panel.setAttribute("aria-labelledby", heads[index].id);
    end = parts[index][2](panel) || (() => {});
    onchange(parts[index][0]);
  }
  open(chosen);
  return { node: [list, panel], end: () => end() };
}

// -- words ------------------------------------------------------------------------------------------------------

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function size(bytes) {
  let value = Number(bytes) || 0;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export const money = (dollars) => (dollars == null || dollars < 0 ? "" : `$${dollars && dollars.toFixed(dollars < 1 ? 4 : 2)}`);
export const count = (number) => (number == null ? "" : Number(number).toLocaleString("en"));

// Milliseconds or seconds since 1970, or a date's text, as a date.
export function date(value) {
  if (!value) {
    return null;
  }
  const made = new Date(typeof value === "number" && value < 1e11 ? value * 1000 : value);
  return Number.isNaN(made.getTime()) ? null : made;
}

export function when(value) {
  const made = date(value);
  if (!made) {
    return "";
  }
  const today = made.toDateString() === new Date().toDateString();
  const clock = made.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return today ? clock : `${made.toLocaleDateString([], { day: "numeric", month: "short" })} ${clock}`;
}

export const moment = (value) =>
  h("time", { datetime: date(value)?.toISOString(), title: date(value)?.toLocaleString() }, when(value));

export function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) {
    return `${seconds} s`;
  }
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
