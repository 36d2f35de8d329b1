// A run: how far it is, what it is doing, its figures, its queries and its settings.
"use strict";

let page = 0;
let drawnFigures = null; // the address of the figures on the page

async function refreshRun(now) {
  const run = route.run;
  const { data } = await ask(api("run", { run }));
  if (now !== visit) return POLL;
  if (data.state === null) throw Object.assign(new Error(data.problem), { status: 503 });
  show("run");
  drawRun(data);
  await refreshQueries(now);
  if (route.query !== undefined || route.input !== undefined) await refreshExample(now);
  else byId("example").hidden = true;
  refreshMap(now);
  await refreshFigures(now);
  return POLL;
}

function drawRun(run) {
  byId("where").textContent = "";
  byId("lead").textContent =
    `Task ${run.task}, method ${run.method}, seed ${run.seed}. Created ${when(run.created)}, last event ${ago(run.changed)}.`;
  const [before, after] = [byId("standing").firstChild, badge(run.standing)];
  if (before?.className !== after.className) byId("standing").replaceChildren(after);
  const long = run.state.length > 40; // the error message with which it stopped
  const problem = [run.problem, long ? run.state : null, ...run.warnings].filter(Boolean).join("\n");
  byId("problem").textContent = problem;
  byId("problem").hidden = !problem;
  drawProgress(run, long);
  drawControl(run);
  drawNotes(run);
  drawKeys(run);
  byId("running-title").textContent = run.driven || !run.running.length ? "Running now" : "Asked, not answered";
  drawRunning(run.running);
  const pool = run.pool === run.settings.pool ? {} : { pool: `${run.pool}, all that the task has left (of ${run.settings.pool} at most)` };
  fill(byId("settings").tBodies[0], Object.entries({ ...run.settings, ...pool }).map(([name, value]) => (
    { key: name, cells: [{ text: name }, { text: value === null ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value), className: "text" }] }
  )));
}

function drawProgress(run, long) {
  const said = [progressText({ ...run, seconds_left: null })];
  if (run.budget !== null) said.push(`${number(run.cost_left, 6)} left of the budget of ${number(run.budget, 6)}`);
  if (run.target !== null) said.push(`target ${number(run.target)} by its own estimate`);
  if (run.seconds_left !== null) said.push(`about ${duration(run.seconds_left)} left`);
  else if (run.standing !== "running" && !long) said.push(run.state);
  byId("progress-text").textContent = said.join(" · ");
  const box = byId("progress-bar");
  if (run.share === null) box.replaceChildren();
  else if (!box.firstChild) box.append(bar(run.share, "Progress of the run"));
  if (run.share !== null) {
    box.firstChild.setAttribute("aria-valuenow", Math.round(100 * run.share));
    box.firstChild.firstChild.style.width = `${100 * run.share}%`;
  }
  const doing = run.now;
  byId("now").hidden = !doing;
  if (!doing) return;
  const share = doing.done === null ? "" : ` ${Math.round(100 * doing.done)} %`;
  const left = doing.seconds_left === null ? "" : `, about ${duration(doing.seconds_left)} left`;
  const note = doing.note ? ` (${doing.note})` : "";
  byId("now-text").textContent = `${doing.phase}${share}${note}, for ${duration(Math.max(0, Date.now() / 1000 - doing.since))}${left}`;
}

function drawControl(run) {
  const may = run.control && token() !== null;
  byId("control").hidden = !(may && run.driven);
  byId("pause").hidden = run.standing === "paused";
  byId("resume").hidden = run.standing !== "paused";
  byId("edit").hidden = !may;
}

function drawNotes(run) {
  byId("tags").replaceChildren(...run.tags.flatMap((tag) => [make("span", tag, { class: "tag" }), " "]));
  byId("note").textContent = run.note;
  byId("note").hidden = !run.note;
  byId("noted").hidden = !run.note && !run.tags.length && byId("edit").hidden;
  if (byId("note-form").hidden) {
    byId("note-text").value = run.note;
    byId("note-tags").value = run.tags.join(", ");
  }
}

