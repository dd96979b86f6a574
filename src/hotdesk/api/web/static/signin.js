// Signing in: a form in the page before anybody has, and in a dialog above it after a session ended.
import { clean, dialog, h } from "./dom.js";
import { call, get } from "./api.js";

const NOT_KEPT = location.protocol === "http:"
  ? "The key is right, but this browser does not keep the session cookie over plain HTTP. Use https, or another browser."
  : "The key is right, but this browser does not keep the session cookie. Allow cookies for this page.";

async function open(key) {
  await call("POST", "/session", { key });
  return get("/session").catch((error) => {
    throw error.status === 401 ? new Error(NOT_KEPT) : error;
  });
}

export function signIn(done, heading = [h("span", { class: "mark large", "aria-hidden": "true" }), h("h1", null, "Sign in")]) {
  const key = h("input", {
    id: "key", type: "password", autocomplete: "current-password", required: true, spellcheck: "false",
    placeholder: "e2b_…", "aria-describedby": "key-hint",
  });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const form = h("form", { class: "signin" }, heading,
    h("label", { for: "key" }, "Key"), key,
    h("p", { id: "key-hint", class: "hint" }, "The server's operator can create a key with ", h("code", null, "hotdesk key new --name you")),
    wrong, h("button", { class: "primary" }, "Sign in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    try {
      await done(await open(key.value.trim()));
    } catch (error) {
      wrong.textContent = clean(error.message);
      key.select();
    }
  });
  return form;
}

let asking = null;

// Asks to sign in again; whoever closes the dialog can still copy what they typed.
export function askAgain(done) {
  if (asking?.open) {
    return;
  }
  asking = dialog("Your session has ended", signIn((told) => {
    asking.close();
    return done(told);
  }, h("p", null, "Sign in to continue. What you typed is still there.")));
  asking.querySelector("input").focus();
}
