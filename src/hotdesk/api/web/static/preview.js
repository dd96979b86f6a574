// What a desk wrote is looked at in a frame of another origin, where nothing runs; as pictures of its pages; or saved.
import { BASE, get, path, post } from "./api.js";
import { dialog, h } from "./dom.js";

export async function preview(what, name) {
  const told = what.kind === "drive" ? await get(`/drive/${path(what.path)}?pages=1`) : { inline: true };
  if (!told.inline) {
    return void dialog(last(name), pages(told.items, what.path, last(name)), true);
  }
  const { url, inline } = await post("/content", what);
  dialog(last(name), inline
    ? h("iframe", { sandbox: "", src: url, title: `Preview of ${name}`, referrerpolicy: "no-referrer", class: "preview" })
    : h("p", null, "Only text and pictures are shown here. Download this file to open it."), true);
}

// The pages as a check drew them in a clean desk: pixels that the server encoded anew.
function pages(found, name, title) {
  const source = `/drive/${path(name)}`;
  if (!found.length) {
    return [h("p", null, "There is no preview of this file: no check rendered its pages, or they were deleted."),
      h("p", { class: "row" }, save(source, title))];
  }
  return [
    h("p", { class: "row" }, h("span", { class: "hint" }, `${found.length === 1 ? "One page" : `${found.length} pages`}, as the check ${found[0].check} rendered ${found.length === 1 ? "it" : "them"} in a clean desk.`),
      h("span", { class: "gap" }), save(source, title)),
    h("div", { class: "sheets", tabindex: "0", role: "region", "aria-label": "Pages" }, found.map((each) => h("figure", null,
      h("img", { src: `${BASE}${source}?page=${each.page}`, width: each.width, height: each.height, loading: "lazy", alt: `Page ${each.page} of ${title}` }),
      h("figcaption", { class: "quiet" }, `Page ${each.page} of ${found.length}`)))),
  ];
}

export const last = (name) => name.split("/").pop();

export const save = (address, name) =>
  h("a", { class: "button", href: BASE + address, download: last(name), rel: "noopener" }, "Download");
