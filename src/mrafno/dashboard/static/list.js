// The list of runs: sorted, filtered, tagged, and several of them on one axis.
"use strict";

const COLUMNS = [
  ["chosen", ""], ["name", "Run"], ["standing", "Status"], ["share", "Progress"], ["error", "Error"], ["cost", "Cost"],
  ["task", "Task"], ["method", "Method"], ["failed", "Failed"], ["seconds", "Time"], ["changed", "Last event"],
];
const NUMBERS = new Set(["failed", "cost"]);
const DOWN_FIRST = new Set(["changed", "share", "seconds"]);
let runs = [];
let order = { by: "name", down: false };
const chosen = new Set(); // names of the runs on one axis
let overlaid = ""; // the address of the figure on the page

function prepareList() {
  const head = byId("runs").tHead.rows[0];
  const keys = byId("sort");
  for (const [key, label] of COLUMNS) {
    const th = make("th", undefined, { scope: "col" });
    if (NUMBERS.has(key)) th.className = "number";
    head.append(th);
    if (key === "chosen") {
      th.append(make("span", "Overlay", { class: "unseen" }));
      continue;
    }
    const button = th.appendChild(make("button", label, { type: "button" }));
    button.addEventListener("click", () => sortBy(key));
    keys.append(make("option", label, { value: key }));
  }
  byId("all").addEventListener("change", (event) => {
    for (const run of shownRuns()) event.target.checked ? chosen.add(run.name) : chosen.delete(run.name);
    drawList();
    refreshOverlay(visit);
  });
  keys.addEventListener("change", () => sortBy(keys.value, false));
  byId("turn").addEventListener("click", () => sortBy(order.by));
  byId("search").addEventListener("input", () => drawList());
  for (const id of ["filter-standing", "filter-tag"]) byId(id).addEventListener("change", () => drawList());
  byId("runs").tBodies[0].addEventListener("change", (event) => {
    const { value, checked } = event.target;
    if (checked) chosen.add(value);
    else chosen.delete(value);
    drawList();
    refreshOverlay(visit);
  });
  byId("overlay-clear").addEventListener("click", () => {
    chosen.clear();
    drawList();
    refreshOverlay(visit);
    byId("all").focus();
  });
}

function sortBy(key, turn = true) {
  order = { by: key, down: turn && order.by === key ? !order.down : DOWN_FIRST.has(key) };
  drawList();
}

BUILDERS.check = ({ value, checked }) => {
  const box = make("input", undefined, { type: "checkbox", value, "aria-label": `Overlay ${value}` });
  box.checked = checked;
  return [box];
};
BUILDERS.badge = ({ standing, text }) => [badge(standing, text)];
BUILDERS.progress = ({ share, text, label }) => [make("span", text), ...(share === null ? [] : [bar(share, label)])];
BUILDERS.error = ({ text, curve }) => [make("span", text), ...(curve.length > 1 ? [sparkline(curve)] : [])];

async function refreshList(now) {
  const { data } = await ask("/api/runs");
  if (now !== visit) return POLL;
  runs = data.runs;
  byId("where").textContent = data.folder;
  drawList();
  await refreshOverlay(now);
  return data.unread ? 20 : POLL;
}

function compareRuns(a, b) {
  const [x, y] = [a[order.by], b[order.by]];
  if (x === null || y === null) return (x === null) - (y === null) || a.name.localeCompare(b.name, undefined, { numeric: true }); // unknown values are last in both orders
  const sign = typeof x === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
  return (order.down ? -sign : sign) || a.name.localeCompare(b.name, undefined, { numeric: true });
}

function shownRuns() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [standing, tag] = [byId("filter-standing").value, byId("filter-tag").value];
  const text = (run) => [run.name, run.task, run.method, `seed ${run.seed}`, stateOf(run), ...run.tags, run.note].join(" ").toLowerCase();
  return runs.filter((run) => (
    words.every((word) => text(run).includes(word)) && (!standing || run.standing === standing) && (!tag || run.tags.includes(tag))
  )).sort(compareRuns);
}

