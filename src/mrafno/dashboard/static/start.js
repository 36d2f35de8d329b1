// The page: the list of runs, or one run, polled every two seconds and updated in place.
"use strict";

function arrive() {
  const values = Object.fromEntries(new URLSearchParams(location.search));
  const other = values.run !== route.run;
  route = values;
  visit += 1;
  show(route.run === undefined ? "list" : "run");
  if (other) leave();
  refresh(visit, true);
  if (other && visit > 1) byId(route.run === undefined ? "list-title" : "title").focus();
}

/** Clears the content of the previous run. */
function leave() {
  for (const plot of document.querySelectorAll(".plot")) if (window.Plotly) Plotly.purge(plot);
  for (const id of ["figures", "map", "panels", "keys", "running"]) byId(id).replaceChildren();
  byId("queries").tBodies[0].replaceChildren();
  byId("figures-wait").hidden = false;
  byId("note-form").hidden = byId("map-part").hidden = true;
  byId("control-text").textContent = "";
  byId("example").hidden = byId("problem").hidden = true;
  byId("title").textContent = route.run ?? "";
  byId("lead").textContent = "";
  document.title = `${route.run ?? "Runs"} · mrafno`;
  shownExample = drawnFigures = drawnMap = null;
  page = 0;
}

function show(part) {
  for (const id of ["list", "run", "missing"]) byId(id).hidden = id !== part;
}

let timer = 0;

/** Polls the server and updates the page. */
async function refresh(now, first = false) {
  clearTimeout(timer);
  let pause = POLL;
  try {
    if (!document.hidden || first) pause = await (route.run === undefined ? refreshList(now) : refreshRun(now));
    if (now === visit) showStatus("");
  } catch (error) {
    if (now !== visit) return;
    if (error.status === 404 || error.status === 503) {
      byId("missing-text").textContent = error.message;
      show("missing");
    } else {
      showStatus("No response from the server; trying again.");
    }
  }
  if (now === visit) timer = setTimeout(() => refresh(now), pause);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const address = new URL(link.href, location.href);
  if (link.classList.contains("skip")) {
    event.preventDefault();
    byId("main").focus();
  } else if (address.origin === location.origin && address.pathname === "/") {
    event.preventDefault();
    go(address.pathname + address.search);
  }
});
addEventListener("popstate", arrive);
document.addEventListener("visibilitychange", () => document.hidden || refresh(visit));
prepareList();
prepareRun();
prepareMap();
arrive();
