// Everything works without this file. With it, a plan follows what is typed, an answer appears by itself, and a receipt is copied with one click.
"use strict";

const later = (wait, act) => { let timer; return (...given) => { clearTimeout(timer); timer = setTimeout(() => act(...given), wait); }; };
const read = async (response) => new DOMParser().parseFromString(await response.text(), "text/html");

function follow(form) {  // a form that asks for a page of its own: show the new result beside what is being typed
  let last = 0;
  const ask = later(300, async () => {
    const turn = ++last, place = document.getElementById(form.dataset.live);
    place.classList.add("busy");
    try {
      const asked = `${form.action}?${new URLSearchParams(new FormData(form))}`;
      const page = await read(await fetch(asked, { headers: { Accept: "text/html" } }));
      const fresh = page.getElementById(form.dataset.live);
      if (turn !== last || !fresh) return;
      place.replaceChildren(...fresh.childNodes);
      for (const field of form.querySelectorAll("[data-told]")) {  // the side that does not drive is told
        const told = page.getElementById(field.id);
        if (told && field !== document.activeElement) field.value = told.value;
      }
      history.replaceState(null, "", asked);
    } catch { /* the button still works */ } finally { if (turn === last) place.classList.remove("busy"); }
  });
  form.addEventListener("input", (event) => {
    const side = event.target.dataset.drives;
    if (side) document.getElementById(side).checked = true;
    ask();
  });
}

function look(place) {  // an answer that is not there yet: look again when its moment comes
  setTimeout(async () => {
    try {
      const page = await read(await fetch(location.href, { headers: { Accept: "text/html" } }));
      const fresh = page.getElementById(place.id);
      place.replaceChildren(...fresh.childNodes);
      if (fresh.dataset.look) { place.dataset.look = fresh.dataset.look; look(place); }
      else { place.removeAttribute("aria-busy"); start(place); }
    } catch { look(place); }
  }, 1000 * Math.max(0.25, Number(place.dataset.look)));
}

function start(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
}

document.querySelectorAll("form[data-live]").forEach(follow);
document.querySelectorAll("[data-look]").forEach(look);
start(document);