function progressText(run) {
  if (run.steps === null) return "";
  const steps = run.goal_steps === null ? `${run.steps} steps` : `${run.steps} of ${number(run.goal_steps)} steps`;
  return run.seconds_left === null ? steps : `${steps}, ${duration(run.seconds_left)} left`;
}

function listCells(run) {
  const note = run.problem ?? run.note.split("\n")[0];
  const details = [
    { build: "check", value: run.name, checked: chosen.has(run.name), className: "check" },
    { text: run.name, href: place({ run: run.name }), tags: run.tags, note, noteClass: run.problem ? "problem" : "faint", className: "text" },
    { build: "badge", standing: run.standing, text: run.problem ? "Unreadable" : "Being read", note: run.standing === "failed" ? run.short_state : undefined, className: "words" },
    { build: "progress", share: run.share, text: progressText(run), label: `Progress of ${run.name}`, className: "grow" },
    { build: "error", text: number(run.error), curve: run.curve, className: "grow" },
    { text: number(run.cost, 6), note: run.budget === null ? undefined : `budget ${number(run.budget, 6)}`, className: "number" },
    { text: run.task ?? "" },
    { text: run.method ?? "", note: run.seed === null ? undefined : `seed ${run.seed}` },
    { text: run.failed === null ? "" : String(run.failed), className: run.failed ? "number some" : "number" },
    { text: duration(run.seconds) },
    { text: ago(run.changed) },
  ];
  return details.map((cell, i) => ({ ...cell, head: COLUMNS[i][1] }));
}

function drawList() {
  const found = shownRuns();
  fill(byId("runs").tBodies[0], found.map((run) => ({ key: run.name, cells: listCells(run) })));
  [...byId("runs").tHead.rows[0].cells].forEach((th, i) => {
    const [key, label] = COLUMNS[i];
    if (key === "chosen") return;
    const sorted = key === order.by;
    const mark = sorted ? (order.down ? " ▾" : " ▴") : "";
    if (th.textContent !== label + mark) th.firstChild.textContent = label + mark;
    if (sorted) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
  byId("sort").value = order.by;
  byId("turn").textContent = order.down ? "descending" : "ascending";
  byId("all").checked = found.length > 0 && found.every((run) => chosen.has(run.name));
  byId("count").textContent = found.length === runs.length ? `${runs.length} in all` : `${found.length} of ${runs.length}`;
  byId("empty").hidden = runs.length > 0;
  options("filter-standing", [...new Set(runs.map((run) => run.standing).filter(Boolean))].sort(), (one) => STANDINGS[one]);
  options("filter-tag", [...new Set(runs.flatMap((run) => run.tags))].sort(), (one) => one);
  byId("filter-tag").closest("label").hidden = !runs.some((run) => run.tags.length);
}

/** The choices of a filter, if they have changed; the one that was chosen stays. */
function options(id, values, text) {
  const select = byId(id);
  if (select.dataset.values === JSON.stringify(values)) return;
  select.dataset.values = JSON.stringify(values);
  const before = select.value;
  select.replaceChildren(make("option", "any", { value: "" }), ...values.map((one) => make("option", text(one), { value: one })));
  select.value = values.includes(before) ? before : "";
}

function stateOf(run) {
  return run.state ?? (run.problem ? "cannot be read" : "being read");
}

/** Errors of the chosen runs against their costs, on one axis. */
async function refreshOverlay(now) {
  const names = runs.map((run) => run.name).filter((name) => chosen.has(name)).slice(0, 20);
  byId("overlay").hidden = names.length === 0;
  if (!names.length) {
    overlaid = "";
    return;
  }
  const address = `/api/overlay?${new URLSearchParams(names.map((name) => ["run", name]))}`;
  const { data, fresh } = await ask(address);
  if (now !== visit || (!fresh && overlaid === address)) return;
  overlaid = address;
  const text = data.figure
    ? `Mean relative L2 error on each run's test examples against what it has cost, test examples and failures included.`
    : "None of these runs has been measured.";
  await drawCards(byId("overlay-card"), [{ id: "overlay", heading: "Error against cost", text, figure: data.figure }], now);
}
