// The files of an open desk. Every name is the desk's word.
import { busy, button, confirm, empty, fill, h, moment, say, size } from "./dom.js";
import { get, may, put, remove, to } from "./api.js";
import { preview, save } from "./preview.js";

export function files(panel, desk, start = "") {
  let here = start;
  const place = h("div");
  const upload = h("input", { type: "file", multiple: true, id: "upload" });
  upload.addEventListener("change", () => busy(upload, async () => {
    try {
      for (const each of upload.files) {
        await put(`/desks/${to(desk)}/file?path=${encodeURIComponent(join(here, each.name))}`, each);
      }
      say("Uploaded.");
    } finally {
      upload.value = "";
      await load();
    }
  }));
  fill(panel, may("desks") && h("p", { class: "row" }, h("label", { for: "upload" }, "Upload files"), upload), place);

  async function load() {
    try {
      const told = await get(`/desks/${to(desk)}/entries?path=${encodeURIComponent(here)}&depth=1`);
      fill(place, trail(), table(told.items));
    } catch (error) {
      fill(place, trail(), empty("This folder cannot be read", error.message));
    }
  }

  const go = (path) => {
    here = path;
    return load();
  };

  function trail() {
    const parts = here.split("/").filter(Boolean);
    return h("nav", { "aria-label": "Folder", class: "row crumb" }, button("home", () => go(""), { class: "link" }),
      parts.map((each, at) => ["/", button(each, () => go((here.startsWith("/") ? "/" : "") + parts.slice(0, at + 1).join("/")), { class: "link" })]));
  }

  function table(found) {
    if (!found.length) {
      return empty("This folder is empty", "Upload a file, or open another folder.");
    }
    const sorted = [...found].sort((a, b) => isFolder(b) - isFolder(a) || String(a.name).localeCompare(b.name));
    return h("ul", { class: "rows files" }, sorted.map((each) => {
      const { name, path } = each;
      return h("li", null, h("div", { class: "item" }, [
        isFolder(each) ? button(`${name}/`, () => go(path), { class: "link name" }) : h("span", { class: "name" }, name),
        h("span", { class: "quiet number" }, isFolder(each) ? "" : size(each.size)),
        moment(each.modified),
        !isFolder(each) && h("span", { class: "row" }, [
          button("Preview", () => preview({ kind: "file", desk, path }, name), { class: "plain" }),
          save(`/desks/${to(desk)}/file?path=${encodeURIComponent(path)}`, name),
          may("desks") && button("Remove", async () => {
            if (await confirm("Remove this file?", name, "Remove")) {
              await remove(`/desks/${to(desk)}/file?path=${encodeURIComponent(path)}`);
              await load();
            }
          }, { class: "plain" }),
        ]),
      ]));
    }));
  }

  load();
}

const isFolder = (each) => Number(["dir", "directory", "folder"].includes(each.kind));
const join = (folder, name) => (folder ? `${folder.replace(/\/$/, "")}/${name}` : name);
