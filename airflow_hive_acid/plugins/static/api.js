// Talking to the server: where it is, what it answers, what went wrong.

import { describeError, toQuery } from "./state.js";

/** Airflow's own address, with a slash at its end: the page may lie under a path. */
export const BASE = new URL(".", document.baseURI);
const API = new URL("hive-acid/api/v1/", BASE);

/** An answer that is an error; `told` is what to show (see describeError). */
export class ApiError extends Error {
  constructor(told) {
    super(told.message || told.title);
    this.told = told;
  }
}

/** A path below a connection. */
export function under(connection, path) {
  return `connections/${encodeURIComponent(connection)}/${path}`;
}

/** GET a path below api/v1/. */
export async function get(path, query = {}, signal = undefined) {
  return ask(new URL(path + toQuery(query), API), { signal });
}

/** POST an action; the header makes other sites' pages ask first, which they may not. */
export async function post(path, body) {
  return ask(new URL(path, API), {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Hive-Acid": "1" },
  });
}

/** An address below Airflow's base, for links to its own pages. Made by the server, checked all the same. */
export function airflowUrl(path) {
  const url = new URL(path, BASE);
  return url.origin === BASE.origin ? url.href : BASE.href;
}

/** Where to sign in again and come back. */
export function loginUrl() {
  return new URL(`auth/login?next=${encodeURIComponent(location.href)}`, BASE).href;
}

async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", headers: { Accept: "application/json" }, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(describeError(0, null));
  }
  let body = null;
  try {
    body = await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // Not JSON: a proxy between us answered. The status says what it can.
    if (answer.ok) throw new ApiError(describeError(502, null));
  }
  if (!answer.ok) throw new ApiError(describeError(answer.status, body));
  return body;
}
