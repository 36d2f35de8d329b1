// The page: the list of runs, or one run, polled every two seconds and updated in place.
// Text from runs is only ever set as textContent, never as markup.
"use strict";

const POLL = 2000;
const byId = (id) => document.getElementById(id);

// Requests.

const known = new Map(); // address -> { tag, data }

/** Response for an address, and whether it is new; unchanged ones are revalidated by their ETag. */
async function ask(address) {
  const before = known.get(address);
  const headers = before ? { "If-None-Match": before.tag } : {};
  const answer = await fetch(address, { headers, cache: "no-store" });
  if (answer.status === 304) return { data: before.data, fresh: false };
  const data = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(data.problem || answer.statusText), { status: answer.status });
  known.delete(address);
  known.set(address, { tag: answer.headers.get("ETag"), data });
  if (known.size > 40) known.delete(known.keys().next().value);
  return { data, fresh: true };
}

const api = (what, values) => `/api/${what}?${new URLSearchParams(values)}`;

// The address: /?run=NAME&query=ID&channel=N

let route = {};
let visit = 0; // responses to requests of an earlier visit are ignored

function place(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return query ? `/?${query}` : "/";
}

function go(address, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  arrive();
}

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
  for (const id of ["figures", "panels", "keys", "running"]) byId(id).replaceChildren();
  byId("queries").tBodies[0].replaceChildren();
  byId("figures-wait").hidden = false;
  byId("example").hidden = byId("problem").hidden = true;
  byId("title").textContent = route.run ?? "";
  byId("lead").textContent = "";
  document.title = `${route.run ?? "Runs"} · mrafno`;
  shownExample = drawnFigures = null;
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

