// Figures of a page: drawn in its colours, light or dark, at its width, and downloaded as PNG, SVG or CSV.
// Plotly must be loaded before drawFigure is called.
"use strict";

const darkMode = matchMedia("(prefers-color-scheme: dark)");
const HIGHEST_MAP = 460;
const touchScreen = matchMedia("(pointer: coarse)");

/** Draws a figure, or draws it again after a change. */
function drawFigure(plot, figure) {
  plot.figure = figure;
  makeMenus(plot, figure);
  const [ink, rule, ground] = darkMode.matches ? ["#e8e8e8", "#3a3f46", "#16181b"] : ["#222222", "#dfe3ea", "#ffffff"];
  const text = JSON.stringify(figure).replaceAll('"#222222"', JSON.stringify(ink));
  const { data, layout } = JSON.parse(darkMode.matches ? text.replaceAll('"#0072B2"', '"#4aa8e0"') : text);
  // Names come from runs, and plotly interprets markup.
  for (const trace of data) if (trace.name) trace.name = trace.name.replaceAll("<", "&lt;");
  applyMenus(plot, data, layout);
  const width = plot.clientWidth;
  if (layout.meta?.ratio && width) { // a map that is not hidden: as high as its width asks for
    const { l, r, b } = layout.margin;
    layout.height = Math.round(Math.min(Math.max((width - l - r) * layout.meta.ratio, 60), HIGHEST_MAP) + 12 + b);
    plot.style.minHeight = `${layout.height}px`;
  }
  for (const [name, axis] of Object.entries(layout)) {
    // The part of an axis title in brackets goes to a second line where it would be cut off.
    const title = name.startsWith("xaxis") && axis.title?.text;
    if (title && width < 480) axis.title.text = title.replace(/ \(/, "<br>(");
  }
  const axis = { gridcolor: rule, linecolor: rule, zerolinecolor: rule, automargin: true, ticks: "" };
  const template = { layout: { xaxis: axis, yaxis: { ...axis, title: { standoff: 8 } }, colorway: ["#0072B2"] } };
  const look = {
    template, paper_bgcolor: ground, plot_bgcolor: ground, font: { ...layout.font, color: ink },
    dragmode: touchScreen.matches ? false : layout.dragmode ?? "zoom", // a finger scrolls the page
    hoverlabel: { bgcolor: ground, font: { color: ink } },
    margin: { ...layout.margin, t: layout.annotations ? 40 : 12 },
    legend: layout.legend ?? { orientation: "h", yref: "container", y: 0.01, yanchor: "bottom" },
  };
  // The zoom of a person is kept, unless another choice has other axes.
  look.uirevision = plot.menus ? [...plot.menus.querySelectorAll("select")].map((one) => one.value).join() : "kept";
  Plotly.react(plot, data, { ...layout, ...look }, { displayModeBar: false, responsive: true });
  if (plot.clickable) return;
  plot.clickable = true;
  // What a point leads to is its customdata; the page listens for "point".
  plot.on("plotly_click", ({ points: [point] }) => {
    if (point?.customdata !== undefined) plot.dispatchEvent(new CustomEvent("point", { detail: point.customdata, bubbles: true }));
  });
}

/** Makes the traces of one frame visible, in every figure of a group; each has as many traces per frame. */
function showFrame(plots, frame, frames) {
  for (const plot of plots) {
    const figure = plot.figure;
    if (!figure) continue;
    const each = figure.data.length / frames;
    figure.data.forEach((trace, i) => { trace.visible = Math.floor(i / each) === frame; });
    if (plot.data) Plotly.restyle(plot, { visible: figure.data.map((trace) => trace.visible) });
  }
}

/** Numbers of a trace, which plotly.js may hold as typed arrays. */
const numbers = (values) => (values === undefined || values === null ? [] : Array.from(values));

/** A figure's visible traces as CSV, one row per point; maps have x, y and the value. */
function figureCsv(plot) {
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const title = (axis, fallback) => plot.layout[axis]?.title?.text?.replaceAll(/<[^>]*>/g, " ") || fallback;
  const rows = [["series", title("xaxis", "x"), title("yaxis", "y"), "value"]];
  for (const trace of plot._fullData) {
    if (trace.visible !== true || trace.hoverinfo === "skip") continue;
    const xs = numbers(trace.x);
    const ys = numbers(trace.y);
    if (trace.type === "heatmap") {
      numbers(trace.z).forEach((line, j) => numbers(line).forEach((value, i) => rows.push([trace.name, xs[i], ys[j], value])));
    } else {
      const colours = trace.marker && Array.isArray(trace.marker.color) ? trace.marker.color : [];
      xs.forEach((x, i) => rows.push([trace.name, x, ys[i], colours[i]]));
    }
  }
  return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

function saveText(text, name, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Buttons that download a figure. */
function figureButtons(plot, heading) {
  const name = heading.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "figure";
  const bar = document.createElement("p");
  bar.className = "downloads";
  const image = (format) => () => Plotly.downloadImage(plot, {
    format, filename: name, width: plot.clientWidth, height: plot.clientHeight, scale: format === "png" ? 3 : 1,
  });
  const ways = { CSV: () => saveText(figureCsv(plot), `${name}.csv`, "text/csv"), PNG: image("png"), SVG: image("svg") };
  for (const [label, save] of Object.entries(ways)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-label", `Download ${heading} as ${label}`);
    button.addEventListener("click", save);
    bar.append(button);
  }
  return bar;
}

/** Draws the figures again, or those that have something. */
function drawAgain(those = () => true) {
  for (const plot of document.querySelectorAll(".plot")) if (plot.data && those(plot.figure)) drawFigure(plot, plot.figure);
}

darkMode.addEventListener("change", () => drawAgain());
addEventListener("resize", () => requestAnimationFrame(() => drawAgain((figure) => figure.layout.meta?.ratio)));
