// What the page knows: answers merged into what is shown, errors told apart, filters in the address. Pure functions.

/** The fetch that has not begun. `data` stays while newer data is fetched, so that nothing flickers. */
export const NOT_ASKED = Object.freeze({ data: null, error: null, loading: false, at: null });

/** What follows when a fetch begins, ends with data, or fails: `{type: "asked" | "answered" | "failed", …}`. */
export function afterFetch(state, event) {
  switch (event.type) {
    case "asked":
      return { ...state, loading: true };
    case "answered":
      return { data: merged(state.data, event.data), error: null, loading: false, at: event.at };
    case "failed":
      // What was shown stays under the message, unless it is not to be seen any more.
      return { ...state, data: event.error.kind === "forbidden" ? null : state.data, error: event.error, loading: false };
    case "forget":
      return NOT_ASKED;
    default:
      throw new Error(`unknown event ${event.type}`);
  }
}

/** Fresh data, with every part that is equal to what was there replaced by what was there: React skips those rows. */
export function merged(old, fresh) {
  if (Object.is(old, fresh)) return old;
  if (Array.isArray(old) && Array.isArray(fresh)) return mergedRows(old, fresh);
  if (isPlain(old) && isPlain(fresh)) {
    const keys = Object.keys(fresh);
    let same = keys.length === Object.keys(old).length;
    const result = {};
    for (const key of keys) {
      result[key] = Object.hasOwn(old, key) ? merged(old[key], fresh[key]) : fresh[key];
      same = same && Object.hasOwn(old, key) && Object.is(result[key], old[key]);
    }
    return same ? old : result;
  }
  return fresh;
}

function mergedRows(old, fresh) {
  const known = new Map();
  for (const row of old) if (rowKey(row) !== null) known.set(rowKey(row), row);
  const result = fresh.map((row, i) => merged((rowKey(row) === null ? old[i] : known.get(rowKey(row))) ?? null, row));
  const same = result.length === old.length && result.every((row, i) => Object.is(row, old[i]));
  return same ? old : result;
}

/** What tells a row of a list from the others; null for what is no row. */
export function rowKey(row) {
  if (!isPlain(row)) return null;
  if (row.ticket !== undefined) return `ticket ${row.ticket}.${row.number}`;
  // A drop has an id of its own beside the lease's, a lock one beside its txn's.
  if (row.id !== undefined) return `id ${row.id}`;
  if (row.lease_id !== undefined) return `lease ${row.lease_id}.${row.number}`;
  if (row.txn_id !== undefined) return `txn ${row.txn_id}`;
  if (row.object !== undefined && row.database !== undefined) return `object ${row.object}`;
  return row.partition !== undefined && row.partition !== null ? `partition ${row.partition}` : null;
}

function isPlain(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** An answer of the server that is not 2xx, as something to tell: `{kind, title, message, remedy, status}`. */
export function describeError(status, body) {
  const told = body?.error ?? {};
  const [kind, title, remedy] = KINDS[status] ?? KINDS.other;
  const message = typeof told.message === "string" && told.message ? told.message : status >= 500 ? `Status ${status}.` : "";
  return { kind, title, message, remedy, status };
}

const KINDS = {
  0: ["offline", "Airflow does not answer", "The page keeps trying."],
  401: ["login", "Your login has expired", "Sign in again; you come back to this page."],
  403: ["forbidden", "Your role does not allow this", ""],
  404: ["gone", "It is gone", ""],
  409: ["conflict", "Nothing was done", ""],
  422: ["refused", "The request was refused", ""],
  503: ["unreachable", "The metastore cannot be reached", "The page keeps trying. Airflow's scheduler is not affected."],
  other: ["failed", "The server could not answer", "The log of Airflow's API server says more."],
};

/** Milliseconds until the next fetch: the interval, doubled for each failure in a row, a minute at most. */
export function nextDelay(interval, failures) {
  return Math.min(interval * 2 ** Math.min(failures, 6), Math.max(interval, 60000));
}

/** What the address says, as an object; only known keys, everything else keeps its default. */
export function fromQuery(search, defaults) {
  const given = new URLSearchParams(search);
  const result = {};
  for (const [key, value] of Object.entries(defaults)) {
    const text = given.get(key);
    if (text === null) result[key] = value;
    else if (typeof value === "number") result[key] = /^\d{1,9}$/.test(text) ? Number(text) : value;
    else result[key] = text;
  }
  return result;
}

/** An object as a query string; what has its default is left out, so that plain views have plain addresses. */
export function toQuery(values, defaults = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "" || value === defaults[key]) continue;
    query.set(key, String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** What a link to another view takes along: the connection, nothing else. */
export function viewQuery(view, connection, more = {}) {
  return toQuery({ view, conn_id: connection, ...more }, { view: "overview", conn_id: "" });
}
