// Choices of a figure (plotly's updatemenus) as lists of the page, which keyboards and screen readers can use.
"use strict";

/** Sets a value inside nested objects, ``xaxis.type`` for example. */
function setPath(object, path, value) {
  const names = path.split(".");
  const last = names.pop();
  for (const name of names) object = object[name] ??= {};
  object[last] = value;
}

/** Applies the choices that a figure's lists show to its traces and its layout. */
function applyMenus(plot, data, layout) {
  const menus = layout.updatemenus ?? [];
  delete layout.updatemenus;
  menus.forEach((menu, number) => {
    const select = plot.menus?.querySelectorAll("select")[number];
    const button = menu.buttons[select ? Number(select.value) : menu.active ?? 0];
    const traces = button.method === "relayout" ? {} : button.args[0];
    const rest = button.method === "relayout" ? button.args[0] : button.args[1] ?? {};
    for (const [path, values] of Object.entries(traces)) {
      data.forEach((trace, i) => setPath(trace, path, Array.isArray(values) ? values[i % values.length] : values));
    }
    for (const [path, value] of Object.entries(rest)) setPath(layout, path, value);
  });
}

/** Makes the lists of a figure, once; a change draws the figure again. */
function makeMenus(plot, figure) {
  const menus = figure.layout.updatemenus ?? [];
  const labels = JSON.stringify(menus.map((menu) => [menu.name, ...menu.buttons.map((button) => button.label)]));
  if (plot.menus?.dataset.labels === labels) return;
  plot.menus?.remove();
  plot.menus = null;
  if (!menus.length) return;
  const box = document.createElement("p");
  box.className = "menus";
  box.dataset.labels = labels;
  for (const menu of menus) {
    const label = document.createElement("label");
    label.textContent = `${menu.name ?? "Show"} `;
    const select = label.appendChild(document.createElement("select"));
    menu.buttons.forEach((button, number) => select.append(new Option(button.label, String(number), number === (menu.active ?? 0), number === (menu.active ?? 0))));
    select.addEventListener("change", () => drawFigure(plot, plot.figure));
    box.append(label);
  }
  plot.before(box);
  plot.menus = box;
}
