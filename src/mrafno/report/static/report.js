// Unpacks plotly.js and the figures of this page, which are compressed inside it, and draws them.
"use strict";

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function sliders(figures) {
  for (const slider of document.querySelectorAll(".frame input")) {
    const plots = slider.closest("section").querySelectorAll(".panels .plot");
    const labels = JSON.parse(slider.dataset.labels);
    slider.addEventListener("input", () => {
      const frame = Number(slider.value);
      slider.setAttribute("aria-valuetext", labels[frame]);
      slider.nextElementSibling.textContent = labels[frame];
      // Figures further down may not have been drawn yet.
      for (const plot of plots) plot.figure ??= figures[Number(plot.dataset.figure)];
      showFrame(plots, frame, labels.length);
    });
  }
}

async function drawPage() {
  if (!window.DecompressionStream) {
    for (const plot of document.querySelectorAll(".plot")) plot.textContent = "This figure needs a browser of 2023 or later.";
    return;
  }
  const [code, text] = await Promise.all([unpacked("plotly"), unpacked("figures")]);
  const script = document.createElement("script");
  script.textContent = code;
  document.head.append(script);
  const figures = JSON.parse(text);
  sliders(figures);
  const draw = (plot) => {
    const figure = plot.figure ?? figures[Number(plot.dataset.figure)];
    drawFigure(plot, figure);
    plot.after(figureButtons(plot, plot.getAttribute("aria-label")));
  };
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "600px" });
  for (const plot of document.querySelectorAll(".plot")) seen.observe(plot);
  addEventListener("beforeprint", () => {
    for (const plot of document.querySelectorAll(".plot")) if (!plot.figure) { seen.unobserve(plot); draw(plot); }
  });
}

// The map of the inputs: a click on a point, or a choice from the list, shows the input.
for (const box of document.querySelectorAll(".details")) {
  const [list, detail] = [box.querySelector(".points"), box.querySelector(".detail")];
  const show = (point) => {
    const template = box.querySelector(`template[data-point="${CSS.escape(point)}"]`);
    if (template) detail.replaceChildren(template.content.cloneNode(true));
    else detail.textContent = `${/^\d+$/.test(point) ? "Candidate" : "Query"} ${point}: its pictures are not in this page. The dashboard shows every input.`;
  };
  list.addEventListener("change", () => show(list.value));
  box.closest("section").addEventListener("point", ({ detail: point }) => {
    list.value = point;
    show(String(point));
  });
  if (list.value) show(list.value);
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}
if (document.getElementById("figures")) drawPage();
