// What all parts of the page share: requests, addresses, texts, tables and cards of figures.
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
  if (known.size > 60) known.delete(known.keys().next().value);
  return { data, fresh: true };
}

const api = (what, values) => `/api/${what}?${new URLSearchParams(values)}`;

// Control: the token is in the part of the printed address that is not sent, and is kept for this tab.

const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname + location.search);
}
const token = () => sessionStorage.getItem("token");

/** Sends a request that changes something; the problem in words, empty if there was none. */
async function act(what, values) {
  const headers = { "Content-Type": "application/json", "X-Mrafno-Token": token() ?? "" };
  try {
    const answer = await fetch(`/api/${what}`, { method: "POST", headers, body: JSON.stringify(values) });
    const data = await answer.json();
    return answer.ok ? "" : data.problem ?? answer.statusText;
  } catch {
    return "No response from the server.";
  }
}

function showStatus(text) {
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

// Addresses: /?run=NAME&query=ID&input=ROW&channel=N&at=N,N

let route = {};
let visit = 0; // responses to requests of an earlier visit are ignored

function place(values) {
  const found = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(found).toString();
  return query ? `/?${query}` : "/";
}

function go(address, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  arrive();
}

// Text.

function number(value, digits = 4) {
  if (value === null || value === undefined) return "";
  return String(Number(value.toPrecision(digits)));
}

/** 0.012 s, 8.5 s, 3 min 20 s, 2 h 5 min, 4 d 3 h: as in the terminal. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.round(seconds);
  for (const [unit, size, next, nextSize] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]]) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / nextSize);
    return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${next}` : ""}`;
  }
  return `${seconds < 9.95 ? number(seconds, 2) : whole} s`;
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
const KINDS = { pool: "training: chosen", initial: "training: initial", test: "test" };

// Elements.

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const STANDINGS = {
  running: "Running", paused: "Paused", waiting: "Waiting", finished: "Finished", stopped: "Stopped",
  interrupted: "Interrupted", failed: "Failed",
};

/** Status in a word and a colour. */
function badge(standing, otherwise = "Being read") {
  return make("span", STANDINGS[standing] ?? otherwise, { class: `badge ${standing ?? (otherwise === "Being read" ? "unread" : "unknown")}` });
}

/** A bar for a share from 0 to 1. */
function bar(share, label) {
  const box = make("div", undefined, { class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 });
  box.setAttribute("aria-valuenow", Math.round(100 * share));
  const inner = box.appendChild(make("div"));
  inner.style.width = `${100 * share}%`;
  return box;
}

/** A small picture of pairs of cost and error, with a logarithmic error. */
function sparkline(curve) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const [first, last] = [curve[0], curve[curve.length - 1]];
  svg.setAttribute("viewBox", "0 0 100 28");
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `error from ${number(first[1], 3)} to ${number(last[1], 3)}`);
  const heights = curve.map(([, error]) => Math.log(Math.max(error, 1e-12)));
  const [low, high] = [Math.min(...heights), Math.max(...heights)];
  const x = (cost) => 3 + (94 * (cost - first[0])) / (last[0] - first[0] || 1);
  const y = (height) => 25 - (22 * (height - low)) / (high - low || 1);
  const line = document.createElementNS(space, "polyline");
  line.setAttribute("points", curve.map(([cost], i) => `${x(cost).toFixed(1)},${y(heights[i]).toFixed(1)}`).join(" "));
  const dot = document.createElementNS(space, "circle");
  for (const [name, value] of [["cx", x(last[0])], ["cy", y(heights[heights.length - 1])], ["r", 2.5]]) dot.setAttribute(name, value);
  svg.append(line, dot);
  return svg;
}

/** Rows { key, cells: [{ text, href, note, className, head, show }] } into a table's body; unchanged cells stay. */
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
      if (cell.head) td.dataset.head = cell.head;
      const link = td.querySelector("a");
      if (link && cell.href === link.getAttribute("href")) {
        link.textContent = cell.text;
        td.replaceChildren(link);
      } else if (cell.build) {
        td.replaceChildren(...BUILDERS[cell.build](cell));
      } else {
        td.replaceChildren(cell.href ? make("a", cell.text, { href: cell.href }) : make("span", cell.text));
      }
      for (const tag of cell.tags ?? []) td.append(" ", make("span", tag, { class: "tag" }));
      if (cell.note) td.append(make("small", cell.note, { class: cell.noteClass ?? "faint" }));
    });
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  for (const row of old.values()) row.remove();
  if (focused !== document.activeElement && body.contains(focused)) focused.focus();
}

/** Cells that are more than a text, by name. */
const BUILDERS = {};

// Figures.

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

/** Cards with a heading, a text, a figure and its downloads, each updated in place. */
async function drawCards(box, cards, now) {
  await loadPlotly();
  if (now !== visit) return;
  const old = new Map([...box.children].map((card) => [card.dataset.key, card]));
  for (const [index, { id, heading, text, figure }] of cards.entries()) {
    let card = old.get(id);
    old.delete(id);
    if (!card) {
      card = make("section", undefined, { class: "card", "data-key": id, "aria-label": heading });
      const plot = make("div", undefined, { class: "plot", role: "img", "aria-label": heading });
      card.append(make("h3", heading), make("p", undefined, { class: "text" }), plot, figureButtons(plot, heading));
    }
    if (box.children[index] !== card) box.insertBefore(card, box.children[index] ?? null);
    const [paragraph, plot, buttons] = [".text", ".plot", ".downloads"].map((one) => card.querySelector(one));
    if (paragraph.textContent !== (text ?? "")) paragraph.textContent = text ?? "";
    paragraph.hidden = !text;
    plot.hidden = buttons.hidden = !figure;
    if (figure) drawFigure(plot, figure);
  }
  for (const card of old.values()) {
    Plotly.purge(card.querySelector(".plot"));
    card.remove();
  }
}
