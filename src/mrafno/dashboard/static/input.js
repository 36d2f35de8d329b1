// One input: of a query, with its own mesh, or of a candidate on the map, with every mesh.
"use strict";

let shownExample = null; // the address of the example on the page

async function refreshExample(now) {
  const values = { run: route.run, ...(route.query === undefined ? { input: route.input } : { query: route.query }) };
  for (const key of ["channel", "at"]) if (route[key] !== undefined) values[key] = route[key];
  const address = api("example", values);
  let answer;
  try {
    answer = await ask(address);
  } catch (error) {
    if (now !== visit || error.status === undefined) throw error;
    answer = { data: { id: route.query ?? `candidate ${route.input}`, status: "", text: error.message, panels: [], channels: 1 }, fresh: true };
  }
  if (now !== visit || (!answer.fresh && shownExample === address)) return;
  const example = answer.data;
  const moved = shownExample !== address;
  shownExample = address;
  const candidate = example.kind === "candidate";
  const step = example.step ? `, step ${example.step}` : "";
  byId("example").hidden = false;
  byId("example-title").textContent = candidate ? `Input: ${example.id}` : `Example ${example.id}`;
  const about = example.kind && !candidate ? `${KINDS[example.kind]}${step}, on ${example.mesh}: ${example.status}. ` : "";
  byId("example-text").textContent = about + (example.reason ? `${example.reason} ` : "") + example.text;
  drawLinks(example);
  for (const [id, other] of [["before", example.before], ["after", example.after]]) {
    byId(id).hidden = other === null || other === undefined;
    if (!byId(id).hidden) byId(id).setAttribute("href", place({ ...route, ...(candidate ? { input: other } : { query: other }) }));
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

/** Links from a candidate to its simulations, and from a simulation to its candidate. */
function drawLinks(example) {
  const links = (example.queries ?? []).map((query) => {
    const item = make("li");
    item.append(make("a", query.id, { href: place({ run: route.run, query: query.id }) }), ` step ${query.step}, on ${query.mesh}: ${query.status}`);
    return item;
  });
  if (example.kind !== "candidate" && typeof example.input === "number") {
    const item = make("li");
    item.append(make("a", `candidate ${example.input} on every mesh`, { href: place({ run: route.run, input: example.input }) }));
    links.push(item);
  }
  byId("example-links").replaceChildren(...links);
  byId("example-links").hidden = !links.length;
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

// The map of the inputs.

let mapAsked = null; // the request that is under way
let drawnMap = null; // the address of the map on the page

/** The map takes seconds to make, so the page does not wait for it. */
async function refreshMap(now) {
  const address = api("map", { run: route.run });
  if (mapAsked === address) return;
  mapAsked = address;
  try {
    const { data, fresh } = await ask(address);
    if (now !== visit && address !== api("map", { run: route.run })) return;
    if (!fresh && drawnMap === address) return;
    byId("map-part").hidden = !data.card;
    await drawCards(byId("map"), data.card ? [data.card] : [], visit);
    drawnMap = address;
  } catch {
    // The next refresh asks again.
  } finally {
    mapAsked = null;
  }
}

function prepareMap() {
  byId("map").addEventListener("point", ({ detail }) => {
    go(place(typeof detail === "number" ? { run: route.run, input: detail } : { run: route.run, query: detail }));
  });
}
