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

// <button type="button" data-copy="ID" data-copied="TEXT" hidden> copies the text of the element with that id, and then has
// TEXT itself.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  if (!navigator.clipboard || !source) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(source.textContent.trim());
    button.textContent = button.dataset.copied;
  });
}

// <button type="button" data-print hidden> prints the page.
for (const button of document.querySelectorAll("button[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

// <textarea data-enter> sends its form with Enter, breaks the line with Shift+Enter, and is as high as its lines. Escape
// leads to it, and clears it, and the reference if it is not kept. What is typed until the answer comes is not lost: it
// is in the field of the next page.
for (const field of document.querySelectorAll("textarea[data-enter]")) {
  const fit = () => { field.rows = Math.min(field.value.split("\n").length, 8); };
  // Browsers focus a field only when they draw the page: what is typed before would be lost.
  if (field.autofocus) field.focus({ preventScroll: true });
  field.addEventListener("input", fit);
  let sent = "";
  field.form.addEventListener("submit", () => {
    // The second time, the form is not sent.
    if (field.form.dataset.sent) return;
    sent = field.value;
    setTimeout(() => { field.value = ""; });
  });
  window.addEventListener("pagehide", () => {
    if (sent && field.value) sessionStorage.setItem("typed", field.value);
  });
  // Also for a page that the browser kept.
  window.addEventListener("pageshow", () => {
    if (sent) [field.value, sent] = [sent, ""];
    field.value ||= sessionStorage.getItem("typed") ?? "";
    sessionStorage.removeItem("typed");
    fit();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || sent) return;
    event.preventDefault();
    // An empty field must not take the last answer away.
    if (field.value.trim() && !event.repeat) field.form.requestSubmit();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    if (document.activeElement === field) {
      // The browser stops loading the answer, so that the form can be sent again.
      field.value = sent = "";
      delete field.form.dataset.sent;
      const { reference, keep } = field.form.elements;
      if (!keep.checked) reference.value = "";
    }
    field.focus();
    fit();
  });
}

// <summary> says what was filled in when the page was made: that is outdated once it is changed.
for (const details of document.querySelectorAll("details.more")) {
  details.addEventListener("input", () => { details.querySelector(".badge").hidden = true; }, { once: true });
}
