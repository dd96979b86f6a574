// What a desk wrote is looked at in a frame of another origin, where nothing runs; or saved.
import { BASE, post } from "./api.js";
import { dialog, h } from "./dom.js";

export async function preview(what, name) {
  const { url } = await post("/content", what);
  dialog(name, h("iframe", { sandbox: "", src: url, title: `Preview of ${name}`, referrerpolicy: "no-referrer", class: "preview" }), true);
}

export const save = (path, name) =>
  h("a", { class: "button", href: BASE + path, download: name.split("/").pop(), rel: "noopener" }, "Download");
