// Comfort only: everything works without it.
"use strict";

// A second click on a button does not send its form again.
document.addEventListener("submit", (event) => {
  const form = event.target;
  // A form that can give a file leaves its page as it is, so it can be sent again.
  if (form.method !== "post" || "again" in form.dataset) return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "yes";
});

// A page that the browser kept must not refuse to send its forms after "back".
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// <button type="button" data-copy="ID" hidden> copies the text of the element with that id.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  if (!navigator.clipboard || !source) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  });
}
