// The question before an action: one dialog, its focus inside until it is answered. Escape answers no.

import { ApiError, post } from "./api.js";
import { Button, h } from "./kit.js";
import { describeError } from "./state.js";

const { React } = globalThis;
const { useEffect, useId, useRef, useState } = React;
const FOCUSABLE = "button:not([disabled]), input, select, textarea, a[href]";

/**
 * @param question `{title, text, facts, verb, path, body(fields), fields: [{name, label, required, options, value}]}`.
 * @param onEnd called with the server's answer, or null when nothing was done.
 */
export function Confirm({ question, onEnd }) {
  const box = useRef(null), busy = useRef(false);
  const [fields, setFields] = useState(() => Object.fromEntries((question.fields ?? []).map((f) => [f.name, f.value ?? ""])));
  const [sending, setSending] = useState(false);
  const [told, setTold] = useState(null);
  const title = useId(), text = useId();

  useEffect(() => {
    const element = box.current, before = document.activeElement;
    element.showModal();
    (element.querySelector("input, textarea, select") ?? element.querySelector("button")).focus();
    return () => {
      if (element.open) element.close();
      // The row may be gone; then the page's heading is a place to go on from.
      (before?.isConnected ? before : document.querySelector(".ha h1"))?.focus();
    };
  }, []);

  const missing = (question.fields ?? []).some((f) => f.required && !fields[f.name].trim());
  const leave = () => { if (!busy.current) onEnd(null); };
  const send = async (event) => {
    event.preventDefault();
    // A second click or Enter finds this set, long before React has drawn the button anew.
    if (busy.current || missing) return;
    busy.current = true;
    setSending(true);
    setTold(null);
    try {
      onEnd(await post(question.path, question.body ? question.body(fields) : fields));
    } catch (error) {
      busy.current = false;
      setSending(false);
      setTold(error instanceof ApiError ? error.told : describeError(500, null));
    }
  };
  const keys = (event) => {
    if (event.key !== "Tab") return;
    const all = [...box.current.querySelectorAll(FOCUSABLE)], first = all[0], last = all[all.length - 1];
    const at = document.activeElement;
    if (event.shiftKey && (at === first || !box.current.contains(at))) { last.focus(); event.preventDefault(); }
    else if (!event.shiftKey && (at === last || !box.current.contains(at))) { first.focus(); event.preventDefault(); }
  };

  return h("dialog", {
    ref: box, className: "ha-dialog", "aria-labelledby": title, "aria-describedby": text, onKeyDown: keys,
    onCancel: (event) => { event.preventDefault(); leave(); },
    onMouseDown: (event) => { if (event.target === box.current) leave(); },
  }, h("form", { onSubmit: send, method: "dialog" },
    h("h2", { id: title }, question.title),
    h("div", { id: text, className: "ha-dialog-text" }, question.text),
    (question.fields ?? []).map((f) => h(Field, {
      key: f.name, field: f, value: fields[f.name], onChange: (value) => setFields({ ...fields, [f.name]: value }),
    })),
    told && h("div", { className: "ha-box ha-box-error", role: "alert" }, h("strong", null, told.title),
      h("p", null, [told.message, told.kind === "login" ? told.remedy : ""].filter(Boolean).join(" "))),
    h("div", { className: "ha-dialog-buttons" },
      h(Button, { onClick: leave, disabled: sending }, told?.kind === "gone" || told?.kind === "conflict" ? "Close" : "Cancel"),
      h(Button, { kind: question.danger === false ? "primary" : "danger", type: "submit", disabled: missing, busy: sending },
        sending ? "Working…" : question.verb))));
}

function Field({ field, value, onChange }) {
  const id = useId();
  const props = { id, value, required: field.required, className: "ha-input ha-wide", onChange: (event) => onChange(event.target.value) };
  return h("div", { className: "ha-field" },
    h("label", { htmlFor: id }, field.label, field.required && h("span", { className: "ha-muted" }, " (required)")),
    field.options
      ? h("select", props, field.options.map(([key, text]) => h("option", { key, value: key }, text)))
      : h("input", { type: "text", maxLength: 1000, autoComplete: "off", ...props }));
}
