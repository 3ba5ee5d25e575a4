// What the page can do besides being read: say what is pointed at, step through
// runs, and save figures. Without it everything is still there to be read.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text) element.textContent = text;
    return element;
  };

  // The one box that says what is pointed at.
  const tip = make("div", "tip");
  tip.setAttribute("role", "tooltip");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const page = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(4, Math.min(x - width / 2, page - width - 4)) + scrollX}px`;
    tip.style.top = `${(y - height - 12 > 0 ? y - height - 12 : y + 18) + scrollY}px`;
  };
  const hide = () => { tip.hidden = true; };

  const cells = (line) => {
    const found = [];
    for (const [, quoted, plain] of line.matchAll(/(?:"((?:[^"]|"")*)"|([^,]*))(?:,|$)/g)) {
      found.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    }
    // The pattern also matches the nothing at the end.
    return found.slice(0, -1);
  };
  const rows = (pre) => {
    pre.rows ??= pre.textContent.trimEnd().split("\n");
    return pre.rows;
  };

  // A shape's own title would show twice.
  const titleOf = (shape) => {
    const title = shape.querySelector?.(":scope > title");
    if (title) {
      shape.dataset.tip = title.textContent;
      title.remove();
    }
    return shape.dataset?.tip;
  };
  // Rows of a waterfall are too many to be shapes of their own.
  const rowOf = (svg, event) => {
    const { row, top, first, count } = svg.dataset;
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.height / box.height;
    const place = Math.floor(((event.clientY - box.top) * scale - Number(top)) / Number(row));
    if (place < 0 || place >= Number(count)) return undefined;
    const pre = svg.closest("figure").querySelector("pre.csv");
    const [names, values] = [cells(rows(pre)[0]), cells(rows(pre)[1 + Number(first) + place])];
    return names.map((name, i) => [name, values[i]]).filter(([, value]) => value && value !== "0")
      .map(([name, value]) => `${name}: ${value}`).join("\n");
  };
  document.addEventListener("pointermove", (event) => {
    const target = event.target;
    if (!(target instanceof Element)) return;
    const shape = target.closest("svg.rows") ?? target.closest("[data-tip], svg [class], svg *");
    let text = titleOf(target) || target.closest("[data-tip]")?.dataset.tip;
    if (!text && shape?.matches("svg.rows")) text = rowOf(shape, event);
    if (text) show(text, event.clientX, event.clientY);
    else hide();
  });
  document.addEventListener("focusin", (event) => {
    const word = event.target.closest("[data-tip]");
    if (!word) return;
    word.setAttribute("aria-describedby", "tip");
    const box = word.getBoundingClientRect();
    show(word.dataset.tip, box.left + box.width / 2, box.top);
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // Steps: one of several shown at a time, the second first where there are three.
  for (const steps of all("[data-steps]")) {
    const shown = all(":scope > .step", steps);
    if (shown.length < 2) continue;
    const bar = make("div", "stepper");
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", steps.dataset.steps);
    const buttons = shown.map((step) => make("button", "", step.dataset.label));
    const go = (place, focus) => {
      const wanted = (place + shown.length) % shown.length;
      shown.forEach((step, i) => {
        step.hidden = i !== wanted;
        buttons[i].setAttribute("aria-pressed", String(i === wanted));
      });
      if (focus) buttons[wanted].focus();
    };
    const at = () => shown.findIndex((step) => !step.hidden);
    buttons.forEach((button, i) => button.addEventListener("click", () => go(i)));
    bar.append(...buttons);
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      go(at() + by, true);
    });
    steps.prepend(bar);
    go(at());
  }

  // Numbers as a table, once they are wanted.
  const table = (pre) => {
    const made = make("table");
    rows(pre).forEach((line, i) => {
      const row = made.insertRow();
      for (const cell of cells(line)) row.append(make(i === 0 ? "th" : "td", "", cell));
    });
    const box = make("div", "scroll");
    box.tabIndex = 0;
    box.append(made);
    pre.hidden = true;
    pre.after(box);
  };
  for (const details of all("details.data")) {
    details.addEventListener("toggle", () => {
      const pre = details.querySelector("pre.csv");
      if (details.open && !pre.hidden) table(pre);
    });
  }

  // Saving.
  const save = (name, type, text) => {
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const NS = "http://www.w3.org/2000/svg";
  const standalone = (figure) => {
    // All drawings of the figure that are seen, one below the other, with heading, keys and colours as they are now.
    const style = getComputedStyle(document.documentElement);
    const seen = all("svg[role=img]", figure).filter((svg) => svg.getBoundingClientRect().width > 0);
    const out = document.createElementNS(NS, "svg");
    const write = (x, y, text, weight) => {
      const element = document.createElementNS(NS, "text");
      element.setAttribute("x", x);
      element.setAttribute("y", y);
      element.setAttribute("font-weight", weight);
      element.textContent = text;
      out.append(element);
    };
    let [y, width] = [22, 0];
    write(8, y, figure.querySelector("h3")?.textContent ?? figure.dataset.name, "600");
    for (const key of all(".legend li", figure)) {
      y += 18;
      const box = document.createElementNS(NS, "rect");
      const colour = getComputedStyle(key.querySelector(".key")).backgroundColor;
      for (const [name, value] of Object.entries({ x: 8, y: y - 10, width: 11, height: 11, fill: colour })) box.setAttribute(name, value);
      out.append(box);
      write(26, y, key.textContent, "400");
    }
    y += 14;
    for (const svg of seen) {
      const copy = svg.cloneNode(true);
      copy.setAttribute("y", y);
      y += svg.viewBox.baseVal.height;
      width = Math.max(width, svg.viewBox.baseVal.width);
      out.append(copy);
    }
    out.setAttribute("xmlns", NS);
    out.setAttribute("viewBox", `0 0 ${width} ${y + 8}`);
    out.setAttribute("width", width);
    out.setAttribute("height", y + 8);
    const sheet = document.createElementNS(NS, "style");
    const text = out.cloneNode(true).outerHTML ?? "";
    const used = new Set([...text.matchAll(/var\((--[a-z0-9]+)\)/g)].map((found) => found[1]));
    for (const name of ["--ink", "--soft", "--paper"]) used.add(name);
    const colours = [...used].sort().map((name) => `${name}:${style.getPropertyValue(name)}`).join(";");
    const rules = all("style#svg-style").map((own) => own.textContent).join("\n");
    sheet.textContent = `svg{${colours};background:var(--paper);font:13px sans-serif}text{fill:var(--ink)}\n${rules}`;
    out.prepend(sheet);
    return new XMLSerializer().serializeToString(out);
  };
  for (const details of all("details.data")) {
    const figure = details.closest("figure");
    const bar = make("span", "save");
    const button = (label, action) => {
      const made = make("button", "", label);
      made.type = "button";
      made.setAttribute("aria-label", `save ${figure.dataset.name} as ${label}`);
      made.addEventListener("click", action);
      bar.append(made);
    };
    button("CSV", () => {
      const shown = all("pre.csv", figure).find((pre) => !pre.closest("[hidden]:not(pre)")) ?? figure.querySelector("pre.csv");
      save(`${figure.dataset.name}.csv`, "text/csv", shown.textContent);
    });
    button("SVG", () => save(`${figure.dataset.name}.svg`, "image/svg+xml", standalone(figure)));
    details.before(bar);
  }
})();