/** A sentence up to its first comma, and the rest. */
function headed(text) {
  const end = text.indexOf(", ");
  return end < 0 ? [text, ""] : [text.slice(0, end), text.slice(end + 2)];
}

function drawKeys(run) {
  const measured = run.measured === null ? "not measured yet" : `relative L2 on ${run.tests} test examples, after step ${run.measured}`;
  const parts = ["initial", "chosen", "test", "failed", "imported"].filter((part) => run.spent[part]);
  const keys = [
    ["Step", String(run.steps), `${run.fits} fits`],
    ["Cost", number(run.cost, 6), parts.map((part) => `${number(run.spent[part])} ${part}`).join(", ")],
    ["Error", run.error === null ? "none" : number(run.error), measured],
    ["Own estimate", run.estimate === null ? "none" : number(run.estimate), run.interval === null ? "of its error, out-of-fold" : `of its error; ${number(run.interval[0], 3)} to ${number(run.interval[1], 3)} with 90 %`],
    ...(run.forecast ? [["Forecast of cost", ...headed(run.forecast)]] : []),
    ["Without output", String(run.failed), "failed, expired or abandoned"],
    ["Time", duration(run.seconds), "simulating, training, choosing, measuring"],
    ...run.levels.map((level) => [
      `On ${level.mesh}`, String(level.chosen), `chosen, and ${level.initial} initial; cost ${number(level.cost)} each`,
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
}

function drawRunning(queries) {
  byId("running-part").hidden = queries.length === 0;
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

const QUERY_HEADS = ["Query", "For", "Step", "Mesh", "Status", "Cost", "Seconds", "Error before training", "Reason"];

async function refreshQueries(now) {
  const wanted = { run: route.run, kind: byId("kind").value, status: byId("state").value, order: byId("order").value, page };
  const { data } = await ask(api("queries", wanted));
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
    ].map((cell, i) => ({ ...cell, head: QUERY_HEADS[i] })),
  })));
  byId("pages").textContent = `${data.total} queries, page ${page + 1} of ${data.pages}`;
  byId("newer").setAttribute("aria-disabled", page === 0);
  byId("older").setAttribute("aria-disabled", page + 1 >= data.pages);
}

async function refreshFigures(now) {
  const address = api("figures", { run: route.run });
  const { data, fresh } = await ask(address);
  if (now !== visit || (!fresh && drawnFigures === address)) return;
  await drawCards(byId("figures"), data, now);
  if (now !== visit) return;
  drawnFigures = address;
  byId("figures-wait").hidden = true;
}

const SAID = {
  pause: "It pauses at the next safe point: after a simulation, or during a fit.", resume: "It goes on.",
  stop: "It stops at the next safe point. Everything is kept; mrafno resume continues it.",
};

function prepareRun() {
  for (const head of QUERY_HEADS) {
    byId("queries").tHead.rows[0].append(make("th", head, { scope: "col", class: ["Step", "Cost", "Seconds", "Error before training"].includes(head) ? "number" : "" }));
  }
  const turn = (by) => (event) => {
    if (event.currentTarget.getAttribute("aria-disabled") === "true") return;
    page += by;
    refresh(visit);
  };
  byId("newer").addEventListener("click", turn(-1));
  byId("older").addEventListener("click", turn(1));
  for (const id of ["kind", "state", "order"]) {
    byId(id).addEventListener("change", () => {
      page = 0;
      refresh(visit);
    });
  }
  for (const request of ["pause", "resume", "stop"]) {
    byId(request).addEventListener("click", async () => {
      byId("control-text").textContent = await act("control", { run: route.run, request }) || SAID[request];
      refresh(visit);
    });
  }
  byId("edit").addEventListener("click", () => {
    byId("note-form").hidden = false;
    byId("note-tags").focus();
  });
  const close = () => {
    byId("note-form").hidden = true;
    byId("edit").focus();
    refresh(visit);
  };
  byId("note-cancel").addEventListener("click", close);
  byId("note-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const tags = byId("note-tags").value.split(",");
    const problem = await act("notes", { run: route.run, note: byId("note-text").value, tags });
    byId("note-problem").textContent = problem;
    if (!problem) close();
  });
}