function showStatus(text) {
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

// Text.

function number(value, digits = 4) {
  if (value === null || value === undefined) return "";
  return String(Number(value.toPrecision(digits)));
}

/** What a run has spent, by purpose. */
function spentText(spent) {
  return ["initial", "chosen", "test", "failed"]
    .filter((part) => spent[part])
    .map((part) => `${number(spent[part])} ${part}`)
    .join(", ");
}

function ago(seconds) {
  if (!seconds) return "";
  const past = Math.max(0, Date.now() / 1000 - seconds);
  if (past < 90) return `${Math.round(past)} s ago`;
  if (past < 5400) return `${Math.round(past / 60)} min ago`;
  if (past < 129600) return `${Math.round(past / 3600)} h ago`;
  return iso(seconds).slice(0, 10);
}

const iso = (seconds) => new Date(seconds * 1000).toISOString();
const when = (seconds) => `${iso(seconds).slice(0, 19).replace("T", " ")} UTC`;

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Rows { key, cells: [{ text, href, note, className }] } into a table's body; unchanged cells are not touched. */
function fill(body, rows) {
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const focused = document.activeElement;
  rows.forEach(({ key, cells }, index) => {
    const row = old.get(key) ?? make("tr", undefined, { "data-key": key });
    old.delete(key);
    cells.forEach((cell, column) => {
      const content = JSON.stringify(cell);
      const td = row.cells[column] ?? row.appendChild(make("td"));
      if (td.content === content) return;
      td.content = content;
      td.className = cell.className ?? "";
      const link = td.querySelector("a");
      if (link && cell.href === link.getAttribute("href") && !cell.note) {
        link.textContent = cell.text;
        td.replaceChildren(link);
        return;
      }
      td.replaceChildren(cell.href ? make("a", cell.text, { href: cell.href }) : make("span", cell.text));
      if (cell.note) td.append(make("small", cell.note, { class: "problem" }));
    });
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  for (const row of old.values()) row.remove();
  if (focused !== document.activeElement && body.contains(focused)) focused.focus();
}

// The list.

const COLUMNS = [
  ["name", "Run"], ["error", "Error"], ["steps", "Steps"], ["state", "State"], ["cost", "Cost"], ["task", "Task"],
  ["method", "Method"], ["seed", "Seed"], ["changed", "Last change"],
];
const NUMBERS = new Set(["steps", "error", "cost", "seed"]);
let runs = [];
let order = { by: "name", down: false };

function prepareList() {
  const head = byId("runs").tHead.rows[0];
  for (const [key, label] of COLUMNS) {
    const th = make("th", undefined, { scope: "col" });
    if (NUMBERS.has(key)) th.className = "number";
    const button = th.appendChild(make("button", label, { type: "button" }));
    button.addEventListener("click", () => {
      order = { by: key, down: order.by === key ? !order.down : key === "changed" };
      drawList();
    });
    head.append(th);
  }
  byId("search").addEventListener("input", drawList);
}

async function refreshList(now) {
  const { data } = await ask("/api/runs");
  if (now !== visit) return POLL;
  runs = data.runs;
  byId("where").textContent = data.folder;
  drawList(data.unread);
  return data.unread ? 100 : POLL;
}

function compare(a, b) {
  const [x, y] = [a[order.by], b[order.by]];
  if (x === null || y === null) return (x === null) - (y === null); // unknown values are last in both orders
  const sign = typeof x === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
  return (order.down ? -sign : sign) || a.name.localeCompare(b.name, undefined, { numeric: true });
}

function drawList() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (run) => [run.name, run.task, run.method, `seed ${run.seed}`, stateOf(run)].join(" ").toLowerCase();
  const found = runs.filter((run) => words.every((word) => text(run).includes(word))).sort(compare);
  fill(byId("runs").tBodies[0], found.map((run) => ({
    key: run.name,
    cells: COLUMNS.map(([key]) => {
      if (key === "name") {
        return { text: run.name, href: place({ run: run.name }), note: run.problem, className: "text" };
      }
      if (key === "state") return { text: run.short_state ?? stateOf(run), className: "words" };
      if (key === "changed") return { text: ago(run.changed) };
      const value = run[key];
      return NUMBERS.has(key) ? { text: number(value, key === "error" ? 4 : 6), className: "number" } : { text: value ?? "" };
    }),
  })));
  [...byId("runs").tHead.rows[0].cells].forEach((th, i) => {
    const sorted = COLUMNS[i][0] === order.by;
    const mark = sorted ? (order.down ? " ▾" : " ▴") : "";
    if (th.textContent !== COLUMNS[i][1] + mark) th.firstChild.textContent = COLUMNS[i][1] + mark;
    if (sorted) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
  byId("count").textContent = found.length === runs.length ? `${runs.length} in all` : `${found.length} of ${runs.length}`;
  byId("empty").hidden = runs.length > 0;
}

function stateOf(run) {
  return run.state ?? (run.problem ? "cannot be read" : "being read");
}

// A run.

let page = 0;
let drawnFigures = null; // the data of the figures on the page
let shownExample = null; // and of the example

async function refreshRun(now) {
  const run = route.run;
  const { data } = await ask(api("run", { run }));
  if (now !== visit) return POLL;
  if (data.state === null) throw Object.assign(new Error(data.problem), { status: 503 });
  show("run");
  drawRun(data);
  await refreshQueries(now);
  if (route.query !== undefined) await refreshExample(now);
  else byId("example").hidden = true;
  await refreshFigures(now);
  return POLL;
}

function drawRun(run) {
  byId("where").textContent = "";
  byId("lead").textContent =
    `Task ${run.task}, method ${run.method}, seed ${run.seed}. Created ${when(run.created)}, last change ${ago(run.changed)}.`;
  const measured = run.measured === null ? "not measured yet" : `relative L2, after step ${run.measured}`;
  const long = run.state.length > 40; // the error message with which it stopped
  const problem = [run.problem, long ? run.state : null].filter(Boolean).join(" ");
  byId("problem").textContent = problem;
  byId("problem").hidden = !problem;
  const keys = [
    ["State", long ? "stopped" : run.state, run.failed ? `${run.failed} without output` : ""],
    ["Step", String(run.steps), `${run.fits} fits`],
    ["Cost", number(run.cost, 6), spentText(run.spent)],
    ["Error", run.error === null ? "none" : number(run.error), measured],
    ["Own estimate", run.estimate === null ? "none" : number(run.estimate), "of its error, out-of-fold"],
    ...run.levels.map((level) => [
      `Queries on ${level.mesh}`, String(level.chosen), `and ${level.initial} initial; cost ${number(level.cost)} each`,
    ]),
  ];
  const list = byId("keys");
  keys.forEach(([name, value, note], i) => {
    const box = list.children[i] ?? list.appendChild(make("div"));
    const content = JSON.stringify([name, value, note]);
    if (box.dataset.content === content) return;
    box.dataset.content = content;
    const text = make("dd", value, { class: value.length > 12 ? "words" : "" });
    if (note) text.append(make("small", note));
    box.replaceChildren(make("dt", name), text);
  });
  while (list.children.length > keys.length) list.lastChild.remove();
  byId("running-title").textContent = run.driven || !run.running.length ? "Running now" : "Asked, not answered";
  drawRunning(run.running);
  const pool = run.pool === run.settings.pool ? {} : { pool: `${run.pool}, all that the task has left (of ${run.settings.pool} at most)` };
  fill(byId("settings").tBodies[0], Object.entries({ ...run.settings, ...pool }).map(([name, value]) => (
    { key: name, cells: [{ text: name }, { text: value === null ? "none" : String(value), className: "text" }] }
  )));
}

const KINDS = { pool: "training: chosen", initial: "training: initial", test: "test" };

function drawRunning(queries) {
  byId("idle").hidden = queries.length > 0;
  const items = queries.slice(0, 50).map((query) => {
    const item = make("li");
    item.append(make("a", query.id, { href: place({ run: route.run, query: query.id }) }));
    const step = query.step === null ? "" : `, step ${query.step}`;
    item.append(` on ${query.mesh} (${KINDS[query.kind]}${step}), asked ${ago(query.asked)}`);
    return item;
  });
  if (queries.length > 50) items.push(make("li", `and ${queries.length - 50} more`));
  const list = byId("running");
  const texts = (elements) => [...elements].map((one) => one.textContent).join("\n");
  const held = list.contains(document.activeElement) ? document.activeElement.textContent : null;
  if (texts(list.children) !== texts(items)) list.replaceChildren(...items);
  if (held !== null) [...list.querySelectorAll("a")].find((link) => link.textContent === held)?.focus();
}

async function refreshQueries(now) {
  const chosen = { run: route.run, kind: byId("kind").value, status: byId("state").value, page };
  const { data } = await ask(api("queries", chosen));
  if (now !== visit) return;
  page = data.page;
  fill(byId("queries").tBodies[0], data.rows.map((query) => ({
    key: query.id,
    cells: [
      { text: query.id, href: place({ run: route.run, query: query.id }) },
      { text: KINDS[query.kind] },
      { text: query.step === null ? "" : String(query.step), className: "number" },
      { text: query.mesh },
      { text: query.status },
      { text: number(query.cost), className: "number" },
      { text: number(query.seconds, 3), className: "number" },
      { text: number(query.prequential_error), className: "number" },
      { text: query.reason ?? "", className: "text" },
    ],
  })));
  byId("pages").textContent = `${data.total} queries, page ${page + 1} of ${data.pages}`;
  byId("newer").setAttribute("aria-disabled", page === 0);
  byId("older").setAttribute("aria-disabled", page + 1 >= data.pages);
}

function prepareRun() {
  const turn = (by) => (event) => {
    if (event.currentTarget.getAttribute("aria-disabled") === "true") return;
    page += by;
    refresh(visit);
  };
  byId("newer").addEventListener("click", turn(-1));
  byId("older").addEventListener("click", turn(1));
  for (const id of ["kind", "state"]) {
    byId(id).addEventListener("change", () => {
      page = 0;
      refresh(visit);
    });
  }
}

// An example.

async function refreshExample(now) {
  const values = { run: route.run, query: route.query };
  for (const key of ["channel", "at"]) if (route[key] !== undefined) values[key] = route[key];
  const address = api("example", values);
  let answer;
  try {
    answer = await ask(address);
  } catch (error) {
    if (now !== visit || error.status === undefined) throw error;
    answer = { data: { id: route.query, status: "", text: error.message, panels: [], channels: 1 }, fresh: true };
  }
  if (now !== visit || (!answer.fresh && shownExample === address)) return;
  const example = answer.data;
  const moved = shownExample !== address;
  shownExample = address;
  const step = example.step ? `, step ${example.step}` : "";
  byId("example").hidden = false;
  byId("example-title").textContent = `Example ${example.id}`;
  const about = example.kind ? `${KINDS[example.kind]}${step}, on ${example.mesh}: ${example.status}. ` : "";
  byId("example-text").textContent = about + (example.reason ? `${example.reason} ` : "") + example.text;
  for (const [id, query] of [["before", example.before], ["after", example.after]]) {
    byId(id).hidden = !query;
    if (query) byId(id).setAttribute("href", place({ ...route, query }));
  }
  byId("close").setAttribute("href", place({ run: route.run }));
  drawParameters(example.parameters ?? []);
  drawFrames(example);
  const focused = document.activeElement;
  await drawCards(byId("panels"), example.panels.map((panel) => ({ ...panel, id: panel.heading })), now);
  if (moved && now === visit && document.activeElement === focused && ![byId("before"), byId("after"), ...byId("frames").querySelectorAll("input")].includes(focused)) {
    byId("example-title").focus();
    byId("example").scrollIntoView();
  }
}

function drawParameters(parameters) {
  byId("parameters").hidden = !parameters.length;
  fill(byId("parameters").querySelector("tbody"), parameters.map(({ name, value }) => (
    { key: name, cells: [{ text: name }, { text: number(value, 5), className: "number" }] }
  )));
}

/** Sliders through channels and through the points of the axes that a picture does not have. */
function drawFrames({ channel, channels, slices = [], frame = "" }) {
  const box = byId("frames");
  const wanted = [...(channels > 1 ? [["Channel", channels, channel]] : []), ...slices.map((one) => [one.name, one.points, one.place])];
  if (box.children.length !== wanted.length + (wanted.length ? 1 : 0)) {
    box.replaceChildren(...wanted.map(([name], i) => {
      const label = make("label", `${name} `);
      const slider = label.appendChild(make("input", undefined, { type: "range", min: 0 }));
      slider.addEventListener("input", () => {
        const values = [...box.querySelectorAll("input")].map((one) => one.value);
        const first = channels > 1 ? { channel: values.shift() } : {};
        go(place({ ...route, ...first, ...(values.length ? { at: values.join(",") } : {}) }), true);
      });
      return label;
    }), ...(wanted.length ? [make("output")] : []));
  }
  wanted.forEach(([name, count, value], i) => {
    const slider = box.children[i].querySelector("input");
    slider.max = count - 1;
    if (document.activeElement !== slider) slider.value = value;
    slider.setAttribute("aria-valuetext", frame);
  });
  if (wanted.length) box.querySelector("output").textContent = frame;
}

// Figures.

async function refreshFigures(now) {
  const address = api("figures", { run: route.run });
  const { data, fresh } = await ask(address);
  if (now !== visit || (!fresh && drawnFigures === address)) return;
  await drawCards(byId("figures"), data, now);
  if (now !== visit) return;
  drawnFigures = address;
  byId("figures-wait").hidden = true;
}

let plotly = null;

/** Loads plotly.js when the first figure is drawn. */
function loadPlotly() {
  plotly ??= new Promise((done, failed) => {
    const script = make("script", undefined, { src: "/static/plotly.js" });
    script.addEventListener("load", done);
    script.addEventListener("error", () => {
      plotly = null;
      failed(new Error("plotly.js did not come"));
    });
    document.head.append(script);
  });
  return plotly;
}

/** Cards with a heading, a text and a figure, each updated in place. */
async function drawCards(box, cards, now) {
  await loadPlotly();
  if (now !== visit) return;
  const old = new Map([...box.children].map((card) => [card.dataset.key, card]));
  for (const [index, { id, heading, text, figure }] of cards.entries()) {
    let card = old.get(id);
    old.delete(id);
    if (!card) {
      card = make("div", undefined, { class: "card", "data-key": id });
      card.append(make("h3", heading), make("p"), make("div", undefined, { class: "plot", role: "img" }));
    }
    if (box.children[index] !== card) box.insertBefore(card, box.children[index] ?? null);
    const [, paragraph, plot] = card.children;
    if (paragraph.textContent !== (text ?? "")) paragraph.textContent = text ?? "";
    paragraph.hidden = !text;
    plot.setAttribute("aria-label", heading);
    plot.hidden = !figure;
    if (figure) drawFigure(plot, figure);
  }
  for (const card of old.values()) {
    Plotly.purge(card.querySelector(".plot"));
    card.remove();
  }
}

// Start.

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
arrive();
