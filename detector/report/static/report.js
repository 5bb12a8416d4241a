// Draws the charts of a report from the data in the page.
//   {time, log, x, label, series: [{label, y, colour, dash, points, fill: [i, j]}], spans: [[from, to, colour]],
//    marks: [[x, label]]}   colours are names of CSS variables
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const HEIGHT = 230;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function clocks(plot, times) {
    const step = times.length > 1 ? times[1] - times[0] : 60;
    return times.map((time) => {
      const text = new Date(time * 1000).toISOString();
      return step >= 86400 ? text.slice(0, 10) : step >= 43200 ? text.slice(5, 16).replace("T", " ") : text.slice(11, step < 60 ? 19 : 16);
    });
  }

  const powers = (plot, values) => values.map((value) => (value === null ? "" : value.toExponential(0)));

  function shade(plot, spec) {
    const { ctx: context, bbox } = plot;
    const at = (x) => Math.min(Math.max(plot.valToPos(x, "x", true), bbox.left), bbox.left + bbox.width);
    context.save();
    for (const [from, to, name] of spec.spans ?? []) {
      context.globalAlpha = 0.16;
      context.fillStyle = colour(name);
      context.fillRect(at(from), bbox.top, Math.max(2, at(to) - at(from)), bbox.height);
    }
    context.globalAlpha = 1;
    context.strokeStyle = context.fillStyle = colour("now");
    context.font = `${Math.round(11 * window.devicePixelRatio)}px sans-serif`;
    (spec.marks ?? []).forEach(([x, label], i) => {
      context.beginPath();
      context.moveTo(at(x), bbox.top);
      context.lineTo(at(x), bbox.top + bbox.height);
      context.stroke();
      context.textAlign = at(x) > bbox.left + bbox.width / 2 ? "right" : "left";
      context.fillText(` ${label} `, at(x), bbox.top + 14 * window.devicePixelRatio * (i + 1));
    });
    context.restore();
  }

  function draw(place) {
    const spec = data[place.dataset.chart];
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "11px sans-serif", labelFont: "11px sans-serif", labelSize: 16, size: 34 };
    const bands = spec.series.map((one, i) => one.fill && { series: one.fill, fill: `${colour(one.colour)}55` }).filter(Boolean);
    const plot = new window.uPlot({
      width: Math.max(260, place.clientWidth), height: HEIGHT, bands,
      scales: { x: { time: Boolean(spec.time) }, y: spec.log ? { distr: 3 } : {} },
      axes: [{ ...axis, label: spec.label, ...(spec.time ? { values: clocks, space: 80 } : {}) }, { ...axis, size: spec.log ? 64 : 52, label: spec.side, ...(spec.log ? { values: powers } : {}) }],
      series: [{ label: spec.time ? "time" : (spec.label ?? "x"), ...(spec.time ? { value: (_, x) => (x === null ? "–" : new Date(x * 1000).toISOString().slice(0, 19)) } : {}) },
        ...spec.series.map((one) => ({ label: one.label, stroke: colour(one.colour), width: one.points ? 0 : 1.5, dash: one.dash, spanGaps: false, points: { show: Boolean(one.points), size: 5, fill: colour(one.colour) } }))],
      hooks: { drawClear: [(one) => shade(one, spec)] },
    }, [spec.x, ...spec.series.map((one) => one.y)], place);
    place.plot = plot;
  }

  function all() {
    for (const place of document.querySelectorAll("[data-chart]")) {
      place.plot?.destroy();
      draw(place);
    }
  }

  function save(canvas, name) {
    const sheet = document.createElement("canvas");
    Object.assign(sheet, { width: canvas.width, height: canvas.height });
    const context = sheet.getContext("2d");
    context.fillStyle = colour("panel");
    context.fillRect(0, 0, sheet.width, sheet.height);
    context.drawImage(canvas, 0, 0, sheet.width, sheet.height);
    const link = document.createElement("a");
    link.href = sheet.toDataURL("image/png");
    link.download = `${name.replace(/[^\w-]+/g, "-").slice(0, 60) || "chart"}.png`;
    link.click();
  }

  // A picture leaves the page without the page's styles: they are written into it first.
  function saveSvg(svg, name) {
    const copy = svg.cloneNode(true);
    const from = svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
    from.forEach((one, i) => {
      const style = getComputedStyle(one);
      for (const key of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "font-size", "font-family", "text-anchor", "paint-order"]) to[i].setAttribute(key, style.getPropertyValue(key));
    });
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", 2 * width);
    copy.setAttribute("height", 2 * height);
    const image = new Image();
    image.onload = () => save(Object.assign(image), name);
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  }

  document.addEventListener("click", (event) => {
    if (!event.target.classList.contains("png")) return;
    const figure = event.target.closest("figure");
    const name = figure.querySelector("figcaption").firstChild.textContent;
    const svg = figure.querySelector("svg");
    if (svg) saveSvg(svg, name);
    else save(figure.querySelector("canvas"), name);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  let timer = 0;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(all, 200);
  });
  all();
})();
