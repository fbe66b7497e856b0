"use strict";
// Each operation was on one page once: an old link, such as /docs#putWatch, names its entry here.
function follow() {
  const entry = document.getElementById(location.hash.slice(1));
  if (entry?.matches(".operations > li")) {
    location.replace(entry.querySelector("a").href);
  }
}
addEventListener("hashchange", follow);
follow();
// The language of the samples stays the same from page to page.
const LANGUAGE = "verifyd.language";
for (const choice of document.querySelectorAll("input[name=language]")) {
  try {
    choice.checked ||= choice.id === localStorage.getItem(LANGUAGE);
  } catch {
    break; // The browser is set to store nothing.
  }
  choice.addEventListener("change", () => localStorage.setItem(LANGUAGE, choice.id));
}
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
// The contents show the link to this page, and mark the part of it that is read: the last one that
// began above a line near the top.
document.querySelector(".contents [aria-current]")?.scrollIntoView({ block: "nearest" });
const links = new Map();
for (const link of document.querySelectorAll(".contents a")) {
  const part = link.pathname === location.pathname && document.getElementById(link.hash.slice(1));
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
