// Values as text: numbers, bytes, durations, times. Pure functions; nothing here touches the page.

const COUNT = new Intl.NumberFormat("en");
const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];
const MINUTE = 60, HOUR = 3600, DAY = 86400;

/** What stands where there is no value. */
export const NOTHING = "–";

/** A count with thousands separators; NOTHING for null. */
export function count(value) {
  return isNumber(value) ? COUNT.format(value) : NOTHING;
}

/** Bytes in powers of 1024, three significant digits at most: 0 B, 999 B, 1.2 KB, 34 MB. */
export function bytes(value) {
  if (!isNumber(value)) return NOTHING;
  let amount = Math.abs(value), unit = 0;
  while (amount >= 1023.5 && unit < UNITS.length - 1) { amount /= 1024; unit += 1; }
  const digits = unit > 0 && amount < 9.95 ? 1 : 0;
  return `${value < 0 ? "-" : ""}${amount.toFixed(digits)} ${UNITS[unit]}`;
}

/** Seconds in the two largest units that matter: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds) {
  if (!isNumber(seconds)) return NOTHING;
  const sign = seconds < 0 ? "-" : "", s = Math.abs(seconds);
  if (s < 9.95) return `${sign}${trim(s.toFixed(1))} s`;
  const whole = Math.round(s);
  if (whole < MINUTE) return `${sign}${whole} s`;
  if (whole < HOUR) return sign + pair(whole, MINUTE, "min", 1, "s");
  if (whole < DAY) return sign + pair(whole, HOUR, "h", MINUTE, "min");
  return sign + pair(whole, DAY, "d", HOUR, "h");
}

/** A duration in one unit, for narrow places: 12 s, 3 min, 2 h, 3 d. */
export function shortDuration(seconds) {
  if (!isNumber(seconds)) return NOTHING;
  const s = Math.abs(seconds), sign = seconds < 0 ? "-" : "";
  if (s < MINUTE) return `${sign}${Math.floor(s)} s`;
  if (s < HOUR) return `${sign}${Math.floor(s / MINUTE)} min`;
  if (s < 2 * DAY) return `${sign}${Math.floor(s / HOUR)} h`;
  return `${sign}${Math.floor(s / DAY)} d`;
}

/** How long ago or ahead a time is: "just now", "12 s ago", "in 3 min". */
export function relative(time, now) {
  const at = millis(time);
  if (at === null) return NOTHING;
  const seconds = (now - at) / 1000;
  if (Math.abs(seconds) < 1) return "just now";
  return seconds > 0 ? `${shortDuration(seconds)} ago` : `in ${shortDuration(-seconds)}`;
}

/** A time in full, UTC: 2026-11-22 09:05:29 UTC. */
export function absolute(time) {
  const at = millis(time);
  return at === null ? "" : `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** An ISO time or epoch milliseconds as epoch milliseconds; null for anything else. A time without zone is UTC. */
export function millis(time) {
  if (isNumber(time)) return time;
  if (typeof time !== "string" || time === "") return null;
  const at = Date.parse(/(Z|[+-]\d\d:?\d\d)$/.test(time) ? time : `${time}Z`);
  return Number.isNaN(at) ? null : at;
}

/** A share between 0 and 1: 0%, 0.4%, 12%. */
export function percent(share) {
  if (!isNumber(share)) return NOTHING;
  const value = share * 100;
  if (value !== 0 && Math.abs(value) < 9.95) return `${trim(value.toFixed(1))}%`;
  return `${Math.round(value)}%`;
}

/** "1 lock", "2,000 locks". */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** At most `length` characters, the middle left out. */
export function shorten(text, length) {
  const characters = Array.from(String(text ?? ""));
  if (characters.length <= length) return characters.join("");
  const head = Math.ceil((length - 1) / 2), tail = Math.floor((length - 1) / 2);
  return `${characters.slice(0, head).join("")}…${tail ? characters.slice(-tail).join("") : ""}`;
}

/** First letter large: "ready for cleaning" → "Ready for cleaning". */
export function capital(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function trim(text) {
  return text.replace(/\.0$/, "");
}

function pair(total, large, largeName, small, smallName) {
  const rest = Math.floor((total % large) / small);
  return `${Math.floor(total / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}
