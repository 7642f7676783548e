// What the page needs in the browser: it shows what the program sends, and says what people do. All else is in Python.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const offline = "The program has stopped, or the connection is lost.";

  // One socket carries what people do to the program, and what it shows here. If it is lost, it is opened again.
  let socket;
  function connect(again) {
    socket = new WebSocket(`${location.origin.replace("http", "ws")}/tab`);
    socket.onopen = () => { again = false; socket.send(JSON.stringify(location.hash.slice(1))); };
    socket.onmessage = (event) => put(JSON.parse(event.data));
    socket.onclose = () => { if (!again) tell(offline); setTimeout(connect, 2000, true); };
  }
  const ask = (what, about = {}) =>
    socket.readyState === WebSocket.OPEN ? socket.send(JSON.stringify({ do: what, ...about })) : tell(offline);

  // Showing: only what differs is changed, so that focus, scrolling and loaded photos stay.
  let shown = null;
  function put({ slots, place, tab, told }) {
    for (const [id, html] of Object.entries(slots)) {
      if (!$(id)) continue;  // A job that another tab shows.
      const wanted = document.createElement("template");
      wanted.innerHTML = html;
      sync($(id), wanted.content);
    }
    $("view").setAttribute("aria-labelledby", `tab-${tab}`);
    if (shown !== tab && shown !== null) scrollTo(0, 0);
    shown = tab;
    history.replaceState(null, "", `#${place}`);
    if ("dialog" in slots) toggle($("photo-dialog"), slots.dialog !== "");
    const renaming = document.querySelector("form[data-do=rename] input");
    if (renaming && !renaming.closest("form").contains(document.activeElement)) { renaming.focus(); renaming.select(); }
    for (const text of told) tell(text);
    if (!dragging && document.activeElement === document.body && lastPhoto) focusNear();
  }

  function sync(have, want) {
    const keyed = new Map();
    for (const child of have.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
    let at = have.firstChild;
    for (const node of [...want.childNodes]) {
      const key = node.dataset && node.dataset.key;
      const match = key ? keyed.get(key) : at && alike(at, node) ? at : null;
      if (!match || !alike(match, node)) { have.insertBefore(node, at); continue; }
      if (match === at) at = at.nextSibling; else have.insertBefore(match, at);
      if (node.nodeType === Node.TEXT_NODE) { if (match.data !== node.data) match.data = node.data; continue; }
      for (const { name } of [...match.attributes])
        if (!node.hasAttribute(name) && !(name === "open" || name === "aria-checked")) match.removeAttribute(name);
      for (const { name, value } of node.attributes)
        if (match.getAttribute(name) !== value) match.setAttribute(name, value);
      sync(match, node);
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  }
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName
    && (a.dataset && a.dataset.key) === (b.dataset && b.dataset.key);

  function toggle(dialog, open) {
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }

  function tell(text) {
    const line = document.createElement("p");
    line.textContent = text;
    $("messages").append(line);
    setTimeout(() => line.remove(), 6000);
  }

  // Photos to the program, a few at a time.
  async function upload(name, files) {
    const wanted = [...files];
    if (!wanted.length) return;
    const path = name === "try" ? "/try" : `/upload/${encodeURIComponent(name)}`;
    const step = name === "try" ? 1 : 8;
    for (let first = 0; first < (name === "try" ? 1 : wanted.length); first += step) {
      $("uploads").textContent = `Adding photos: ${first} of ${wanted.length}`;
      const form = new FormData();
      for (const file of wanted.slice(first, first + step)) form.append("files", file, file.name || "photo.jpg");
      try {
        const answer = await fetch(path, { method: "POST", body: form });
        const said = await answer.json();
        if (said.error) tell(said.error.message);
        for (const one of (said.refused || []).slice(0, 3)) tell(`${one.name} ${one.reason}`);
        if (said.key) ask("tried", { key: said.key });
      } catch { tell(offline); break; }
    }
    $("uploads").textContent = "";
  }

  // Files of a drop, those in folders too.
  async function dropped(data) {
    const entries = [...data.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
    if (!entries.some((entry) => entry.isDirectory)) return [...data.files];
    const found = [];
    const walk = async (entry) => {
      if (entry.isFile) found.push(await new Promise((done, failed) => entry.file(done, failed)));
      else {
        const reader = entry.createReader();
        for (;;) {
          const some = await new Promise((done, failed) => reader.readEntries(done, failed));
          if (!some.length) break;
          for (const one of some) await walk(one);
        }
      }
    };
    for (const entry of entries) await walk(entry);
    return found.filter((file) => !file.name.startsWith("."));
  }

  // Dragging, marking several, and the keyboard.
  let dragging = null;
  let lastPhoto = null;  // The photo that had the focus, and its place: when it goes, the next one gets the focus.
  const marked = () => [...document.querySelectorAll(".photo[aria-checked=true]")].map((one) => one.dataset.photo);
  const withMarked = (photo) => { const some = marked(); return some.includes(photo) ? some : [photo]; };
  const mark = (photo) => photo.setAttribute("aria-checked", photo.getAttribute("aria-checked") === "true" ? "false" : "true");

  document.addEventListener("dragstart", (event) => {
    const photo = event.target.closest && event.target.closest(".photo");
    if (!photo) return;
    dragging = withMarked(photo.dataset.photo);
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragging.join("\n"));
  });
  document.addEventListener("dragend", () => { dragging = null; over(null); });
  const over = (zone) => {
    for (const one of document.querySelectorAll("[data-drop].over")) if (one !== zone) one.classList.remove("over");
    if (zone) zone.classList.add("over");
  };
  document.addEventListener("dragover", (event) => {
    event.preventDefault();  // A photo that misses must not replace the page.
    over(event.target.closest("[data-drop]"));
  });
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    const zone = event.target.closest("[data-drop]");
    over(null);
    if (!zone) return;
    const name = zone.dataset.drop;
    if (dragging) {
      if (name !== "try") ask("move", { photo: dragging, to: name });
      dragging = null;
    } else upload(name, await dropped(event.dataTransfer));
  });

  document.addEventListener("click", (event) => {
    const webcam = event.target.closest("[data-webcam]");
    if (webcam) return void camera(webcam.dataset.webcam);
    const one = event.target.closest("[data-do]");
    if (!one || one.tagName === "FORM") return;
    if (one.matches(".photo") && (event.ctrlKey || event.metaKey || event.shiftKey)) return void mark(one);
    const { do: what, key, preview, label, ...about } = one.dataset;
    ask(what, about);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-do]");
    if (!form) return;
    event.preventDefault();
    const { do: what, ...about } = form.dataset;
    ask(what, { ...about, ...Object.fromEntries(new FormData(form)) });
    if (what === "add_class") form.reset();
  });
  document.addEventListener("change", (event) => {
    const input = event.target.closest("input[data-upload]");
    if (!input) return;
    upload(input.dataset.upload, input.files).then(() => { input.value = ""; });
  });
  document.addEventListener("cancel", (event) => { if (event.target.id === "photo-dialog") ask("close"); }, true);
  document.addEventListener("focusin", (event) => {
    const photo = event.target.closest(".photo");
    const box = photo && photo.parentElement;
    lastPhoto = photo ? { box: box.dataset.class, place: [...box.children].indexOf(photo) } : null;
  });
  function focusNear() {
    const box = [...document.querySelectorAll(".photos")].find((one) => one.dataset.class === lastPhoto.box);
    const photos = box ? box.querySelectorAll(".photo") : [];
    if (photos.length) photos[Math.min(lastPhoto.place, photos.length - 1)].focus();
  }

  const classButtons = (root) => [...root.querySelectorAll("button[data-do=move] kbd")].map((one) => one.parentElement);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const digit = /^[1-9]$/.test(event.key) ? Number(event.key) : 0;
    const dialog = $("photo-dialog").open ? $("photo-dialog") : null;
    const labelling = dialog || document.querySelector("[data-keys=suggest]");
    if (labelling) {
      const chosen = digit && classButtons(labelling)[digit - 1];
      if (chosen) return void (event.preventDefault(), chosen.disabled || chosen.click());
    }
    if (dialog) return;
    if (event.key === "u") return void ask("undo");
    if (labelling) {
      const walk = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const onTab = event.target.closest("[role=tab]");
      if (walk && !onTab) return void (event.preventDefault(), ask("step", { by: walk }));
      if (event.key === "Delete") return void ask("remove", { photo: labelling.dataset.photo });
      if (event.key === "Enter" && !event.target.closest("button, a, label")) return void labelling.querySelector(".accept").click();
    }
    const tab = event.target.closest("[role=tab]");
    if (tab) {
      const next = { ArrowLeft: tab.previousElementSibling, ArrowRight: tab.nextElementSibling }[event.key];
      if (next) { next.focus(); next.click(); }
      return;
    }
    const photo = event.target.closest(".photo");
    if (photo) keyOnPhoto(event, photo, digit);
  });
  function keyOnPhoto(event, photo, digit) {
    const all = [...document.querySelectorAll(".photo")];
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (step) { event.preventDefault(); const next = all[all.indexOf(photo) + step]; if (next) next.focus(); return; }
    if (event.key === "x") return void mark(photo);
    if (event.key === "Delete") return void ask("remove", { photo: withMarked(photo.dataset.photo) });
    const columns = [...document.querySelectorAll(".bay[data-drop] h2 kbd")];
    const column = digit && columns.find((one) => one.textContent === event.key);
    if (column) ask("move", { photo: withMarked(photo.dataset.photo), to: column.closest("[data-drop]").dataset.drop });
  }

  // The map: a photo at the pointer.
  document.addEventListener("pointerover", (event) => {
    const point = event.target.closest("[data-preview]");
    const box = $("preview");
    if (!box) return;
    box.replaceChildren();
    box.classList.toggle("shown", Boolean(point));
    if (!point) return;
    const image = new Image();
    image.src = point.dataset.preview;
    const name = document.createElement("span");
    name.textContent = point.dataset.label;
    box.append(image, name);
    const at = point.getBoundingClientRect();
    box.style.left = `${Math.min(at.right + 8, innerWidth - 190)}px`;
    box.style.top = `${Math.min(at.bottom + 8, innerHeight - 200)}px`;
  });

  // The webcam.
  async function camera(name) {
    const dialog = $("webcam-dialog");
    let stream;
    try { stream = await navigator.mediaDevices.getUserMedia({ video: true }); } catch { return tell("There is no camera, or its use was not allowed."); }
    const video = document.createElement("video");
    Object.assign(video, { srcObject: stream, autoplay: true, muted: true, playsInline: true });
    const take = document.createElement("button");
    const end = document.createElement("button");
    take.textContent = "Take photo"; take.className = "primary big"; end.textContent = "Close";
    take.onclick = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
      canvas.getContext("2d").drawImage(video, 0, 0);
      const called = `webcam-${new Date().toISOString().replace(/[:.]/g, "-")}.jpg`;
      canvas.toBlob((blob) => upload(name, [new File([blob], called)]), "image/jpeg", 0.92);
      if (name === "try") dialog.close();
    };
    end.onclick = () => dialog.close();
    dialog.replaceChildren(video, take, end);
    dialog.onclose = () => { for (const track of stream.getTracks()) track.stop(); };
    dialog.showModal();
  }

  connect();
})();
