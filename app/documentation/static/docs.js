"use strict";
// A button to copy each sample. Without the script nobody misses one.
for (const sample of document.querySelectorAll("pre")) {
  if (!navigator.clipboard) {
    break; // Browsers give it to HTTPS and loopback only.
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(sample.innerText.trimEnd());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  const box = document.createElement("div");
  box.className = "copied";
  sample.replaceWith(box);
  box.append(sample, button);
}
// The contents mark the part that is read: the last one that began above a line near the top.
const links = new Map();
for (const link of document.querySelectorAll(".contents a[href^='#']")) {
  const part = document.getElementById(link.hash.slice(1));
  if (part) {
    links.set(part, link);
  }
}
let marked = null;
function mark() {
  let found = null;
  for (const [part, link] of links) {
    if (part.getBoundingClientRect().top <= 120) {
      found = link;
    }
  }
  if (found !== marked) {
    marked?.removeAttribute("aria-current");
    found?.setAttribute("aria-current", "true");
    found?.scrollIntoView({ block: "nearest" });
    marked = found;
  }
}
let isDue = false;
addEventListener("scroll", () => {
  if (!isDue) {
    isDue = true;
    requestAnimationFrame(() => { isDue = false; mark(); });
  }
}, { passive: true });
mark();
