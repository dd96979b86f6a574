// Keys by which people and programs are let in.
import { button, chip, confirm, cut, dialog, empty, field, fill, form, h, keep, moment, say } from "./dom.js";
import { list, post, remove, to } from "./api.js";

const POWERS = {
  sandboxes: "use sandboxes with the E2B SDK", desks: "open and use desks", jobs: "start and stop jobs",
  approve: "decide approvals and answer questions", drive: "read and write the drive", vault: "store secrets", journal: "read the journal",
  admin: "manage keys, stop everything",
};
const LASTS = { "30 days": 30, "90 days": 90, "a year": 365, "never": 0 };

export default async function view(here) {
  const place = h("div");
  const load = async () => keep(place, await list("/keys"), (found) => draw(found, load));
  fill(here.main, h("div", { class: "top" }, h("h1", null, "Keys"), button("New key", () => make(load), { class: "primary" })), place);
  await load();
}

function draw(found, load) {
  if (!found.length) {
    return empty("No keys yet", "A key lets one person or program use this server. Choose New key to create one.");
  }
  return [cut(found), h("ul", { class: "rows files" }, found.map((each) => h("li", null, h("div", { class: "item" }, [
    chip(each.revoked ? "revoked" : each.expires && each.expires * 1000 < Date.now() ? "expired" : "valid"),
    h("span", { class: "name" }, each.name, " ", h("code", { class: "quiet" }, each.id)),
    h("span", { class: "quiet" }, each.powers.join(", ")),
    each.expires ? h("span", { class: "quiet" }, "until ", moment(each.expires)) : h("span", { class: "quiet" }, "no expiry"),
    !each.revoked && h("span", { class: "row" }, button("Revoke", async () => {
      if (await confirm("Revoke this key?", `${each.name} loses access at once.`, "Revoke")) {
        await remove(`/keys/${to(each.id)}`);
        await load();
      }
    }, { class: "plain" })),
  ]))))];
}

function make(load) {
  const name = h("input", { type: "text", required: true, maxlength: "64", pattern: "[A-Za-z0-9][A-Za-z0-9._@\\-]*", autocomplete: "off" });
  const lasts = h("select", null, Object.keys(LASTS).map((each) => h("option", null, each)));
  const powers = Object.entries(POWERS).map(([power, words]) => {
    const box = h("input", { type: "checkbox", value: power, id: `power-${power}`, checked: power !== "admin" && power !== "vault" });
    return h("div", { class: "row" }, box, h("label", { for: box.id }, h("strong", null, power), ` ${words}`));
  });
  const order = form("", send, field("Name", name, "The person or program that uses the key. Approvals show this name."),
    h("fieldset", null, h("legend", null, "Permissions"), powers), field("Expires after", lasts), h("button", { class: "primary" }, "Create key"));
  const shown = dialog("New key", order);
  async function send() {
    const chosen = [...order.querySelectorAll("input:checked")].map((each) => each.value);
    const days = LASTS[lasts.value];
    const made = await post("/keys", { name: name.value, powers: chosen, ...(days ? { seconds: days * 86400 } : {}) });
    shown.close();
    once(made.key);
    await load();
  }
}

function once(key) {
  const text = h("input", { type: "text", readonly: true, value: key, class: "code" });
  dialog("Your new key", [field("Key", text, "Copy it now: it is not shown again."), button("Copy", async () => {
    await navigator.clipboard.writeText(key);
    say("Copied.");
  })]);
  text.select();
}
